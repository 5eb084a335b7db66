//! Packets from memory through our engines, beside the machine's limit and other systems, one core.
//!
//! What is measured of an engine: `Engine::process` on batches of a [`Ring`], and reading each verdict and the first bytes of each
//! packet that leaves, as a port would. What is not: making the packets. An entrant "+ copy in" is measured with that, too:
//! each packet's bytes are copied from memory into its buffer, as a port does that cannot lend buffers.

use crate::check::{self, Answer};
use crate::engines::{self, Which, Writable};
use crate::limit::{self, Lines};
use crate::machine;
use crate::program::{Kind, Program};
use crate::report::Report;
use crate::ring::{Ring, Template};
use crate::run::{Clock, Contest, Options, Unit, Work, count};
use crate::systems::xdp::Xdp;
use crate::world::{Choice, Flows, Layout, World};
use packet::{Output, Verdict};
use std::cell::RefCell;
use std::ops::DerefMut;
use std::path::Path;

/// Packets in a batch.
pub const BATCH: usize = packet::MAX_BATCH;

/// Flows that are gone through round and round, at most.
pub const FLOWS: usize = 1 << 21;

/// The gateway behind a cache that has the rewrite of each flow: packets of established flows.
pub const CACHED: &str = "gateway, flows cached";

/// How many bytes of memory a flow takes in that cache.
const FLOW_BYTES: usize = 1_200;

/// How many bytes of memory an entry takes in an engine with its control plane's copy, to know what does not fit.
const ENTRY_BYTES: usize = 700;

/// Which programs, in which worlds.
const WORLDS: &[(Layout, &[usize])] = &[
    (Layout::ManyTenants, &[1, 1_000, 10_000, 100_000, 1_000_000, 16_000_000]),
    (Layout::OneTenant, &[1, 1_000, 10_000, 100_000, 1_000_000, 16_000_000]),
];

/// The chart of a layout and a choice of VMs.
pub fn chart(layout: Layout, choice: Choice) -> String {
    format!("from memory, {}, {}", layout.name(), choice.name())
}

/// The name of the limit with so many lines a packet.
pub fn limit_name(lines: usize) -> String {
    format!("limit, {lines} lines")
}

/// All worlds, uniform and Zipf.
///
/// # Errors
/// A program is missing, an engine is wrong, or memory runs out.
pub fn run(programs: &Path, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let programs = [Program::load(Kind::Overlay, programs)?, Program::load(Kind::Gateway, programs)?];
    for (layout, sizes) in WORLDS {
        for vms in options.sizes(sizes) {
            let world = World { layout: *layout, vms };
            one_world(&programs, world, options, report)?;
        }
    }
    sizes(&programs, options, report)
}

/// An engine with a world in it, that takes part.
struct Racer<'p> {
    name: &'static str,
    program: &'p Program,
    engine: Box<dyn Writable>,
}

/// Which engines take part in a world: name, program, engine, and the bytes that they may take.
fn racers(programs: &[Program], world: World) -> Vec<(&'static str, &Program, Which, usize)> {
    let needed = (world.vms + world.routes() + world.tenants()) * ENTRY_BYTES;
    let mut racers = Vec::new();
    for program in programs {
        // The gateway is measured in the world that its bars are about.
        if program.kind == Kind::Gateway && world.layout == Layout::OneTenant && world.vms > 1_000_000 {
            continue;
        }
        racers.push((program.kind.name(), program, Which::MEASURED, needed));
        if program.kind == Kind::Gateway && world.layout == Layout::ManyTenants {
            let flows = FLOWS.min(world.vms);
            // With room to spare, as where there is hardly any flows are kept more slowly.
            let room = flows + flows / 4;
            racers.push((CACHED, program, Which::Cached(room), needed + room * FLOW_BYTES));
        }
    }
    racers
}

/// One world, in which each engine is filled once and then gets uniform and Zipf packets.
fn one_world(programs: &[Program], world: World, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let x = count(world.vms);
    let mut engines = Vec::new();
    for (name, program, which, needed) in racers(programs, world) {
        if needed > machine::available_memory() {
            report.note(format!("{name} with {x} VMs is left out: it may need {} GiB", needed >> 30));
            continue;
        }
        let loaded = engines::load(which, program, world)?;
        let rate = loaded.entries as f64 / loaded.writing.as_secs_f64().max(1e-9) / 1e6;
        let group = format!("{name}, {}: entries", world.layout.name());
        report.fact(&group, &format!("{x} VMs: {} entries written", loaded.entries), rate, "M/s");
        engines.push(Racer { name, program, engine: loaded.engine });
    }
    for choice in [Choice::Uniform, Choice::Zipf] {
        race(&mut engines, world, choice, options, report)?;
    }
    Ok(())
}

