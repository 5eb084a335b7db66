//! A pipeline as native code runs it for one engine: shared code, and the calls that the interpreter's
//! implementation executes.

use crate::analysis::flow::has_lookup;
use crate::analysis::order::CallSite;
use crate::fallback_reason::FallbackReason;
use crate::packet_written::PacketWrittenTables;
use crate::plan::in_place_forward::InPlaceForward;
use crate::plan::join_stages::max_copied_insts;
use crate::program_code::{CodeInputs, ProgramCode, parser_limit};
use crate::runtime::{ActionTemplate, CallTarget, EntryTemplate, HitEffects, Runtime};
use interp::Config;
use interp::host::{ExternHost, SelectorHash};
use ir::added_table;
use ir::passes::{PacketPass, reads_pass_number, recirculates, specialise_packet_pass};
use ir::{Entity, Inst, Pipeline, TableId};
use lookup::LookupSet;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// A compiled pipeline. Shared by all workers.
pub struct CompiledProgram {
    /// The pipeline.
    pub pipeline: Arc<Pipeline>,
    /// Settings.
    pub config: Config,
    /// The code, with the layouts that it was compiled for.
    pub code: Arc<ProgramCode>,
    /// Recognises packets that leave unchanged in their buffer.
    pub plain: InPlaceForward,
    /// Hash of the selector of each table.
    pub selectors: Vec<SelectorHash>,
    /// Data for calls.
    pub runtime: Runtime,
    /// Whether it is the program of later passes of packets ([`ir::passes::PacketPass::Later`]).
    pub is_later_pass: bool,
}

impl CompiledProgram {
    /// Compiles a pipeline, or takes the code of another engine of the process that compiled the same.
    /// `lookups` supplies the lookup layouts of its tables, `written` has those that packets write. If
    /// `records` is set, the code records packets. The host may be that of another program of the same
    /// pipeline.
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
        check_step_limit(&config)?;
        let plain = InPlaceForward::new(&config, pipeline.arch);
        let host = shared_host.lock();
        let packet_written: Vec<bool> = pipeline.tables.keys().map(|id| written.get(id).is_some()).collect();
        let inputs = CodeInputs {
            table_layouts: pipeline.tables.keys().map(|id| lookups.layout(id).clone()).collect(),
            reports_hits: hit_effects(&pipeline, &host, written).iter().map(|e| e.restarts_timer || e.counts).collect(),
            needs_hit_entries: pipeline
                .tables
                .keys()
                .map(|id| host.tracks_entries(id) || packet_written[id.index()])
                .collect(),
            packet_written,
            records,
            max_copied_insts: max_copied_insts(),
            state_limit: parser_limit(&pipeline, config.max_parser_states),
            cpu_port: plain.cpu_port(),
            pipeline: pipeline.clone(),
        };
        let code = crate::code_cache::get_or_compile(inputs)?;
        let runtime = build_runtime(&pipeline, host, shared_host, &code.call_sites, written)?;
        let selectors = pipeline.tables.keys().map(|table| SelectorHash::new(&pipeline, table)).collect();
        Ok(CompiledProgram { pipeline, config, code, plain, selectors, runtime, is_later_pass: false })
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
        self.code.stats_layout == other.code.stats_layout && self.code.counters == other.code.counters
    }

    /// Returns the first statistics cell of a table's action, at one of the points where the table
    /// is applied; `None` if it is never applied.
    pub fn stats_cell(&self, table: TableId, position: usize) -> Option<usize> {
        let listed = &self.pipeline.tables.get(table)?.actions;
        let stage = self.code.stages.iter().find(|stage| stage.table == Some(table)).map(|stage| stage.slot);
        let applied = stage.is_some() || !has_lookup(&self.pipeline, table);
        (position < listed.len() && applied).then(|| self.code.stats_layout.cell(stage, table, position))
    }
}

/// Checks the step limit. Native code does not count steps, because it always needs fewer than the
/// minimum accepted here.
fn check_step_limit(config: &Config) -> Result<(), FallbackReason> {
    if config.max_steps < 1 << 16 { Err(FallbackReason::InstructionLimit) } else { Ok(()) }
}

/// Returns the number of words of each key of each value set.
fn value_sets(pipeline: &Pipeline) -> Vec<Vec<usize>> {
    let words = |set: &ir::ValueSet| set.keys.iter().map(|key| entries::words_for(key.ty.width())).collect();
    pipeline.value_sets.values().map(words).collect()
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
