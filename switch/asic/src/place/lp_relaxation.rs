//! Linear relaxation of placement: bounds on any placement, without integral tables, blocks or
//! stages.
//!
//! A table's entries are distributed over positions (stages of hops) in arbitrary shares. The
//! constraints hold for the shares of every placement:
//!
//! - Each table has a window of positions. It begins when all predecessors can have ended, each of
//!   which takes as many *different* stages as its entries need, and ends early enough for all
//!   successors. (The gresses of a pipe share its stages, so a second pass adds no memory.)
//! - The share of a table at one position is at most the capacity of an empty stage.
//! - All parts in a stage fit its resources. A part takes at least its share of the table's lower
//!   bound.
//! - Up to any position, a table's share is at most that of each predecessor up to the minimum
//!   distance before, because a table begins only after its predecessors have ended.
//!
//! The objective is the fullest stage's utilization. A value above 1 proves that no placement
//! exists, without a search over orders. Small tables are only in windows and distances.

use super::bounds::{PlacementProblem, memory_blocks};
use super::solve::{SolveResult, solve_with_limit};
use crate::demand::MemoryMatchKind;
use crate::target::StageResources;
use good_lp::solvers::highs::{HighsProblem, highs};
use good_lp::{Expression, ProblemVariables, SolverModel, Variable, constraint, variable};
use std::collections::HashMap;
use std::time::Duration;

/// Minimum number of SRAM and TCAM blocks of a table in the program. Smaller tables hardly fill a
/// stage.
const LARGE_BLOCKS: f64 = 1.5;

/// Numerical tolerance of the linear program.
const TOLERANCE: f64 = 1e-6;

/// Limits for the relaxation.
#[derive(Clone)]
pub(super) struct RelaxationLimits {
    /// Usable stages of each pipe.
    pub stages: u32,
    /// Usable resources of each stage.
    pub stage_limits: StageResources,
    /// Entries (rows) of each table. With a partial placement: the unplaced entries.
    pub entries: Vec<u64>,
    /// Whether a whole table, not only its share, must have ended before a successor begins. This
    /// makes it an integer program.
    pub is_unsplit: bool,
    /// Partial placement to extend. With it, the objective is the earliest placement instead of the
    /// most even one.
    pub partial: Option<PartialPlacement>,
}

/// Fixed start of a placement.
#[derive(Clone)]
pub(super) struct PartialPlacement {
    /// First position of all other tables.
    pub at: usize,
    /// Position of the last part of each completely placed table.
    pub ends: Vec<Option<usize>>,
    /// Free resources, by pipe and stage.
    pub free: Vec<StageResources>,
}

impl RelaxationLimits {
    /// Returns the position at which an already placed table ended.
    fn end_position(&self, n: usize) -> Option<usize> {
        self.partial.as_ref().and_then(|begun| begun.ends[n])
    }
}

/// Result of the relaxation.
pub(super) enum RelaxationResult {
    /// No placement exists.
    Impossible,
    /// A placement may exist.
    Possible {
        /// Entries of large tables by position, from their shares. Empty for small tables, and for
        /// all if time ran out.
        plan: Vec<Vec<u64>>,
    },
}

/// Solves the relaxation within a time limit.
pub(super) fn solve_relaxation(
    ground: &PlacementProblem,
    asked: &RelaxationLimits,
    limit: Duration,
) -> RelaxationResult {
    let Some(windows) = PositionWindows::new(ground, asked) else { return RelaxationResult::Impossible };
    let large: Vec<usize> = windows.large_tables().into_iter().filter(|n| asked.end_position(*n).is_none()).collect();
    let mut plan = vec![Vec::new(); asked.entries.len()];
    if large.is_empty() {
        return RelaxationResult::Possible { plan };
    }
    let columns = match solve_shares(ground, asked, &windows, &large, limit) {
        SolveResult::Impossible => return RelaxationResult::Impossible,
        SolveResult::Unknown { .. } => return RelaxationResult::Possible { plan },
        SolveResult::Found { columns, .. } => columns,
    };
    let Some((full, mut shares)) = columns.split_first() else { return RelaxationResult::Possible { plan } };
    if *full > 1.0 + TOLERANCE {
        return RelaxationResult::Impossible;
    }
    for n in large {
        let (first, end) = windows.window[n];
        let (own, rest) = shares.split_at((end - first).min(shares.len()));
        shares = rest;
        plan[n] = vec![0; ground.path.hops.len() * asked.stages as usize];
        for (at, share) in own.iter().enumerate().filter(|(_, share)| **share > TOLERANCE) {
            plan[n][first + at] = (share * asked.entries[n] as f64).ceil() as u64;
        }
    }
    RelaxationResult::Possible { plan }
}

