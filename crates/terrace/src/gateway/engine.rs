//! The interpreter as a gateway's engine.

use super::serve::Writable;
use super::stats::{Count, CounterCell};
use interp::Interp;
use ir::ExternKind;
use packet::ReasonId;
use tables::WriteBatch;

/// The most cells of one counter that are looked at.
const MAX_CELLS: u64 = 1 << 21;

impl Writable for Interp {
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        Interp::write(self, batch).map_err(|refused| refused.error.to_string())
    }

    fn version(&self) -> u64 {
        self.state().version()
    }

    fn counters(&self) -> Vec<CounterCell> {
        let mut cells = Vec::new();
        for (id, object) in self.pipeline().externs.iter() {
            let ExternKind::Counter { size, .. } = object.kind else { continue };
            let name = &object.preamble.name;
            // A counter of drops or punts is indexed by the program's own reasons.
            let by_reason = name.rsplit('.').next().is_some_and(|last| matches!(last, "drops" | "punts"));
            for index in 0..size.min(MAX_CELLS) {
                let Some(value) = self.counter(id, index).filter(|value| value.packets != 0) else { continue };
                let reason = u32::try_from(index).ok().and_then(|index| self.reasons().get(ReasonId(index)));
                cells.push(CounterCell {
                    counter: name.clone(),
                    index,
                    label: reason.filter(|_| by_reason).map(str::to_owned),
                    count: Count { packets: value.packets, bytes: value.bytes },
                });
            }
        }
        cells
    }
}
