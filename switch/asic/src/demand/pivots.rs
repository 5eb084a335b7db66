//! Tables with ALPM as the two tables that they are on a chip.

use super::{Dependency, DependencyKind, Match, Program};
use crate::memory;

impl Program {
    /// The program with each [`Match::Alpm`] table replaced by its pivots and, behind them, its partitions. Both wait for what the table
    /// waits for; who waits for the table waits for the partitions.
    #[must_use]
    pub fn with_pivots(mut self) -> Program {
        while let Some(at) = self.tables.iter().position(|t| matches!(t.kind, Match::Alpm { .. })) {
            let Some((pivots, partitions)) = memory::alpm(&self.tables[at]) else { return self };
            self.make_room(at);
            self.tables[at] = partitions;
            self.tables.insert(at, pivots);
        }
        self
    }

    /// Moves everything from table `at` on by one, and gives the table that comes in there what the one behind it has.
    fn make_room(&mut self, at: usize) {
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
