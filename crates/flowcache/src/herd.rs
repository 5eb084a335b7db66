//! Packets that came together: looked for together, and on the slow path they take turns from table to table, so that they wait for memory together.

use crate::cache::Caches;
use crate::config::Kind;
use crate::courses::At;
use crate::fresh::Lists;
use crate::segment::Segment;
use crate::trail::{Noting, Trail};
use interp::walk::{Asking, Herd, Op, Outcome, Pc, Step};
use std::time::Instant;

/// A packet on the slow path.
#[derive(Clone, Debug, Default)]
struct Run {
    packet: usize,
    trail: Trail,
    /// The table application that it waits at, and what is found there.
    at: Pc,
    found: Option<u32>,
    outcome: Option<Outcome>,
    /// The end of its course, if its way is foreseen, and what tables will find.
    course: Option<u32>,
    answers: Vec<Option<u32>>,
    /// Then also what will be kept of it, and the lists that that will stand in.
    segment: Option<Segment>,
    lists: Lists,
}

/// Packets whose way is being foreseen.
#[derive(Clone, Debug, Default)]
struct Ahead {
    /// Node of the courses, and number of the packet: where they are.
    at: Vec<(u32, usize)>,
    /// Where they were.
    were: Vec<(u32, usize)>,
    /// What tables have found there.
    found: Vec<Option<u32>>,
}

/// What is used again for each herd.
#[derive(Clone, Debug, Default)]
pub struct Herded {
    /// Packets for which nothing was found yet.
    open: Vec<usize>,
    /// Packets that hit: table, and place.
    hits: Vec<(usize, usize, u32)>,
    runs: Vec<Run>,
    /// Those of them that are at a table application.
    asking: Vec<Asking>,
    ahead: Ahead,
}

impl Caches {
    /// Runs the control of packets whose order does not matter.
    pub(crate) fn together(&mut self, herd: &mut Herd<'_, '_>) {
        let mut herded = std::mem::take(&mut self.herded);
        let Herded { open, hits, runs, asking, ahead } = &mut herded;
        hits.clear();
        open.clear();
        open.extend((0..herd.len()).filter(|packet| herd.is_here(*packet)));
        self.stats.packets += open.len() as u64;
        self.stats.lookups += open.len() as u64;
        self.stats.together += open.len() as u64;
        let slots = self.known().slots;
        for (at, store) in self.stores.iter_mut().enumerate() {
            store.find_many(
                &slots,
                0,
                open,
                |packet| herd.state(packet),
                |packet, place| hits.push((packet, at, place)),
            );
        }
        self.hits_soon(herd, hits);
        let misses = self.stats.misses;
        for (packet, at, place) in hits.iter().copied() {
            let mut walker = herd.walker(packet);
            // Whoever took the slow path may have put something else there.
            let found = if self.stats.misses == misses { Some((at, place)) } else { self.find(&walker, 0, 0) };
            let outcome = self.onward(&mut walker, found);
            drop(walker);
            herd.end(packet, outcome);
        }
        if self.config.kind == Kind::Exact && !self.compare {
            self.slow_together(herd, open, (runs, asking), ahead);
        } else {
            for packet in open.iter().copied() {
                let mut walker = herd.walker(packet);
                let found = self.find(&walker, 0, 0);
                let outcome = self.onward(&mut walker, found);
                drop(walker);
                herd.end(packet, outcome);
            }
        }
        self.herded = herded;
    }

    /// Asks for what the packets that hit find in tables, all at once.
    fn hits_soon(&self, herd: &mut Herd<'_, '_>, hits: &[(usize, usize, u32)]) {
        for (packet, at, place) in hits {
            let (Some(kept), walker) = (self.stores[*at].get(*place), herd.walker(*packet)) else { continue };
            for (number, question) in kept.segment.way.questions.iter().enumerate() {
                if let Some(found) = kept.segment.found(number) {
                    walker.soon(question.table as usize, found);
                }
            }
        }
    }

    /// The slow path from the start of the control.
    fn slow_together(
        &mut self,
        herd: &mut Herd<'_, '_>,
        open: &[usize],
        (runs, asking): (&mut Vec<Run>, &mut Vec<Asking>),
        ahead: &mut Ahead,
    ) {
        let mut count = 0;
        for packet in open.iter().copied() {
            let (tenant, now) = (self.tenant_of(herd.state(packet).slots), herd.walker(packet).now());
            if let Err(refused) = self.admit(tenant, now) {
                herd.end(packet, refused);
                continue;
            }
            if runs.len() == count {
                runs.push(Run::default());
            }
            runs[count].packet = packet;
            count += 1;
        }
        let runs = &mut runs[..count];
        if runs.is_empty() {
            return;
        }
        let began = Instant::now();
        self.stats.misses += count as u64;
        self.foresee_together(herd, runs, ahead);
        self.prepare(herd, runs);
        for run in &mut *runs {
            if let (Some(node), Some(segment)) = (run.course, run.segment.take()) {
                let mut walker = herd.walker(run.packet);
                let outcome = self.follow(&mut walker, node, segment, &run.answers, Some(&run.lists));
                drop(walker);
                outcome.into_iter().for_each(|outcome| herd.end(run.packet, outcome));
            }
        }
        // Those whose way is new are walked.
        runs.sort_by_key(|run| run.course.is_some());
        let walked = runs.partition_point(|run| run.course.is_none());
        let runs = &mut runs[..walked];
        self.walk_together(herd, runs, asking);
        let start = Instant::now();
        for Run { packet, trail, outcome, .. } in runs {
            let Some(outcome) = *outcome else { continue };
            self.keep_trail(&herd.walker(*packet), trail, 0, outcome);
            herd.end(*packet, outcome);
        }
        self.stats.partition_ns += start.elapsed().as_nanos() as u64;
        self.slow_ns += began.elapsed().as_nanos() as u64;
    }

