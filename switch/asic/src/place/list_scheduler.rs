//! List scheduler: fills the path stage by stage with the most urgent ready tables.

use super::bounds::PlacementProblem;
use super::{Placement, StagePlacement};
use crate::demand::MemoryMatchKind;
use crate::memory::{self, StageAllocation};
use crate::target::StageResources;

/// Parameters of list scheduling.
#[derive(Clone)]
pub(super) struct ScheduleSettings {
    /// Usable stages of each pipe.
    pub stages: u32,
    /// Usable resources of each stage.
    pub stage_limits: StageResources,
    /// Entries of each table.
    pub entries: Vec<u64>,
    /// Urgency of each table. More urgent tables are placed first.
    pub urgency: Vec<f64>,
    /// Whether to record the shortages of waiting tables, which takes time.
    pub diagnose: bool,
    /// Planned entries of each table at each position (hop x stages + stage), if a plan exists.
    pub planned_entries: Option<Vec<Vec<u64>>>,
    /// With a plan: every part except a table's last holds at least a stage's capacity divided by
    /// this. 0: parts of any size.
    pub min_part_divisor: u64,
    /// Whether a table addressed by its key waits for a stage that can hold all of it, because
    /// parts of it would be hash tables, which are larger.
    pub unsplit_tables: bool,
}

/// Result of list scheduling.
pub(super) struct ScheduleResult {
    /// Pieces of each table.
    pub pieces: Vec<Vec<StagePlacement>>,
    /// Tables with unplaced entries, and their number.
    pub unplaced: Vec<(usize, u64)>,
    /// For each resource of [`StageResources::fields`], how often its shortage alone kept a waiting
    /// table out of a stage.
    pub shortages: [u32; 13],
}

impl ScheduleResult {
    pub fn is_complete(&self) -> bool {
        self.unplaced.is_empty()
    }

    pub fn into_placement(self, ground: &PlacementProblem, scale: f64) -> Placement {
        Placement::new(ground.target, ground.program, ground.path, scale, self.pieces)
    }
}

/// State of list scheduling.
struct ListScheduler<'a, 'g> {
    ground: &'a PlacementProblem<'g>,
    settings: &'a ScheduleSettings,
    /// Free resources, by pipe and stage.
    free: Vec<StageResources>,
    left: Vec<u64>,
    end: Vec<Option<(usize, u32)>>,
    pieces: Vec<Vec<StagePlacement>>,
    lacks: [u32; 13],
    by_urgency: Vec<usize>,
    /// Copy of [`ScheduleSettings::planned_entries`], replaced when replanning.
    shares: Option<Vec<Vec<u64>>>,
}

/// State of list scheduling before a position.
pub(super) struct PartialSchedule<'a> {
    /// Position: hop x stages + stage.
    pub at: usize,
    /// Unplaced entries of each table.
    pub left: &'a [u64],
    /// Position of the last part of each completely placed table.
    pub ends: Vec<Option<usize>>,
    /// Free resources, by pipe and stage.
    pub free: &'a [StageResources],
}

/// Schedules the tables.
pub(super) fn schedule_tables(ground: &PlacementProblem, settings: &ScheduleSettings) -> ScheduleResult {
    let mut run = ListScheduler::new(ground, settings);
    for hop in 0..ground.path.hops.len() {
        for stage in 0..settings.stages {
            run.fill_stage(hop, stage);
        }
    }
    run.into_result()
}

