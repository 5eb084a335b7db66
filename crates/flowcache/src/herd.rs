//! Packets that came together: looked for together, and on the slow path they take turns from table to table, so that they wait for memory together.

use crate::cache::Caches;
use crate::config::Kind;
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
}

impl Caches {
    /// Runs the control of packets whose order does not matter.
    pub(crate) fn together(&mut self, herd: &mut Herd<'_, '_>) {
        let mut herded = std::mem::take(&mut self.herded);
        let Herded { open, hits, runs, asking } = &mut herded;
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
        self.touch(herd, hits);
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
            self.slow_together(herd, open, (runs, asking));
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

    /// Looks at what the packets that hit find in tables, all at once.
    fn touch(&self, herd: &mut Herd<'_, '_>, hits: &[(usize, usize, u32)]) {
        let mut seen = 0;
        for (packet, at, place) in hits {
            let (Some(kept), walker) = (self.stores[*at].get(*place), herd.walker(*packet)) else { continue };
            for (number, question) in kept.segment.way.questions.iter().enumerate() {
                if let Some(found) = kept.segment.found(number) {
                    seen ^= walker.touch(question.table as usize, found);
                }
            }
        }
        std::hint::black_box(seen);
    }

    /// The slow path from the start of the control.
    fn slow_together(
        &mut self,
        herd: &mut Herd<'_, '_>,
        open: &[usize],
        (runs, asking): (&mut Vec<Run>, &mut Vec<Asking>),
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
        self.stats.misses += count as u64;
        self.walk_together(herd, runs, asking);
        let start = Instant::now();
        for Run { packet, trail, outcome, .. } in runs {
            let Some(outcome) = *outcome else { continue };
            self.keep_trail(&herd.walker(*packet), trail, 0, outcome);
            herd.end(*packet, outcome);
        }
        self.stats.partition_ns += start.elapsed().as_nanos() as u64;
    }

    fn touch_found(&self, herd: &mut Herd<'_, '_>, runs: &[Run]) {
        let mut seen = 0;
        for run in runs.iter().filter(|run| run.outcome.is_none()) {
            let walker = herd.walker(run.packet);
            if let (Some(found), Op::Apply { index }) = (run.found, walker.code().ops[run.at as usize]) {
                seen ^= walker.touch(walker.code().applies[index as usize].table, found);
            }
        }
        std::hint::black_box(seen);
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
            self.touch_found(herd, runs);
            for run in runs.iter_mut().filter(|run| run.outcome.is_none()) {
                let mut noting = Noting { trail: &mut run.trail, known, witnesses, cuts, found: false };
                let step = herd.walker(run.packet).walk_through_table(run.at, run.found, &mut noting);
                went(run, step);
            }
        }
    }
}
