//! Tests a program that is split over ingress and egress: the text is well formed, and both gresses
//! together behave as the whole.
//!
//! For the latter, the interpreter runs the whole, and ingress and egress as separate programs, on
//! random programs and on the gateway. Packets, ports, drops and counters must be equal.
//! `DIFFER_SEED` sets the first seed, `EMIT_CASES` the number.

use crate::check;
use asic::emit::{EmitTarget, GressPrograms, GressUse, emit_with_gresses, split_gresses};
use asic::transform::TableSizes;
use entries::StateUpdate;
use interp::{Interp, OutPacket};
use ir::{
    BinaryOp, Const, ControlKind, Entity, ExternArg, ExternFn, ExternKind, Inst, InstData, MeterUnit, Pipeline, Type,
    Value,
};
use packet::Verdict;
use std::sync::Arc;
use testkit::differ::case::{TestCase, TestEvent};
use testkit::differ::config::Config;
use testkit::differ::env_number;
use testkit::differ::plan;
use testkit::gateway;

/// Returns the text between the line that starts with `begins` and the next line that is only a
/// closing brace.
fn block<'t>(text: &'t str, begins: &str) -> &'t str {
    let from = text.find(&format!("\n{begins}")).unwrap_or_else(|| panic!("no `{begins}` in\n{text}"));
    let rest = &text[from + 1..];
    &rest[..rest.find("\n}").expect("its end")]
}

#[test]
fn the_gateway_goes_on_in_egress_where_its_port_is_known() {
    let pipeline = gateway::switch_pipeline().expect("the gateway");
    for target in [EmitTarget::Tna, EmitTarget::T2na] {
        let emitted = emit_with_gresses(&pipeline, target, &TableSizes::new(), GressUse::Both)
            .unwrap_or_else(|error| panic!("{error}"));
        let text = &emitted.text;
        let errors = check(text);
        assert!(errors.is_empty(), "{}\n{text}", errors.join("\n"));
        let (ingress, egress) = (block(text, "control gateway("), block(text, "control egress("));
        assert!(ingress.contains("table next_hop ") && !ingress.contains("table gateway_identity "), "{ingress}");
        assert!(egress.contains("table gateway_identity ") && !egress.contains("table next_hop "), "{egress}");
        for (half, others) in [(ingress, "eg_dprsr_md.drop_ctl"), (egress, "ig_")] {
            let body = half.split_once(") {").expect("parameters").1;
            assert!(!body.contains(others), "{others} in\n{half}");
        }
        assert!(egress.contains("eg_dprsr_md.drop_ctl = 1;"), "{egress}");
        // The valid headers are known before the last lookups, and recorded beside them.
        let at = |what: &str| ingress.find(what).unwrap_or_else(|| panic!("no {what} in\n{ingress}"));
        let said = at(" bridged_headers.apply();");
        assert!(at(" vm_nc_v6.apply();") < said && said < at("underlay_route_v4.apply()"), "{ingress}");
        // Packets to the CPU have no bridge header, and each of them is marked so.
        let sent = ingress.matches("= CPU_PORT;").count();
        assert!(sent > 0 && sent == ingress.matches("ig_tm_md.bypass_egress = 1;").count(), "{ingress}");
        assert_eq!(sent, ingress.matches("hdr.bridge_vpc.setInvalid();").count(), "{ingress}");
        // Checksums are computed where the headers are complete.
        assert!(block(text, "control egress_deparser(").contains(".update({"), "{text}");
        let bytes = emitted.bridge_bytes.expect("a bridge header");
        assert!((8..=40).contains(&bytes), "{bytes} bytes\n{text}");
        assert!(!block(text, "control egress_deparser(").contains("bridge"), "{text}");
    }
}

