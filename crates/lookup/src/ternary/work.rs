//! Keeping the tree in shape, a bounded piece of work with each change.

use super::plan::{Planner, SAMPLE};
use super::tree::{ROOT, Table, Tree};

/// What a change may spend, in about nanoseconds.
const BUDGET: i64 = 6_000;
/// What moving a rule costs.
const MOVE: i64 = 150;

impl Tree {
    /// Does a bounded piece of what is to be done. `false`: nothing was.
    pub fn work(&mut self) -> bool {
        let mut budget = BUDGET;
        let mut worked = false;
        while let Some(&(node, generation)) = self.queue.front() {
            if budget <= 0 {
                return true;
            }
            worked = true;
            if self.nodes[node as usize].generation != generation {
                self.planner = None;
                self.queue.pop_front();
            } else if let Some(whole) = self.nodes[node as usize].moving {
                self.move_rules(node, whole, &mut budget);
            } else {
                self.plan(node, &mut budget);
            }
        }
        worked
    }

    fn plan(&mut self, node: u32, budget: &mut i64) {
        if self.planner.is_none() {
            let planner = self.start_plan(node);
            self.planner = Some(Box::new(planner));
            *budget -= 3_000;
        }
        if self.planner.as_mut().is_some_and(|planner| planner.step(budget))
            && let Some(planner) = self.planner.take()
        {
            self.install(node, *planner);
        }
    }

    /// A plan for all rules of the node or, if only the rest has outgrown its plan, for that.
    fn start_plan(&mut self, node: u32) -> Planner {
        let here = &self.nodes[node as usize];
        let whole = here.live == 0 || here.outgrown();
        let count = if whole { here.count } else { here.rest_count } as usize;
        let mut ids = Vec::new();
        if whole && node == ROOT && count > SAMPLE {
            let end = u64::from(self.records.end());
            // Numbers of removed records are skipped; with very few rules left the sample is smaller.
            for _ in 0..4 * SAMPLE {
                let id = ((u128::from(self.next_random()) * u128::from(end)) >> 64) as u32;
                if ids.len() < SAMPLE && self.records.rule(id)[0] != 0 {
                    ids.push(id);
                }
            }
        } else {
            self.sample(node, whole, count.min(4 * SAMPLE), &mut ids);
            let step = ids.len().div_ceil(SAMPLE).max(1);
            ids = ids.into_iter().step_by(step).collect();
        }
        let mut rules = Vec::with_capacity(ids.len() * 2 * self.shape.words);
        for id in ids {
            let rule = self.records.rule(id);
            rules.extend_from_slice(self.shape.value(rule));
            rules.extend_from_slice(self.shape.mask(rule));
        }
        Planner::new(self.shape.words, &self.fields, rules, count, whole)
    }

    /// Starts moving to the new tables. If there were none and will be none, all stays.
    fn install(&mut self, node: u32, planner: Planner) {
        let here = &mut self.nodes[node as usize];
        if planner.tables.is_empty() && (here.tables.is_empty() || !planner.whole) {
            return self.planned(node, planner.whole);
        }
        let start = if planner.whole { 0 } else { here.live };
        let made = planner.tables.iter().map(|(mask, heads)| Table::new(mask, *heads));
        here.tables.splice(start..start, made);
        here.live = start + planner.tables.len();
        (here.old_rest, here.rest) = (here.rest, 0);
        (here.rest_count, here.moving) = (0, Some(planner.whole));
    }

    fn move_rules(&mut self, node: u32, whole: bool, budget: &mut i64) {
        while *budget > 0 {
            *budget -= MOVE;
            match self.pop(node, false) {
                Some(id) => self.insert(node, id),
                None => return self.planned(node, whole),
            }
        }
    }
}
