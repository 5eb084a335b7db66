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

    /// Shifts all indices from `at` by one. The new table at `at` gets the dependencies of the
    /// shifted one.
    fn insert_table_slot(&mut self, at: usize) {
        let next = |n: usize| if n >= at { n + 1 } else { n };
        let mut more = Vec::new();
        for d in &mut self.dependencies {
            (d.first, d.second) = (next(d.first), next(d.second));
            if d.second == at + 1 {
                more.push(Dependency { second: at, ..d.clone() });
            }
        }
        let through = format!("partition of {}", self.tables[at].name);
        more.push(Dependency { first: at, second: at + 1, kind: DependencyKind::Match, through });
        self.dependencies.extend(more);
        let mut pairs = Vec::new();
        for (a, b) in &mut self.exclusive {
            (*a, *b) = (next(*a), next(*b));
            match (*a == at + 1, *b == at + 1) {
                (true, _) => pairs.push((at, *b)),
                (_, true) => pairs.push((*a, at)),
                _ => {}
            }
        }
        self.exclusive.extend(pairs);
        // The condition before the table is decided before the pivots.
        for gateway in &mut self.gateways {
            gateway.table = gateway.table.map(|n| if n > at { n + 1 } else { n });
        }
        let with = |list: &mut Vec<usize>, both: bool| {
            let has = list.contains(&at);
            list.iter_mut().for_each(|n| *n = next(*n));
            if has && both {
                list.push(at);
                list.sort_unstable();
            }
        };
        for field in &mut self.fields {
            with(&mut field.read, true);
            with(&mut field.written, false);
        }
        with(&mut self.egress, true);
        with(&mut self.ports, false);
        with(&mut self.early, false);
    }
}
