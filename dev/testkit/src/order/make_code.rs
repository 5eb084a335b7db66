//! Generates random programs: statements, functions, actions, controls, tables.

use super::calls::{READ, WRITE};
use super::make::{CALLS, CodeContext, CodeGenerator, Var};
use super::tree::{Call, Callee, Code, CodeKind, Dir, Expr, Op, Param, Program, Root, STATE, Stmt, Table, Ty};
use fastrand::Rng;

/// Maximum depth of expressions.
const DEPTH: usize = 3;

/// Generates the program of a seed.
pub fn random_program(seed: u64) -> Program {
    let mut rng = Rng::with_seed(seed);
    // The JIT falls back to the interpreter for loops in controls.
    let has_loops = rng.u8(..4) == 0;
    let (mut codes, mut costs) = (Vec::new(), Vec::new());
    let kinds = [
        CodeKind::Function,
        CodeKind::Function,
        CodeKind::Function,
        CodeKind::Function,
        CodeKind::Action,
        CodeKind::Action,
        CodeKind::Control,
    ];
    for (n, kind) in kinds.into_iter().enumerate() {
        // Each program has functions that return numbers and booleans, because most expressions
        // call one.
        let result = [Some(Ty::Bits), Some(Ty::Bool), Some(Ty::Bits)].get(n).copied().flatten();
        let (code, cost) = code(&mut rng, kind, result, has_loops, &codes, &costs);
        codes.push(code);
        costs.push(cost);
    }
    let (mut tables, mut table_costs) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let (table, cost) = random_table(&mut rng, &codes, &costs);
        tables.push(table);
        table_costs.push(cost);
    }
    let mut generator = CodeGenerator {
        rng: &mut rng,
        codes: &codes,
        costs: &costs,
        tables: &tables,
        table_costs: &table_costs,
        at: CodeContext::Plain,
        parser: true,
        loops: has_loops,
        scope: state_variables(),
        locals: 0,
        budget: CALLS,
        result: None,
    };
    let parser = generator.random_stmts(2, 1);
    let select = [generator.random_expr(Ty::Bits, DEPTH), generator.random_expr(Ty::Bits, DEPTH)];
    (generator.at, generator.parser, generator.budget, generator.scope) =
        (CodeContext::Ingress, false, CALLS * 4, state_variables());
    let mut ingress = generator.random_stmts(6, 2);
    for table in [0, 1] {
        if generator.may_apply(table) {
            ingress.insert(generator.rng.usize(..=ingress.len()), Stmt::Apply(table, Vec::new()));
        }
    }
    Program { codes, tables, parser, select, ingress }
}

fn state_variables() -> Vec<Var> {
    STATE.iter().enumerate().map(|(n, (_, ty))| Var { root: Root::State(n), ty: *ty, writable: true }).collect()
}

/// Generates a function, action or control. It may call only the earlier `codes`, so that there is
/// no recursion. Returns it with its cost: the number of calls that one call of it makes, which
/// bounds the run time of programs.
fn code(
    rng: &mut Rng,
    kind: CodeKind,
    result: Option<Ty>,
    loops: bool,
    codes: &[Code],
    costs: &[usize],
) -> (Code, usize) {
    let mut params: Vec<Param> = (0..rng.usize(1..4)).map(|_| random_param(rng)).collect();
    // A parameter with a default value comes last, where it can be omitted.
    if rng.bool() && kind == CodeKind::Function {
        params.push(Param { dir: Dir::In, ty: Ty::Bits, default: Some(rng.u8(..8)) });
    }
    let types = [Ty::Struct, Ty::Header, Ty::Union, Ty::Bits];
    let result = result.or_else(|| rng.choice(&types).copied()).filter(|_| kind == CodeKind::Function);
    let variable_of = |(n, p): (usize, &Param)| Var { root: Root::Param(n), ty: p.ty, writable: p.dir != Dir::In };
    let mut scope: Vec<Var> = params.iter().enumerate().map(variable_of).collect();
    let context = match kind {
        CodeKind::Function => CodeContext::Plain,
        CodeKind::Action => CodeContext::Action,
        CodeKind::Control => CodeContext::Control,
    };
    if kind == CodeKind::Action {
        scope.extend(state_variables());
    }
    let budget = CALLS / 4;
    let mut generator = CodeGenerator {
        rng,
        codes,
        costs,
        tables: &[],
        table_costs: &[],
        at: context,
        parser: false,
        loops,
        scope,
        locals: 0,
        budget,
        result,
    };
    let mut body = generator.parameter_writes(&params);
    body.extend(generator.random_stmts(2, 1));
    if kind != CodeKind::Function && generator.one_in(4) {
        body.push(Stmt::If(generator.random_expr(Ty::Bool, 2), vec![Stmt::Exit], Vec::new()));
    }
    if let Some(ty) = result {
        let value = generator.random_expr(ty, 2);
        body.push(Stmt::Return(Some(value)));
    }
    let cost = 1 + budget - generator.budget;
    (Code { kind, params, result, body }, cost)
}

