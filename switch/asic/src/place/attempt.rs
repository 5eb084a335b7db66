//! List scheduling: stage by stage, whoever is ready and most urgent takes what it can get.

use super::bounds::Ground;
use super::{Piece, Placement};
use crate::demand::Match;
use crate::memory::{self, Part};
use crate::target::Usage;

/// How an attempt is made.
#[derive(Clone)]
pub(super) struct Settings {
    /// Stages of each pipe that may be used.
    pub stages: u32,
    /// What may be taken of each stage.
    pub caps: Usage,
    /// Entries of each table.
    pub entries: Vec<u64>,
    /// The more urgent a table, the sooner it is served.
    pub urgency: Vec<f64>,
    /// Whether to find out what waiting tables lack; that takes time.
    pub diagnose: bool,
    /// Entries that a table may take at a position (hop x stages + stage), where somebody has thought about it.
    pub shares: Option<Vec<Vec<u64>>>,
    /// With shares: but for the last one, no part holds less than what a stage holds by this; 0: any part.
    pub grain: u64,
    /// Whether a table whose key is the place of its data waits for a stage that has room for all of it: in parts it has to be a hash table, which is larger.
    pub whole: bool,
}

/// What became of an attempt.
pub(super) struct Attempt {
    /// Pieces of each table.
    pub pieces: Vec<Vec<Piece>>,
    /// Tables with entries that have no place, and how many.
    pub left: Vec<(usize, u64)>,
    /// For each resource of [`Usage::fields`], how often its lack alone kept a waiting table out of a stage.
    pub lacks: [u32; 13],
}

impl Attempt {
    pub fn fits(&self) -> bool {
        self.left.is_empty()
    }

    pub fn placement(self, ground: &Ground, scale: f64) -> Placement {
        Placement::new(ground.target, ground.program, ground.path, scale, self.pieces)
    }
}

/// One attempt while it is made.
struct Run<'a, 'g> {
    ground: &'a Ground<'g>,
    settings: &'a Settings,
    /// What is free, by pipe and stage.
    free: Vec<Usage>,
    left: Vec<u64>,
    end: Vec<Option<(usize, u32)>>,
    pieces: Vec<Vec<Piece>>,
    lacks: [u32; 13],
    by_urgency: Vec<usize>,
    /// As [`Settings::shares`].
    shares: Option<Vec<Vec<u64>>>,
}

/// What an attempt has come to, before a position.
pub(super) struct Midway<'a> {
    /// The position: hop x stages + stage.
    pub at: usize,
    /// Entries of each table that have no place yet.
    pub left: &'a [u64],
    /// The position of each table's last part, where it is whole.
    pub ends: Vec<Option<usize>>,
    /// What is free, by pipe and stage.
    pub free: &'a [Usage],
}

/// Makes an attempt.
pub(super) fn attempt(ground: &Ground, settings: &Settings) -> Attempt {
    let mut run = Run::new(ground, settings);
    for hop in 0..ground.path.hops.len() {
        for stage in 0..settings.stages {
            run.fill(hop, stage);
        }
    }
    run.made()
}

