//! The slow path of [`crate::Kind::Exact`], where what is kept of a packet depends on its decisions alone: a walk that notes little ([`crate::trail`]), and a recipe.

use crate::cache::{Caches, plain};
use crate::course::{Course, Terrain};
use crate::courses::At;
use crate::fresh::Lists;
use crate::recipe::{Recipes, wholes};
use crate::record::Record;
use crate::segment::{Segment, Traversal, Uncacheable};
use crate::trail::{Noting, Trail};
use interp::walk::{Outcome, Pc, Replayed, State, Walker};
use std::time::Instant;

impl Caches {
    /// The slow path where what is kept depends on the packet's decisions alone.
    pub(crate) fn slow_by_recipe(&mut self, walker: &mut Walker<'_>, tag: Pc) -> Outcome {
        if tag == 0 && !self.compare {
            let start = Instant::now();
            if let Some(outcome) = self.slow_by_course(walker) {
                self.stats.partition_ns += start.elapsed().as_nanos() as u64;
                return outcome;
            }
        }
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

    /// What a packet at the start of the control will do, if it takes a known way: the end of its course. `found` is told what tables will find.
    fn foresee(&self, walker: &mut Walker<'_>, found: &mut Vec<Option<u32>>) -> Option<u32> {
        let mut beside = walker.beside(self.courses.room());
        found.clear();
        let mut at = self.courses.go(&mut beside, 0, found);
        loop {
            match at {
                At::Lost => return None,
                At::End(node) => return Some(node),
                At::Asks(node) => {
                    let (table, keys) = self.courses.asks(node)?;
                    let number = beside.ask(table, keys);
                    found.push(number);
                    let next = self.courses.answered(&beside, node, number);
                    at = self.courses.go(&mut beside, next, found);
                }
            }
        }
    }

    fn slow_by_course(&mut self, walker: &mut Walker<'_>) -> Option<Outcome> {
        let mut found = std::mem::take(&mut self.found);
        let node = self.foresee(walker, &mut found);
        let segment = node.and_then(|node| Some((node, self.foreseen(walker, node, &found)?)));
        let outcome = segment.and_then(|(node, segment)| self.follow(walker, node, segment, &found, None));
        self.found = found;
        outcome
    }

    /// The segment of a packet whose course ends there. `None`: there is no fuel for it.
    pub(crate) fn foreseen(&self, walker: &Walker<'_>, node: u32, found: &[Option<u32>]) -> Option<Segment> {
        let end = self.courses.end(node)?;
        let part = &self.recipes.get(end.recipe).parts[0];
        let enough = walker.fuel() > part.way.fuel;
        enough.then(|| part.foreseen(&self.known.slots, walker.state(), &end.own, found))
    }

    /// Keeps what was foreseen of a packet, and has it done. `lists` are those that the segment will stand in, if they are known.
    pub(crate) fn follow(
        &mut self,
        walker: &mut Walker<'_>,
        node: u32,
        segment: Segment,
        found: &[Option<u32>],
        lists: Option<&Lists>,
    ) -> Option<Outcome> {
        let script = self.courses.end(node)?.script.clone();
        let way = segment.way.clone();
        self.stats.known_ways += 1;
        self.stats.foreseen += 1;
        self.put(segment, 0, walker.now(), lists);
        walker.take_fuel(way.backs);
        Some(match walker.replay(&script, |asked| found[asked as usize]) {
            Replayed::Done => way.end.outcome().unwrap_or(Outcome::Return),
            Replayed::End(outcome) => outcome,
            Replayed::Left(pc) => plain(walker, pc),
        })
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
                self.put(segment, 0, walker.now(), None);
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
        if Recipes::starts_anew(made) {
            self.courses.clear();
        }
        if let Some(part) = recipes.get(made).whole() {
            let (known, witnesses) = (self.known(), &self.witnesses[..]);
            let on = Terrain { known, program: walker.program(), code: walker.code(), witnesses };
            if let Some(course) = Course::new(on, &record) {
                self.courses.insert(course, made, part, walker.code());
            }
        }
        (self.record, self.recipes) = (record, recipes);
        made
    }

    /// The segment of a packet whose way is foreseen.
    fn foresee_segment(&mut self, walker: &mut Walker<'_>) -> Option<Segment> {
        let mut found = Vec::new();
        let node = self.foresee(walker, &mut found)?;
        self.foreseen(walker, node, &found)
    }

    /// As the slow path without recipes goes; what it makes of the packet must be what the recipe does, and what was foreseen.
    fn walk_and_compare(&mut self, walker: &mut Walker<'_>, tag: Pc, trail: &mut Trail) -> Outcome {
        let (slots, valid) = (walker.slots().to_vec(), walker.valid().to_vec());
        let before = State { slots: &slots, valid: &valid };
        let foreseen = (tag == 0).then(|| self.foresee_segment(walker)).flatten();
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
            let same = same
                && foreseen.as_ref().is_none_or(|foreseen| {
                    recipe.whole().and_then(|part| part.segment(&self.known.slots, trail)).as_ref() == Some(foreseen)
                });
            self.stats.foreseen += u64::from(foreseen.is_some());
            self.stats.compared += 1;
            self.stats.contradicted += u64::from(!same);
        }
        self.record = record;
        outcome
    }
}
