//! What no placement can be better than: placements without whole tables, blocks or stages, as a linear program.
//!
//! A table's entries lie at positions (stages of hops) in shares of any size. What is true of shares of any placement, and so is asked here:
//!
//! - each table has its window of positions. It begins when all tables before it can have ended, each of which takes as many *different* stages as its
//!   entries need, and ends early enough for all behind it. (The halves of a pipe share its stages: passing them twice makes no more room.);
//! - what a table has at one position is no more than an empty stage holds;
//! - all parts in a stage take no more than it has; a part takes at least its share of what the whole table takes at the least;
//! - up to any position there is no greater share of a table than there was, the distance before, of one that it waits for: one that has begun
//!   waits for nothing more.
//!
//! The program's objective is how full the fullest stage is. If even that is more than full, there is no placement, and that is a proof: it needs no
//! search over orders. Small tables are in windows and distances alone.

use super::bounds::{Ground, memories};
use super::solve::{Answer, solve};
use crate::demand::Match;
use crate::target::Usage;
use good_lp::solvers::highs::{HighsProblem, highs};
use good_lp::{Expression, ProblemVariables, SolverModel, Variable, constraint, variable};
use std::collections::HashMap;
use std::time::Duration;

/// Blocks of SRAM and TCAM from which on a table is in the program: smaller ones hardly fill a stage.
const LARGE: f64 = 1.5;

/// Numbers of a linear program are right up to this.
const TOLERANCE: f64 = 1e-6;

/// What is asked of the chip.
#[derive(Clone)]
pub(super) struct Asked {
    /// Stages of each pipe that may be used.
    pub stages: u32,
    /// What may be taken of each stage.
    pub caps: Usage,
    /// Entries (rows) of each table; those that have no place yet, where there is a beginning.
    pub entries: Vec<u64>,
    /// Whether a table must have ended before another one that waits for it begins, and not only its share: that is an integer program.
    pub whole: bool,
    /// What is placed already; with it, all else is to come as early as it can, and not as evenly.
    pub begun: Option<Begun>,
}

/// A beginning of a placement.
#[derive(Clone)]
pub(super) struct Begun {
    /// Everything else is at this position or behind it.
    pub at: usize,
    /// The position of each table's last part, where it is whole.
    pub ends: Vec<Option<usize>>,
    /// What is free, by pipe and stage.
    pub free: Vec<Usage>,
}

impl Asked {
    /// Where a table ended that is placed already.
    fn ended(&self, n: usize) -> Option<usize> {
        self.begun.as_ref().and_then(|begun| begun.ends[n])
    }
}

/// What is known then.
pub(super) enum Relaxed {
    /// There is no placement.
    Impossible,
    /// Nothing is known against one.
    Possible {
        /// Entries of large tables by position, as the shares have them; nothing for small ones, nor where time was over.
        plan: Vec<Vec<u64>>,
    },
}

