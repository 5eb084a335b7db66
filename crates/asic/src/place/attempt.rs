//! List scheduling: stage by stage, whoever is ready and most urgent takes what it can get.

use super::bounds::Ground;
use super::{Piece, Placement};
use crate::demand::Match;
use crate::memory;
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
}

/// Makes an attempt.
pub(super) fn attempt(ground: &Ground, settings: &Settings) -> Attempt {
    let count = ground.program.tables.len();
    let pipes = ground.path.pipes().max(1) as usize;
    let mut by_urgency: Vec<usize> = (0..count).collect();
    by_urgency.sort_by(|a, b| settings.urgency[*b].total_cmp(&settings.urgency[*a]).then(a.cmp(b)));
    let mut run = Run {
        ground,
        settings,
        free: vec![settings.caps; pipes * settings.stages as usize],
        left: settings.entries.clone(),
        end: vec![None; count],
        pieces: vec![Vec::new(); count],
        lacks: [0; 13],
        by_urgency,
    };
    for hop in 0..ground.path.hops.len() {
        for stage in 0..settings.stages {
            run.fill(hop, stage);
        }
    }
    let left = (0..count).filter(|n| run.end[*n].is_none()).map(|n| (n, run.left[n])).collect();
    Attempt { pieces: run.pieces, left, lacks: run.lacks }
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
        let Some(part) = part.filter(|p| keyless || p.entries > 0) else {
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

    fn wanted(&self, n: usize, hop: usize, stage: u32) -> u64 {
        let Some(shares) = &self.settings.shares else { return self.left[n] };
        let position = hop * self.settings.stages as usize + stage as usize;
        let share = shares[n].get(position).copied().unwrap_or(0);
        // Behind its last share, a table takes what it still needs wherever it can.
        let over = shares[n].iter().skip(position).all(|s| *s == 0);
        if over { self.left[n] } else { share.min(self.left[n]) }
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
