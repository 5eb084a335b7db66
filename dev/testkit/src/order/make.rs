//! Random programs: l-values, expressions and calls. Statements and declarations are in
//! [`super::make_code`].

use super::tree::{Arg, Call, Callee, Code, Dir, Expr, FIELDS, Kind, Op, Param, Place, Root, Step, Table, Ty};
use fastrand::Rng;

/// How many calls, with those in the callees, a piece of code may make: all are inlined.
pub(super) const CALLS: usize = 24;

/// A variable in scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Var {
    pub(super) root: Root,
    pub(super) ty: Ty,
    pub(super) writable: bool,
}

/// What code may do where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Where {
    /// In a function or a parser: calls functions.
    Plain,
    /// In an action: may exit, calls actions, too.
    Action,
    /// In a control that is applied: may exit.
    Control,
    /// In the ingress control: everything.
    Ingress,
}

/// Makes one piece of code.
pub(super) struct Maker<'r> {
    pub(super) rng: &'r mut Rng,
    /// What can be called.
    pub(super) codes: &'r [Code],
    /// How many calls each of them makes, itself included.
    pub(super) costs: &'r [usize],
    pub(super) tables: &'r [Table],
    /// Calls that the tables make.
    pub(super) table_costs: &'r [usize],
    pub(super) at: Where,
    /// Whether it is the parser, which has no loops and no switch.
    pub(super) parser: bool,
    /// Whether there are loops outside the parser.
    pub(super) loops: bool,
    pub(super) scope: Vec<Var>,
    pub(super) locals: usize,
    /// Calls that may still be made.
    pub(super) budget: usize,
    pub(super) result: Option<Ty>,
}

