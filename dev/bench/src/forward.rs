//! Throughput of our engines on packets in memory, compared with the machine's limit and other
//! systems, on one core.
//!
//! The measured time covers `Engine::process` on batches of a [`Ring`], and reading each verdict
//! and the first bytes of each sent packet, as a port would. It does not cover the generation of
//! packets. For an entrant "+ copy in" it does: each packet's bytes are copied from memory into its
//! buffer, as in a port that cannot lend buffers.

use crate::check::{self, ExpectedOutput};
use crate::engines::{self, EngineKind, Writable};
use crate::limit::{self, Lines};
use crate::machine;
use crate::program::{BenchProgram, Program};
use crate::report::Report;
use crate::ring::{Ring, Template};
use crate::run::{CallResult, Clock, EntrantComparison, Options, Unit, format_count};
use crate::systems::xdp::Xdp;
use crate::workload::{FlowDistribution, Flows, TenantLayout, Workload};
use packet::{BatchOutput, Verdict};
use std::cell::RefCell;
use std::ops::DerefMut;
use std::path::Path;

/// Number of packets in a batch.
pub const BATCH: usize = packet::MAX_BATCH;

/// Maximum number of flows, which are cycled through.
pub const FLOWS: usize = 1 << 21;

/// Name of the gateway behind a cache with the rewrite of each flow: packets of established flows.
pub const CACHED: &str = "gateway, flows cached";

/// Memory per flow in that cache, in bytes.
const FLOW_BYTES: usize = 1_200;

/// Memory per entry in an engine with its control plane's copy, in bytes. Used to predict whether a
/// workload fits.
const ENTRY_BYTES: usize = 700;

/// Measured workloads: tenant layouts, with numbers of VMs.
const WORLDS: &[(TenantLayout, &[usize])] = &[
    (TenantLayout::ManyTenants, &[1, 1_000, 10_000, 100_000, 1_000_000, 16_000_000]),
    (TenantLayout::OneTenant, &[1, 1_000, 10_000, 100_000, 1_000_000, 16_000_000]),
];

/// Returns the name of the chart for a layout and a distribution of flows.
pub fn chart(layout: TenantLayout, choice: FlowDistribution) -> String {
    format!("from memory, {}, {}", layout.name(), choice.name())
}

/// Returns the name of the limit with `lines` cache lines per packet.
pub fn limit_name(lines: usize) -> String {
    format!("limit, {lines} lines")
}

/// Runs all workloads, with uniform and Zipf distribution.
///
/// # Errors
/// If a program is missing, an engine sends wrong packets, or memory runs out.
pub fn run(programs: &Path, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let programs = [Program::load(BenchProgram::Overlay, programs)?, Program::load(BenchProgram::Gateway, programs)?];
    for (layout, sizes) in WORLDS {
        for vms in options.sizes(sizes) {
            let world = Workload { layout: *layout, vms };
            run_workload(&programs, world, options, report)?;
        }
    }
    run_packet_sizes(&programs, options, report)
}

/// An engine with a loaded workload that takes part in a comparison.
struct LoadedEngine<'p> {
    name: &'static str,
    program: &'p Program,
    engine: Box<dyn Writable>,
}

/// Returns the engines for a workload: name, program, engine, and estimated memory in bytes.
fn select_engines(programs: &[Program], world: Workload) -> Vec<(&'static str, &Program, EngineKind, usize)> {
    let needed = (world.vms + world.routes() + world.tenants()) * ENTRY_BYTES;
    let mut racers = Vec::new();
    for program in programs {
        // The gateway is measured only with the workload of its targets.
        if program.kind == BenchProgram::Gateway && world.layout == TenantLayout::OneTenant && world.vms > 1_000_000 {
            continue;
        }
        racers.push((program.kind.name(), program, EngineKind::MEASURED, needed));
        if program.kind == BenchProgram::Gateway && world.layout == TenantLayout::ManyTenants {
            let flows = FLOWS.min(world.vms);
            // With spare capacity, because a nearly full cache is slower.
            let room = flows + flows / 4;
            racers.push((CACHED, program, EngineKind::Cached(room), needed + room * FLOW_BYTES));
        }
    }
    racers
}

