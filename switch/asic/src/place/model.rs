//! Placement as an integer program.
//!
//! For each table and position (a stage of a hop) there are two binaries: *begun* by there, *ended* by there. Both only grow along the path,
//! so that an order of two tables is one inequality for each position, which also holds well when binaries are relaxed. A table is present
//! between the two. How much of it lies at a position is continuous, and takes at least as many blocks as any real part of that many entries
//! would: so the program is a relaxation. If it has no solution, there is no placement, and its bound is one of any placement's; its
//! solutions are made real by an attempt along them.

use super::bounds::{Ground, memories};
use crate::demand::Match;
use crate::target::Usage;
use good_lp::solvers::highs::{HighsProblem, highs};
use good_lp::{Expression, ProblemVariables, SolverModel, Variable, constraint, variable};

/// What is asked of the program.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Ask {
    /// Any solution.
    Any,
    /// The smallest share of memories that suffices in each stage.
    Share,
    /// The largest scale of all tables, from this one on.
    Scale(f64),
}

/// A binary, or what is known of it.
#[derive(Clone, Copy, PartialEq)]
enum Bit {
    Is(bool),
    Var(Variable),
}

impl Bit {
    fn term(self) -> Expression {
        match self {
            Bit::Is(is) => Expression::from(f64::from(u8::from(is))),
            Bit::Var(var) => Expression::from(var),
        }
    }
}

/// A table's part in the program.
struct Row {
    begun: Vec<Bit>,
    ended: Vec<Bit>,
    /// How much of it lies at each position, in tables; none where it cannot be.
    amount: Vec<Option<Variable>>,
    /// Columns of `amount`.
    columns: Vec<Option<usize>>,
    /// Least that any part of it takes.
    least: Usage,
    /// Blocks that the whole table takes at least: SRAM, map RAM, TCAM.
    whole: [f64; 3],
}

/// An integer program for a number of stages.
pub(super) struct Model<'a, 'g> {
    ground: &'a Ground<'g>,
    stages: usize,
    positions: usize,
    vars: ProblemVariables,
    count: usize,
    rows: Vec<Row>,
    constraints: Vec<good_lp::Constraint>,
    objective: Variable,
    ask: Ask,
}

/// A program that is ready to be solved, and how to read its solution.
pub(super) struct Ready {
    pub problem: HighsProblem,
    /// For each table and position, the column of its amount.
    pub amounts: Vec<Vec<Option<usize>>>,
}

impl<'a, 'g> Model<'a, 'g> {
    /// The program for so many stages.
    pub fn ready(ground: &'a Ground<'g>, stages: u32, ask: Ask) -> Ready {
        let stages = stages as usize;
        let mut vars = ProblemVariables::new();
        let objective = vars.add(match ask {
            Ask::Any => variable().min(0).max(1),
            Ask::Share => variable().min(0).max(1),
            Ask::Scale(least) => variable().min(least).max(1e6),
        });
        let positions = ground.path.hops.len() * stages;
        let (rows, constraints) = (Vec::new(), Vec::new());
        let mut model = Model { ground, stages, positions, vars, count: 1, rows, constraints, objective, ask };
        let (heads, tails) = (ground.heads(&ground.entries), ground.tails(&ground.entries));
        for n in 0..ground.entries.len() {
            model.table(n, heads[n] as usize, tails[n] as usize);
        }
        model.orders();
        model.capacities();
        let amounts = model.rows.iter().map(|r| r.columns.clone()).collect();
        let objective = model.objective;
        let vars = model.vars;
        let solving = match ask {
            Ask::Scale(_) => vars.maximise(objective).using(highs),
            _ => vars.minimise(objective).using(highs),
        };
        let problem = model.constraints.into_iter().fold(solving, |p, c| p.with(c));
        Ready { problem, amounts }
    }

    fn binary(&mut self) -> Bit {
        self.count += 1;
        Bit::Var(self.vars.add(variable().binary()))
    }

    fn continuous(&mut self) -> (Variable, usize) {
        self.count += 1;
        (self.vars.add(variable().min(0)), self.count - 1)
    }

    /// A table's binaries: it begins at `head` or later, and early enough for the `tail` from its beginning to the end of its chain.
    fn table(&mut self, n: usize, head: usize, tail: usize) {
        let ground = self.ground;
        let length = ground.length(n, ground.entries[n]) as usize;
        let keyless = ground.program.tables[n].kind == Match::None;
        let (first, last) = ground.hops[n];
        let head = head.max(first * self.stages);
        let end = ((last + 1) * self.stages).min((self.positions + length).saturating_sub(tail));
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        for at in 0..self.positions {
            let open = at >= head && at + length < end;
            begun.push(if open { self.binary() } else { Bit::Is(at >= head) });
        }
        for (at, own) in begun.iter().copied().enumerate() {
            let open = at + 1 >= head + length && at + 1 < end;
            ended.push(match (open, keyless) {
                (true, true) => own,
                (true, false) => self.binary(),
                _ => Bit::Is(at + 1 >= end.max(head + length)),
            });
        }
        self.grow(&begun, &ended, length);
        let least = &ground.least()[n];
        let whole = least.entry.map(|e| e * ground.entries[n] as f64);
        let mut row = Row { begun, ended, amount: Vec::new(), columns: Vec::new(), least: least.part, whole };
        self.amounts(n, &mut row, (head, end), keyless);
        self.rows.push(row);
    }