impl Maker<'_> {
    pub(super) fn one_of(&mut self, times: u32) -> bool {
        self.rng.u32(..times) == 0
    }

    /// Shuffled, for the order of a text.
    pub(super) fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        self.rng.shuffle(&mut order);
        order
    }

    fn root(&mut self, ty: Ty, write: bool) -> Option<Place> {
        let fits: Vec<Var> = self.scope.iter().filter(|v| v.ty == ty && (v.writable || !write)).copied().collect();
        let var = *self.rng.choice(&fits)?;
        Some(Place::root(var.root, var.ty))
    }

    /// An l-value of that type, if the scope has one.
    pub(super) fn place(&mut self, ty: Ty, write: bool, depth: usize) -> Option<Place> {
        if !self.one_of(3)
            && let Some(part) = self.part(ty, write, depth)
        {
            return Some(part);
        }
        self.root(ty, write).or_else(|| self.part(ty, write, depth))
    }

    fn part(&mut self, ty: Ty, write: bool, depth: usize) -> Option<Place> {
        match ty {
            Ty::Bits => match self.rng.u8(..4) {
                0 => Some(self.root(Ty::Struct, write)?.part(Step::Field(self.rng.usize(..FIELDS)))),
                1 => Some(self.root(Ty::Header, write)?.part(Step::Field(0))),
                _ => Some(self.part(Ty::Header, write, depth)?.part(Step::Field(0))),
            },
            Ty::Header if self.one_of(3) => {
                Some(self.root(Ty::Union, write)?.part(Step::Field(self.rng.usize(..FIELDS))))
            }
            Ty::Header => {
                let stack = self.root(Ty::Stack, write)?;
                // An index that has effects says most.
                let call = if depth > 0 && !self.one_of(3) { self.call(Some(Ty::Bits), depth - 1) } else { None };
                let index = call.map_or_else(|| self.expr(Ty::Bits, depth.saturating_sub(1)), Expr::Call);
                Some(stack.part(Step::Index(index)))
            }
            Ty::Nibble => {
                let whole = self.place(Ty::Bits, write, depth)?;
                Some(whole.part(if self.one_of(2) {
                    Step::Slice(self.rng.u8(..5))
                } else {
                    Step::SliceAt(self.expr(Ty::Bits, depth.saturating_sub(1)))
                }))
            }
            Ty::Bool | Ty::Union | Ty::Struct | Ty::Stack => None,
        }
    }

    fn boxed(&mut self, ty: Ty, depth: usize) -> Box<Expr> {
        Box::new(self.expr(ty, depth))
    }

    /// An expression of that type, or for a nibble one of `bit<8>`, which is narrowed.
    pub(super) fn expr(&mut self, ty: Ty, depth: usize) -> Expr {
        if depth > 0
            && self.one_of(2)
            && let Some(call) = self.call(Some(ty), depth - 1)
        {
            return Expr::Call(call);
        }
        if depth > 0 && self.one_of(8) && ty != Ty::Nibble && ty != Ty::Stack {
            let condition = self.boxed(Ty::Bool, depth - 1);
            return Expr::Mux(condition, self.boxed(ty, depth - 1), self.boxed(ty, depth - 1));
        }
        match ty {
            Ty::Bits | Ty::Nibble => self.bits(depth),
            Ty::Bool => self.truth(depth),
            Ty::Header if self.one_of(4) => Expr::Invalid(Ty::Header),
            Ty::Header if self.one_of(3) => Expr::Header(self.boxed(Ty::Bits, depth.saturating_sub(1))),
            Ty::Struct if self.one_of(2) => self.fields(depth.saturating_sub(1)),
            _ => match self.place(ty, false, depth) {
                Some(place) => Expr::Read(place),
                None => self.literal(ty, depth),
            },
        }
    }

    fn literal(&mut self, ty: Ty, depth: usize) -> Expr {
        match ty {
            Ty::Struct => self.fields(depth.saturating_sub(1)),
            Ty::Header => Expr::Header(self.boxed(Ty::Bits, depth.saturating_sub(1))),
            Ty::Union => Expr::Invalid(ty),
            Ty::Bool => Expr::Bool(self.rng.bool()),
            Ty::Bits | Ty::Nibble | Ty::Stack => Expr::Const(self.rng.u8(..)),
        }
    }

    fn fields(&mut self, depth: usize) -> Expr {
        let order = self.shuffled(FIELDS);
        Expr::Struct(order.into_iter().map(|n| (n, self.expr(Ty::Bits, depth))).collect())
    }

    fn bits(&mut self, depth: usize) -> Expr {
        if depth == 0 {
            return match self.place(Ty::Bits, false, 0).filter(|_| !self.rng.u8(..).is_multiple_of(4)) {
                Some(place) => Expr::Read(place),
                None => Expr::Const(self.rng.u8(..8)),
            };
        }
        let next = depth - 1;
        match self.rng.u8(..10) {
            0..4 => {
                let op = *self.rng.choice(&[Op::Add, Op::Add, Op::Sub, Op::Xor, Op::Or, Op::And]).unwrap_or(&Op::Add);
                Expr::Binary(op, self.boxed(Ty::Bits, next), self.boxed(Ty::Bits, next))
            }
            4 => Expr::Concat(self.boxed(Ty::Bits, next), self.boxed(Ty::Bits, next)),
            5 => Expr::SliceAt(self.boxed(Ty::Bits, next), self.boxed(Ty::Bits, next)),
            6 => match self.place(Ty::Nibble, false, next) {
                Some(place) => Expr::Widen(place),
                None => Expr::Const(1),
            },
            7 => Expr::Part(self.boxed(Ty::Struct, next), self.rng.usize(..FIELDS)),
            8 => Expr::Part(self.boxed(Ty::Header, next), 0),
            _ => match self.place(Ty::Bits, false, depth) {
                Some(place) => Expr::Read(place),
                None => Expr::Const(self.rng.u8(..8)),
            },
        }
    }

    fn truth(&mut self, depth: usize) -> Expr {
        let next = depth.saturating_sub(1);
        if depth > 0 && self.at == Where::Ingress && self.one_of(4) {
            let table = self.rng.usize(..self.tables.len().max(1));
            if self.may_apply(table) {
                return Expr::Hit(table, self.rng.bool());
            }
        }
        match self.rng.u8(..8) {
            0..3 if depth > 0 => Expr::Logic(self.rng.bool(), self.boxed(Ty::Bool, next), self.boxed(Ty::Bool, next)),
            3 if depth > 0 && self.one_of(2) => Expr::Not(self.boxed(Ty::Bool, next)),
            3 => {
                let ty = if self.one_of(4) { Ty::Union } else { Ty::Header };
                match self.place(ty, false, depth) {
                    Some(place) => Expr::IsValid(place),
                    None => Expr::Bool(self.rng.bool()),
                }
            }
            4 => {
                let ty = *self.rng.choice(&[Ty::Header, Ty::Union, Ty::Struct]).unwrap_or(&Ty::Header);
                Expr::Equal(self.rng.bool(), self.boxed(ty, next), self.boxed(ty, next))
            }
            _ => {
                let (a, b) = (self.boxed(Ty::Bits, next), self.boxed(Ty::Bits, next));
                if self.one_of(3) { Expr::Equal(self.rng.bool(), a, b) } else { Expr::Less(a, b) }
            }
        }
    }

    /// Whether a table can be applied within the budget, which is then taken.
    pub(super) fn may_apply(&mut self, table: usize) -> bool {
        let Some(cost) = self.table_costs.get(table).filter(|cost| **cost <= self.budget) else { return false };
        self.budget -= cost;
        true
    }

    /// A call of something that gives that; `None`: of anything, as a statement.
    pub(super) fn call(&mut self, result: Option<Ty>, depth: usize) -> Option<Call> {
        let callable = |n: &usize| {
            let kind = self.codes[*n].kind;
            let fits = match kind {
                Kind::Function => result.is_none() || self.codes[*n].result == result,
                Kind::Action => result.is_none() && matches!(self.at, Where::Action | Where::Ingress),
                Kind::Control => result.is_none() && self.at == Where::Ingress,
            };
            fits && self.costs[*n] <= self.budget
        };
        let callable: Vec<usize> = (0..self.codes.len()).filter(callable).collect();
        let n = *self.rng.choice(&callable)?;
        self.budget -= self.costs[n];
        self.arguments(Callee::Code(n), &self.codes[n].params.clone(), depth)
    }

    /// A call with arguments; `None` if the scope has no l-value for a parameter.
    pub(super) fn arguments(&mut self, callee: Callee, params: &[Param], depth: usize) -> Option<Call> {
        let named = self.one_of(2);
        let order = if named { self.shuffled(params.len()) } else { (0..params.len()).collect() };
        // Without names, only the last ones can be left away.
        let last_given = params.iter().rposition(|p| p.default.is_none()).map_or(0, |at| at + 1);
        let cut = if !named && self.one_of(2) { last_given } else { params.len() };
        let mut args = Vec::new();
        for n in order {
            let param = &params[n];
            if param.default.is_some() && (n >= cut || (named && self.one_of(2))) {
                continue;
            }
            let arg = match param.dir {
                Dir::In => Arg::In(self.expr(param.ty, depth)),
                Dir::Out if self.one_of(10) => Arg::Nothing,
                Dir::Out => self.place(param.ty, true, depth).map_or(Arg::Nothing, Arg::Place),
                Dir::InOut => Arg::Place(self.place(param.ty, true, depth)?),
            };
            args.push((n, arg));
        }
        Some(Call { callee, args, named: named && !params.is_empty() })
    }
}