fn random_param(rng: &mut Rng) -> Param {
    let types =
        [Ty::Bits, Ty::Bits, Ty::Bits, Ty::Bits, Ty::Nibble, Ty::Header, Ty::Header, Ty::Union, Ty::Struct, Ty::Stack];
    let ty = rng.choice(&types).copied().unwrap_or(Ty::Bits);
    let dir = match rng.u8(..6) {
        0 if ty != Ty::Stack => Dir::In,
        1 => Dir::Out,
        _ => Dir::InOut,
    };
    Param { dir, ty, default: None }
}

/// Generates a table with its actions and entries, and returns it with its cost, as of [`code`].
fn random_table(rng: &mut Rng, codes: &[Code], costs: &[usize]) -> (Table, usize) {
    let budget = CALLS / 2;
    let mut generator = CodeGenerator {
        rng,
        codes,
        costs,
        tables: &[],
        table_costs: &[],
        at: CodeContext::Plain,
        parser: false,
        loops: false,
        scope: state_variables(),
        locals: 0,
        budget,
        result: None,
    };
    let count = generator.rng.usize(2..4);
    let keys: Vec<Expr> = (0..count).map(|_| generator.random_key()).collect();
    let mut actions = Vec::new();
    for (index, code) in codes.iter().enumerate().filter(|(_, code)| code.kind == CodeKind::Action) {
        generator.budget = generator.budget.saturating_sub(costs[index]);
        actions.extend(generator.arguments(Callee::Code(index), &code.params, 1));
    }
    generator.rng.shuffle(&mut actions);
    let mut entries: Vec<(Vec<u8>, usize)> = Vec::new();
    for _ in 0..1 << (keys.len() - 1) {
        let values: Vec<u8> = keys.iter().map(|_| generator.rng.u8(..2)).collect();
        if !entries.iter().any(|(other, _)| *other == values) {
            entries.push((values, generator.rng.usize(..actions.len())));
        }
    }
    let cost = 1 + budget - generator.budget;
    (Table { keys, actions, entries }, cost)
}

