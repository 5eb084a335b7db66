//! A compiled pipeline: its plan, its code, and the calls that the interpreter's implementation
//! executes.

use crate::analysis::copy_coalescing::coalesce_copies;
use crate::analysis::facts::{has_loop, reason_vars};
use crate::analysis::flow::has_lookup;
use crate::analysis::order::{CallSite, OrderConstraints};
use crate::code::compiling::{CodegenContext, RecordingState};
use crate::code::machine::call_conv;
use crate::code::{NativeCode, compile};
use crate::counters::CounterRange;
use crate::fallback_reason::FallbackReason;
use crate::packet_written::PacketWrittenTables;
use crate::plan::frame_layout::FrameLayout;
use crate::plan::in_place_forward::InPlaceForward;
use crate::plan::memory_layout::MemoryLayout;
use crate::plan::pool_prefetch::{PoolPrefetch, find_pool_prefetches};
use crate::plan::record_layout::RecordLayout;
use crate::plan::stages::{Stage, StageEntry, StageInfo};
use crate::plan::stats_layout::StatsLayout;
use crate::plan::vector_layout::VectorLayout;
use crate::plan::{StagePlan, check_supported};
use crate::runtime::{ActionTemplate, CallTarget, EntryTemplate, HitEffects, Runtime, helper_addresses};
use crate::vector_refusal::VectorRefusal;
use interp::Config;
use interp::host::{ExternHost, SelectorHash};
use ir::added_table;
use ir::passes::{PacketPass, reads_pass_number, recirculates, specialise_packet_pass};
use ir::{ControlKind, Entity, ExternFn, ExternKind, Inst, Pipeline, TableId, VarId};
use lookup::{LookupKind, LookupLayout, LookupSet};
use parking_lot::{Mutex, MutexGuard};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Counters with more elements than this are kept sparsely by the interpreter's code.
const MAX_DENSE_COUNTERS: u64 = 1 << 24;

/// Tables declared for more entries than this are assumed to hold too many for in-place lookups.
const MAX_SMALL_TABLE_ENTRIES: u64 = 1 << 16;

/// A compiled pipeline. Shared by all workers.
pub struct CompiledProgram {
    /// The pipeline.
    pub pipeline: Arc<Pipeline>,
    /// Settings.
    pub config: Config,
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
    /// Stages in which the order of packets is observable.
    pub order: OrderConstraints,
    /// For each stage, what to prefetch of a pool of ports.
    pub pool_prefetches: Vec<Option<PoolPrefetch>>,
    /// Maximum length of a header in bytes.
    pub longest_header: usize,
    /// Recognises packets that leave unchanged in their buffer.
    pub plain: InPlaceForward,
    /// Whether the program needs the time of arrival.
    pub needs_time: bool,
    /// Whether entries have idle times.
    pub keeps_idle_times: bool,
    /// Whether the program has a variable for drop reasons.
    pub has_drop_reason: bool,
    /// Whether the program has a variable for CPU reasons.
    pub has_cpu_reason: bool,
    /// Hash of the selector of each table.
    pub selectors: Vec<SelectorHash>,
    /// Data for calls.
    pub runtime: Runtime,
    /// Layout of packet records, if the code records.
    pub record_layout: Option<RecordLayout>,
    /// Number of lookups that stages make in place while the table has few entries.
    pub in_place_lookups: usize,
    /// Minimum length in bytes of packets that take the hot path, if there is one.
    pub hot_path_bytes: Option<u32>,
    /// Whether it is the program of later passes of packets ([`ir::passes::PacketPass::Later`]).
    pub is_later_pass: bool,
}

