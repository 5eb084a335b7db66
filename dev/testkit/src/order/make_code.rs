//! Random programs: statements, functions, actions, controls, tables.

use super::calls::{READ, WRITE};
use super::make::{CALLS, Maker, Var, Where};
use super::tree::{Call, Callee, Code, Dir, Expr, Kind, Op, Param, Program, Root, STATE, Stmt, Table, Ty};
use fastrand::Rng;

/// How deep expressions nest.
const DEPTH: usize = 3;

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    let mut rng = Rng::with_seed(seed);
    // Native code leaves loops in controls to the interpreter.
    let loops = rng.u8(..4) == 0;
    let (mut codes, mut costs) = (Vec::new(), Vec::new());
    let kinds =
        [Kind::Function, Kind::Function, Kind::Function, Kind::Function, Kind::Action, Kind::Action, Kind::Control];
    for (n, kind) in kinds.into_iter().enumerate() {
        // Each program has functions that give numbers and truths, which most expressions ask for.
        let result = [Some(Ty::Bits), Some(Ty::Bool), Some(Ty::Bits)].get(n).copied().flatten();
        let (code, cost) = code(&mut rng, kind, result, loops, &codes, &costs);
        codes.push(code);
        costs.push(cost);
    }
    let (mut tables, mut table_costs) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let (table, cost) = table(&mut rng, &codes, &costs);
        tables.push(table);
        table_costs.push(cost);
    }
    let mut maker = Maker {
        rng: &mut rng,
        codes: &codes,
        costs: &costs,
        tables: &tables,
        table_costs: &table_costs,
        at: Where::Plain,
        parser: true,
        loops,
        scope: state(),
        locals: 0,
        budget: CALLS,
        result: None,
    };
    let parser = maker.stmts(2, 1);
    let select = [maker.expr(Ty::Bits, DEPTH), maker.expr(Ty::Bits, DEPTH)];
    (maker.at, maker.parser, maker.budget, maker.scope) = (Where::Ingress, false, CALLS * 4, state());
    let mut ingress = maker.stmts(6, 2);
    for table in [0, 1] {
        if maker.may_apply(table) {
            ingress.insert(maker.rng.usize(..=ingress.len()), Stmt::Apply(table, Vec::new()));
        }
    }
    Program { codes, tables, parser, select, ingress }
}

fn state() -> Vec<Var> {
    STATE.iter().enumerate().map(|(n, (_, ty))| Var { root: Root::State(n), ty: *ty, writable: true }).collect()
}

fn code(rng: &mut Rng, kind: Kind, result: Option<Ty>, loops: bool, codes: &[Code], costs: &[usize]) -> (Code, usize) {
    let mut params: Vec<Param> = (0..rng.usize(1..4)).map(|_| param(rng)).collect();
    // A parameter with a default value comes last, where it can be left away.
    if rng.bool() && kind == Kind::Function {
        params.push(Param { dir: Dir::In, ty: Ty::Bits, default: Some(rng.u8(..8)) });
    }
    let types = [Ty::Struct, Ty::Header, Ty::Union, Ty::Bits];
    let result = result.or_else(|| rng.choice(&types).copied()).filter(|_| kind == Kind::Function);
    let var = |(n, p): (usize, &Param)| Var { root: Root::Param(n), ty: p.ty, writable: p.dir != Dir::In };
    let mut scope: Vec<Var> = params.iter().enumerate().map(var).collect();
    let at = match kind {
        Kind::Function => Where::Plain,
        Kind::Action => Where::Action,
        Kind::Control => Where::Control,
    };
    if kind == Kind::Action {
        scope.extend(state());
    }
    let budget = CALLS / 4;
    let mut maker = Maker {
        rng,
        codes,
        costs,
        tables: &[],
        table_costs: &[],
        at,
        parser: false,
        loops,
        scope,
        locals: 0,
        budget,
        result,
    };
    let mut body = maker.writes(&params);
    body.extend(maker.stmts(2, 1));
    if kind != Kind::Function && maker.one_of(4) {
        body.push(Stmt::If(maker.expr(Ty::Bool, 2), vec![Stmt::Exit], Vec::new()));
    }
    if let Some(ty) = result {
        let value = maker.expr(ty, 2);
        body.push(Stmt::Return(Some(value)));
    }
    let cost = 1 + budget - maker.budget;
    (Code { kind, params, result, body }, cost)
}

