//! A pipeline made ready to run: its plan, its code, and the calls that the interpreter's code carries out.

use crate::analysis::facts::{has_loop, reason_vars};
use crate::analysis::flow::is_cut;
use crate::analysis::order::{CallSite, Order};
use crate::analysis::shared::shared;
use crate::code::compiling::{Compiling, Recording};
use crate::code::machine::call_conv;
use crate::code::{Native, compile};
use crate::counters::Place;
use crate::plan::lanes::LanesLayout;
use crate::plan::layout::Layout;
use crate::plan::lists::Lists;
use crate::plan::memory::MemoryLayout;
use crate::plan::places::Places;
use crate::plan::plain::Plain;
use crate::plan::stages::{Stage, StageInfo, Start};
use crate::plan::{Plan, check};
use crate::runtime::{Runtime, helpers};
use crate::unsupported::Unsupported;
use interp::Config;
use interp::host::{ExternHost, SelectorHash, SiteId};
use ir::{ControlKind, Entity, ExternFn, ExternKind, Inst, Pipeline, TableId, VarId};
use lookup::{LookupKind, LookupShape, Lookups};
use parking_lot::{Mutex, MutexGuard};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Counters of more elements than this are kept by the interpreter's code, sparsely.
const MOST_COUNTERS: u64 = 1 << 24;

/// Tables for more entries than this are hardly ever nearly empty.
const MOST_ENTRIES: u64 = 1 << 16;

/// A pipeline made ready to run. Shared by all workers.
pub struct Program {
    /// The pipeline.
    pub pipeline: Arc<Pipeline>,
    /// Settings.
    pub config: Config,
    /// The code.
    pub native: Native,
    /// Bytes from frame to frame.
    pub stride: u32,
    /// Where things lie in a worker's memory.
    pub memory: MemoryLayout,
    /// Offset of the list of emitted headers in a frame.
    pub emitted: u32,
    /// The stages in the order in which they run: what a stage looks up, and the words of its keys.
    pub stages: Vec<StageInfo>,
    /// For each extern object that is counted in place, how many elements.
    pub counters: Vec<Option<u64>>,
    /// Where workers count what they do.
    pub places: Places,
    /// Counts that one packet can make at most.
    pub counts: usize,
    /// Where the order of packets shows.
    pub order: Order,
    /// The longest header in bytes.
    pub longest_header: usize,
    /// How packets are told that leave as they lie.
    pub plain: Plain,
    /// Whether anybody asks when a packet came in.
    pub clock: bool,
    /// Whether the program keeps reasons for drops.
    pub drop_reason: bool,
    /// Whether the program keeps reasons for the CPU.
    pub cpu_reason: bool,
    /// For each table, how its selector hashes.
    pub selectors: Vec<SelectorHash>,
    /// What calls need.
    pub runtime: Runtime,
    /// Where it is noted what packets do, if that is asked.
    pub lists: Option<Lists>,
    /// How many lookups stages make themselves, as long as the table's entries are a handful.
    pub in_place: usize,
    /// How long packets are that begin the trace, if there is one.
    pub trace_bytes: Option<u32>,
}