impl CompiledProgram {
    /// Compiles a pipeline. `lookups` supplies the lookup layouts of its tables, `written` has
    /// those that packets write. If `records` is set, the code records packets. The host may be
    /// that of another program of the same pipeline.
    ///
    /// # Errors
    /// The reason why native code does not support the pipeline.
    pub fn new(
        pipeline: Arc<Pipeline>,
        config: Config,
        shared_host: &Arc<Mutex<ExternHost>>,
        lookups: &LookupSet,
        written: &Arc<PacketWrittenTables>,
        records: bool,
    ) -> Result<CompiledProgram, FallbackReason> {
        let host = shared_host.lock();
        check_supported(&pipeline, records, |table| written.get(table).is_some())?;
        // Only code generation uses this version; everything else refers to the original pipeline.
        let compiled = coalesce_copies(&pipeline)?;
        let state_limit = parser_limit(&pipeline, &config);
        let table_layouts: Vec<LookupLayout> = pipeline.tables.keys().map(|id| lookups.layout(id).clone()).collect();
        let packet_written: Vec<bool> = pipeline.tables.keys().map(|id| written.get(id).is_some()).collect();
        let may_be_small: Vec<bool> = pipeline
            .tables
            .keys()
            .map(|id| may_stay_small(&pipeline, id, &table_layouts) && !packet_written[id.index()])
            .collect();
        let plan = StagePlan::new(&compiled, !records, state_limit.is_some(), &may_be_small)?;
        let layout = FrameLayout::new(&compiled, &plan)?;
        check_step_limit(&config)?;
        let record_layout = records.then(|| RecordLayout::new(&pipeline));
        let stages = stage_infos(&pipeline, &plan, &table_layouts);
        let stats_layout = StatsLayout::new(&pipeline, &plan.entries);
        let counters = counter_sizes(&pipeline);
        let truncates = calls_extern(&pipeline, |func| func == ExternFn::Truncate);
        let plain = InPlaceForward::new(&config, pipeline.arch);
        let (memory, vector_refusal) = memory_layout(
            &compiled,
            (&plan, &layout),
            &stages,
            stats_layout.cell_count,
            vector_refusal_of_engine(records),
        );
        let codegen = CodegenContext {
            pipeline: &compiled,
            plan: &plan,
            layout: &layout,
            memory,
            table_layouts,
            helpers: helper_addresses(),
            call_conv: call_conv().map_err(|_| FallbackReason::Machine)?,
            counters: CounterRange::assign_ranges(&counters),
            stats_layout,
            reports_hits: hit_effects(&pipeline, &host, written).iter().map(|e| e.restarts_timer || e.counts).collect(),
            needs_hit_entries: pipeline
                .tables
                .keys()
                .map(|id| host.tracks_entries(id) || packet_written[id.index()])
                .collect(),
            packet_written: &packet_written,
            has_misplaced_addition: Cell::new(false),
            recording: record_layout.clone().map(RecordingState::new),
            state_limit,
            keeps_packet_state: keeps_packet_state(&pipeline),
            deparser_calls: deparser_calls(&pipeline),
            truncates,
            cpu_port: plain.cpu_port(),
            call_sites: RefCell::default(),
            hit_reports: RefCell::default(),
            stage: Cell::new(0),
        };
        let native = compile(&codegen).map_err(|_| FallbackReason::Machine)?;
        if codegen.has_misplaced_addition.get() {
            return Err(FallbackReason::AddOnMiss);
        }
        let call_sites = codegen.call_sites.take();
        let written_lookups: Vec<(usize, TableId)> = stages
            .iter()
            .enumerate()
            .filter_map(|(stage, info)| Some((stage, info.table.filter(|table| packet_written[table.index()])?)))
            .collect();
        let hit_reports = codegen.hit_reports.take();
        let order = OrderConstraints::new(&pipeline, plan.stages.len(), &call_sites, &hit_reports, &written_lookups);
        let pool_prefetches = find_pool_prefetches(&compiled, &plan, &layout, &call_sites);
        let keeps_idle_times = pipeline.tables.values().any(|table| table.idle_timeout || table.add_on_miss);
        let needs_time =
            !call_sites.is_empty() || codegen.reports_hits.contains(&true) || reads_time(&pipeline) || keeps_idle_times;
        let runtime = build_runtime(&pipeline, host, shared_host, &call_sites, written)?;
        let CodegenContext { stats_layout, memory, .. } = codegen;
        let [drop_reason, cpu_reason] = reason_vars(&pipeline).map(|var| var.is_some());
        let selectors = pipeline.tables.keys().map(|table| SelectorHash::new(&pipeline, table)).collect();
        Ok(CompiledProgram {
            max_counts_per_packet: count_sites(&pipeline),
            pipeline,
            config,
            native,
            frame_stride: layout.stride,
            memory,
            vector_refusal,
            emitted_offset: layout.emitted,
            counters,
            stats_layout,
            in_place_lookups: (0..plan.flow.nodes.len()).filter(|node| plan.flow.looks_up_in_place(*node)).count(),
            stages,
            hot_path_bytes: plan.flow.hot_path.map(|(_, bytes)| bytes),
            order,
            pool_prefetches,
            longest_header: plan.headers.max_bytes.iter().copied().max().unwrap_or(0) as usize,
            plain,
            needs_time,
            keeps_idle_times,
            has_drop_reason: drop_reason,
            has_cpu_reason: cpu_reason,
            selectors,
            runtime,
            record_layout,
            is_later_pass: false,
        })
    }