/// Position windows of all tables.
pub(super) struct PositionWindows {
    /// First position of each table, and the position after its last.
    pub window: Vec<(usize, usize)>,
    /// Entries of each table that a stage holds within the limits.
    capacity: Vec<u64>,
    /// Minimum blocks of SRAM, map RAM and TCAM of each whole table.
    whole: Vec<[f64; 3]>,
    /// Minimum number of stages of each table.
    lengths: Vec<usize>,
    entries: Vec<u64>,
}

/// Mapping from positions to the stages of pipes.
struct PositionMap {
    /// Stage of a pipe, by position.
    slots: Vec<usize>,
    count: usize,
}

impl PositionMap {
    fn new(ground: &PlacementProblem, stages: usize) -> PositionMap {
        let first = ground.path.hops.iter().map(|hop| hop.pipe as usize * stages);
        let slots = first.flat_map(|first| first..first + stages).collect();
        PositionMap { slots, count: ground.path.pipe_count().max(1) as usize * stages }
    }

    /// Returns the position after the last of `stages` different stages from `from` on. `None` if
    /// there are too few.
    fn end_after(&self, from: usize, stages: usize) -> Option<usize> {
        let mut seen = vec![false; self.count];
        let mut left = stages;
        for at in from..self.slots.len() {
            if left == 0 {
                return Some(at);
            }
            left -= usize::from(!std::mem::replace(&mut seen[self.slots[at]], true));
        }
        (left == 0).then_some(self.slots.len())
    }

    /// Returns the position of the first of `stages` different stages before `end`. `None` if there
    /// are too few.
    fn begin_before(&self, end: usize, stages: usize) -> Option<usize> {
        let mut seen = vec![false; self.count];
        let mut left = stages;
        for at in (0..end).rev() {
            left -= usize::from(!std::mem::replace(&mut seen[self.slots[at]], true));
            if left == 0 {
                return Some(at);
            }
        }
        None
    }
}

