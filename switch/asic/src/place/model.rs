//! Placement as an integer program.
//!
//! Each table has two binaries per position (a stage of a hop): *begun* by there, and *ended* by
//! there. Both are monotonic along the path, so the order of two tables is one inequality per
//! position, which is tight even when binaries are relaxed. A table is present between the two. Its
//! amount at a position is continuous, and takes at least as many blocks as any real part with that
//! number of entries. The program is therefore a relaxation: if it is infeasible, no placement
//! exists, and its bound holds for all placements. List scheduling along its solutions turns them
//! into placements.

use super::bounds::{PlacementProblem, memory_blocks};
use crate::demand::MemoryMatchKind;
use crate::target::StageResources;
use good_lp::solvers::highs::{HighsProblem, highs};
use good_lp::{Expression, ProblemVariables, SolverModel, Variable, constraint, variable};

/// Objective of the integer program.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum ModelGoal {
    /// Any solution.
    Any,
    /// Minimize the share of each stage's memories that suffices.
    Share,
    /// Maximize the scale of all tables, from this one on.
    Scale(f64),
}

/// A binary variable, or its fixed value.
#[derive(Clone, Copy, PartialEq)]
enum BinaryVar {
    Fixed(bool),
    Var(Variable),
}

impl BinaryVar {
    fn term(self) -> Expression {
        match self {
            BinaryVar::Fixed(is) => Expression::from(f64::from(u8::from(is))),
            BinaryVar::Var(var) => Expression::from(var),
        }
    }
}

/// Variables of a table.
struct TableVars {
    begun: Vec<BinaryVar>,
    ended: Vec<BinaryVar>,
    /// Amount at each position as a fraction of the table. `None` where it is not allowed.
    amount: Vec<Option<Variable>>,
    /// Columns of `amount`.
    columns: Vec<Option<usize>>,
    /// Minimum resources of any part.
    least: StageResources,
    /// Minimum blocks of the whole table: SRAM, map RAM, TCAM.
    whole: [f64; 3],
}

/// Integer program for a number of stages.
pub(super) struct PlacementModel<'a, 'g> {
    problem: &'a PlacementProblem<'g>,
    stages: usize,
    positions: usize,
    vars: ProblemVariables,
    count: usize,
    rows: Vec<TableVars>,
    constraints: Vec<good_lp::Constraint>,
    objective: Variable,
    ask: ModelGoal,
}

/// A program ready to solve, with the columns of its solution.
pub(super) struct SolvableModel {
    pub problem: HighsProblem,
    /// Column of the amount, for each table and position.
    pub amounts: Vec<Vec<Option<usize>>>,
}

impl<'a, 'g> PlacementModel<'a, 'g> {
    /// Builds the program for a number of stages.
    pub fn build_model(problem: &'a PlacementProblem<'g>, stages: u32, goal: ModelGoal) -> SolvableModel {
        let stages = stages as usize;
        let mut vars = ProblemVariables::new();
        let objective = vars.add(match goal {
            ModelGoal::Any => variable().min(0).max(1),
            ModelGoal::Share => variable().min(0).max(1),
            ModelGoal::Scale(least) => variable().min(least).max(1e6),
        });
        let positions = problem.path.hops.len() * stages;
        let (rows, constraints) = (Vec::new(), Vec::new());
        let mut model =
            PlacementModel { problem, stages, positions, vars, count: 1, rows, constraints, objective, ask: goal };
        let (earliest, tail_lengths) =
            (problem.earliest_positions(&problem.entries), problem.tail_lengths(&problem.entries));
        for n in 0..problem.entries.len() {
            model.add_table(n, earliest[n] as usize, tail_lengths[n] as usize);
        }
        model.add_order_constraints();
        model.add_capacities();
        let amounts = model.rows.iter().map(|r| r.columns.clone()).collect();
        let objective = model.objective;
        let vars = model.vars;
        let solving = match goal {
            ModelGoal::Scale(_) => vars.maximise(objective).using(highs),
            _ => vars.minimise(objective).using(highs),
        };
        let program = model.constraints.into_iter().fold(solving, |p, c| p.with(c));
        SolvableModel { problem: program, amounts }
    }

