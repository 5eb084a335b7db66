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

    pub fn into_placement(self, problem: &PlacementProblem, scale: f64) -> Placement {
        Placement::new(problem.target, problem.program, problem.path, scale, self.pieces)
    }
}

/// State of list scheduling.
struct ListScheduler<'a, 'g> {
    problem: &'a PlacementProblem<'g>,
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
pub(super) fn schedule_tables(problem: &PlacementProblem, settings: &ScheduleSettings) -> ScheduleResult {
    let mut run = ListScheduler::new(problem, settings);
    for hop in 0..problem.path.hops.len() {
        for stage in 0..settings.stages {
            run.fill_stage(hop, stage);
        }
    }
    run.into_result()
}

/// Schedules the tables and replans the unplaced entries after every `interval` positions: `replan`
/// returns the planned entries of each table by position. `None` if replanning fails.
pub(super) fn schedule_with_replanning(
    problem: &PlacementProblem,
    settings: &ScheduleSettings,
    interval: usize,
    replan: &mut dyn FnMut(&PartialSchedule<'_>) -> Option<Vec<Vec<u64>>>,
) -> Option<ScheduleResult> {
    let mut scheduler = ListScheduler::new(problem, settings);
    let stages = settings.stages as usize;
    for hop in 0..problem.path.hops.len() {
        for stage in 0..settings.stages {
            let position = hop * stages + stage as usize;
            if position.is_multiple_of(interval.max(1)) && scheduler.end.iter().any(Option::is_none) {
                let ends =
                    scheduler.end.iter().map(|end| end.map(|(hop, stage)| hop * stages + stage as usize)).collect();
                scheduler.shares = Some(replan(&PartialSchedule {
                    at: position,
                    left: &scheduler.left,
                    ends,
                    free: &scheduler.free,
                })?);
            }
            scheduler.fill_stage(hop, stage);
        }
    }
    Some(scheduler.into_result())
}

impl<'a, 'g> ListScheduler<'a, 'g> {
    fn new(problem: &'a PlacementProblem<'g>, settings: &'a ScheduleSettings) -> ListScheduler<'a, 'g> {
        let count = problem.program.tables.len();
        let pipes = problem.path.pipe_count().max(1) as usize;
        let mut by_urgency: Vec<usize> = (0..count).collect();
        by_urgency.sort_by(|a, b| settings.urgency[*b].total_cmp(&settings.urgency[*a]).then(a.cmp(b)));
        ListScheduler {
            problem,
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
        let (first, last) = self.problem.hops[n];
        let behind = |(before, distance): &(usize, u32)| match self.end[*before] {
            None => false,
            Some(end) => *distance == 0 || end < (hop, stage),
        };
        (first..=last).contains(&hop) && self.problem.predecessors[n].iter().all(behind)
    }

    /// Places as many of a table's entries as are due and fit the stage, and records the resources
    /// that prevented the remaining ones.
    fn place_part(&mut self, n: usize, hop: usize, stage: u32) {
        let table = &self.problem.program.tables[n];
        let pipe = self.problem.path.hops[hop].pipe as usize;
        let slot = pipe * self.settings.stages as usize + stage as usize;
        let overhead = if self.pieces[n].is_empty() { self.problem.overhead[n] } else { StageResources::default() };
        let free = self.free[slot];
        let due = self.entries_due(n, hop, stage);
        if due == 0 {
            return;
        }
        let part = if overhead.fits(&free) {
            memory::fit_in_stage(self.problem.target, table, due, &free.minus(overhead))
        } else {
            None
        };
        let has_no_key = table.kind == MemoryMatchKind::None;
        let Some(part) =
            part.filter(|p| has_no_key || p.entries > 0).filter(|p| !self.waits_for_empty_stage(n, due, p))
        else {
            self.record_shortages(n, due, &free, &overhead);
            return;
        };
        let usage = part.usage.plus(overhead);
        self.free[slot] = free.minus(usage);
        self.left[n] = if has_no_key { 0 } else { self.left[n].saturating_sub(part.entries) };
        self.pieces[n].push(StagePlacement { hop, stage, entries: part.entries, usage, layout: part.layout });
        if self.left[n] == 0 {
            self.end[n] = Some((hop, stage));
        } else if part.entries < due {
            self.record_shortages(n, due, &self.free[slot].clone(), &StageResources::default());
        }
    }

    /// Returns whether a table waits because it takes fewer blocks in an empty stage.
    fn waits_for_empty_stage(&self, n: usize, wanted: u64, here: &StageAllocation) -> bool {
        let table = &self.problem.program.tables[n];
        if !self.settings.unsplit_tables || !table.is_key_addressed() || wanted != table.entries {
            return false;
        }
        let alone = memory::fit_in_stage(self.problem.target, table, wanted, &self.settings.stage_limits);
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
        let least = self.problem.capacity[n].checked_div(self.settings.min_part_divisor).unwrap_or(0);
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
            let table = &self.problem.program.tables[n];
            if enough
                && memory::fit_in_stage(self.problem.target, table, wanted.min(1024), &more.minus(*overhead)).is_some()
            {
                *lacks += 1;
            }
        }
    }
}

/// Returns the free resources with the full amount of resource number `index`, in the order of the
/// list below.
fn with_full_resource(free: &StageResources, all: &StageResources, index: usize) -> StageResources {
    let mut result = *free;
    let pairs = [
        (&mut result.sram, all.sram),
        (&mut result.map_ram, all.map_ram),
        (&mut result.tcam, all.tcam),
        (&mut result.tables, all.tables),
        (&mut result.ternary_tables, all.ternary_tables),
        (&mut result.hash_bits, all.hash_bits),
        (&mut result.exact_crossbar, all.exact_crossbar),
        (&mut result.ternary_crossbar, all.ternary_crossbar),
        (&mut result.action_bus, all.action_bus),
        (&mut result.gateways, all.gateways),
        (&mut result.meter_alus, all.meter_alus),
        (&mut result.statistics_alus, all.statistics_alus),
        (&mut result.instructions, all.instructions),
    ];
    for (n, (field, all)) in pairs.into_iter().enumerate() {
        if n == index {
            *field = all;
        }
    }
    result
}