impl PositionWindows {
    /// Computes the windows. `None` if a table has no possible position.
    pub fn new(ground: &PlacementProblem, asked: &RelaxationLimits) -> Option<PositionWindows> {
        let (count, stages) = (asked.entries.len(), asked.stages as usize);
        let way = PositionMap::new(ground, stages);
        let (mut capacity, mut whole, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..count {
            let least = &ground.lower_bounds()[n];
            let keyless = ground.program.tables[n].kind == MemoryMatchKind::None;
            let most = match asked.end_position(n) {
                Some(_) => 1,
                None => least.max_entries(&asked.stage_limits)?,
            };
            capacity.push(most);
            let length = if keyless { 1 } else { asked.entries[n].max(1).div_ceil(most.max(1)) };
            let length = if asked.end_position(n).is_some() { 1 } else { length };
            lengths.push(usize::try_from(length).ok().filter(|length| *length <= way.slots.len())?);
            let part = memory_blocks(&least.min_part).map(f64::from);
            whole.push([0, 1, 2].map(|kind| (least.blocks_per_entry[kind] * asked.entries[n] as f64).max(part[kind])));
        }
        let mut window = vec![(0, 0); count];
        for n in 0..count {
            if let Some(end) = asked.end_position(n) {
                window[n] = (end, end + 1);
                continue;
            }
            let behind = |(before, distance): &(usize, u32)| -> Option<usize> {
                let end = match asked.end_position(*before) {
                    Some(end) => end,
                    None => way.end_after(window[*before].0, lengths[*before])? - 1,
                };
                Some(end + *distance as usize)
            };
            let mut first = (ground.hops[n].0 * stages).max(asked.partial.as_ref().map_or(0, |begun| begun.at));
            for before in &ground.predecessors[n] {
                first = first.max(behind(before)?);
            }
            way.end_after(first, lengths[n])?;
            window[n].0 = first;
        }
        for n in (0..count).rev().filter(|n| asked.end_position(*n).is_none()) {
            let mut end = (ground.hops[n].1 + 1) * stages;
            for (next, distance) in &ground.successors[n] {
                let last = way.begin_before(window[*next].1, lengths[*next])?;
                end = end.min((last + 1).checked_sub(*distance as usize)?);
            }
            window[n].1 = end;
            way.begin_before(end, lengths[n]).filter(|begin| *begin >= window[n].0)?;
        }
        Some(PositionWindows { window, capacity, whole, lengths, entries: asked.entries.clone() })
    }

    /// Returns the tables that fill stages.
    fn large_tables(&self) -> Vec<usize> {
        (0..self.window.len()).filter(|n| self.whole[*n][0] + self.whole[*n][2] > LARGE_BLOCKS).collect()
    }

    /// Returns the maximum share of a table in one stage.
    fn max_share(&self, n: usize) -> f64 {
        self.capacity[n] as f64 / self.entries[n].max(1) as f64
    }
}

/// Returns the minimum distance from the last part of one large table to the first part of another,
/// with all tables between them as short as possible. Redundant pairs are left out.
fn min_distances(ground: &PlacementProblem, windows: &PositionWindows, large: &[usize]) -> Vec<(usize, usize, usize)> {
    let count = windows.window.len();
    let mut far: Vec<Vec<Option<usize>>> = Vec::new();
    for &from in large {
        let mut reach: Vec<Option<usize>> = vec![None; count];
        for n in from + 1..count {
            for (before, distance) in &ground.predecessors[n] {
                let there = if *before == from {
                    Some(0)
                } else {
                    reach[*before].map(|there| there + windows.lengths[*before] - 1)
                };
                let Some(there) = there else { continue };
                let there = there + *distance as usize;
                reach[n] = Some(reach[n].map_or(there, |known| known.max(there)));
            }
        }
        far.push(reach);
    }
    let mut out = Vec::new();
    for (a, first) in large.iter().enumerate() {
        for second in large {
            let Some(distance) = far[a][*second] else { continue };
            let through = large.iter().enumerate().any(|(c, middle)| match (far[a][*middle], far[c][*second]) {
                (Some(one), Some(other)) => one + windows.lengths[*middle] - 1 + other >= distance,
                _ => false,
            });
            if !through {
                out.push((*first, *second, distance));
            }
        }
    }
    out
}

/// Linear program under construction.
struct RelaxedModel<'a, 'g> {
    ground: &'a PlacementProblem<'g>,
    asked: &'a RelaxationLimits,
    windows: &'a PositionWindows,
    large: &'a [usize],
    vars: ProblemVariables,
    full: Variable,
    /// Share of each large table at each position of its window.
    share: Vec<Vec<Variable>>,
    constraints: Vec<good_lp::Constraint>,
}

fn solve_shares(
    ground: &PlacementProblem,
    asked: &RelaxationLimits,
    windows: &PositionWindows,
    large: &[usize],
    limit: Duration,
) -> SolveResult {
    let mut vars = ProblemVariables::new();
    let most = if asked.partial.is_some() || asked.is_unsplit { 1.0 } else { f64::INFINITY };
    let full = vars.add(variable().min(0).max(most));
    let mut shares =
        RelaxedModel { ground, asked, windows, large, vars, full, share: Vec::new(), constraints: Vec::new() };
    for n in large {
        let (first, end) = windows.window[*n];
        let most = windows.max_share(*n).min(1.0);
        let own: Vec<Variable> = (first..end).map(|_| shares.vars.add(variable().min(0).max(most))).collect();
        let sum: Expression = own.iter().map(|share| Expression::from(*share)).sum();
        shares.constraints.push(constraint!(sum == 1.0));
        shares.share.push(own);
    }
    shares.add_order_constraints();
    shares.add_stage_limits();
    let objective = match (asked.is_unsplit, &asked.partial) {
        (true, _) => Expression::from(0.0),
        (false, None) => Expression::from(full),
        (false, Some(_)) => shares.total_lateness(),
    };
    let RelaxedModel { vars, constraints, .. } = shares;
    let problem: HighsProblem =
        constraints.into_iter().fold(vars.minimise(objective).using(highs), |problem, one| problem.with(one));
    solve_with_limit(problem, limit, &mut || {})
}

impl RelaxedModel<'_, '_> {
    /// Returns the share of large table number `n` before a position.
    fn share_before(&self, n: usize, position: usize) -> Expression {
        let (first, end) = self.windows.window[self.large[n]];
        let count = position.clamp(first, end) - first;
        self.share[n][..count].iter().map(|share| Expression::from(*share)).sum()
    }