    /// Asks what packets will do: all of them one table, then the next, so that they wait for memory together.
    fn foresee_together(&self, herd: &mut Herd<'_, '_>, runs: &mut [Run], Ahead { at, were, found }: &mut Ahead) {
        let (courses, room) = (&self.courses, self.courses.room());
        let went = |run: &mut Run, number: usize, to: At, at: &mut Vec<(u32, usize)>| match to {
            At::Asks(node) => at.push((node, number)),
            At::End(node) => run.course = Some(node),
            At::Lost => {}
        };
        at.clear();
        for (number, run) in runs.iter_mut().enumerate() {
            run.course = None;
            run.answers.clear();
            let to = courses.go(&mut herd.beside(run.packet, room), 0, &run.answers);
            went(run, number, to, at);
        }
        while !at.is_empty() {
            at.sort_unstable();
            found.clear();
            for same in at.chunk_by(|one, other| one.0 == other.0) {
                if let Some((table, keys)) = courses.asks(same[0].0) {
                    herd.ask(table, keys, same.iter().map(|(_, number)| runs[*number].packet), found);
                }
            }
            for ((node, number), found) in at.iter().zip(&*found) {
                runs[*number].answers.push(*found);
                if let (Some(found), Some((table, _))) = (found, courses.asks(*node)) {
                    herd.soon(table, *found);
                }
            }
            were.clear();
            std::mem::swap(at, were);
            for ((node, number), found) in were.iter().zip(&*found) {
                let run = &mut runs[*number];
                let mut beside = herd.beside(run.packet, room);
                let next = courses.answered(&beside, *node, *found);
                let to = courses.go(&mut beside, next, &run.answers);
                went(run, *number, to, at);
            }
        }
    }

    /// Makes the segments of packets whose way is foreseen, and asks for all that they and the packets will change, one kind after the other.
    fn prepare(&self, herd: &mut Herd<'_, '_>, runs: &mut [Run]) {
        for run in &mut *runs {
            let walker = herd.walker(run.packet);
            run.segment = run.course.and_then(|node| self.foreseen(&walker, node, &run.answers));
            let Some(segment) = &run.segment else {
                run.course = None;
                continue;
            };
            self.fresh.lists_for_segment(&self.witnesses, segment, &mut run.lists);
        }
        for run in &*runs {
            if let Some(end) = run.course.and_then(|node| self.courses.end(node)) {
                let beside = herd.beside(run.packet, 0);
                for (object, slot) in &end.counts {
                    beside.counter_soon(*object, beside.slots()[*slot as usize]);
                }
            }
        }
        let foreseen = || runs.iter().filter(|run| run.course.is_some());
        foreseen().for_each(|run| self.fresh.lists_soon(&run.lists));
        foreseen().for_each(|run| self.fresh.first_soon(&run.lists));
    }

    fn found_soon(&self, herd: &mut Herd<'_, '_>, runs: &[Run]) {
        for run in runs.iter().filter(|run| run.outcome.is_none()) {
            let walker = herd.walker(run.packet);
            if let (Some(found), Op::Apply { index }) = (run.found, walker.code().ops[run.at as usize]) {
                walker.soon(walker.code().applies[index as usize].table, found);
            }
        }
    }

    fn walk_together(&self, herd: &mut Herd<'_, '_>, runs: &mut [Run], asking: &mut Vec<Asking>) {
        let (known, witnesses, cuts) = (self.known(), &self.witnesses[..], &self.cuts[..]);
        let went = |run: &mut Run, step: Step| match step {
            Step::Next(pc) => run.at = pc,
            Step::End(outcome) => run.outcome = Some(outcome),
        };
        for run in &mut *runs {
            run.outcome = None;
            run.trail.begin(known, herd.state(run.packet), 0);
            let mut noting = Noting { trail: &mut run.trail, known, witnesses, cuts, found: false };
            let step = herd.walker(run.packet).walk_to_table(0, &mut noting);
            went(run, step);
        }
        while runs.iter().any(|run| run.outcome.is_none()) {
            asking.clear();
            asking.extend(runs.iter().filter(|run| run.outcome.is_none()).map(|run| Asking {
                packet: run.packet,
                pc: run.at,
                found: None,
            }));
            herd.lookup(asking);
            let mut found = asking.iter().map(|asking| asking.found);
            for run in runs.iter_mut().filter(|run| run.outcome.is_none()) {
                run.found = found.next().flatten();
            }
            self.found_soon(herd, runs);
            for run in runs.iter_mut().filter(|run| run.outcome.is_none()) {
                let mut noting = Noting { trail: &mut run.trail, known, witnesses, cuts, found: false };
                let step = herd.walker(run.packet).walk_through_table(run.at, run.found, &mut noting);
                went(run, step);
            }
        }
    }
}