#[test]
fn all_is_in_ingress_unless_both_halves_are_asked_for() {
    let pipeline = gateway::switch_pipeline().expect("the gateway");
    let emitted = emit_with_gresses(&pipeline, EmitTarget::Tna, &TableSizes::new(), GressUse::Ingress).expect("a form");
    assert!(emitted.bridge_bytes.is_none() && !emitted.text.contains("bridge"), "{}", emitted.text);
}

/// Returns whether the pipeline depends on the packet's length, uses a sequence shared by the whole
/// program, or creates packets.
fn is_of_the_whole(pipeline: &Pipeline) -> bool {
    let by_bytes = |kind: &ExternKind| {
        let meter = matches!(kind, ExternKind::Meter { unit: MeterUnit::Bytes, .. });
        meter || matches!(kind, ExternKind::DirectMeter { unit: MeterUnit::Bytes })
    };
    let whole = pipeline.insts().any(|data| {
        let Inst::Extern { func, args, .. } = &data.inst else { return false };
        let hashed = args.iter().any(|arg| matches!(arg, ExternArg::Str(name) if name == "random"));
        hashed || matches!(func, ExternFn::RandomRead | ExternFn::MirrorPacket | ExternFn::PnaRecirculate)
    });
    whole || pipeline.externs.values().any(|object| by_bytes(&object.kind))
}

/// Bit of a port that is flipped for packets that bypass egress.
const BYPASSES: u32 = 1 << 31;
/// Port to which egress sends all packets that it does not drop.
const OUT: u32 = 1;

fn send(port: Value) -> InstData {
    let inst = Inst::Extern { object: None, func: ExternFn::SendToPort, args: vec![ExternArg::Value(port)] };
    InstData::new(inst, Vec::new())
}

/// Converts ingress for the interpreter: packets that bypass egress go to a marked port.
fn mark_bypassing(mut ingress: Pipeline) -> Pipeline {
    let Some(bypass) = ingress.intrinsics.get(GressPrograms::BYPASS).copied() else { return ingress };
    let control = ingress.controls.values_mut().find(|c| c.kind == ControlKind::MainControl).expect("a main control");
    for n in 0..control.body.blocks.len() {
        let block = ir::Block::from_index(n);
        let insts = &control.body.blocks[block].insts;
        let Some(at) = insts.iter().position(|i| matches!(i.inst, Inst::Store(var, _) if var == bypass)) else {
            continue;
        };
        let port = insts[..at].iter().rev().find_map(|i| match &i.inst {
            Inst::Extern { func: ExternFn::SendToPort, args, .. } => match args[0] {
                ExternArg::Value(port) => Some(port),
                _ => None,
            },
            _ => None,
        });
        let value = control.body.values.push(Type::Bit(32));
        let one = control.body.values.push(Type::Bit(32));
        let inst = Inst::Const(Const::new(Type::Bit(32), BYPASSES));
        let flip_here = InstData::new(inst, vec![one]);
        let inst = Inst::Binary(BinaryOp::Xor, port.expect("it is sent before"), one);
        let flipped = InstData::new(inst, vec![value]);
        control.body.blocks[block].insts.splice(at..=at, [flip_here, flipped, send(value)]);
    }
    ingress
}

/// Converts egress for the interpreter: it must send packets that it does not drop.
fn sending(mut egress: Pipeline) -> Pipeline {
    let control = egress.controls.values_mut().find(|c| c.kind == ControlKind::MainControl).expect("a main control");
    let port = control.body.values.push(Type::Bit(32));
    let inst = Inst::Const(Const::new(Type::Bit(32), OUT));
    let made = InstData::new(inst, vec![port]);
    let entry = control.body.entry.expect("an entry");
    control.body.blocks[entry].insts.splice(0..0, [made, send(port)]);
    egress
}

struct Engines {
    whole: Interp,
    ingress: Interp,
    egress: Interp,
}

#[derive(Default, Debug)]
struct Tally {
    split: u64,
    packets: u64,
    /// Packets that passed egress.
    bridged: u64,
    /// Packets that egress dropped.
    dropped: u64,
    bypassed: u64,
}