    /// Returns the block-weighted sum of positions.
    fn total_lateness(&self) -> Expression {
        let mut sum = Expression::from(0.0);
        for (own, table) in self.share.iter().zip(self.large) {
            let (first, _) = self.windows.window[*table];
            let blocks: f64 = self.windows.whole[*table].iter().sum();
            for (at, share) in own.iter().enumerate() {
                sum += blocks * (first + at) as f64 / 100.0 * *share;
            }
        }
        sum
    }

    fn add_order_constraints(&mut self) {
        let number = |table: usize| self.large.iter().position(|n| *n == table);
        let mut ended: HashMap<usize, Vec<Variable>> = HashMap::new();
        for (first, second, distance) in min_distances(self.ground, self.windows, self.large) {
            let (Some(a), Some(b)) = (number(first), number(second)) else { continue };
            if self.asked.is_unsplit && !ended.contains_key(&a) {
                let own = self.add_ended_binaries(a);
                ended.insert(a, own);
            }
            let (from, to) = self.windows.window[second];
            // Beyond its window, the first table is complete.
            let until = to.min(self.windows.window[first].1 + distance);
            for position in from + 1..until {
                let begun = self.share_before(b, position);
                let end = position.saturating_sub(distance);
                let ended = match ended.get(&a) {
                    None => self.share_before(a, end),
                    Some(own) => match end.checked_sub(self.windows.window[first].0 + 1).map(|at| own.get(at)) {
                        None => Expression::from(0.0),
                        Some(None) => continue,
                        Some(Some(ended)) => Expression::from(*ended),
                    },
                };
                self.constraints.push(constraint!(begun <= ended));
            }
        }
    }

    /// Adds binaries for whether large table number `n` has ended by each position of its window
    /// except the last.
    fn add_ended_binaries(&mut self, n: usize) -> Vec<Variable> {
        let (first, end) = self.windows.window[self.large[n]];
        let own: Vec<Variable> = (first + 1..end).map(|_| self.vars.add(variable().binary())).collect();
        for (at, ended) in own.iter().copied().enumerate() {
            let share = self.share_before(n, first + at + 1);
            self.constraints.push(constraint!(ended <= share));
            if let Some(next) = own.get(at + 1).copied() {
                self.constraints.push(constraint!(ended <= next));
            }
        }
        own
    }

    fn add_stage_limits(&mut self) {
        let stages = self.asked.stages as usize;
        for slot in 0..self.ground.path.pipe_count().max(1) as usize * stages {
            let (pipe, stage) = ((slot / stages) as u32, slot % stages);
            let hops = self.ground.path.hops.iter().enumerate().filter(|(_, hop)| hop.pipe == pipe);
            let places: Vec<usize> = hops.map(|(hop, _)| hop * stages + stage).collect();
            let has = self.asked.partial.as_ref().map_or(self.asked.stage_limits, |begun| begun.free[slot]);
            for (kind, has) in memory_blocks(&has).into_iter().enumerate() {
                let mut sum = Expression::from(0.0);
                let mut any = false;
                for (n, table) in self.large.iter().enumerate() {
                    let (first, end) = self.windows.window[*table];
                    let blocks = self.windows.whole[*table][kind];
                    for place in places.iter().filter(|place| (first..end).contains(*place) && blocks > 0.0) {
                        sum += blocks * self.share[n][place - first];
                        any = true;
                    }
                }
                if any {
                    let full = self.full;
                    self.constraints.push(constraint!(sum <= f64::from(has) * full));
                }
            }
        }
    }
}
