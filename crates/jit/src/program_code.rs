//! What is compiled of a pipeline: it depends on nothing of one engine, so that engines of a process
//! share it.

use crate::analysis::copy_coalescing::coalesce_copies;
use crate::analysis::facts::{has_loop, reason_vars};
use crate::analysis::order::{CallSite, OrderConstraints};
use crate::code::compiling::{CodegenContext, RecordingState};
use crate::code::machine::call_conv;
use crate::code::{NativeCode, compile};
use crate::counters::CounterRange;
use crate::fallback_reason::FallbackReason;
use crate::plan::frame_layout::FrameLayout;
use crate::plan::memory_layout::MemoryLayout;
use crate::plan::miss_paths::find_miss_paths;
use crate::plan::pool_prefetch::{PoolPrefetch, find_pool_prefetches};
use crate::plan::record_layout::RecordLayout;
use crate::plan::stages::{Stage, StageEntry, StageInfo};
use crate::plan::stats_layout::StatsLayout;
use crate::plan::vector_layout::VectorLayout;
use crate::plan::{StagePlan, check_supported};
use crate::runtime::helper_addresses;
use crate::vector_refusal::VectorRefusal;
use ir::{ControlKind, Entity, ExternFn, ExternKind, Inst, Pipeline, TableId, VarId};
use lookup::{LookupKind, LookupLayout};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Counters with more elements than this are kept sparsely by the interpreter's code.
const MAX_DENSE_COUNTERS: u64 = 1 << 24;

/// Tables declared for more entries than this are assumed to hold too many for in-place lookups.
const MAX_SMALL_TABLE_ENTRIES: u64 = 1 << 16;

/// All that the code of a pipeline depends on. Equal inputs make equal code.
#[derive(PartialEq)]
pub struct CodeInputs {
    /// The pipeline.
    pub pipeline: Arc<Pipeline>,
    /// Layout of keys and values of each table.
    pub table_layouts: Vec<LookupLayout>,
    /// For each table, whether packets add entries to it.
    pub packet_written: Vec<bool>,
    /// For each table, whether hits are reported to the host.
    pub reports_hits: Vec<bool>,
    /// For each table, whether the program or host needs the entry that was hit.
    pub needs_hit_entries: Vec<bool>,
    /// Whether the code records packets.
    pub records: bool,
    /// Number of instructions that all stages together may have twice.
    pub max_copied_insts: usize,
    /// Maximum number of parser states that a packet enters in one pass, if a parser could exceed it.
    pub state_limit: Option<u64>,
    /// The CPU port.
    pub cpu_port: u32,
}

/// The code of a pipeline, with the layouts that it was compiled for.
pub struct ProgramCode {
    /// The compiled functions.
    pub native: NativeCode,
    /// Distance between frames in bytes.
    pub frame_stride: u32,
    /// Layout of a worker's memory.
    pub memory: MemoryLayout,
    /// Why the program has no vector code; `None` if it has some.
    pub vector_refusal: Option<VectorRefusal>,
    /// Offset of the list of emitted headers in a frame.
    pub emitted_offset: u32,
    /// The stages in execution order, with the table that each looks up and the size of its keys.
    pub stages: Vec<StageInfo>,
    /// Number of elements of each extern object that is counted in place.
    pub counters: Vec<Option<u64>>,
    /// Layout of a worker's statistics.
    pub stats_layout: StatsLayout,
    /// Maximum number of counter updates by one packet.
    pub max_counts_per_packet: usize,
    /// Calls that the interpreter's code executes.
    pub call_sites: Vec<CallSite>,
    /// Stages in which the order of packets is observable.
    pub order: OrderConstraints,
    /// For each stage, what to prefetch of a pool of ports.
    pub pool_prefetches: Vec<Option<PoolPrefetch>>,
    /// Maximum length of a header in bytes.
    pub longest_header: usize,
    /// Whether the program needs the time of arrival.
    pub needs_time: bool,
    /// Whether entries have idle times.
    pub keeps_idle_times: bool,
    /// Whether the program has a variable for drop reasons.
    pub has_drop_reason: bool,
    /// Whether the program has a variable for CPU reasons.
    pub has_cpu_reason: bool,
    /// Layout of packet records, if the code records.
    pub record_layout: Option<RecordLayout>,
    /// Number of lookups that stages make in place while the table has few entries.
    pub in_place_lookups: usize,
    /// Minimum length in bytes of packets that take the hot path, if there is one.
    pub hot_path_bytes: Option<u32>,
}