impl Program {
    /// Makes a pipeline ready. `lookups` gives the shapes of its tables; `records`: what packets do is noted. The host may be that of another program of the same pipeline.
    pub fn new(
        pipeline: Arc<Pipeline>,
        config: Config,
        shared_host: &Arc<Mutex<ExternHost>>,
        lookups: &Lookups,
        records: bool,
    ) -> Result<Program, Unsupported> {
        let host = shared_host.lock();
        check(&pipeline)?;
        // What code is made from; all else goes by the pipeline that others know.
        let compiled = shared(&pipeline)?;
        let state_limit = parser_limit(&pipeline, &config);
        let shapes: Vec<LookupShape> = pipeline.tables.keys().map(|id| lookups.shape(id).clone()).collect();
        let small: Vec<bool> = pipeline.tables.keys().map(|id| may_be_few(&pipeline, id, &shapes)).collect();
        let plan = Plan::new(&compiled, !records, state_limit.is_some(), &small)?;
        let layout = Layout::new(&compiled, &plan)?;
        check_steps(&config)?;
        let lists = records.then(|| Lists::new(&pipeline));
        let stages = stage_infos(&pipeline, &plan, &shapes);
        let places = Places::new(&pipeline, &plan.starts);
        let counters = counted_here(&pipeline);
        let truncates = calls(&pipeline, |func| func == ExternFn::Truncate);
        let plain = Plain::new(&config, pipeline.arch);
        let eights = !records && crate::lanes::supported();
        let memory = memory_layout(&compiled, (&plan, &layout), &stages, places.cells, eights);
        let compiling = Compiling {
            pipeline: &compiled,
            plan: &plan,
            layout: &layout,
            memory,
            shapes,
            helpers: helpers(),
            call_conv: call_conv().map_err(|_| Unsupported::Machine)?,
            counters: Place::of(&counters),
            places,
            notes_hits: pipeline.tables.keys().map(|id| host.notes_hits(id)).collect(),
            keeps_hits: pipeline.tables.keys().map(|id| host.tracks_entries(id)).collect(),
            recording: lists.clone().map(Recording::new),
            state_limit,
            keeps_packet_state: keeps_packet_state(&pipeline),
            deparser_calls: deparser_calls(&pipeline),
            truncates,
            cpu_port: plain.cpu_port(),
            sites: RefCell::default(),
            told: RefCell::default(),
            stage: Cell::new(0),
        };
        let native = compile(&compiling).map_err(|_| Unsupported::Machine)?;
        let call_sites = compiling.sites.take();
        let order = Order::new(&pipeline, plan.stages.len(), &call_sites, &compiling.told.take());
        let clock = !call_sites.is_empty() || compiling.notes_hits.contains(&true) || reads_time(&pipeline);
        let runtime = runtime(&pipeline, host, shared_host, &call_sites)?;
        let Compiling { places, memory, .. } = compiling;
        let [drop_reason, cpu_reason] = reason_vars(&pipeline).map(|var| var.is_some());
        let selectors = pipeline.tables.keys().map(|table| SelectorHash::new(&pipeline, table)).collect();
        Ok(Program {
            counts: count_sites(&pipeline),
            pipeline,
            config,
            native,
            stride: layout.stride,
            memory,
            emitted: layout.emitted,
            counters,
            places,
            in_place: (0..plan.flow.nodes.len()).filter(|node| plan.flow.in_place(*node)).count(),
            stages,
            trace_bytes: plan.flow.trace.map(|(_, bytes)| bytes),
            order,
            longest_header: plan.headers.most.iter().copied().max().unwrap_or(0) as usize,
            plain,
            clock,
            drop_reason,
            cpu_reason,
            selectors,
            runtime,
            lists,
        })
    }

    /// Whether both count in the same places.
    pub fn counts_as(&self, other: &Program) -> bool {
        self.places == other.places && self.counters == other.counters
    }

    /// The first cell in which a table's action is tallied, at one of the places where the table is applied; `None` if it is applied nowhere.
    pub fn tally_cell(&self, table: TableId, position: usize) -> Option<usize> {
        let listed = &self.pipeline.tables.get(table)?.actions;
        let stage = self.stages.iter().find(|stage| stage.table == Some(table)).map(|stage| stage.slot);
        let applied = stage.is_some() || !is_cut(&self.pipeline, table);
        (position < listed.len() && applied).then(|| self.places.cell(stage, table, position))
    }
}

/// Where things lie in a worker's memory; lists for packets that are taken eight at a time among them, if they may be: `eights`.
fn memory_layout(
    pipeline: &Pipeline,
    (plan, layout): (&Plan, &Layout),
    stages: &[StageInfo],
    cells: usize,
    eights: bool,
) -> MemoryLayout {
    let memory = MemoryLayout::new(pipeline.tables.len(), pipeline.externs.len(), cells, stages);
    let counts = (cells, count_sites(pipeline));
    let lanes = eights.then(|| LanesLayout::new(pipeline, plan, layout, stages, counts, memory.end()));
    memory.with_lanes(lanes.flatten())
}

/// For each extern object that is counted in place, how many elements.
fn counted_here(pipeline: &Pipeline) -> Vec<Option<u64>> {
    let size = |object: &ir::ExternInst| match object.kind {
        ExternKind::Counter { size, .. } if size <= MOST_COUNTERS => Some(size),
        _ => None,
    };
    pipeline.externs.values().map(size).collect()
}

/// Whether a table may have so few entries that a stage looks them up itself: its keys are exact and a word long, and it is not made for very many.
fn may_be_few(pipeline: &Pipeline, id: TableId, shapes: &[LookupShape]) -> bool {
    let (table, shape) = (&pipeline.tables[id], &shapes[id.index()]);
    let short = shape.kind == LookupKind::Exact && shape.words == 1 && table.implementation.is_none();
    short && table.size.is_none_or(|size| size <= MOST_ENTRIES)
}