    /// Both only grow, and the end is not before the beginning and the stages that the table takes.
    fn grow(&mut self, begun: &[Bit], ended: &[Bit], length: usize) {
        for at in 1..self.positions {
            for bits in [begun, ended] {
                if let (Bit::Var(a), Bit::Var(b)) = (bits[at - 1], bits[at]) {
                    self.constraints.push(constraint!(a <= b));
                }
            }
        }
        for at in length - 1..self.positions {
            if let (Bit::Var(b), Bit::Var(a)) = (ended[at], begun[at + 1 - length])
                && a != b
            {
                self.constraints.push(constraint!(b <= a));
            }
        }
    }

    fn amounts(&mut self, n: usize, row: &mut Row, (head, end): (usize, usize), keyless: bool) {
        let most = if keyless { 1.0 } else { self.ground.capacity[n] as f64 / self.ground.entries[n] as f64 };
        let mut sum = Expression::from(0.0);
        for at in 0..self.positions {
            if at < head || at >= end {
                row.amount.push(None);
                row.columns.push(None);
                continue;
            }
            let (amount, column) = self.continuous();
            let room = most * present(row, at);
            self.constraints.push(constraint!(amount <= room));
            sum += amount;
            row.amount.push(Some(amount));
            row.columns.push(Some(column));
        }
        let scaled = matches!(self.ask, Ask::Scale(_)) && !keyless;
        let growth = self.ground.growth[n];
        let all = if scaled { (1.0 - growth) + growth * self.objective } else { Expression::from(1.0) };
        self.constraints.push(constraint!(sum >= all));
    }

    fn orders(&mut self) {
        for (n, before) in self.ground.before.iter().enumerate() {
            for &(first, distance) in before {
                for at in 0..self.positions {
                    let begun = self.rows[n].begun[at];
                    let ended = match at.checked_sub(distance as usize) {
                        Some(at) => self.rows[first].ended[at],
                        None => Bit::Is(false),
                    };
                    if matches!(begun, Bit::Is(false)) || matches!(ended, Bit::Is(true)) {
                        continue;
                    }
                    let (begun, ended) = (begun.term(), ended.term());
                    self.constraints.push(constraint!(begun <= ended));
                }
            }
        }
    }

    fn capacities(&mut self) {
        let pipes = self.ground.path.pipes();
        for pipe in 0..pipes {
            for stage in 0..self.stages {
                let hops = self.ground.path.hops.iter().enumerate().filter(|(_, h)| h.pipe == pipe);
                let places: Vec<usize> = hops.map(|(hop, _)| hop * self.stages + stage).collect();
                self.memories_of(&places);
                self.units_of(&places);
            }
        }
    }

    /// SRAM, map RAM and TCAM of a stage.
    fn memories_of(&mut self, places: &[usize]) {
        let has = memories(&self.ground.target.per_stage);
        for (kind, has) in has.into_iter().enumerate() {
            let mut sum = Expression::from(0.0);
            for n in 0..self.rows.len() {
                for &at in places {
                    sum += self.blocks(n, at, kind);
                }
            }
            let has = match self.ask {
                Ask::Share => f64::from(has) * self.objective,
                _ => Expression::from(f64::from(has)),
            };
            self.constraints.push(constraint!(sum <= has));
        }
    }

    /// Blocks of a memory that a table takes at a position: what its entries take, and no less than any part does.
    fn blocks(&mut self, n: usize, at: usize, kind: usize) -> Expression {
        let row = &self.rows[n];
        let (whole, least) = (row.whole[kind], f64::from(memories(&row.least)[kind]));
        let Some(amount) = row.amount[at] else { return Expression::from(0.0) };
        let (by_amount, by_presence) = (whole * amount, least * present(row, at));
        match (whole > 0.0, least > 0.0) {
            (false, _) => by_presence,
            (true, false) => by_amount,
            (true, true) => {
                let (blocks, _) = self.continuous();
                self.constraints.push(constraint!(by_amount <= blocks));
                self.constraints.push(constraint!(by_presence <= blocks));
                Expression::from(blocks)
            }
        }
    }

    /// All other resources of a stage: what any part takes, and what comes with the first part.
    fn units_of(&mut self, places: &[usize]) {
        let has = self.ground.target.per_stage.fields();
        for (kind, (name, has)) in has.into_iter().enumerate() {
            if matches!(name, "sram" | "map_ram" | "tcam") {
                continue;
            }
            let (mut sum, mut most) = (Expression::from(0.0), 0u64);
            for (row, overhead) in self.rows.iter().zip(&self.ground.overhead) {
                let (each, first) = (row.least.fields()[kind].1, overhead.fields()[kind].1);
                for &at in places.iter().filter(|at| row.amount[**at].is_some()) {
                    sum += f64::from(each) * present(row, at) + f64::from(first) * begins(row, at);
                    most += u64::from(each + first);
                }
            }
            if most > u64::from(has) {
                let has = f64::from(has);
                self.constraints.push(constraint!(sum <= has));
            }
        }
    }
}

/// Begun by here, and not ended before.
fn present(row: &Row, at: usize) -> Expression {
    let before = if at == 0 { Bit::Is(false) } else { row.ended[at - 1] };
    row.begun[at].term() - before.term()
}

/// Begun here.
fn begins(row: &Row, at: usize) -> Expression {
    let before = if at == 0 { Bit::Is(false) } else { row.begun[at - 1] };
    row.begun[at].term() - before.term()
}