    fn add_binary(&mut self) -> BinaryVar {
        self.count += 1;
        BinaryVar::Var(self.vars.add(variable().binary()))
    }

    fn add_continuous(&mut self) -> (Variable, usize) {
        self.count += 1;
        (self.vars.add(variable().min(0)), self.count - 1)
    }

    /// Adds a table's variables: for each position, whether it has begun and ended by then, and the
    /// amount there. It begins at `head` or later, and early enough for its chain of `tail` stages.
    fn add_table(&mut self, n: usize, head: usize, tail: usize) {
        let problem = self.problem;
        let length = problem.min_stages(n, problem.entries[n]) as usize;
        let has_no_key = problem.program.tables[n].kind == MemoryMatchKind::None;
        let (first, last) = problem.hops[n];
        let head = head.max(first * self.stages);
        let end = ((last + 1) * self.stages).min((self.positions + length).saturating_sub(tail));
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        for position in 0..self.positions {
            let is_free = position >= head && position + length < end;
            begun.push(if is_free { self.add_binary() } else { BinaryVar::Fixed(position >= head) });
        }
        for (position, begun_here) in begun.iter().copied().enumerate() {
            let is_free = position + 1 >= head + length && position + 1 < end;
            ended.push(match (is_free, has_no_key) {
                (true, true) => begun_here,
                (true, false) => self.add_binary(),
                _ => BinaryVar::Fixed(position + 1 >= end.max(head + length)),
            });
        }
        self.add_monotonicity(&begun, &ended, length);
        let lower_bound = &problem.lower_bounds()[n];
        let total_blocks = lower_bound.blocks_per_entry.map(|e| e * problem.entries[n] as f64);
        let mut row = TableVars {
            begun,
            ended,
            amount: Vec::new(),
            columns: Vec::new(),
            least: lower_bound.min_part,
            whole: total_blocks,
        };
        self.add_amounts(n, &mut row, (head, end), has_no_key);
        self.rows.push(row);
    }

    /// Adds monotonicity, and the minimum number of stages between begin and end.
    fn add_monotonicity(&mut self, begun: &[BinaryVar], ended: &[BinaryVar], length: usize) {
        for at in 1..self.positions {
            for bits in [begun, ended] {
                if let (BinaryVar::Var(a), BinaryVar::Var(b)) = (bits[at - 1], bits[at]) {
                    self.constraints.push(constraint!(a <= b));
                }
            }
        }
        for at in length - 1..self.positions {
            if let (BinaryVar::Var(b), BinaryVar::Var(a)) = (ended[at], begun[at + 1 - length])
                && a != b
            {
                self.constraints.push(constraint!(b <= a));
            }
        }
    }

    /// Adds the amount of a table at each of its positions, as a fraction of the table: at most a
    /// stage's capacity if the table is present, and together the complete table, or its scaled
    /// size if the scale is the objective.
    fn add_amounts(&mut self, n: usize, row: &mut TableVars, (head, end): (usize, usize), has_no_key: bool) {
        let max_amount =
            if has_no_key { 1.0 } else { self.problem.capacity[n] as f64 / self.problem.entries[n] as f64 };
        let mut sum = Expression::from(0.0);
        for position in 0..self.positions {
            if position < head || position >= end {
                row.amount.push(None);
                row.columns.push(None);
                continue;
            }
            let (amount, column) = self.add_continuous();
            let limit = max_amount * presence_at(row, position);
            self.constraints.push(constraint!(amount <= limit));
            sum += amount;
            row.amount.push(Some(amount));
            row.columns.push(Some(column));
        }
        let is_scaled = matches!(self.ask, ModelGoal::Scale(_)) && !has_no_key;
        let growth = self.problem.growth[n];
        let required = if is_scaled { (1.0 - growth) + growth * self.objective } else { Expression::from(1.0) };
        self.constraints.push(constraint!(sum >= required));
    }