/// Schedules the tables and replans the unplaced entries after every `every` positions. `None` if
/// replanning fails.
pub(super) fn schedule_with_replanning(
    ground: &PlacementProblem,
    settings: &ScheduleSettings,
    every: usize,
    think: &mut dyn FnMut(&PartialSchedule<'_>) -> Option<Vec<Vec<u64>>>,
) -> Option<ScheduleResult> {
    let mut run = ListScheduler::new(ground, settings);
    let stages = settings.stages as usize;
    for hop in 0..ground.path.hops.len() {
        for stage in 0..settings.stages {
            let at = hop * stages + stage as usize;
            if at.is_multiple_of(every.max(1)) && run.end.iter().any(Option::is_none) {
                let ends = run.end.iter().map(|end| end.map(|(hop, stage)| hop * stages + stage as usize)).collect();
                run.shares = Some(think(&PartialSchedule { at, left: &run.left, ends, free: &run.free })?);
            }
            run.fill_stage(hop, stage);
        }
    }
    Some(run.into_result())
}

impl<'a, 'g> ListScheduler<'a, 'g> {
    fn new(ground: &'a PlacementProblem<'g>, settings: &'a ScheduleSettings) -> ListScheduler<'a, 'g> {
        let count = ground.program.tables.len();
        let pipes = ground.path.pipe_count().max(1) as usize;
        let mut by_urgency: Vec<usize> = (0..count).collect();
        by_urgency.sort_by(|a, b| settings.urgency[*b].total_cmp(&settings.urgency[*a]).then(a.cmp(b)));
        ListScheduler {
            ground,
            settings,
            free: vec![settings.stage_limits; pipes * settings.stages as usize],
            left: settings.entries.clone(),
            end: vec![None; count],
            pieces: vec![Vec::new(); count],
            lacks: [0; 13],
            by_urgency,
            shares: settings.planned_entries.clone(),
        }
    }

    fn into_result(self) -> ScheduleResult {
        let missing = |n: &usize| self.end[*n].is_none();
        let left = (0..self.end.len()).filter(missing).map(|n| (n, self.left[n])).collect();
        ScheduleResult { pieces: self.pieces, unplaced: left, shortages: self.lacks }
    }
}

impl ListScheduler<'_, '_> {
    /// Places all ready tables at a stage. A table completed there can make others ready at the
    /// same stage.
    fn fill_stage(&mut self, hop: usize, stage: u32) {
        let mut waiting: Vec<usize> = self.by_urgency.iter().copied().filter(|n| self.end[*n].is_none()).collect();
        loop {
            let next = waiting.iter().position(|n| self.is_ready(*n, hop, stage));
            let Some(at) = next else { return };
            let n = waiting.remove(at);
            self.place_part(n, hop, stage);
        }
    }

    fn is_ready(&self, n: usize, hop: usize, stage: u32) -> bool {
        let (first, last) = self.ground.hops[n];
        let behind = |(before, distance): &(usize, u32)| match self.end[*before] {
            None => false,
            Some(end) => *distance == 0 || end < (hop, stage),
        };
        (first..=last).contains(&hop) && self.ground.predecessors[n].iter().all(behind)
    }

    fn place_part(&mut self, n: usize, hop: usize, stage: u32) {
        let table = &self.ground.program.tables[n];
        let pipe = self.ground.path.hops[hop].pipe as usize;
        let slot = pipe * self.settings.stages as usize + stage as usize;
        let overhead = if self.pieces[n].is_empty() { self.ground.overhead[n] } else { StageResources::default() };
        let free = self.free[slot];
        let wanted = self.entries_due(n, hop, stage);
        if wanted == 0 {
            return;
        }
        let part = if overhead.fits(&free) {
            memory::fit_in_stage(self.ground.target, table, wanted, &free.minus(overhead))
        } else {
            None
        };
        let keyless = table.kind == MemoryMatchKind::None;
        let Some(part) =
            part.filter(|p| keyless || p.entries > 0).filter(|p| !self.waits_for_empty_stage(n, wanted, p))
        else {
            self.record_shortages(n, wanted, &free, &overhead);
            return;
        };
        let usage = part.usage.plus(overhead);
        self.free[slot] = free.minus(usage);
        self.left[n] = if keyless { 0 } else { self.left[n].saturating_sub(part.entries) };
        self.pieces[n].push(StagePlacement { hop, stage, entries: part.entries, usage, layout: part.layout });
        if self.left[n] == 0 {
            self.end[n] = Some((hop, stage));
        } else if part.entries < wanted {
            self.record_shortages(n, wanted, &self.free[slot].clone(), &StageResources::default());
        }
    }

    /// Returns whether a table waits because it takes fewer blocks in an empty stage.
    fn waits_for_empty_stage(&self, n: usize, wanted: u64, here: &StageAllocation) -> bool {
        let table = &self.ground.program.tables[n];
        if !self.settings.unsplit_tables || !table.is_key_addressed() || wanted != table.entries {
            return false;
        }
        let alone = memory::fit_in_stage(self.ground.target, table, wanted, &self.settings.stage_limits);
        alone.is_some_and(|alone| {
            alone.entries >= wanted && (here.entries < wanted || alone.usage.sram < here.usage.sram)
        })
    }

    /// Returns the entries of a table due at a position by the plan, including those that did not
    /// fit earlier.
    fn entries_due(&self, n: usize, hop: usize, stage: u32) -> u64 {
        let left = self.left[n];
        let Some(shares) = self.shares.as_ref().map(|shares| &shares[n]) else { return left };
        let position = hop * self.settings.stages as usize + stage as usize;
        let Some(next) = shares.get(position + 1..).filter(|next| next.iter().any(|share| *share > 0)) else {
            // After its last planned position, a table takes all remaining entries wherever they
            // fit.
            return left;
        };
        let later: u64 = next.iter().sum();
        let due = left.saturating_sub(later);
        // A small part costs more than its share of entries.
        let least = self.ground.capacity[n].checked_div(self.settings.min_part_divisor).unwrap_or(0);
        if due < least { 0 } else { due }
    }

    /// Records each resource that alone prevents a part.
    fn record_shortages(&mut self, n: usize, wanted: u64, free: &StageResources, overhead: &StageResources) {
        if !self.settings.diagnose {
            return;
        }
        let all = self.settings.stage_limits;
        for (at, lacks) in self.lacks.iter_mut().enumerate() {
            let more = with_full_resource(free, &all, at);
            let enough = overhead.fits(&more);
            let table = &self.ground.program.tables[n];
            if enough
                && memory::fit_in_stage(self.ground.target, table, wanted.min(1024), &more.minus(*overhead)).is_some()
            {
                *lacks += 1;
            }
        }
    }
}

/// Returns `free` with the full amount of resource number `at`.
fn with_full_resource(free: &StageResources, all: &StageResources, at: usize) -> StageResources {
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
