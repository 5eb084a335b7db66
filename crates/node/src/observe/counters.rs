//! The program's indexed counters, with what their indices stand for.

use crate::Node;
use crate::device::Current;
use crate::engine::Controlled;
use crate::status::CounterCell;
use ir::ExternKind;
use packet::{ReasonId, ReasonTable};

/// The most elements of one counter that are looked at.
const MAX_ELEMENTS: u64 = 1 << 21;

impl Node {
    /// The elements of indexed counters that have counted something since the program began.
    pub fn counters(&self) -> Vec<CounterCell> {
        let vpcs = self.region.vpcs();
        let inner = self.inner();
        let Some(Current { engine, .. }) = &inner.current else { return Vec::new() };
        let worker = engine.worker();
        counter_cells(&**engine, worker.reasons(), &|vpc| vpcs.get(&vpc).cloned())
    }
}

/// The elements of a program's indexed counters that have counted something. Counters named `drops`
/// and `punts` have the program's reasons as index; those whose names begin with `vpc_` have the
/// number of a VPC, which `vpc` names.
pub fn counter_cells(
    engine: &dyn Controlled,
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
