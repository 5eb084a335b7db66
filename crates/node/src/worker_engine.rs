//! [`WorkerEngine`]: the engine of a worker, with or without a program.

use ir::Pipeline;
use packet::{Batch, BatchOutput, DropReason, Engine, EngineReason, ReasonTable};
use std::sync::Arc;

/// Engine of a worker.
pub enum WorkerEngine {
    /// No program yet: every packet is dropped as [`EngineReason::NoProgram`].
    Nothing(ReasonTable),
    /// The program as its controller set it, and the worker's engine for it.
    Program(Arc<Pipeline>, Box<dyn Engine>),
}

impl WorkerEngine {
    /// Returns the running program.
    pub(crate) fn pipeline(&self) -> Option<&Arc<Pipeline>> {
        match self {
            WorkerEngine::Nothing(_) => None,
            WorkerEngine::Program(pipeline, _) => Some(pipeline),
        }
    }
}

impl Default for WorkerEngine {
    fn default() -> WorkerEngine {
        WorkerEngine::Nothing(ReasonTable::default())
    }
}

impl Engine for WorkerEngine {
    fn name(&self) -> &str {
        match self {
            WorkerEngine::Nothing(_) => "none",
            WorkerEngine::Program(_, engine) => engine.name(),
        }
    }

    fn reasons(&self) -> &ReasonTable {
        match self {
            WorkerEngine::Nothing(reasons) => reasons,
            WorkerEngine::Program(_, engine) => engine.reasons(),
        }
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        match self {
            WorkerEngine::Nothing(_) => {
                for (packet, _) in batch.indexed() {
                    out.drop(packet, DropReason::Engine(EngineReason::NoProgram));
                }
            }
            WorkerEngine::Program(_, engine) => engine.process(batch, out),
        }
    }

    fn takes_offloads(&self) -> bool {
        matches!(self, WorkerEngine::Program(_, engine) if engine.takes_offloads())
    }

    fn tick(&mut self, now: u64, out: &mut BatchOutput) {
        if let WorkerEngine::Program(_, engine) = self {
            engine.tick(now, out);
        }
    }

    fn on_idle(&mut self) {
        if let WorkerEngine::Program(_, engine) = self {
            engine.on_idle();
        }
    }

    fn take_trace_notes(&mut self) -> Vec<(u16, String)> {
        match self {
            WorkerEngine::Nothing(_) => Vec::new(),
            WorkerEngine::Program(_, engine) => engine.take_trace_notes(),
        }
    }
}
