//! The compiled versions of one pipeline: with and without recording, and of later passes.

use crate::fallback_reason::FallbackReason;
use crate::packet_written::PacketWrittenTables;
use crate::program::CompiledProgram;
use crate::stats::WorkerStats;
use crate::worker::JitWorker;
use interp::Config;
use interp::host::ExternHost;
use ir::Pipeline;
use ir::passes::recirculates;
use lookup::LookupSet;
use parking_lot::Mutex;
use std::sync::Arc;

/// The programs of one pipeline.
pub struct NativePrograms {
    /// The program that packets enter.
    pub program: Arc<CompiledProgram>,
    /// Version of it that does not record, if it records.
    pub unrecorded: Option<Arc<CompiledProgram>>,
    /// Program of later passes, if packets recirculate. It does not record.
    pub later: Option<Arc<CompiledProgram>>,
}

impl NativePrograms {
    /// Compiles a pipeline. All programs share the host and the lookups.
    ///
    /// # Errors
    /// The reason why native code does not support the pipeline.
    pub fn compile(
        pipeline: &Arc<Pipeline>,
        config: &Config,
        host: &Arc<Mutex<ExternHost>>,
        lookups: &LookupSet,
        written: &Arc<PacketWrittenTables>,
        records: bool,
    ) -> Result<NativePrograms, FallbackReason> {
        let compile = |records: bool| {
            let program = |pipeline| CompiledProgram::new(pipeline, config.clone(), host, lookups, written, records);
            CompiledProgram::for_passes(pipeline, program)
        };
        let (program, later) = compile(records)?;
        let (unrecorded, later) = match records {
            false => (None, later),
            true => compile(false).map_or((None, None), |(program, later)| (Some(program), later)),
        };
        if later.is_none() && recirculates(pipeline) {
            return Err(FallbackReason::Recirculate);
        }
        let unrecorded = unrecorded.filter(|unrecorded| unrecorded.has_same_counters(&program));
        Ok(NativePrograms {
            program: Arc::new(program),
            unrecorded: unrecorded.map(Arc::new),
            later: later.map(Arc::new),
        })
    }
}

/// Gives the workers of a thread their workers for later passes.
pub fn set_later_passes(
    later: Option<&Arc<CompiledProgram>>,
    worker: &mut JitWorker,
    unrecorded: &mut Option<Box<JitWorker>>,
    stats: &Mutex<Vec<Arc<WorkerStats>>>,
) {
    let Some(later) = later else { return };
    for worker in [Some(worker), unrecorded.as_deref_mut()].into_iter().flatten() {
        worker.set_later_passes(later.clone());
        stats.lock().extend(worker.later_stats().cloned());
    }
}