/// A cache gets to know all flows before anything is measured, and still gives these answers.
fn warm(racer: &mut Racer<'_>, flows: &Flows, template: &Template, answers: &[Answer]) -> anyhow::Result<()> {
    if racer.engine.missed().is_none() {
        return Ok(());
    }
    let (mut ring, mut own, mut output) = (Ring::new(template.clone(), BATCH), flows.clone(), Output::new());
    for _ in 0..flows.all().len().div_ceil(ring.packets()) {
        process(racer.engine.as_mut(), &mut ring, &mut own, &mut output);
    }
    check::engine(racer.engine.as_mut(), answers, BATCH)
}

/// The engines of a world against the limit.
fn race(
    engines: &mut [Racer<'_>],
    world: World,
    choice: Choice,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let flows = Flows::new(&world, choice, flow_count(options), options.seed);
    let template = Template::new(64);
    for racer in engines.iter_mut() {
        let answers = check::answers(racer.program, world, &flows, &template)?;
        check::engine(racer.engine.as_mut(), &answers, BATCH)?;
        warm(racer, &flows, &template, &answers)?;
    }
    let missed = |engines: &[Racer<'_>]| engines.iter().filter_map(|racer| racer.engine.missed()).sum::<u64>();
    let before = missed(engines);
    let mut limits = limits(world, options.seed)?;
    let xdp = xdp(overlay_of(engines), world, &flows, &template, report)?;
    let cells: Vec<_> = engines.iter_mut().map(|racer| (racer.name, RefCell::new(racer.engine.as_mut()))).collect();
    let mut contest = Contest::new(&chart(world.layout, choice), "VMs", count(world.vms), Unit::Mpps);
    for (name, engine) in &cells {
        contest.entrant(name, entrant(engine, &flows, &template, false));
        if *name == Kind::Overlay.name() {
            contest.entrant(COPY_IN, entrant(engine, &flows_again(&world, choice, options), &template, true));
        }
    }
    if let Some(xdp) = &xdp {
        // A run that fails does no work, which shows as a rate of 0.
        contest.entrant(XDP, || xdp.step().unwrap_or(Work { operations: 0, took: Some(options.window) }));
    }
    for (name, lines) in &mut limits {
        let mut ring = Ring::new(template.clone(), BATCH);
        let mut own = flows.clone();
        contest.entrant(name, move || at_the_limit(lines, &mut ring, &mut own));
    }
    report.push(contest.run(options));
    drop(cells);
    let missed = missed(engines) - before;
    if missed > 0 {
        let x = count(world.vms);
        report.note(format!("{CACHED}, {}, {}, {x} VMs: {missed} packets missed", world.layout.name(), choice.name()));
    }
    Ok(())
}

/// A step of an engine on its own ring of packets: as they lie there, or with the copy that a port would make.
pub fn entrant<'e, E: DerefMut<Target: Writable> + 'e>(
    engine: &'e RefCell<E>,
    flows: &Flows,
    template: &Template,
    copy_in: bool,
) -> impl FnMut() -> Work + use<'e, E> {
    let mut ring = Ring::new(template.clone(), BATCH);
    let (mut flows, mut output) = (flows.clone(), Output::new());
    move || {
        let mut engine = engine.borrow_mut();
        let step = if copy_in { copy_and_process } else { process };
        step(&mut **engine, &mut ring, &mut flows, &mut output)
    }
}

/// The XDP program's name in results.
pub const XDP: &str = "XDP";

/// The most VMs that the kernel's maps are filled with.
const XDP_VMS: usize = 1_000_000;

fn overlay_of<'p>(engines: &[Racer<'p>]) -> Option<&'p Program> {
    engines.iter().map(|racer| racer.program).find(|program| program.kind == Kind::Overlay)
}

/// The XDP program with this world in it, checked; `None`, noted, where it cannot be run.
fn xdp(
    overlay: Option<&Program>,
    world: World,
    flows: &Flows,
    template: &Template,
    report: &mut Report,
) -> anyhow::Result<Option<Xdp>> {
    let Some(program) = overlay.filter(|_| world.vms <= XDP_VMS) else { return Ok(None) };
    match Xdp::load(world, flows, template) {
        Ok(xdp) => {
            xdp.check(&check::answers(program, world, flows, template)?)?;
            xdp.step()?;
            Ok(Some(xdp))
        }
        Err(error) => {
            report.note(format!("XDP, {}, {} VMs: left out: {error:#}", world.layout.name(), count(world.vms)));
            Ok(None)
        }
    }
}

/// The entrant whose packets are copied into buffers within the time that counts.
const COPY_IN: &str = "overlay + copy in";

fn flow_count(options: &Options) -> usize {
    if options.quick { 1 << 17 } else { FLOWS }
}

/// Other packets than the first entrant's, so that one does not warm the caches for the other.
fn flows_again(world: &World, choice: Choice, options: &Options) -> Flows {
    Flows::new(world, choice, flow_count(options), options.seed ^ 0x5bd1)
}