fn param(rng: &mut Rng) -> Param {
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

fn table(rng: &mut Rng, codes: &[Code], costs: &[usize]) -> (Table, usize) {
    let budget = CALLS / 2;
    let mut maker = Maker {
        rng,
        codes,
        costs,
        tables: &[],
        table_costs: &[],
        at: Where::Plain,
        parser: false,
        loops: false,
        scope: state(),
        locals: 0,
        budget,
        result: None,
    };
    let count = maker.rng.usize(2..4);
    let keys: Vec<Expr> = (0..count).map(|_| maker.key()).collect();
    let mut actions = Vec::new();
    for (n, code) in codes.iter().enumerate().filter(|(_, code)| code.kind == Kind::Action) {
        maker.budget = maker.budget.saturating_sub(costs[n]);
        actions.extend(maker.arguments(Callee::Code(n), &code.params, 1));
    }
    maker.rng.shuffle(&mut actions);
    let mut entries: Vec<(Vec<u8>, usize)> = Vec::new();
    for _ in 0..1 << (keys.len() - 1) {
        let values: Vec<u8> = keys.iter().map(|_| maker.rng.u8(..2)).collect();
        if !entries.iter().any(|(known, _)| *known == values) {
            entries.push((values, maker.rng.usize(..actions.len())));
        }
    }
    let cost = 1 + budget - maker.budget;
    (Table { keys, actions, entries }, cost)
}

impl Maker<'_> {
    /// A key that mostly has effects.
    fn key(&mut self) -> Expr {
        match self.call(Some(Ty::Bits), 1) {
            Some(call) if !self.one_of(4) => Expr::Call(call),
            _ => self.expr(Ty::Bits, 2),
        }
    }

    /// A write of each parameter that can be written, so that a call shows.
    fn writes(&mut self, params: &[Param]) -> Vec<Stmt> {
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
                Ty::Header if self.one_of(3) => Stmt::SetValid(place, self.rng.bool()),
                ty => Stmt::Assign(place, self.expr(ty, 1)),
            });
        }
        out.retain(|stmt| self.rng.u8(..4) > 0 || matches!(stmt, Stmt::Compound(..)));
        out
    }

    pub(super) fn stmts(&mut self, most: usize, depth: usize) -> Vec<Stmt> {
        let scope = self.scope.len();
        let count = self.rng.usize(1..=most);
        let stmts = (0..count).filter_map(|_| self.stmt(depth)).collect();
        self.scope.truncate(scope);
        stmts
    }

    fn stmt(&mut self, depth: usize) -> Option<Stmt> {
        match self.rng.u8(..20) {
            0..5 => {
                let types = [Ty::Bits, Ty::Bits, Ty::Nibble, Ty::Header, Ty::Header, Ty::Union, Ty::Struct];
                let ty = self.rng.choice(&types).copied()?;
                let place = self.place(ty, true, 2)?;
                Some(Stmt::Assign(place, self.expr(ty, DEPTH)))
            }
            5..8 => {
                let op = self.rng.choice(&[Op::Add, Op::Xor, Op::Sub, Op::Or]).copied()?;
                let place = self.place(Ty::Bits, true, 2)?;
                Some(Stmt::Compound(op, place, self.expr(Ty::Bits, 2)))
            }
            8..11 => self.call(None, 2).map(Stmt::Call),
            11 => {
                let place = self.place(Ty::Header, true, 2)?;
                Some(Stmt::SetValid(place, self.rng.bool()))
            }
            12 if !self.parser => {
                let place = self.place(Ty::Stack, true, 1)?;
                Some(Stmt::Shift(place, self.rng.bool(), self.rng.u8(1..3)))
            }
            13 => self.var(),
            14 if self.at != Where::Plain => self.register().map(Stmt::Call),
            15 if self.at == Where::Ingress => self.apply(depth),
            16 if depth == 0 || self.one_of(2) => self.leave(),
            _ if depth > 0 => self.compound(depth - 1),
            _ => None,
        }
    }

    fn var(&mut self) -> Option<Stmt> {
        let ty = self.rng.choice(&[Ty::Bits, Ty::Bits, Ty::Header, Ty::Struct, Ty::Union]).copied()?;
        let value = self.expr(ty, 2);
        let local = self.local(ty, true);
        Some(Stmt::Var(local, ty, value))
    }

    fn local(&mut self, ty: Ty, writable: bool) -> usize {
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
        Some(Stmt::Apply(table, (0..count).map(|_| self.stmts(2, 0)).collect()))
    }

    /// An early return or an exit, behind a condition.
    fn leave(&mut self) -> Option<Stmt> {
        let exits = self.at != Where::Plain && self.rng.bool();
        let leave = if exits {
            Stmt::Exit
        } else if self.parser || self.at == Where::Ingress {
            return None;
        } else {
            Stmt::Return(self.result.map(|ty| self.expr(ty, 1)))
        };
        Some(Stmt::If(self.expr(Ty::Bool, 2), vec![leave], Vec::new()))
    }

    fn compound(&mut self, depth: usize) -> Option<Stmt> {
        match self.rng.u8(..6) {
            0 if !self.parser => {
                let on = self.expr(Ty::Bits, 2);
                let cases = (0..2).map(|value| (value, self.stmts(1, depth))).collect();
                Some(Stmt::Switch(on, cases, self.stmts(1, depth)))
            }
            1 if self.loops && !self.parser => {
                let (from, to) = (self.expr(Ty::Bits, 2), self.expr(Ty::Bits, 2));
                let local = self.local(Ty::Bits, false);
                let body = self.stmts(1, 0);
                self.scope.pop();
                Some(Stmt::ForIn(local, from, to, body))
            }
            2 if self.loops && !self.parser => {
                let local = self.local(Ty::Bits, false);
                let condition = self.expr(Ty::Bool, 2);
                let body = self.stmts(1, 0);
                self.scope.pop();
                Some(Stmt::For(local, self.rng.u8(1..4), condition, body))
            }
            _ => {
                let condition = self.expr(Ty::Bool, 2);
                let yes = self.stmts(2, depth);
                let no = if self.rng.bool() { self.stmts(1, depth) } else { Vec::new() };
                Some(Stmt::If(condition, yes, no))
            }
        }
    }
}