/// Runs one workload: loads each engine once, and then sends uniform and Zipf packets.
fn run_workload(programs: &[Program], world: Workload, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let x = format_count(world.vms);
    let mut engines = Vec::new();
    for (name, program, which, needed) in select_engines(programs, world) {
        if needed > machine::available_memory() {
            report.note(format!("{name} with {x} VMs is left out: it may need {} GiB", needed >> 30));
            continue;
        }
        let loaded = engines::load(which, program, world)?;
        let rate = loaded.entries as f64 / loaded.writing.as_secs_f64().max(1e-9) / 1e6;
        let group = format!("{name}, {}: entries", world.layout.name());
        report.fact(&group, &format!("{x} VMs: {} entries written", loaded.entries), rate, "M/s");
        engines.push(LoadedEngine { name, program, engine: loaded.engine });
    }
    for choice in [FlowDistribution::Uniform, FlowDistribution::Zipf] {
        compare_engines(&mut engines, world, choice, options, report)?;
    }
    Ok(())
}

/// Sends all flows through a cache before the measurement, and checks that it still sends the
/// expected packets.
fn warm_cache(
    racer: &mut LoadedEngine<'_>,
    flows: &Flows,
    template: &Template,
    answers: &[ExpectedOutput],
) -> anyhow::Result<()> {
    if racer.engine.missed().is_none() {
        return Ok(());
    }
    let (mut ring, mut own, mut output) = (Ring::new(template.clone(), BATCH), flows.clone(), BatchOutput::new());
    for _ in 0..flows.all().len().div_ceil(ring.packets()) {
        process_round(racer.engine.as_mut(), &mut ring, &mut own, &mut output);
    }
    check::check_engine(racer.engine.as_mut(), answers, BATCH)
}

/// Compares the engines on a workload with the limit.
fn compare_engines(
    engines: &mut [LoadedEngine<'_>],
    world: Workload,
    choice: FlowDistribution,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let flows = Flows::new(&world, choice, flow_count(options), options.seed);
    let template = Template::new(64);
    for loaded in engines.iter_mut() {
        let expected = check::expected_outputs(loaded.program, world, &flows, &template)?;
        check::check_engine(loaded.engine.as_mut(), &expected, BATCH)?;
        warm_cache(loaded, &flows, &template, &expected)?;
    }
    let count_missed =
        |engines: &[LoadedEngine<'_>]| engines.iter().filter_map(|loaded| loaded.engine.missed()).sum::<u64>();
    let missed_before = count_missed(engines);
    let mut limits = memory_limits(world, options.seed)?;
    let xdp = load_xdp(overlay_of(engines), world, &flows, &template, report)?;
    let cells: Vec<_> = engines.iter_mut().map(|loaded| (loaded.name, RefCell::new(loaded.engine.as_mut()))).collect();
    let mut comparison =
        EntrantComparison::new(&chart(world.layout, choice), "VMs", format_count(world.vms), Unit::Mpps);
    for (name, engine) in &cells {
        comparison.entrant(name, entrant(engine, &flows, &template, false));
        if *name == BenchProgram::Overlay.name() {
            comparison.entrant(COPY_IN, entrant(engine, &flows_again(&world, choice, options), &template, true));
        }
    }
    if let Some(xdp) = &xdp {
        // A run that fails does no work, which is shown as a rate of 0.
        comparison.entrant(XDP, || xdp.run_step().unwrap_or(CallResult { operations: 0, took: Some(options.window) }));
    }
    for (name, lines) in &mut limits {
        let mut ring = Ring::new(template.clone(), BATCH);
        let mut own_flows = flows.clone();
        comparison.entrant(name, move || process_at_limit(lines, &mut ring, &mut own_flows));
    }
    report.push(comparison.run(options));
    drop(cells);
    let missed = count_missed(engines) - missed_before;
    if missed > 0 {
        let x = format_count(world.vms);
        report.note(format!("{CACHED}, {}, {}, {x} VMs: {missed} packets missed", world.layout.name(), choice.name()));
    }
    Ok(())
}

/// Creates an entrant that runs an engine on its own ring of packets, unmodified or with the copy
/// that a port would make.
pub fn entrant<'e, E: DerefMut<Target: Writable> + 'e>(
    engine: &'e RefCell<E>,
    flows: &Flows,
    template: &Template,
    copy_in: bool,
) -> impl FnMut() -> CallResult + use<'e, E> {
    let mut ring = Ring::new(template.clone(), BATCH);
    let (mut flows, mut output) = (flows.clone(), BatchOutput::new());
    move || {
        let mut engine = engine.borrow_mut();
        let step = if copy_in { copy_and_process } else { process_round };
        step(&mut **engine, &mut ring, &mut flows, &mut output)
    }
}

/// Name of the XDP program in results.
pub const XDP: &str = "XDP";

/// Maximum number of VMs in the kernel's maps.
const XDP_VMS: usize = 1_000_000;

fn overlay_of<'p>(engines: &[LoadedEngine<'p>]) -> Option<&'p Program> {
    engines.iter().map(|racer| racer.program).find(|program| program.kind == BenchProgram::Overlay)
}

