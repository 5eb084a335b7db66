//! Indexed counters summed over all workers, because each worker counts separately.

use crate::engine::EngineShared;
use entries::Counter;
use ir::{Entity, ExternId};
use std::collections::BTreeMap;

impl EngineShared {
    fn sum_over_workers(&self, object: usize, index: u64) -> Option<[u64; 2]> {
        let mut sum = [0u64; 2];
        for worker in self.counters.lock().iter() {
            let own = worker.get(object, index)?;
            sum = [sum[0].wrapping_add(own[0]), sum[1].wrapping_add(own[1])];
        }
        Some(sum)
    }

    pub(crate) fn set_counter(&self, counter: ExternId, index: u64, data: Counter) {
        if let Some(sum) = self.sum_over_workers(counter.index(), index) {
            let offset = [data.packets.wrapping_sub(sum[0]), data.bytes.wrapping_sub(sum[1])];
            self.offsets.lock().insert((counter.index(), index), offset);
        }
    }

    /// Returns the nonzero elements of a counter that workers count in place. A single pass,
    /// because a counter may have a million elements.
    pub(crate) fn nonzero_counters(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)> {
        let object = counter.index();
        let mut sums: BTreeMap<u64, [u64; 2]> = self
            .offsets
            .lock()
            .iter()
            .filter(|((counted_object, index), _)| *counted_object == object && *index < end)
            .map(|((_, index), offset)| (*index, *offset))
            .collect();
        let mut nonzero = Vec::new();
        let workers = self.counters.lock();
        for index in 0..end.min(self.program.code.counters[object].unwrap_or(0)) {
            let mut sum = if sums.is_empty() { [0, 0] } else { sums.remove(&index).unwrap_or_default() };
            for count in workers.iter().filter_map(|worker| worker.get(object, index)) {
                sum = [sum[0].wrapping_add(count[0]), sum[1].wrapping_add(count[1])];
            }
            if sum[0] != 0 {
                nonzero.push((index, Counter { packets: sum[0], bytes: sum[1] }));
            }
        }
        nonzero
    }

    pub(crate) fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        if self.program.code.counters.get(counter.index())?.is_none() {
            return self.program.runtime.host.lock().counter(counter, index);
        }
        let sum = self.sum_over_workers(counter.index(), index)?;
        let offset = self.offsets.lock().get(&(counter.index(), index)).copied().unwrap_or_default();
        Some(Counter { packets: sum[0].wrapping_add(offset[0]), bytes: sum[1].wrapping_add(offset[1]) })
    }
}
