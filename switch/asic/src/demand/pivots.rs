//! Expansion of ALPM tables to their two tables on a chip.

use super::{Dependency, DependencyKind, MemoryMatchKind, ResourceDemand};
use crate::memory;

impl ResourceDemand {
    /// Replaces each [`MemoryMatchKind::Alpm`] table by its pivots and, after them, its partitions.
    /// Both keep the table's predecessors. The table's successors depend on the partitions.
    #[must_use]
    pub fn with_pivots(mut self) -> ResourceDemand {
        while let Some(at) = self.tables.iter().position(|t| matches!(t.kind, MemoryMatchKind::Alpm { .. })) {
            let Some((pivots, partitions)) = memory::alpm_tables(&self.tables[at]) else { return self };
            self.insert_table_slot(at);
            self.tables[at] = partitions;
            self.tables.insert(at, pivots);
        }
        self
    }

    /// Shifts all indices from `slot` by one. The new table at `slot` gets the dependencies of the
    /// shifted one.
    fn insert_table_slot(&mut self, slot: usize) {
        let shifted = |n: usize| if n >= slot { n + 1 } else { n };
        let mut added = Vec::new();
        for d in &mut self.dependencies {
            (d.first, d.second) = (shifted(d.first), shifted(d.second));
            if d.second == slot + 1 {
                added.push(Dependency { second: slot, ..d.clone() });
            }
        }
        let through = format!("partition of {}", self.tables[slot].name);
        added.push(Dependency { first: slot, second: slot + 1, kind: DependencyKind::Match, through });
        self.dependencies.extend(added);
        let mut pairs = Vec::new();
        for (a, b) in &mut self.exclusive {
            (*a, *b) = (shifted(*a), shifted(*b));
            match (*a == slot + 1, *b == slot + 1) {
                (true, _) => pairs.push((slot, *b)),
                (_, true) => pairs.push((*a, slot)),
                _ => {}
            }
        }
        self.exclusive.extend(pairs);
        // The condition before the table is decided before the pivots.
        for gateway in &mut self.gateways {
            gateway.table = gateway.table.map(|n| if n > slot { n + 1 } else { n });
        }
        let shift_list = |list: &mut Vec<usize>, keeps_both: bool| {
            let has_slot = list.contains(&slot);
            list.iter_mut().for_each(|n| *n = shifted(*n));
            if has_slot && keeps_both {
                list.push(slot);
                list.sort_unstable();
            }
        };
        for field in &mut self.fields {
            shift_list(&mut field.read, true);
            shift_list(&mut field.written, false);
        }
        shift_list(&mut self.egress, true);
        shift_list(&mut self.ports, false);
        shift_list(&mut self.early, false);
    }
}