/// Loads and checks the XDP program with the workload. `None`, with a note, if it cannot run here.
fn load_xdp(
    overlay: Option<&Program>,
    world: Workload,
    flows: &Flows,
    template: &Template,
    report: &mut Report,
) -> anyhow::Result<Option<Xdp>> {
    let Some(program) = overlay.filter(|_| world.vms <= XDP_VMS) else { return Ok(None) };
    match Xdp::load(world, flows, template) {
        Ok(xdp) => {
            xdp.check(&check::expected_outputs(program, world, flows, template)?)?;
            xdp.run_step()?;
            Ok(Some(xdp))
        }
        Err(error) => {
            report.note(format!("XDP, {}, {} VMs: left out: {error:#}", world.layout.name(), format_count(world.vms)));
            Ok(None)
        }
    }
}

/// Name of the entrant with the copy of packets into buffers in its measured time.
const COPY_IN: &str = "overlay + copy in";

fn flow_count(options: &Options) -> usize {
    if options.quick { 1 << 17 } else { FLOWS }
}

/// Returns other flows than those of the first entrant, so that one entrant does not warm the
/// caches for the other.
fn flows_again(world: &Workload, choice: FlowDistribution, options: &Options) -> Flows {
    Flows::new(world, choice, flow_count(options), options.seed ^ 0x5bd1)
}

/// Creates the limits: for the lines of the overlay (route and VM); with a third line, the cost of
/// a lookup of a VM that is in the second of its two buckets; and for those of the gateway (tenant,
/// counter, route, VM, counter).
fn memory_limits(world: Workload, seed: u64) -> std::io::Result<Vec<(String, Lines)>> {
    let [routes, vms] = world.table_bytes();
    let (tenants, counters) = (world.tenants() * 48, world.tenants() * 16);
    let all = Lines::new(&[routes, vms, tenants, counters, counters], seed)?;
    let orders: [&[usize]; 3] = [&[0, 1], &[0, 1, 1], &[2, 3, 0, 1, 4]];
    Ok(orders.into_iter().map(|order| (limit_name(order.len()), all.in_order(order))).collect())
}

/// Runs one round of an engine: generates the packets (not timed) and processes them (timed).
pub fn process_round<W: Writable + ?Sized>(
    engine: &mut W,
    ring: &mut Ring,
    flows: &mut Flows,
    output: &mut BatchOutput,
) -> CallResult {
    ring.fill(flows);
    let clock = Clock::start();
    let mut sent = 0;
    for batch in &mut ring.batches {
        output.clear();
        engine.process(batch, output);
        sent += read_sent_packets(batch, output);
    }
    let took = clock.elapsed();
    // Packets that are not forwarded are not counted.
    CallResult { operations: sent, took: Some(took) }
}