/// For each value set, the words of each of its keys.
fn value_sets(pipeline: &Pipeline) -> Vec<Vec<usize>> {
    let words = |set: &ir::ValueSet| set.keys.iter().map(|key| entries::words_for(key.ty.width())).collect();
    pipeline.value_sets.values().map(words).collect()
}

/// Native code counts no steps: it takes fewer than that.
fn check_steps(config: &Config) -> Result<(), Unsupported> {
    if config.max_steps < 1 << 16 { Err(Unsupported::StepLimit) } else { Ok(()) }
}

/// What calls need, which are made known to the host.
fn runtime(
    pipeline: &Pipeline,
    mut host: MutexGuard<'_, ExternHost>,
    shared: &Arc<Mutex<ExternHost>>,
    calls: &[CallSite],
) -> Result<Runtime, Unsupported> {
    let sites = register(pipeline, &mut host, calls)?;
    Ok(Runtime { host: shared.clone(), sites, value_sets: value_sets(pipeline) })
}

/// Makes the calls known to the host: for each its number there, and the words of its arguments and results.
fn register(
    pipeline: &Pipeline,
    host: &mut ExternHost,
    calls: &[CallSite],
) -> Result<Vec<(SiteId, usize, usize)>, Unsupported> {
    let site = |site: &CallSite| {
        let body = &pipeline.controls[ir::ControlId(site.control as u32)].body;
        let made = host.site(&site.inst, &|value| body.value_type(value), &site.results);
        let made = made.map_err(|_| Unsupported::TooLarge)?;
        Ok((made.id, made.arg_words, made.result_words))
    };
    calls.iter().map(site).collect()
}

/// What the engine does for each stage.
fn stage_infos(pipeline: &Pipeline, plan: &Plan, shapes: &[LookupShape]) -> Vec<StageInfo> {
    plan.stages.iter().map(|stage| stage_info(pipeline, plan, shapes, stage)).collect()
}

fn stage_info(pipeline: &Pipeline, plan: &Plan, shapes: &[LookupShape], stage: &Stage) -> StageInfo {
    let (start, slot) = (stage.start, stage.slot);
    match start {
        Start::Site(node, table) => StageInfo {
            start,
            slot,
            copied: plan.starts[slot] != start,
            table: Some(table),
            words: shapes[table.index()].words,
            together: plan.flow.together(node).map(|there| (there.table, shapes[there.table.index()].words)),
            profile: pipeline.tables[table].implementation.is_some(),
        },
        _ => StageInfo { start, slot, copied: false, table: None, words: 0, together: None, profile: false },
    }
}

/// Whether the program looks at a time that the architecture tells.
fn reads_time(pipeline: &Pipeline) -> bool {
    let tells = |name: &str| name.ends_with("timestamp");
    let times: Vec<VarId> = pipeline.intrinsics.iter().filter(|(name, _)| tells(name)).map(|(_, var)| *var).collect();
    insts(pipeline).any(|inst| matches!(inst, Inst::Load(var) if times.contains(var)))
}

fn insts(pipeline: &Pipeline) -> impl Iterator<Item = &Inst> {
    pipeline.insts().map(|data| &data.inst)
}

fn calls(pipeline: &Pipeline, wanted: impl Fn(ExternFn) -> bool) -> bool {
    insts(pipeline).any(|inst| matches!(inst, Inst::Extern { func, .. } if wanted(*func)))
}

/// Whether some checksum unit keeps data while a packet is in a body, beside those that native code keeps itself.
fn keeps_packet_state(pipeline: &Pipeline) -> bool {
    use ExternFn::*;
    calls(pipeline, |func| matches!(func, ChecksumClear | ChecksumUpdate | ChecksumGet))
}

/// How often a packet can count: each call stands outside of loops.
fn count_sites(pipeline: &Pipeline) -> usize {
    insts(pipeline).filter(|i| matches!(i, Inst::Extern { func: ExternFn::CounterCount, .. })).count()
}

fn deparser_calls(pipeline: &Pipeline) -> bool {
    let deparsers = pipeline.controls.values().filter(|c| c.kind == ControlKind::MainDeparser);
    deparsers.flat_map(|c| c.body.insts()).any(|data| matches!(data.inst, Inst::Extern { .. }))
}

/// States that a parser may enter, if it can enter more than it has.
fn parser_limit(pipeline: &Pipeline, config: &Config) -> Option<u64> {
    let parsers = pipeline.controls.values();
    let mut parsers = parsers.filter(|c| c.kind.is_parser());
    let bounded = |c: &ir::Control| !has_loop(&c.body) && (c.body.states.len() as u64) < config.max_parser_states;
    (!parsers.all(bounded)).then_some(config.max_parser_states)
}
