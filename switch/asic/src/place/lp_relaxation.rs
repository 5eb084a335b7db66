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

/// Solves the relaxation within a time limit. The first column of the solution is the utilization
/// of the fullest stage; the shares of the large tables follow, position by position.
pub(super) fn solve_relaxation(
    problem: &PlacementProblem,
    limits: &RelaxationLimits,
    limit: Duration,
) -> RelaxationResult {
    let Some(windows) = PositionWindows::new(problem, limits) else { return RelaxationResult::Impossible };
    let large: Vec<usize> = windows.large_tables().into_iter().filter(|n| limits.end_position(*n).is_none()).collect();
    let mut plan = vec![Vec::new(); limits.entries.len()];
    if large.is_empty() {
        return RelaxationResult::Possible { plan };
    }
    let columns = match solve_shares(problem, limits, &windows, &large, limit) {
        SolveResult::Impossible => return RelaxationResult::Impossible,
        SolveResult::Unknown { .. } => return RelaxationResult::Possible { plan },
        SolveResult::Found { columns, .. } => columns,
    };
    let Some((utilization, mut shares)) = columns.split_first() else { return RelaxationResult::Possible { plan } };
    if *utilization > 1.0 + TOLERANCE {
        return RelaxationResult::Impossible;
    }
    for n in large {
        let (first, end) = windows.window[n];
        let (own_shares, rest) = shares.split_at((end - first).min(shares.len()));
        shares = rest;
        plan[n] = vec![0; problem.path.hops.len() * limits.stages as usize];
        for (offset, share) in own_shares.iter().enumerate().filter(|(_, share)| **share > TOLERANCE) {
            plan[n][first + offset] = (share * limits.entries[n] as f64).ceil() as u64;
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
    fn new(problem: &PlacementProblem, stages: usize) -> PositionMap {
        let first = problem.path.hops.iter().map(|hop| hop.pipe as usize * stages);
        let slots = first.flat_map(|first| first..first + stages).collect();
        PositionMap { slots, count: problem.path.pipe_count().max(1) as usize * stages }
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
    /// Computes the windows. `None` if a table has no possible position. A forward walk finds the
    /// first position of each table after its predecessors, a backward walk the end before its
    /// successors.
    pub fn new(problem: &PlacementProblem, limits: &RelaxationLimits) -> Option<PositionWindows> {
        let (count, stages) = (limits.entries.len(), limits.stages as usize);
        let positions = PositionMap::new(problem, stages);
        let (mut capacity, mut whole, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..count {
            let lower_bound = &problem.lower_bounds()[n];
            let has_no_key = problem.program.tables[n].kind == MemoryMatchKind::None;
            let stage_capacity = match limits.end_position(n) {
                Some(_) => 1,
                None => lower_bound.max_entries(&limits.stage_limits)?,
            };
            capacity.push(stage_capacity);
            let length = if has_no_key { 1 } else { limits.entries[n].max(1).div_ceil(stage_capacity.max(1)) };
            let length = if limits.end_position(n).is_some() { 1 } else { length };
            lengths.push(usize::try_from(length).ok().filter(|length| *length <= positions.slots.len())?);
            let min_part_blocks = memory_blocks(&lower_bound.min_part).map(f64::from);
            whole.push([0, 1, 2].map(|kind| {
                (lower_bound.blocks_per_entry[kind] * limits.entries[n] as f64).max(min_part_blocks[kind])
            }));
        }
        let mut window = vec![(0, 0); count];
        for n in 0..count {
            if let Some(end) = limits.end_position(n) {
                window[n] = (end, end + 1);
                continue;
            }
            let first_after = |(predecessor, distance): &(usize, u32)| -> Option<usize> {
                let end = match limits.end_position(*predecessor) {
                    Some(end) => end,
                    None => positions.end_after(window[*predecessor].0, lengths[*predecessor])? - 1,
                };
                Some(end + *distance as usize)
            };
            let mut first = (problem.hops[n].0 * stages).max(limits.partial.as_ref().map_or(0, |begun| begun.at));
            for predecessor in &problem.predecessors[n] {
                first = first.max(first_after(predecessor)?);
            }
            positions.end_after(first, lengths[n])?;
            window[n].0 = first;
        }
        for n in (0..count).rev().filter(|n| limits.end_position(*n).is_none()) {
            let mut end = (problem.hops[n].1 + 1) * stages;
            for (next, distance) in &problem.successors[n] {
                let last = positions.begin_before(window[*next].1, lengths[*next])?;
                end = end.min((last + 1).checked_sub(*distance as usize)?);
            }
            window[n].1 = end;
            positions.begin_before(end, lengths[n]).filter(|begin| *begin >= window[n].0)?;
        }
        Some(PositionWindows { window, capacity, whole, lengths, entries: limits.entries.clone() })
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
/// as (first, second, positions), with all tables between them as short as possible. Redundant
/// pairs are left out.
fn min_distances(problem: &PlacementProblem, windows: &PositionWindows, large: &[usize]) -> Vec<(usize, usize, usize)> {
    let count = windows.window.len();
    let mut distances: Vec<Vec<Option<usize>>> = Vec::new();
    for &start in large {
        let mut longest: Vec<Option<usize>> = vec![None; count];
        for n in start + 1..count {
            for (predecessor, distance) in &problem.predecessors[n] {
                let distance_to = if *predecessor == start {
                    Some(0)
                } else {
                    longest[*predecessor].map(|distance_to| distance_to + windows.lengths[*predecessor] - 1)
                };
                let Some(distance_to) = distance_to else { continue };
                let distance_to = distance_to + *distance as usize;
                longest[n] = Some(longest[n].map_or(distance_to, |longer| longer.max(distance_to)));
            }
        }
        distances.push(longest);
    }
    let mut out = Vec::new();
    for (a, first) in large.iter().enumerate() {
        for second in large {
            let Some(distance) = distances[a][*second] else { continue };
            let is_implied =
                large.iter().enumerate().any(|(c, middle)| match (distances[a][*middle], distances[c][*second]) {
                    (Some(to_middle), Some(from_middle)) => {
                        to_middle + windows.lengths[*middle] - 1 + from_middle >= distance
                    }
                    _ => false,
                });
            if !is_implied {
                out.push((*first, *second, distance));
            }
        }
    }
    out
}

/// Linear program under construction.
struct RelaxedModel<'a, 'g> {
    problem: &'a PlacementProblem<'g>,
    limits: &'a RelaxationLimits,
    windows: &'a PositionWindows,
    large: &'a [usize],
    vars: ProblemVariables,
    full: Variable,
    /// Share of each large table at each position of its window.
    share: Vec<Vec<Variable>>,
    constraints: Vec<good_lp::Constraint>,
}

/// Builds and solves the linear program over the shares of the large tables. The sum of a table's
/// shares is 1; the objective is the fullest stage's utilization, or the earliest placement after a
/// partial one.
fn solve_shares(
    problem: &PlacementProblem,
    limits: &RelaxationLimits,
    windows: &PositionWindows,
    large: &[usize],
    limit: Duration,
) -> SolveResult {
    let mut vars = ProblemVariables::new();
    let max_utilization = if limits.partial.is_some() || limits.is_unsplit { 1.0 } else { f64::INFINITY };
    let utilization = vars.add(variable().min(0).max(max_utilization));
    let mut model = RelaxedModel {
        problem,
        limits,
        windows,
        large,
        vars,
        full: utilization,
        share: Vec::new(),
        constraints: Vec::new(),
    };
    for n in large {
        let (first, end) = windows.window[*n];
        let max_utilization = windows.max_share(*n).min(1.0);
        let own_shares: Vec<Variable> =
            (first..end).map(|_| model.vars.add(variable().min(0).max(max_utilization))).collect();
        let sum: Expression = own_shares.iter().map(|share| Expression::from(*share)).sum();
        model.constraints.push(constraint!(sum == 1.0));
        model.share.push(own_shares);
    }
    model.add_order_constraints();
    model.add_stage_limits();
    let objective = match (limits.is_unsplit, &limits.partial) {
        (true, _) => Expression::from(0.0),
        (false, None) => Expression::from(utilization),
        (false, Some(_)) => model.total_lateness(),
    };
    let RelaxedModel { vars, constraints, .. } = model;
    let program: HighsProblem = constraints
        .into_iter()
        .fold(vars.minimise(objective).using(highs), |program, constraint| program.with(constraint));
    solve_with_limit(program, limit, &mut || {})
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

    /// Adds the constraint for each pair of dependent tables: up to any position, the second
    /// table's share is at most that of the first up to the minimum distance before. With unsplit
    /// tables, the first must have ended completely (a binary variable for each position).
    fn add_order_constraints(&mut self) {
        let index_in_large = |table: usize| self.large.iter().position(|n| *n == table);
        let mut ended_at: HashMap<usize, Vec<Variable>> = HashMap::new();
        for (first, second, distance) in min_distances(self.problem, self.windows, self.large) {
            let (Some(a), Some(b)) = (index_in_large(first), index_in_large(second)) else { continue };
            if self.limits.is_unsplit && !ended_at.contains_key(&a) {
                let ended_binaries = self.add_ended_binaries(a);
                ended_at.insert(a, ended_binaries);
            }
            let (from, to) = self.windows.window[second];
            // Beyond its window, the first table is complete.
            let until = to.min(self.windows.window[first].1 + distance);
            for position in from + 1..until {
                let second_share = self.share_before(b, position);
                let end = position.saturating_sub(distance);
                let ended_at = match ended_at.get(&a) {
                    None => self.share_before(a, end),
                    Some(ended_binaries) => {
                        match end.checked_sub(self.windows.window[first].0 + 1).map(|index| ended_binaries.get(index)) {
                            None => Expression::from(0.0),
                            Some(None) => continue,
                            Some(Some(ended_at)) => Expression::from(*ended_at),
                        }
                    }
                };
                self.constraints.push(constraint!(second_share <= ended_at));
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

    /// Adds the constraint for each stage and kind of block: all shares in the stage, over all hops
    /// through its pipe, fit the stage's blocks times the utilization variable.
    fn add_stage_limits(&mut self) {
        let stages = self.limits.stages as usize;
        for slot in 0..self.problem.path.pipe_count().max(1) as usize * stages {
            let (pipe, stage) = ((slot / stages) as u32, slot % stages);
            let hops = self.problem.path.hops.iter().enumerate().filter(|(_, hop)| hop.pipe == pipe);
            let positions: Vec<usize> = hops.map(|(hop, _)| hop * stages + stage).collect();
            let free_blocks = self.limits.partial.as_ref().map_or(self.limits.stage_limits, |begun| begun.free[slot]);
            for (kind, free_blocks) in memory_blocks(&free_blocks).into_iter().enumerate() {
                let mut sum = Expression::from(0.0);
                let mut is_used = false;
                for (n, table) in self.large.iter().enumerate() {
                    let (first, end) = self.windows.window[*table];
                    let blocks = self.windows.whole[*table][kind];
                    for position in positions.iter().filter(|position| (first..end).contains(*position) && blocks > 0.0)
                    {
                        sum += blocks * self.share[n][position - first];
                        is_used = true;
                    }
                }
                if is_used {
                    let full = self.full;
                    self.constraints.push(constraint!(sum <= f64::from(free_blocks) * full));
                }
            }
        }
    }
}