/// Destination of a packet. Excludes the drop reason, which either gress may set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Way {
    Port(u32),
    Cpu,
    Nowhere,
}

type Seen = (Way, Vec<u8>);

/// PNA's CPU port.
const CPU: u32 = 0xffff_fffd;

fn seen(packet: &OutPacket) -> Seen {
    match packet.verdict {
        Verdict::Forward { port } => (Way::Port(port.0), packet.bytes.clone()),
        Verdict::ToCpu { .. } => (Way::Cpu, packet.bytes.clone()),
        Verdict::Drop(_) => (Way::Nowhere, Vec::new()),
    }
}

impl Engines {
    fn new(case: &TestCase, split: &GressPrograms) -> Engines {
        let mut any_port = case.setup.clone();
        any_port.ports = None;
        let engine = |pipeline: Pipeline| {
            ir::verify::verify(&pipeline).unwrap_or_else(|error| panic!("{error:?}\n{}", ir::text::print(&pipeline)));
            Interp::new(Arc::new(pipeline), any_port.clone()).expect("it loads")
        };
        let whole = engine((*case.pipeline).clone());
        Engines {
            whole,
            ingress: engine(mark_bypassing(split.ingress.clone())),
            egress: engine(sending(split.egress.clone())),
        }
    }

    fn packet(&mut self, bytes: &[u8], port: u32, at: u64, tally: &mut Tally) -> (Vec<Seen>, Vec<Seen>) {
        tally.packets += 1;
        let expected = self.whole.process(bytes, port, at).packets().iter().map(seen).collect();
        let mut found = Vec::new();
        for first in self.ingress.process(bytes, port, at).packets() {
            let (way, bytes) = seen(first);
            match way {
                Way::Nowhere => found.push((way, bytes)),
                Way::Port(port) if port & BYPASSES != 0 => {
                    tally.bypassed += 1;
                    let way = if port ^ BYPASSES == CPU { Way::Cpu } else { Way::Port(port ^ BYPASSES) };
                    found.push((way, bytes));
                }
                // The CPU port has this bit set, so flipping clears it.
                Way::Port(port) if port == CPU ^ BYPASSES => {
                    tally.bypassed += 1;
                    found.push((Way::Cpu, bytes));
                }
                Way::Port(_) | Way::Cpu => {
                    tally.bridged += 1;
                    for second in self.egress.process(&bytes, 0, at).packets() {
                        let (out, bytes) = seen(second);
                        tally.dropped += u64::from(out == Way::Nowhere);
                        found.push((if out == Way::Nowhere { out } else { way }, bytes));
                    }
                }
            }
        }
        (expected, found)
    }

    fn counters(&self, case: &TestCase) {
        for (id, object) in case.pipeline.externs.iter() {
            let ExternKind::Counter { size, .. } = object.kind else { continue };
            for index in 0..size.min(256) {
                let count = |engine: &Interp| engine.counter(id, index).map_or(0, |data| data.packets);
                let (expected, found) = (count(&self.whole), count(&self.ingress) + count(&self.egress));
                let name = &object.preamble.name;
                assert_eq!(
                    expected,
                    found,
                    "seed {}: counter {name} [{index}]\n{}\n---- ingress\n{}\n---- egress\n{}",
                    case.seed,
                    ir::text::print(&case.pipeline),
                    ir::text::print(self.ingress.pipeline()),
                    ir::text::print(self.egress.pipeline())
                );
            }
        }
    }
}

