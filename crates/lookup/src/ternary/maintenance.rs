//! Incremental reorganisation of the classifier: a bounded piece of work with each change.

use super::classifier::{Classifier, ROOT_NODE, Subtable};
use super::mask_planner::{MaskPlanner, SAMPLE_RULES};

/// Budget of a change, in about nanoseconds.
const BUDGET_NS: i64 = 6_000;
/// Cost of moving a rule, in about nanoseconds.
const MOVE_COST_NS: i64 = 150;

impl Classifier {
    /// Does a bounded piece of the pending work. Returns false if none was pending.
    pub fn maintain(&mut self) -> bool {
        let mut budget = BUDGET_NS;
        let mut worked = false;
        while let Some(&(node, generation)) = self.plan_queue.front() {
            if budget <= 0 {
                return true;
            }
            worked = true;
            if self.nodes[node as usize].generation != generation {
                self.planner = None;
                self.plan_queue.pop_front();
            } else if let Some(whole) = self.nodes[node as usize].moves_all_rules {
                self.move_rules(node, whole, &mut budget);
            } else {
                self.plan_node(node, &mut budget);
            }
        }
        worked
    }

    fn plan_node(&mut self, node: u32, budget: &mut i64) {
        if self.planner.is_none() {
            let planner = self.start_plan(node);
            self.planner = Some(Box::new(planner));
            *budget -= 3_000;
        }
        if self.planner.as_mut().is_some_and(|planner| planner.run_steps(budget))
            && let Some(planner) = self.planner.take()
        {
            self.install_plan(node, *planner);
        }
    }

    /// Starts a plan for all rules of the node, or for its unhashed rules if only these have
    /// outgrown the plan.
    fn start_plan(&mut self, node: u32) -> MaskPlanner {
        let this_node = &self.nodes[node as usize];
        let plans_all_rules = this_node.planned_subtables == 0 || this_node.has_outgrown_plan();
        let count = if plans_all_rules { this_node.count } else { this_node.unhashed_count } as usize;
        let mut ids = Vec::new();
        // The root has many rules, so records are drawn at random instead of walking its chains.
        if plans_all_rules && node == ROOT_NODE && count > SAMPLE_RULES {
            let end = u64::from(self.records.id_bound());
            // Numbers of removed records are skipped, so the sample is smaller if few records
            // remain.
            for _ in 0..4 * SAMPLE_RULES {
                let id = ((u128::from(self.next_random()) * u128::from(end)) >> 64) as u32;
                if ids.len() < SAMPLE_RULES && self.records.rule(id)[0] != 0 {
                    ids.push(id);
                }
            }
        } else {
            self.sample_rules(node, plans_all_rules, count.min(4 * SAMPLE_RULES), &mut ids);
            let step = ids.len().div_ceil(SAMPLE_RULES).max(1);
            ids = ids.into_iter().step_by(step).collect();
        }
        let mut rules = Vec::with_capacity(ids.len() * 2 * self.layout.key_words);
        for id in ids {
            let rule = self.records.rule(id);
            rules.extend_from_slice(self.layout.value_words(rule));
            rules.extend_from_slice(self.layout.mask_words(rule));
        }
        MaskPlanner::new(self.layout.key_words, &self.field_masks, rules, count, plans_all_rules)
    }

    /// Installs a plan and starts moving rules to its subtables. Changes nothing if there were no
    /// subtables and the plan has none.
    fn install_plan(&mut self, node: u32, planner: MaskPlanner) {
        let here = &mut self.nodes[node as usize];
        if planner.planned_masks.is_empty() && (here.subtables.is_empty() || !planner.plans_all_rules) {
            return self.complete_plan(node, planner.plans_all_rules);
        }
        let start = if planner.plans_all_rules { 0 } else { here.planned_subtables };
        let made = planner.planned_masks.iter().map(|(mask, heads)| Subtable::new(mask, *heads));
        here.subtables.splice(start..start, made);
        here.planned_subtables = start + planner.planned_masks.len();
        (here.old_unhashed, here.unhashed) = (here.unhashed, 0);
        (here.unhashed_count, here.moves_all_rules) = (0, Some(planner.plans_all_rules));
    }

    fn move_rules(&mut self, node: u32, whole: bool, budget: &mut i64) {
        while *budget > 0 {
            *budget -= MOVE_COST_NS;
            match self.pop_rule(node, false) {
                Some(id) => self.insert_below(node, id),
                None => return self.complete_plan(node, whole),
            }
        }
    }
}
