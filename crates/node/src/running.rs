//! [`Running`]: the engine of a worker, which may be without a program.

use ir::Pipeline;
use packet::{Batch, DropReason, Engine, EngineReason, Output, ReasonTable};
use std::sync::Arc;

/// What a worker runs.
pub enum Running {
    /// Nothing yet: each packet is dropped as [`EngineReason::NoProgram`].
    Nothing(ReasonTable),
    /// A program, as its controller knows it, and the worker's engine for it.
    Program(Arc<Pipeline>, Box<dyn Engine>),
}

impl Running {
    /// The program that runs.
    pub(crate) fn pipeline(&self) -> Option<&Arc<Pipeline>> {
        match self {
            Running::Nothing(_) => None,
            Running::Program(pipeline, _) => Some(pipeline),
        }
    }
}

impl Default for Running {
    fn default() -> Running {
        Running::Nothing(ReasonTable::default())
    }
}

impl Engine for Running {
    fn name(&self) -> &str {
        match self {
            Running::Nothing(_) => "none",
            Running::Program(_, engine) => engine.name(),
        }
    }

    fn reasons(&self) -> &ReasonTable {
        match self {
            Running::Nothing(reasons) => reasons,
            Running::Program(_, engine) => engine.reasons(),
        }
    }

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        match self {
            Running::Nothing(_) => {
                for (packet, _) in batch.indexed() {
                    out.drop(packet, DropReason::Engine(EngineReason::NoProgram));
                }
            }
            Running::Program(_, engine) => engine.process(batch, out),
        }
    }

    fn tick(&mut self, now: u64, out: &mut Output) {
        if let Running::Program(_, engine) = self {
            engine.tick(now, out);
        }
    }

    fn rest(&mut self) {
        if let Running::Program(_, engine) = self {
            engine.rest();
        }
    }

    fn told(&mut self) -> Vec<(u16, String)> {
        match self {
            Running::Nothing(_) => Vec::new(),
            Running::Program(_, engine) => engine.told(),
        }
    }
}