impl ProgramCode {
    /// Compiles a pipeline.
    ///
    /// # Errors
    /// The reason why native code does not support the pipeline.
    pub fn compile(inputs: &CodeInputs) -> Result<ProgramCode, FallbackReason> {
        let pipeline = &*inputs.pipeline;
        check_supported(pipeline, inputs.records, |table| inputs.packet_written[table.index()])?;
        // Only code generation uses this version; everything else refers to the original pipeline.
        let compiled = coalesce_copies(pipeline)?;
        let plan = StagePlan::new(
            &compiled,
            !inputs.records,
            inputs.state_limit.is_some(),
            &small_tables(inputs),
            inputs.max_copied_insts,
        )?;
        let layout = FrameLayout::new(&compiled, &plan)?;
        let stages = stage_infos(pipeline, &plan, &inputs.table_layouts);
        let stats_layout = StatsLayout::new(pipeline, &plan.entries);
        let (memory, vector_refusal) = memory_layout(
            &compiled,
            (&plan, &layout),
            &stages,
            stats_layout.cell_count,
            vector_refusal_of_engine(inputs.records),
        );
        let codegen = codegen_context(inputs, (&compiled, &plan, &layout), memory, stats_layout)?;
        let native = compile(&codegen).map_err(|_| FallbackReason::Machine)?;
        if codegen.has_misplaced_addition.get() {
            return Err(FallbackReason::AddOnMiss);
        }
        let call_sites = codegen.call_sites.take();
        let written_lookups: Vec<(usize, TableId)> = stages
            .iter()
            .enumerate()
            .filter_map(|(stage, info)| Some((stage, info.table.filter(|id| inputs.packet_written[id.index()])?)))
            .collect();
        let hit_reports = codegen.hit_reports.take();
        let keeps_idle_times = pipeline.tables.values().any(|table| table.idle_timeout || table.add_on_miss);
        let [has_drop_reason, has_cpu_reason] = reason_vars(pipeline).map(|var| var.is_some());
        let CodegenContext { stats_layout, memory, .. } = codegen;
        Ok(ProgramCode {
            max_counts_per_packet: count_sites(pipeline),
            native,
            frame_stride: layout.stride,
            memory,
            vector_refusal,
            emitted_offset: layout.emitted,
            counters: counter_sizes(pipeline),
            stats_layout,
            in_place_lookups: (0..plan.flow.nodes.len()).filter(|node| plan.flow.looks_up_in_place(*node)).count(),
            stages,
            hot_path_bytes: plan.flow.hot_path.map(|(_, bytes)| bytes),
            order: OrderConstraints::new(
                pipeline,
                plan.stages.len(),
                &call_sites,
                &hit_reports,
                &written_lookups,
                &find_miss_paths(&compiled, &plan, &written_lookups),
            ),
            pool_prefetches: find_pool_prefetches(&compiled, &plan, &layout, &call_sites),
            longest_header: plan.headers.max_bytes.iter().copied().max().unwrap_or(0) as usize,
            needs_time: !call_sites.is_empty()
                || inputs.reports_hits.contains(&true)
                || reads_time(pipeline)
                || keeps_idle_times,
            call_sites,
            keeps_idle_times,
            has_drop_reason,
            has_cpu_reason,
            record_layout: inputs.records.then(|| RecordLayout::new(pipeline)),
        })
    }
}

/// Returns for each table whether stages may look it up in place.
fn small_tables(inputs: &CodeInputs) -> Vec<bool> {
    let is_small =
        |id: TableId| may_stay_small(&inputs.pipeline, id, &inputs.table_layouts) && !inputs.packet_written[id.index()];
    inputs.pipeline.tables.keys().map(is_small).collect()
}

/// Collects what code generation needs of a plan.
fn codegen_context<'a>(
    inputs: &'a CodeInputs,
    (pipeline, plan, layout): (&'a Pipeline, &'a StagePlan, &'a FrameLayout),
    memory: MemoryLayout,
    stats_layout: StatsLayout,
) -> Result<CodegenContext<'a>, FallbackReason> {
    Ok(CodegenContext {
        pipeline,
        plan,
        layout,
        memory,
        table_layouts: inputs.table_layouts.clone(),
        helpers: helper_addresses(),
        call_conv: call_conv().map_err(|_| FallbackReason::Machine)?,
        counters: CounterRange::assign_ranges(&counter_sizes(&inputs.pipeline)),
        stats_layout,
        reports_hits: inputs.reports_hits.clone(),
        needs_hit_entries: inputs.needs_hit_entries.clone(),
        packet_written: &inputs.packet_written,
        has_misplaced_addition: Cell::new(false),
        recording: inputs.records.then(|| RecordingState::new(RecordLayout::new(&inputs.pipeline))),
        state_limit: inputs.state_limit,
        keeps_packet_state: keeps_packet_state(&inputs.pipeline),
        deparser_calls: deparser_calls(&inputs.pipeline),
        truncates: calls_extern(&inputs.pipeline, |func| func == ExternFn::Truncate),
        cpu_port: inputs.cpu_port,
        call_sites: RefCell::default(),
        hit_reports: RefCell::default(),
        stage: Cell::new(0),
    })
}

/// Returns why a program has no vector code, whatever its stages are.
fn vector_refusal_of_engine(records: bool) -> Option<VectorRefusal> {
    (records || !crate::lanes::supported()).then_some(VectorRefusal::NotSupported)
}