/// Runs one round in which each batch is generated just before it is processed. Both are timed.
fn copy_and_process<W: Writable + ?Sized>(
    engine: &mut W,
    ring: &mut Ring,
    flows: &mut Flows,
    output: &mut BatchOutput,
) -> CallResult {
    let mut sent = 0;
    for index in 0..ring.batches.len() {
        let batch = ring.fill_one(index, flows);
        output.clear();
        engine.process(batch, output);
        sent += read_sent_packets(batch, output);
    }
    CallResult::from(sent)
}

/// Reads the location of each sent packet, the minimum work of a port. Returns the number of sent
/// packets.
fn read_sent_packets(batch: &packet::Batch, output: &BatchOutput) -> u64 {
    let mut sent = 0;
    for (emission, packet) in output.iter(batch) {
        if let Verdict::Forward { port } = emission.verdict {
            std::hint::black_box((port, packet.bytes().as_ptr(), packet.len()));
            sent += 1;
        }
    }
    sent
}

/// Runs one round of the machine's limit.
fn process_at_limit(lines: &Lines, ring: &mut Ring, flows: &mut Flows) -> CallResult {
    ring.fill(flows);
    let clock = Clock::start();
    let mut operations = 0;
    let mut keys = [0u64; limit::BATCH];
    for batch in &mut ring.batches {
        for packets in batch.packets_mut().chunks_mut(limit::BATCH) {
            for (key, packet) in keys.iter_mut().zip(packets.iter()) {
                *key = limit::key(packet.bytes());
            }
            lines.access_lines(&mut keys[..packets.len()]);
            for (packet, found) in packets.iter_mut().zip(&keys) {
                limit::rewrite(packet.bytes_mut(), *found);
            }
            operations += packets.len() as u64;
        }
    }
    CallResult { operations, took: Some(clock.elapsed()) }
}

/// Measures frames of 64 to 1,514 bytes through the overlay, in bits per second, compared with a
/// plain copy of the same packets.
fn run_packet_sizes(programs: &[Program], options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let Some(program) = programs.iter().find(|program| program.kind == BenchProgram::Overlay) else { return Ok(()) };
    let world = Workload { layout: TenantLayout::ManyTenants, vms: 10_000 };
    let mut engine = engines::load(EngineKind::MEASURED, program, world)?.engine;
    for frame in [64, 128, 256, 512, 1024, 1514] {
        let template = Template::new(frame);
        let flows = Flows::new(&world, FlowDistribution::Uniform, 1 << 16, options.seed);
        check::check_engine(engine.as_mut(), &check::expected_outputs(program, world, &flows, &template)?, BATCH)?;
        let bits = (template.packet_len() * 8) as u64;
        let in_bits = move |work: CallResult| CallResult { operations: work.operations * bits, ..work };
        let engine = RefCell::new(engine.as_mut());
        let mut comparison = EntrantComparison::new(SIZES, "bytes of the inner frame", frame.to_string(), Unit::Gbps);
        // The first entrant, because ratios refer to it.
        let (mut ring, mut own_flows) = (Ring::new(template.clone(), BATCH), flows.clone());
        comparison.entrant("copy alone", move || in_bits(copy_alone(&mut ring, &mut own_flows)));
        for (name, with_copy) in [("overlay", false), (COPY_IN, true)] {
            let mut step = entrant(&engine, &flows, &template, with_copy);
            comparison.entrant(name, move || in_bits(step()));
        }
        report.push(comparison.run(options));
    }
    Ok(())
}

/// Name of the chart of packet sizes.
pub const SIZES: &str = "from memory, by packet size, 10k VMs";

/// Runs the generator's copy without an engine, as the baseline for packet sizes.
fn copy_alone(ring: &mut Ring, flows: &mut Flows) -> CallResult {
    let mut operations = 0;
    for index in 0..ring.batches.len() {
        let batch = ring.fill_one(index, flows);
        operations += batch.len() as u64;
        std::hint::black_box(batch.packets().as_ptr());
    }
    CallResult::from(operations)
}