    fn add_order_constraints(&mut self) {
        for (n, before) in self.problem.predecessors.iter().enumerate() {
            for &(first, distance) in before {
                for at in 0..self.positions {
                    let begun = self.rows[n].begun[at];
                    let ended = match at.checked_sub(distance as usize) {
                        Some(at) => self.rows[first].ended[at],
                        None => BinaryVar::Fixed(false),
                    };
                    if matches!(begun, BinaryVar::Fixed(false)) || matches!(ended, BinaryVar::Fixed(true)) {
                        continue;
                    }
                    let (begun, ended) = (begun.term(), ended.term());
                    self.constraints.push(constraint!(begun <= ended));
                }
            }
        }
    }

    fn add_capacities(&mut self) {
        let pipes = self.problem.path.pipe_count();
        for pipe in 0..pipes {
            for stage in 0..self.stages {
                let hops = self.problem.path.hops.iter().enumerate().filter(|(_, h)| h.pipe == pipe);
                let places: Vec<usize> = hops.map(|(hop, _)| hop * self.stages + stage).collect();
                self.add_memory_limits(&places);
                self.add_unit_limits(&places);
            }
        }
    }

    /// Adds the limits of SRAM, map RAM and TCAM of a stage.
    fn add_memory_limits(&mut self, places: &[usize]) {
        let has = memory_blocks(&self.problem.target.per_stage);
        for (kind, has) in has.into_iter().enumerate() {
            let mut sum = Expression::from(0.0);
            for n in 0..self.rows.len() {
                for &at in places {
                    sum += self.blocks_at(n, at, kind);
                }
            }
            let has = match self.ask {
                ModelGoal::Share => f64::from(has) * self.objective,
                _ => Expression::from(f64::from(has)),
            };
            self.constraints.push(constraint!(sum <= has));
        }
    }

    /// Returns a table's blocks of a memory at a position: proportional to its entries, and at
    /// least those of a minimum part.
    fn blocks_at(&mut self, n: usize, at: usize, kind: usize) -> Expression {
        let row = &self.rows[n];
        let (whole, least) = (row.whole[kind], f64::from(memory_blocks(&row.least)[kind]));
        let Some(amount) = row.amount[at] else { return Expression::from(0.0) };
        let (by_amount, by_presence) = (whole * amount, least * presence_at(row, at));
        match (whole > 0.0, least > 0.0) {
            (false, _) => by_presence,
            (true, false) => by_amount,
            (true, true) => {
                let (blocks, _) = self.add_continuous();
                self.constraints.push(constraint!(by_amount <= blocks));
                self.constraints.push(constraint!(by_presence <= blocks));
                Expression::from(blocks)
            }
        }
    }

    /// Adds the limits of all other resources of a stage: those of any part, plus those of the
    /// first part. `positions` are those in the stage. A limit that all tables together
    /// cannot exceed is left out.
    fn add_unit_limits(&mut self, positions: &[usize]) {
        let available = self.problem.target.per_stage.fields();
        for (kind, (name, available)) in available.into_iter().enumerate() {
            if matches!(name, "sram" | "map_ram" | "tcam") {
                continue;
            }
            let (mut sum, mut max_use) = (Expression::from(0.0), 0u64);
            for (row, overhead) in self.rows.iter().zip(&self.problem.overhead) {
                let (part_use, first_part_use) = (row.least.fields()[kind].1, overhead.fields()[kind].1);
                for &position in positions.iter().filter(|position| row.amount[**position].is_some()) {
                    sum += f64::from(part_use) * presence_at(row, position)
                        + f64::from(first_part_use) * starts_at(row, position);
                    max_use += u64::from(part_use + first_part_use);
                }
            }
            if max_use > u64::from(available) {
                let available = f64::from(available);
                self.constraints.push(constraint!(sum <= available));
            }
        }
    }
}

/// Returns whether the table has begun by this position and not ended before it.
fn presence_at(row: &TableVars, at: usize) -> Expression {
    let before = if at == 0 { BinaryVar::Fixed(false) } else { row.ended[at - 1] };
    row.begun[at].term() - before.term()
}

/// Returns whether the table begins at this position.
fn starts_at(row: &TableVars, at: usize) -> Expression {
    let before = if at == 0 { BinaryVar::Fixed(false) } else { row.begun[at - 1] };
    row.begun[at].term() - before.term()
}