    /// Compiles a program that recirculates packets: one program for the first pass, one for all
    /// later ones. Other programs have only the first.
    ///
    /// # Errors
    /// The reason why native code does not support the pipeline.
    pub fn for_passes(
        pipeline: &Arc<Pipeline>,
        compile: impl Fn(Arc<Pipeline>) -> Result<CompiledProgram, FallbackReason>,
    ) -> Result<(CompiledProgram, Option<CompiledProgram>), FallbackReason> {
        if !recirculates(pipeline) {
            return Ok((compile(pipeline.clone())?, None));
        }
        let [first, later] = [PacketPass::First, PacketPass::Later].map(|pass| specialise_packet_pass(pipeline, pass));
        // Native code knows only whether a pass is the first, and runs later passes of a packet
        // after first passes of others.
        if reads_pass_number(&later) || crate::analysis::order::share_ordered_state(&first, &later) {
            return Err(FallbackReason::Recirculate);
        }
        let later = CompiledProgram { is_later_pass: true, ..compile(Arc::new(later))? };
        Ok((compile(Arc::new(first))?, Some(later)))
    }

    /// Returns whether both programs have the same counters and statistics layout.
    pub fn has_same_counters(&self, other: &CompiledProgram) -> bool {
        self.stats_layout == other.stats_layout && self.counters == other.counters
    }