impl CodeGenerator<'_> {
    /// Generates a key that mostly has side effects.
    fn random_key(&mut self) -> Expr {
        match self.call(Some(Ty::Bits), 1) {
            Some(call) if !self.one_in(4) => Expr::Call(call),
            _ => self.random_expr(Ty::Bits, 2),
        }
    }

    /// Generates an assignment to each writable parameter, so that a call has a visible effect.
    fn parameter_writes(&mut self, params: &[Param]) -> Vec<Stmt> {
        let mut out = Vec::new();
        for (n, param) in params.iter().enumerate().filter(|(_, p)| p.dir != Dir::In) {
            let place = super::tree::Place::root(Root::Param(n), param.ty);
            let amount = Expr::Const(self.rng.u8(1..8));
            out.push(match param.ty {
                Ty::Bits => Stmt::Compound(Op::Add, place, amount),
                Ty::Nibble => {
                    let old = Box::new(Expr::Widen(place.clone()));
                    Stmt::Assign(place, Expr::Binary(Op::Add, old, Box::new(amount)))
                }
                Ty::Header if self.one_in(3) => Stmt::SetValid(place, self.rng.bool()),
                ty => Stmt::Assign(place, self.random_expr(ty, 1)),
            });
        }
        out.retain(|stmt| self.rng.u8(..4) > 0 || matches!(stmt, Stmt::Compound(..)));
        out
    }

    pub(super) fn random_stmts(&mut self, most: usize, depth: usize) -> Vec<Stmt> {
        let scope = self.scope.len();
        let count = self.rng.usize(1..=most);
        let stmts = (0..count).filter_map(|_| self.random_stmt(depth)).collect();
        self.scope.truncate(scope);
        stmts
    }

    /// Generates a statement of a random form. `None`: the form is not possible here, for example
    /// without a place that can be written.
    fn random_stmt(&mut self, depth: usize) -> Option<Stmt> {
        match self.rng.u8(..20) {
            0..5 => {
                let types = [Ty::Bits, Ty::Bits, Ty::Nibble, Ty::Header, Ty::Header, Ty::Union, Ty::Struct];
                let ty = self.rng.choice(&types).copied()?;
                let place = self.random_place(ty, true, 2)?;
                Some(Stmt::Assign(place, self.random_expr(ty, DEPTH)))
            }
            5..8 => {
                let op = self.rng.choice(&[Op::Add, Op::Xor, Op::Sub, Op::Or]).copied()?;
                let place = self.random_place(Ty::Bits, true, 2)?;
                Some(Stmt::Compound(op, place, self.random_expr(Ty::Bits, 2)))
            }
            8..11 => self.call(None, 2).map(Stmt::Call),
            11 => {
                let place = self.random_place(Ty::Header, true, 2)?;
                Some(Stmt::SetValid(place, self.rng.bool()))
            }
            12 if !self.parser => {
                let place = self.random_place(Ty::Stack, true, 1)?;
                Some(Stmt::Shift(place, self.rng.bool(), self.rng.u8(1..3)))
            }
            13 => self.var(),
            14 if self.at != CodeContext::Plain => self.register().map(Stmt::Call),
            15 if self.at == CodeContext::Ingress => self.apply(depth),
            16 if depth == 0 || self.one_in(2) => self.early_exit(),
            _ if depth > 0 => self.compound(depth - 1),
            _ => None,
        }
    }

    fn var(&mut self) -> Option<Stmt> {
        let ty = self.rng.choice(&[Ty::Bits, Ty::Bits, Ty::Header, Ty::Struct, Ty::Union]).copied()?;
        let value = self.random_expr(ty, 2);
        let local = self.new_local(ty, true);
        Some(Stmt::Var(local, ty, value))
    }

    fn new_local(&mut self, ty: Ty, writable: bool) -> usize {
        self.locals += 1;
        self.scope.push(Var { root: Root::Local(self.locals), ty, writable });
        self.locals
    }

    fn register(&mut self) -> Option<Call> {
        if self.rng.bool() {
            self.arguments(Callee::RegisterRead, &READ, 2)
        } else {
            self.arguments(Callee::RegisterWrite, &WRITE, 2)
        }
    }

    fn apply(&mut self, depth: usize) -> Option<Stmt> {
        let table = self.rng.usize(..self.tables.len());
        if !self.may_apply(table) {
            return None;
        }
        let count = if depth > 0 && self.rng.bool() { self.tables[table].actions.len() } else { 0 };
        Some(Stmt::Apply(table, (0..count).map(|_| self.random_stmts(2, 0)).collect()))
    }

    /// Generates an early return or an exit under a condition.
    fn early_exit(&mut self) -> Option<Stmt> {
        let exits = self.at != CodeContext::Plain && self.rng.bool();
        let leave = if exits {
            Stmt::Exit
        } else if self.parser || self.at == CodeContext::Ingress {
            return None;
        } else {
            Stmt::Return(self.result.map(|ty| self.random_expr(ty, 1)))
        };
        Some(Stmt::If(self.random_expr(Ty::Bool, 2), vec![leave], Vec::new()))
    }

    /// Generates a statement with blocks: a switch, a loop or an `if`. Loops have no nested blocks.
    fn compound(&mut self, depth: usize) -> Option<Stmt> {
        match self.rng.u8(..6) {
            0 if !self.parser => {
                let selector = self.random_expr(Ty::Bits, 2);
                let cases = (0..2).map(|value| (value, self.random_stmts(1, depth))).collect();
                Some(Stmt::Switch(selector, cases, self.random_stmts(1, depth)))
            }
            1 if self.loops && !self.parser => {
                let (from, to) = (self.random_expr(Ty::Bits, 2), self.random_expr(Ty::Bits, 2));
                let local = self.new_local(Ty::Bits, false);
                let body = self.random_stmts(1, 0);
                self.scope.pop();
                Some(Stmt::ForIn(local, from, to, body))
            }
            2 if self.loops && !self.parser => {
                let local = self.new_local(Ty::Bits, false);
                let condition = self.random_expr(Ty::Bool, 2);
                let body = self.random_stmts(1, 0);
                self.scope.pop();
                Some(Stmt::For(local, self.rng.u8(1..4), condition, body))
            }
            _ => {
                let condition = self.random_expr(Ty::Bool, 2);
                let yes = self.random_stmts(2, depth);
                let no = if self.rng.bool() { self.random_stmts(1, depth) } else { Vec::new() };
                Some(Stmt::If(condition, yes, no))
            }
        }
    }
}
