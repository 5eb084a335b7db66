//! The slow path of [`crate::Kind::Exact`], where what is kept of a packet depends on its decisions alone: a walk that notes little ([`crate::trail`]), and a recipe.

use crate::cache::Caches;
use crate::recipe::wholes;
use crate::record::Record;
use crate::segment::{Traversal, Uncacheable};
use crate::trail::{Noting, Trail};
use interp::walk::{Outcome, Pc, State, Walker};
use std::time::Instant;

impl Caches {
    /// The slow path where what is kept depends on the packet's decisions alone.
    pub(crate) fn slow_by_recipe(&mut self, walker: &mut Walker<'_>, tag: Pc) -> Outcome {
        let mut trail = std::mem::take(&mut self.trail);
        let outcome = match self.compare {
            true => self.walk_and_compare(walker, tag, &mut trail),
            false => {
                let Caches { known, witnesses, cuts, .. } = &*self;
                trail.begin(known, walker.state(), tag);
                walker.walk(tag, &mut Noting { trail: &mut trail, known, witnesses, cuts, found: false })
            }
        };
        let start = Instant::now();
        self.keep_trail(walker, &trail, tag, outcome);
        self.stats.partition_ns += start.elapsed().as_nanos() as u64;
        self.trail = trail;
        outcome
    }

    /// Keeps what a packet's trail gives.
    pub(crate) fn keep_trail(&mut self, walker: &Walker<'_>, trail: &Trail, tag: Pc, outcome: Outcome) {
        if trail.too_long {
            *self.stats.uncacheable.entry(Uncacheable::TooLong).or_default() += 1;
            return;
        }
        let recipe = match self.recipes.find(tag, outcome, &trail.decisions) {
            Some(recipe) => {
                self.stats.known_ways += 1;
                recipe
            }
            None => self.make_recipe(walker, trail, tag, outcome),
        };
        for reason in &self.recipes.get(recipe).refused {
            *self.stats.uncacheable.entry(*reason).or_default() += 1;
        }
        for part in 0..self.recipes.get(recipe).parts.len() {
            if let Some(segment) = self.recipes.get(recipe).parts[part].segment(&self.known.slots, trail) {
                self.put(segment, 0, walker.now());
            }
        }
    }

    fn make_recipe(&mut self, walker: &Walker<'_>, trail: &Trail, tag: Pc, outcome: Outcome) -> usize {
        let mut record = std::mem::take(&mut self.record);
        record.retrace(&self.known, walker.program(), walker.code(), tag, &trail.decisions);
        let mut recipes = std::mem::take(&mut self.recipes);
        let traversal = Traversal::new(self.ground(walker), &record, outcome);
        let made = recipes.make(&traversal, &record, outcome, &trail.decisions);
        self.stats.ways += 1;
        for pc in recipes.get(made).parts.iter().filter_map(|part| part.begins_at()) {
            self.cuts[pc as usize] = true;
        }
        (self.record, self.recipes) = (record, recipes);
        made
    }

    /// As the slow path without recipes goes; what it makes of the packet must be what the recipe does.
    fn walk_and_compare(&mut self, walker: &mut Walker<'_>, tag: Pc, trail: &mut Trail) -> Outcome {
        let (slots, valid) = (walker.slots().to_vec(), walker.valid().to_vec());
        let before = State { slots: &slots, valid: &valid };
        let mut record = std::mem::take(&mut self.record);
        let outcome = record.run(&self.known, walker, tag);
        *trail = Trail::of(&record, &self.known, walker.code(), (&self.witnesses, &self.cuts), before);
        if !trail.too_long && self.recipes.find(tag, outcome, &trail.decisions).is_none() {
            self.record = Record::default();
            self.make_recipe(walker, trail, tag, outcome);
            // Now it is known where its segments begin.
            *trail = Trail::of(&record, &self.known, walker.code(), (&self.witnesses, &self.cuts), before);
        }
        if let Some(recipe) = self.recipes.find(tag, outcome, &trail.decisions).filter(|_| !trail.too_long) {
            let recipe = self.recipes.get(recipe);
            let traversal = Traversal::new(self.ground(walker), &record, outcome);
            let made = wholes(&traversal, |first, last| traversal.segment(Some(walker), first, last));
            let mut parts = recipe.parts.iter().map(|part| part.segment(&self.known.slots, trail));
            let same = made.segments.iter().all(|(_, segment)| {
                let part = parts.next();
                // Of a way with many segments not each state is kept.
                part.is_some_and(|part| part.is_none_or(|part| part == *segment))
            });
            let same = same && parts.next().is_none() && *made.refused == *recipe.refused;
            self.stats.compared += 1;
            self.stats.contradicted += u64::from(!same);
        }
        self.record = record;
        outcome
    }
}