/// The limit for the lines of the overlay: route and VM; the same with a third line, which is what a lookup costs whose VM is in the second of its
/// two buckets; and for those of the gateway: tenant, counter, route, VM, counter.
fn limits(world: World, seed: u64) -> std::io::Result<Vec<(String, Lines)>> {
    let [routes, vms] = world.table_bytes();
    let (tenants, counters) = (world.tenants() * 48, world.tenants() * 16);
    let all = Lines::new(&[routes, vms, tenants, counters, counters], seed)?;
    let orders: [&[usize]; 3] = [&[0, 1], &[0, 1, 1], &[2, 3, 0, 1, 4]];
    Ok(orders.into_iter().map(|order| (limit_name(order.len()), all.in_order(order))).collect())
}

/// A round of an engine: makes the packets (not counted) and processes them (counted).
pub fn process<W: Writable + ?Sized>(engine: &mut W, ring: &mut Ring, flows: &mut Flows, output: &mut Output) -> Work {
    ring.fill(flows);
    let clock = Clock::start();
    let mut sent = 0;
    for batch in &mut ring.batches {
        output.clear();
        engine.process(batch, output);
        sent += send(batch, output);
    }
    let took = clock.elapsed();
    // What is not forwarded does not count.
    Work { operations: sent, took: Some(took) }
}

/// A round in which each batch is made just before it is processed, and both count.
fn copy_and_process<W: Writable + ?Sized>(
    engine: &mut W,
    ring: &mut Ring,
    flows: &mut Flows,
    output: &mut Output,
) -> Work {
    let mut sent = 0;
    for index in 0..ring.batches.len() {
        let batch = ring.fill_one(index, flows);
        output.clear();
        engine.process(batch, output);
        sent += send(batch, output);
    }
    Work::from(sent)
}

/// What a port does at least with packets that leave: looks where each lies. Returns how many.
fn send(batch: &packet::Batch, output: &Output) -> u64 {
    let mut sent = 0;
    for (emission, packet) in output.iter(batch) {
        if let Verdict::Forward { port } = emission.verdict {
            std::hint::black_box((port, packet.bytes().as_ptr(), packet.len()));
            sent += 1;
        }
    }
    sent
}

/// A round of the machine's limit.
fn at_the_limit(lines: &Lines, ring: &mut Ring, flows: &mut Flows) -> Work {
    ring.fill(flows);
    let clock = Clock::start();
    let mut operations = 0;
    let mut keys = [0u64; limit::BATCH];
    for batch in &mut ring.batches {
        for packets in batch.packets_mut().chunks_mut(limit::BATCH) {
            for (key, packet) in keys.iter_mut().zip(packets.iter()) {
                *key = limit::key(packet.bytes());
            }
            lines.look(&mut keys[..packets.len()]);
            for (packet, found) in packets.iter_mut().zip(&keys) {
                limit::rewrite(packet.bytes_mut(), *found);
            }
            operations += packets.len() as u64;
        }
    }
    Work { operations, took: Some(clock.elapsed()) }
}

/// Frames of 64 to 1,514 bytes through the overlay, in bits a second beside a plain copy of the same packets.
fn sizes(programs: &[Program], options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let Some(program) = programs.iter().find(|program| program.kind == Kind::Overlay) else { return Ok(()) };
    let world = World { layout: Layout::ManyTenants, vms: 10_000 };
    let mut engine = engines::load(Which::MEASURED, program, world)?.engine;
    for frame in [64, 128, 256, 512, 1024, 1514] {
        let template = Template::new(frame);
        let flows = Flows::new(&world, Choice::Uniform, 1 << 16, options.seed);
        check::engine(engine.as_mut(), &check::answers(program, world, &flows, &template)?, BATCH)?;
        let bits = (template.packet_len() * 8) as u64;
        let in_bits = move |work: Work| Work { operations: work.operations * bits, ..work };
        let engine = RefCell::new(engine.as_mut());
        let mut contest = Contest::new(SIZES, "bytes of the inner frame", frame.to_string(), Unit::Gbps);
        // The first, so that ratios are to it.
        let (mut ring, mut own) = (Ring::new(template.clone(), BATCH), flows.clone());
        contest.entrant("copy alone", move || in_bits(copy_alone(&mut ring, &mut own)));
        for (name, with_copy) in [("overlay", false), (COPY_IN, true)] {
            let mut step = entrant(&engine, &flows, &template, with_copy);
            contest.entrant(name, move || in_bits(step()));
        }
        report.push(contest.run(options));
    }
    Ok(())
}

/// The chart of packet sizes.
pub const SIZES: &str = "from memory, by packet size, 10k VMs";

/// The generator's copy without an engine: the plain copy that packet sizes are compared with.
fn copy_alone(ring: &mut Ring, flows: &mut Flows) -> Work {
    let mut operations = 0;
    for index in 0..ring.batches.len() {
        let batch = ring.fill_one(index, flows);
        operations += batch.len() as u64;
        std::hint::black_box(batch.packets().as_ptr());
    }
    Work::from(operations)
}
