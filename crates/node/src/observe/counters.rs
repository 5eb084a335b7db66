//! The program's indexed counters, with the meaning of their indices.

use crate::Node;
use crate::device::RunningPipeline;
use crate::engine::EngineControl;
use crate::status::CounterCell;
use ir::ExternKind;
use packet::{ReasonId, ReasonTable};

/// Maximum number of elements that are read of one counter.
const MAX_ELEMENTS: u64 = 1 << 21;

impl Node {
    /// Returns the non-zero elements of indexed counters since the program started.
    pub fn counters(&self) -> Vec<CounterCell> {
        let vpcs = self.region.vpc_names();
        let inner = self.lock_state();
        let Some(RunningPipeline { engine, .. }) = &inner.current else { return Vec::new() };
        let worker = engine.new_worker();
        counter_cells(&**engine, worker.reasons(), &|vpc| vpcs.get(&vpc).cloned())
    }
}

/// Returns the non-zero elements of a program's indexed counters. The index of counters named
/// `drops` and `punts` is a reason of the program; the index of counters whose names begin with
/// `vpc_` is the number of a VPC, which `vpc` translates to its name.
pub fn counter_cells(
    engine: &dyn EngineControl,
    reasons: &ReasonTable,
    vpc: &dyn Fn(u64) -> Option<String>,
) -> Vec<CounterCell> {
    let mut cells = Vec::new();
    for (id, object) in engine.pipeline().externs.iter() {
        let ExternKind::Counter { size, .. } = object.kind else { continue };
        let counter = &object.preamble.name;
        let last = counter.rsplit('.').next().unwrap_or_default();
        let label = |index: u64| match last {
            "drops" | "punts" => reasons.get(ReasonId(u32::try_from(index).ok()?)).map(str::to_owned),
            _ if last.starts_with("vpc_") => vpc(index),
            _ => None,
        };
        for (index, value) in engine.counted(id, size.min(MAX_ELEMENTS)) {
            cells.push(CounterCell { counter: counter.clone(), index, label: label(index), count: value });
        }
    }
    cells
}