/// Makes an attempt for which somebody thinks anew of all that is left, every so many positions; none if they give up.
pub(super) fn attempt_along(
    ground: &Ground,
    settings: &Settings,
    every: usize,
    think: &mut dyn FnMut(&Midway<'_>) -> Option<Vec<Vec<u64>>>,
) -> Option<Attempt> {
    let mut run = Run::new(ground, settings);
    let stages = settings.stages as usize;
    for hop in 0..ground.path.hops.len() {
        for stage in 0..settings.stages {
            let at = hop * stages + stage as usize;
            if at.is_multiple_of(every.max(1)) && run.end.iter().any(Option::is_none) {
                let ends = run.end.iter().map(|end| end.map(|(hop, stage)| hop * stages + stage as usize)).collect();
                run.shares = Some(think(&Midway { at, left: &run.left, ends, free: &run.free })?);
            }
            run.fill(hop, stage);
        }
    }
    Some(run.made())
}

impl<'a, 'g> Run<'a, 'g> {
    fn new(ground: &'a Ground<'g>, settings: &'a Settings) -> Run<'a, 'g> {
        let count = ground.program.tables.len();
        let pipes = ground.path.pipes().max(1) as usize;
        let mut by_urgency: Vec<usize> = (0..count).collect();
        by_urgency.sort_by(|a, b| settings.urgency[*b].total_cmp(&settings.urgency[*a]).then(a.cmp(b)));
        Run {
            ground,
            settings,
            free: vec![settings.caps; pipes * settings.stages as usize],
            left: settings.entries.clone(),
            end: vec![None; count],
            pieces: vec![Vec::new(); count],
            lacks: [0; 13],
            by_urgency,
            shares: settings.shares.clone(),
        }
    }

    fn made(self) -> Attempt {
        let missing = |n: &usize| self.end[*n].is_none();
        let left = (0..self.end.len()).filter(missing).map(|n| (n, self.left[n])).collect();
        Attempt { pieces: self.pieces, left, lacks: self.lacks }
    }
}

impl Run<'_, '_> {
    /// Serves all that are ready here. A table that is done here can make others ready at the same stage.
    fn fill(&mut self, hop: usize, stage: u32) {
        let mut waiting: Vec<usize> = self.by_urgency.iter().copied().filter(|n| self.end[*n].is_none()).collect();
        loop {
            let next = waiting.iter().position(|n| self.ready(*n, hop, stage));
            let Some(at) = next else { return };
            let n = waiting.remove(at);
            self.serve(n, hop, stage);
        }
    }

    fn ready(&self, n: usize, hop: usize, stage: u32) -> bool {
        let (first, last) = self.ground.hops[n];
        let behind = |(before, distance): &(usize, u32)| match self.end[*before] {
            None => false,
            Some(end) => *distance == 0 || end < (hop, stage),
        };
        (first..=last).contains(&hop) && self.ground.before[n].iter().all(behind)
    }

    fn serve(&mut self, n: usize, hop: usize, stage: u32) {
        let table = &self.ground.program.tables[n];
        let pipe = self.ground.path.hops[hop].pipe as usize;
        let slot = pipe * self.settings.stages as usize + stage as usize;
        let overhead = if self.pieces[n].is_empty() { self.ground.overhead[n] } else { Usage::default() };
        let free = self.free[slot];
        let wanted = self.wanted(n, hop, stage);
        if wanted == 0 {
            return;
        }
        let part = if overhead.fits(&free) {
            memory::fit(self.ground.target, table, wanted, &free.minus(overhead))
        } else {
            None
        };
        let keyless = table.kind == Match::None;
        let Some(part) = part.filter(|p| keyless || p.entries > 0).filter(|p| !self.waits(n, wanted, p)) else {
            self.lack(n, wanted, &free, &overhead);
            return;
        };
        let usage = part.usage.plus(overhead);
        self.free[slot] = free.minus(usage);
        self.left[n] = if keyless { 0 } else { self.left[n].saturating_sub(part.entries) };
        self.pieces[n].push(Piece { hop, stage, entries: part.entries, usage, layout: part.layout });
        if self.left[n] == 0 {
            self.end[n] = Some((hop, stage));
        } else if part.entries < wanted {
            self.lack(n, wanted, &self.free[slot].clone(), &Usage::default());
        }
    }

    /// Whether a table takes fewer blocks in a stage that is empty, and waits for one.
    fn waits(&self, n: usize, wanted: u64, here: &Part) -> bool {
        let table = &self.ground.program.tables[n];
        if !self.settings.whole || !table.is_by_key() || wanted != table.entries {
            return false;
        }
        let alone = memory::fit(self.ground.target, table, wanted, &self.settings.caps);
        alone.is_some_and(|alone| {
            alone.entries >= wanted && (here.entries < wanted || alone.usage.sram < here.usage.sram)
        })
    }

    /// Entries that the table is to have here, by what was thought of up to here: what found no room before is caught up with.
    fn wanted(&self, n: usize, hop: usize, stage: u32) -> u64 {
        let left = self.left[n];
        let Some(shares) = self.shares.as_ref().map(|shares| &shares[n]) else { return left };
        let position = hop * self.settings.stages as usize + stage as usize;
        let Some(next) = shares.get(position + 1..).filter(|next| next.iter().any(|share| *share > 0)) else {
            // Behind its last share, a table takes what it still needs wherever it can.
            return left;
        };
        let later: u64 = next.iter().sum();
        let due = left.saturating_sub(later);
        // A small part costs more than its entries.
        let least = self.ground.capacity[n].checked_div(self.settings.grain).unwrap_or(0);
        if due < least { 0 } else { due }
    }

    /// Notes which resource alone is in the way.
    fn lack(&mut self, n: usize, wanted: u64, free: &Usage, overhead: &Usage) {
        if !self.settings.diagnose {
            return;
        }
        let all = self.settings.caps;
        for (at, lacks) in self.lacks.iter_mut().enumerate() {
            let more = with_all(free, &all, at);
            let enough = overhead.fits(&more);
            let table = &self.ground.program.tables[n];
            if enough && memory::fit(self.ground.target, table, wanted.min(1024), &more.minus(*overhead)).is_some() {
                *lacks += 1;
            }
        }
    }
}

/// `free`, with all of the resource number `at`.
fn with_all(free: &Usage, all: &Usage, at: usize) -> Usage {
    let mut more = *free;
    let pairs = [
        (&mut more.sram, all.sram),
        (&mut more.map_ram, all.map_ram),
        (&mut more.tcam, all.tcam),
        (&mut more.tables, all.tables),
        (&mut more.ternary_tables, all.ternary_tables),
        (&mut more.hash_bits, all.hash_bits),
        (&mut more.exact_crossbar, all.exact_crossbar),
        (&mut more.ternary_crossbar, all.ternary_crossbar),
        (&mut more.action_bus, all.action_bus),
        (&mut more.gateways, all.gateways),
        (&mut more.meter_alus, all.meter_alus),
        (&mut more.statistics_alus, all.statistics_alus),
        (&mut more.instructions, all.instructions),
    ];
    for (n, (field, all)) in pairs.into_iter().enumerate() {
        if n == at {
            *field = all;
        }
    }
    more
}