    /// Returns the first statistics cell of a table's action, at one of the points where the table
    /// is applied; `None` if it is never applied.
    pub fn stats_cell(&self, table: TableId, position: usize) -> Option<usize> {
        let listed = &self.pipeline.tables.get(table)?.actions;
        let stage = self.stages.iter().find(|stage| stage.table == Some(table)).map(|stage| stage.slot);
        let applied = stage.is_some() || !has_lookup(&self.pipeline, table);
        (position < listed.len() && applied).then(|| self.stats_layout.cell(stage, table, position))
    }
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

/// Returns the number of words of each key of each value set.
fn value_sets(pipeline: &Pipeline) -> Vec<Vec<usize>> {
    let words = |set: &ir::ValueSet| set.keys.iter().map(|key| entries::words_for(key.ty.width())).collect();
    pipeline.value_sets.values().map(words).collect()
}

/// Checks the step limit. Native code does not count steps, because it always needs fewer than the
/// minimum accepted here.
fn check_step_limit(config: &Config) -> Result<(), FallbackReason> {
    if config.max_steps < 1 << 16 { Err(FallbackReason::InstructionLimit) } else { Ok(()) }
}

/// Collects the data for calls and registers them with the host.
fn build_runtime(
    pipeline: &Pipeline,
    mut host: MutexGuard<'_, ExternHost>,
    shared: &Arc<Mutex<ExternHost>>,
    calls: &[CallSite],
    written: &Arc<PacketWrittenTables>,
) -> Result<Runtime, FallbackReason> {
    let sites = register_call_sites(pipeline, &mut host, calls)?;
    let (hit_times, hit_effects) = (host.hit_times().clone(), hit_effects(pipeline, &host, written));
    let additions = calls.iter().map(|call| entry_template(pipeline, written, call)).collect();
    Ok(Runtime {
        host: shared.clone(),
        hit_times,
        hit_effects,
        sites,
        written: written.clone(),
        additions,
        value_sets: value_sets(pipeline),
    })
}

/// Returns how a call of `add_entry` makes entries. `None` for other calls, and for an action that
/// the table does not list or that has other parameters: it then adds nothing.
fn entry_template(pipeline: &Pipeline, written: &PacketWrittenTables, call: &CallSite) -> Option<EntryTemplate> {
    let (table, Inst::Extern { args, .. }) = (added_table(&call.inst)?, &call.inst) else { return None };
    let (codec, body) = (&written.get(table)?.codec, &pipeline.controls[ir::ControlId(call.control as u32)].body);
    // The first word of each argument in the call area, with the words of its values.
    let (mut word, mut words) = (0, Vec::new());
    for arg in args {
        let values = match arg {
            ir::ExternArg::Value(value) => std::slice::from_ref(value),
            ir::ExternArg::Values(values) => values.as_slice(),
            _ => &[],
        };
        let lens: Vec<usize> = values.iter().map(|v| entries::words_for(body.value_type(*v).width())).collect();
        let first = word;
        word += lens.iter().sum::<usize>();
        words.push((first, lens));
    }
    let action = |index: usize| {
        let Some(ir::ExternArg::Action(action)) = args.get(index) else { return None };
        let arm = codec.action_position(*action)?;
        let (mut word, lens) = words.get(index + 1)?.clone();
        let fields = &codec.layout().value.arms[arm];
        let param = |(len, field): (&usize, &lookup::ValueParamField)| {
            let first = word;
            word += len;
            [first, field.offset, field.width.div_ceil(8) as usize]
        };
        let params = lens.iter().zip(fields).map(param).collect();
        (fields.len() == lens.len()).then_some(ActionTemplate { arm: arm as u8, params })
    };
    let twin = match words.get(ir::ExternFn::TWIN_KEY) {
        Some((first, lens)) if lens.iter().sum::<usize>() == codec.entry_key_words() => {
            Some((*first, action(ir::ExternFn::TWIN_KEY + 1)?))
        }
        Some(_) => return None,
        None => None,
    };
    let profile_word = words.get(3).filter(|(_, lens)| !lens.is_empty())?.0;
    Some(EntryTemplate {
        table,
        action: action(1)?,
        twin,
        profile_word,
        key_bytes: codec.layout().words * size_of::<u64>(),
    })
}

/// Returns for each table the effects of a hit.
fn hit_effects(pipeline: &Pipeline, host: &ExternHost, written: &PacketWrittenTables) -> Vec<HitEffects> {
    let effects = |table| HitEffects {
        restarts_timer: host.restarts_on_hit(table) && written.get(table).is_none(),
        counts: host.counts_on_hit(table),
    };
    pipeline.tables.keys().map(effects).collect()
}

/// Registers the call sites with the host.
fn register_call_sites(
    pipeline: &Pipeline,
    host: &mut ExternHost,
    calls: &[CallSite],
) -> Result<Vec<CallTarget>, FallbackReason> {
    let site = |site: &CallSite| {
        let body = &pipeline.controls[ir::ControlId(site.control as u32)].body;
        let made = host.site(&site.inst, &|value| body.value_type(value), &site.results);
        let made = made.map_err(|_| FallbackReason::TooLarge)?;
        let object = match &site.inst {
            Inst::Extern { object, .. } => *object,
            _ => None,
        };
        let (func, table) = (made.func, made.table);
        let (arg_words, result_words) = (made.arg_words, made.result_words);
        Ok(CallTarget { id: made.id, func, table, object, arg_words, result_words })
    };
    calls.iter().map(site).collect()
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
fn parser_limit(pipeline: &Pipeline, config: &Config) -> Option<u64> {
    let parsers = pipeline.controls.values();
    let mut parsers = parsers.filter(|c| c.kind.is_parser());
    let bounded = |c: &ir::Control| !has_loop(&c.body) && (c.body.states.len() as u64) < config.max_parser_states;
    (!parsers.all(bounded)).then_some(config.max_parser_states)
}