/// Computes the layout of a worker's memory, with lists for the vector path unless there is a reason
/// against it, which is returned as well.
fn memory_layout(
    pipeline: &Pipeline,
    (plan, layout): (&StagePlan, &FrameLayout),
    stages: &[StageInfo],
    cells: usize,
    refusal: Option<VectorRefusal>,
) -> (MemoryLayout, Option<VectorRefusal>) {
    let memory = MemoryLayout::new(pipeline.tables.len(), pipeline.externs.len(), cells, stages);
    let counts = (cells, count_sites(pipeline));
    let lanes = match refusal {
        Some(refusal) => Err(refusal),
        None => VectorLayout::new(pipeline, plan, layout, stages, counts, memory.end()),
    };
    (memory.with_vector_layout(lanes.as_ref().ok().cloned()), lanes.err())
}

/// Returns the number of elements of each extern object that is counted in place.
fn counter_sizes(pipeline: &Pipeline) -> Vec<Option<u64>> {
    let size = |object: &ir::ExternInst| match object.kind {
        ExternKind::Counter { size, .. } if size <= MAX_DENSE_COUNTERS => Some(size),
        _ => None,
    };
    pipeline.externs.values().map(size).collect()
}

/// Returns whether a table may hold so few entries that a stage looks them up in place: its key is
/// exact and fits in one word, and its declared size is small.
fn may_stay_small(pipeline: &Pipeline, id: TableId, shapes: &[LookupLayout]) -> bool {
    let (table, shape) = (&pipeline.tables[id], &shapes[id.index()]);
    let short = shape.kind == LookupKind::Exact && shape.words == 1 && table.implementation.is_none();
    short && table.size.is_none_or(|size| size <= MAX_SMALL_TABLE_ENTRIES)
}

/// Collects for each stage the properties that the engine needs.
fn stage_infos(pipeline: &Pipeline, plan: &StagePlan, shapes: &[LookupLayout]) -> Vec<StageInfo> {
    plan.stages.iter().map(|stage| stage_info(pipeline, plan, shapes, stage)).collect()
}

/// Describes a stage for the workers: its slot in the statistics, the tables whose results it
/// consumes, and the words of a lookup key of each. `table_layouts` has one layout per table.
fn stage_info(pipeline: &Pipeline, plan: &StagePlan, table_layouts: &[LookupLayout], stage: &Stage) -> StageInfo {
    let (start, slot) = (stage.start, stage.slot);
    match start {
        StageEntry::Table(node, table) => StageInfo {
            start,
            slot,
            is_hot_path_copy: plan.entries[slot] != start,
            table: Some(table),
            key_words: table_layouts[table.index()].words,
            paired_table: plan
                .flow
                .paired_lookup(node)
                .map(|paired| (paired.table, table_layouts[paired.table.index()].words)),
            has_profile: pipeline.tables[table].implementation.is_some(),
        },
        _ => StageInfo {
            start,
            slot,
            is_hot_path_copy: false,
            table: None,
            key_words: 0,
            paired_table: None,
            has_profile: false,
        },
    }
}

/// Returns whether the program reads a timestamp of the architecture.
fn reads_time(pipeline: &Pipeline) -> bool {
    let tells = |name: &str| name.ends_with("timestamp");
    let times: Vec<VarId> = pipeline.intrinsics.iter().filter(|(name, _)| tells(name)).map(|(_, var)| *var).collect();
    insts(pipeline).any(|inst| matches!(inst, Inst::Load(var) if times.contains(var)))
}

fn insts(pipeline: &Pipeline) -> impl Iterator<Item = &Inst> {
    pipeline.insts().map(|data| &data.inst)
}

fn calls_extern(pipeline: &Pipeline, wanted: impl Fn(ExternFn) -> bool) -> bool {
    insts(pipeline).any(|inst| matches!(inst, Inst::Extern { func, .. } if wanted(*func)))
}

/// Returns whether a checksum unit of the host keeps state while a packet is in a body.
fn keeps_packet_state(pipeline: &Pipeline) -> bool {
    use ExternFn::*;
    calls_extern(pipeline, |func| matches!(func, ChecksumClear | ChecksumUpdate | ChecksumGet))
}

/// Returns how often a packet can count: the number of calls, because none is in a loop.
fn count_sites(pipeline: &Pipeline) -> usize {
    insts(pipeline).filter(|i| matches!(i, Inst::Extern { func: ExternFn::CounterCount, .. })).count()
}

fn deparser_calls(pipeline: &Pipeline) -> bool {
    let deparsers = pipeline.controls.values().filter(|c| c.kind == ControlKind::MainDeparser);
    deparsers.flat_map(|c| c.body.insts()).any(|data| matches!(data.inst, Inst::Extern { .. }))
}

/// Returns the limit on entered parser states, if a parser could exceed it.
pub fn parser_limit(pipeline: &Pipeline, max_states: u64) -> Option<u64> {
    let parsers = pipeline.controls.values();
    let mut parsers = parsers.filter(|c| c.kind.is_parser());
    let bounded = |c: &ir::Control| !has_loop(&c.body) && (c.body.states.len() as u64) < max_states;
    (!parsers.all(bounded)).then_some(max_states)
}