fn compare(case: &TestCase, split: &GressPrograms, tally: &mut Tally) {
    let mut engines = Engines::new(case, split);
    tally.split += 1;
    for step in &case.steps {
        match step {
            TestEvent::Write(batch) => {
                // A counter exists in both gresses, and a write of their sum cannot be split.
                let mut batch = batch.clone();
                batch.updates.retain(|update| !matches!(update, StateUpdate::Counter(..)));
                let whole = engines.whole.write(&batch);
                let (first, second) = (engines.ingress.write(&batch), engines.egress.write(&batch));
                let written = case.pipeline.tables.values().any(|t| t.add_on_miss || t.idle_timeout);
                assert!(
                    written || whole.is_ok() == (first.is_ok() && second.is_ok()),
                    "{whole:?} {first:?} {second:?}"
                );
            }
            TestEvent::Tick(at) => {
                for engine in [&mut engines.whole, &mut engines.ingress, &mut engines.egress] {
                    engine.advance_time(*at);
                }
            }
            TestEvent::Packets(packets) => {
                for packet in packets {
                    let (expected, found) = engines.packet(&packet.bytes, packet.port, packet.at, tally);
                    assert!(
                        expected == found,
                        "seed {}: {packet:?}\n{expected:?}\n{found:?}\n{}\n---- ingress\n{}\n---- egress\n{}",
                        case.seed,
                        ir::text::print(&case.pipeline),
                        ir::text::print(&split.ingress),
                        ir::text::print(&split.egress)
                    );
                }
            }
        }
    }
    engines.counters(case);
}

/// Returns the program with a single decision about the port, at the start of a block.
fn decided_once(pipeline: &Pipeline, rng: &mut fastrand::Rng) -> Pipeline {
    let mut new = pipeline.clone();
    let control = new.controls.values_mut().find(|c| c.kind == ControlKind::MainControl).expect("a main control");
    for data in control.body.blocks.values_mut() {
        data.insts.retain(|i| !matches!(i.inst, Inst::Extern { func: ExternFn::SendToPort, .. }));
    }
    let blocks = ir::reverse_postorder(&control.body);
    let block = blocks[rng.usize(..blocks.len().min(4))];
    let port = control.body.values.push(Type::Bit(32));
    let inst = Inst::Const(Const::new(Type::Bit(32), rng.u32(..4)));
    let made = InstData::new(inst, vec![port]);
    control.body.blocks[block].insts.splice(0..0, [made, send(port)]);
    new
}

#[test]
fn both_halves_of_made_programs_do_what_the_whole_does() {
    let (first, cases) = (env_number("DIFFER_SEED", 60_000), env_number("EMIT_CASES", 2_000));
    eprintln!("seeds {first}..{}; DIFFER_SEED and EMIT_CASES change that", first + cases);
    let config = Config { packets: 120, random: 0, ..Config::small() };
    let mut tally = Tally::default();
    for seed in first..first + cases {
        let mut case = plan::generate_case(seed, &config).unwrap_or_else(|r| panic!("seed {seed}: {}", r.diagnostics));
        if case.pipeline.arch != ir::Arch::Pna || is_of_the_whole(&case.pipeline) {
            continue;
        }
        let mut rng = fastrand::Rng::with_seed(seed);
        if rng.u8(..4) > 0 {
            case.pipeline = Arc::new(decided_once(&case.pipeline, &mut rng));
        }
        if let Some(split) = split_gresses(&case.pipeline) {
            compare(&case, &split, &mut tally);
        }
    }
    eprintln!("{tally:?}");
    // A run of few cases only prints its totals; the usual one must have compared enough.
    assert!(cases < 1_000 || (tally.split >= 10 && tally.bridged * 10 > tally.packets), "{tally:?}");
}

#[test]
fn both_halves_of_the_gateway_do_what_the_whole_does() {
    let mut tally = Tally::default();
    for seed in 0..3 {
        // A switch sends those with a VLAN tag to the CPU.
        let case = plan::switch_gateway_case(seed, 1_600).expect("a case for the gateway");
        let split = split_gresses(&case.pipeline).expect("a place to cut");
        compare(&case, &split, &mut tally);
    }
    eprintln!("{tally:?}");
    assert!(tally.bridged > 200 && tally.dropped > 0 && tally.bypassed > 0, "{tally:?}");
}