/// What can be said of placements without making one, within a time.
pub(super) fn relaxed(ground: &Ground, asked: &Asked, limit: Duration) -> Relaxed {
    let Some(windows) = Windows::new(ground, asked) else { return Relaxed::Impossible };
    let large: Vec<usize> = windows.large().into_iter().filter(|n| asked.ended(*n).is_none()).collect();
    let mut plan = vec![Vec::new(); asked.entries.len()];
    if large.is_empty() {
        return Relaxed::Possible { plan };
    }
    let columns = match solve_shares(ground, asked, &windows, &large, limit) {
        Answer::Impossible => return Relaxed::Impossible,
        Answer::Nothing { .. } => return Relaxed::Possible { plan },
        Answer::Found { columns, .. } => columns,
    };
    let Some((full, mut shares)) = columns.split_first() else { return Relaxed::Possible { plan } };
    if *full > 1.0 + TOLERANCE {
        return Relaxed::Impossible;
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
    Relaxed::Possible { plan }
}

/// Where each table can be.
pub(super) struct Windows {
    /// First position of each table, and the position behind its last.
    pub window: Vec<(usize, usize)>,
    /// Entries of each table that a stage holds, of what may be taken.
    capacity: Vec<u64>,
    /// Blocks of SRAM, map RAM and TCAM of each whole table at the least.
    whole: Vec<[f64; 3]>,
    /// Stages that each table takes at the least.
    lengths: Vec<usize>,
    entries: Vec<u64>,
}

/// Positions, and the stages that they are in.
struct Way {
    /// Stage of a pipe, by position.
    slots: Vec<usize>,
    count: usize,
}

impl Way {
    fn new(ground: &Ground, stages: usize) -> Way {
        let first = ground.path.hops.iter().map(|hop| hop.pipe as usize * stages);
        let slots = first.flat_map(|first| first..first + stages).collect();
        Way { slots, count: ground.path.pipes().max(1) as usize * stages }
    }

    /// The position behind the last of so many different stages from `from` on; none if there are not so many.
    fn end(&self, from: usize, stages: usize) -> Option<usize> {
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

    /// The position of the first of so many different stages before `end`; none if there are not so many.
    fn begin(&self, end: usize, stages: usize) -> Option<usize> {
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

impl Windows {
    /// None if some table has no place to be.
    pub fn new(ground: &Ground, asked: &Asked) -> Option<Windows> {
        let (count, stages) = (asked.entries.len(), asked.stages as usize);
        let way = Way::new(ground, stages);
        let (mut capacity, mut whole, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..count {
            let least = &ground.least()[n];
            let keyless = ground.program.tables[n].kind == Match::None;
            let most = match asked.ended(n) {
                Some(_) => 1,
                None => least.most(&asked.caps)?,
            };
            capacity.push(most);
            let length = if keyless { 1 } else { asked.entries[n].max(1).div_ceil(most.max(1)) };
            let length = if asked.ended(n).is_some() { 1 } else { length };
            lengths.push(usize::try_from(length).ok().filter(|length| *length <= way.slots.len())?);
            let part = memories(&least.part).map(f64::from);
            whole.push([0, 1, 2].map(|kind| (least.entry[kind] * asked.entries[n] as f64).max(part[kind])));
        }
        let mut window = vec![(0, 0); count];
        for n in 0..count {
            if let Some(end) = asked.ended(n) {
                window[n] = (end, end + 1);
                continue;
            }
            let behind = |(before, distance): &(usize, u32)| -> Option<usize> {
                let end = match asked.ended(*before) {
                    Some(end) => end,
                    None => way.end(window[*before].0, lengths[*before])? - 1,
                };
                Some(end + *distance as usize)
            };
            let mut first = (ground.hops[n].0 * stages).max(asked.begun.as_ref().map_or(0, |begun| begun.at));
            for before in &ground.before[n] {
                first = first.max(behind(before)?);
            }
            way.end(first, lengths[n])?;
            window[n].0 = first;
        }
        for n in (0..count).rev().filter(|n| asked.ended(*n).is_none()) {
            let mut end = (ground.hops[n].1 + 1) * stages;
            for (next, distance) in &ground.behind[n] {
                let last = way.begin(window[*next].1, lengths[*next])?;
                end = end.min((last + 1).checked_sub(*distance as usize)?);
            }
            window[n].1 = end;
            way.begin(end, lengths[n]).filter(|begin| *begin >= window[n].0)?;
        }
        Some(Windows { window, capacity, whole, lengths, entries: asked.entries.clone() })
    }

    /// Tables that fill stages.
    fn large(&self) -> Vec<usize> {
        (0..self.window.len()).filter(|n| self.whole[*n][0] + self.whole[*n][2] > LARGE).collect()
    }

    /// The greatest share of a table that a stage holds.
    fn most(&self, n: usize) -> f64 {
        self.capacity[n] as f64 / self.entries[n].max(1) as f64
    }
}

/// For each pair of large tables, how far behind the last part of the first one the first part of the second one is at least, all between them being as
/// short as they can be; pairs that follow from others are left out.
fn distances(ground: &Ground, windows: &Windows, large: &[usize]) -> Vec<(usize, usize, usize)> {
    let count = windows.window.len();
    let mut far: Vec<Vec<Option<usize>>> = Vec::new();
    for &from in large {
        let mut reach: Vec<Option<usize>> = vec![None; count];
        for n in from + 1..count {
            for (before, distance) in &ground.before[n] {
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

/// The program as it is built.
struct Shares<'a, 'g> {
    ground: &'a Ground<'g>,
    asked: &'a Asked,
    windows: &'a Windows,
    large: &'a [usize],
    vars: ProblemVariables,
    full: Variable,
    /// For each large table, its share at each position of its window.
    share: Vec<Vec<Variable>>,
    constraints: Vec<good_lp::Constraint>,
}

fn solve_shares(ground: &Ground, asked: &Asked, windows: &Windows, large: &[usize], limit: Duration) -> Answer {
    let mut vars = ProblemVariables::new();
    let most = if asked.begun.is_some() || asked.whole { 1.0 } else { f64::INFINITY };
    let full = vars.add(variable().min(0).max(most));
    let mut shares = Shares { ground, asked, windows, large, vars, full, share: Vec::new(), constraints: Vec::new() };
    for n in large {
        let (first, end) = windows.window[*n];
        let most = windows.most(*n).min(1.0);
        let own: Vec<Variable> = (first..end).map(|_| shares.vars.add(variable().min(0).max(most))).collect();
        let sum: Expression = own.iter().map(|share| Expression::from(*share)).sum();
        shares.constraints.push(constraint!(sum == 1.0));
        shares.share.push(own);
    }
    shares.orders();
    shares.stages();
    let objective = match (asked.whole, &asked.begun) {
        (true, _) => Expression::from(0.0),
        (false, None) => Expression::from(full),
        (false, Some(_)) => shares.late(),
    };
    let Shares { vars, constraints, .. } = shares;
    let problem: HighsProblem =
        constraints.into_iter().fold(vars.minimise(objective).using(highs), |problem, one| problem.with(one));
    solve(problem, limit, &mut || {})
}

impl Shares<'_, '_> {
    /// The share of the large table number `n` before a position.
    fn before(&self, n: usize, position: usize) -> Expression {
        let (first, end) = self.windows.window[self.large[n]];
        let count = position.clamp(first, end) - first;
        self.share[n][..count].iter().map(|share| Expression::from(*share)).sum()
    }

    /// How late blocks are, all together.
    fn late(&self) -> Expression {
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

    fn orders(&mut self) {
        let number = |table: usize| self.large.iter().position(|n| *n == table);
        let mut ended: HashMap<usize, Vec<Variable>> = HashMap::new();
        for (first, second, distance) in distances(self.ground, self.windows, self.large) {
            let (Some(a), Some(b)) = (number(first), number(second)) else { continue };
            if self.asked.whole && !ended.contains_key(&a) {
                let own = self.ended(a);
                ended.insert(a, own);
            }
            let (from, to) = self.windows.window[second];
            // Beyond the first one's window, all of it is there.
            let until = to.min(self.windows.window[first].1 + distance);
            for position in from + 1..until {
                let begun = self.before(b, position);
                let end = position.saturating_sub(distance);
                let ended = match ended.get(&a) {
                    None => self.before(a, end),
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

    /// Whether the large table number `n` has ended by each position of its window but the last.
    fn ended(&mut self, n: usize) -> Vec<Variable> {
        let (first, end) = self.windows.window[self.large[n]];
        let own: Vec<Variable> = (first + 1..end).map(|_| self.vars.add(variable().binary())).collect();
        for (at, ended) in own.iter().copied().enumerate() {
            let share = self.before(n, first + at + 1);
            self.constraints.push(constraint!(ended <= share));
            if let Some(next) = own.get(at + 1).copied() {
                self.constraints.push(constraint!(ended <= next));
            }
        }
        own
    }

    fn stages(&mut self) {
        let stages = self.asked.stages as usize;
        for slot in 0..self.ground.path.pipes().max(1) as usize * stages {
            let (pipe, stage) = ((slot / stages) as u32, slot % stages);
            let hops = self.ground.path.hops.iter().enumerate().filter(|(_, hop)| hop.pipe == pipe);
            let places: Vec<usize> = hops.map(|(hop, _)| hop * stages + stage).collect();
            let has = self.asked.begun.as_ref().map_or(self.asked.caps, |begun| begun.free[slot]);
            for (kind, has) in memories(&has).into_iter().enumerate() {
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
