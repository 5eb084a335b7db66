//! Generates random programs: l-values, expressions and calls. Statements and declarations are in
//! [`super::make_code`].

use super::tree::{Arg, Call, Callee, Code, CodeKind, Dir, Expr, FIELDS, Op, Param, PathStep, Place, Root, Table, Ty};
use fastrand::Rng;

/// Maximum number of calls in a piece of code, including those in its callees. The limit exists
/// because all calls are inlined.
pub(super) const CALLS: usize = 24;

/// A variable in scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Var {
    pub(super) root: Root,
    pub(super) ty: Ty,
    pub(super) writable: bool,
}

/// Kind of code, which determines the allowed statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CodeContext {
    /// A function or a parser: calls functions.
    Plain,
    /// An action: may exit, and calls actions too.
    Action,
    /// An applied control: may exit.
    Control,
    /// The ingress control: all statements.
    Ingress,
}

/// Generator of one piece of code.
pub(super) struct CodeGenerator<'r> {
    pub(super) rng: &'r mut Rng,
    /// Code that can be called.
    pub(super) codes: &'r [Code],
    /// Number of calls that each callee makes, including the call itself.
    pub(super) costs: &'r [usize],
    pub(super) tables: &'r [Table],
    /// Number of calls that each table makes.
    pub(super) table_costs: &'r [usize],
    pub(super) at: CodeContext,
    /// Whether the code is the parser, which has no loops and no switch.
    pub(super) parser: bool,
    /// Whether there are loops outside the parser.
    pub(super) loops: bool,
    pub(super) scope: Vec<Var>,
    pub(super) locals: usize,
    /// Remaining number of calls.
    pub(super) budget: usize,
    pub(super) result: Option<Ty>,
}

impl CodeGenerator<'_> {
    pub(super) fn one_in(&mut self, times: u32) -> bool {
        self.rng.u32(..times) == 0
    }

    /// Returns the numbers below `count` in random order, for the order of a text.
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

    /// Generates an l-value of that type, if the scope has one.
    pub(super) fn random_place(&mut self, ty: Ty, write: bool, depth: usize) -> Option<Place> {
        if !self.one_in(3)
            && let Some(part) = self.part(ty, write, depth)
        {
            return Some(part);
        }
        self.root(ty, write).or_else(|| self.part(ty, write, depth))
    }

    /// Generates a place that is a part of another: a field, an element of a stack, or a slice.
    /// With `write` it can be assigned to. `None`: there is no such place in scope.
    fn part(&mut self, ty: Ty, write: bool, depth: usize) -> Option<Place> {
        match ty {
            Ty::Bits => match self.rng.u8(..4) {
                0 => Some(self.root(Ty::Struct, write)?.part(PathStep::Field(self.rng.usize(..FIELDS)))),
                1 => Some(self.root(Ty::Header, write)?.part(PathStep::Field(0))),
                _ => Some(self.part(Ty::Header, write, depth)?.part(PathStep::Field(0))),
            },
            Ty::Header if self.one_in(3) => {
                Some(self.root(Ty::Union, write)?.part(PathStep::Field(self.rng.usize(..FIELDS))))
            }
            Ty::Header => {
                let stack = self.root(Ty::Stack, write)?;
                // Indices with side effects reveal the most.
                let index_call = if depth > 0 && !self.one_in(3) { self.call(Some(Ty::Bits), depth - 1) } else { None };
                let index = index_call.map_or_else(|| self.random_expr(Ty::Bits, depth.saturating_sub(1)), Expr::Call);
                Some(stack.part(PathStep::Index(index)))
            }
            Ty::Nibble => {
                let whole = self.random_place(Ty::Bits, write, depth)?;
                Some(whole.part(if self.one_in(2) {
                    PathStep::Slice(self.rng.u8(..5))
                } else {
                    PathStep::SliceAt(self.random_expr(Ty::Bits, depth.saturating_sub(1)))
                }))
            }
            Ty::Bool | Ty::Union | Ty::Struct | Ty::Stack => None,
        }
    }

    fn boxed_expr(&mut self, ty: Ty, depth: usize) -> Box<Expr> {
        Box::new(self.random_expr(ty, depth))
    }

    /// Generates an expression of that type. For a nibble, the expression is a `bit<8>` that is
    /// truncated.
    pub(super) fn random_expr(&mut self, ty: Ty, depth: usize) -> Expr {
        if depth > 0
            && self.one_in(2)
            && let Some(call) = self.call(Some(ty), depth - 1)
        {
            return Expr::Call(call);
        }
        if depth > 0 && self.one_in(8) && ty != Ty::Nibble && ty != Ty::Stack {
            let condition = self.boxed_expr(Ty::Bool, depth - 1);
            return Expr::Mux(condition, self.boxed_expr(ty, depth - 1), self.boxed_expr(ty, depth - 1));
        }
        match ty {
            Ty::Bits | Ty::Nibble => self.bits(depth),
            Ty::Bool => self.bool_expr(depth),
            Ty::Header if self.one_in(4) => Expr::Invalid(Ty::Header),
            Ty::Header if self.one_in(3) => Expr::Header(self.boxed_expr(Ty::Bits, depth.saturating_sub(1))),
            Ty::Struct if self.one_in(2) => self.fields(depth.saturating_sub(1)),
            _ => match self.random_place(ty, false, depth) {
                Some(place) => Expr::Read(place),
                None => self.random_literal(ty, depth),
            },
        }
    }

    fn random_literal(&mut self, ty: Ty, depth: usize) -> Expr {
        match ty {
            Ty::Struct => self.fields(depth.saturating_sub(1)),
            Ty::Header => Expr::Header(self.boxed_expr(Ty::Bits, depth.saturating_sub(1))),
            Ty::Union => Expr::Invalid(ty),
            Ty::Bool => Expr::Bool(self.rng.bool()),
            Ty::Bits | Ty::Nibble | Ty::Stack => Expr::Const(self.rng.u8(..)),
        }
    }

    fn fields(&mut self, depth: usize) -> Expr {
        let order = self.shuffled(FIELDS);
        Expr::Struct(order.into_iter().map(|n| (n, self.random_expr(Ty::Bits, depth))).collect())
    }

    /// Generates a number; `depth` bounds its operands.
    fn bits(&mut self, depth: usize) -> Expr {
        if depth == 0 {
            return match self.random_place(Ty::Bits, false, 0).filter(|_| !self.rng.u8(..).is_multiple_of(4)) {
                Some(place) => Expr::Read(place),
                None => Expr::Const(self.rng.u8(..8)),
            };
        }
        let operand_depth = depth - 1;
        match self.rng.u8(..10) {
            0..4 => {
                let op = *self.rng.choice(&[Op::Add, Op::Add, Op::Sub, Op::Xor, Op::Or, Op::And]).unwrap_or(&Op::Add);
                Expr::Binary(op, self.boxed_expr(Ty::Bits, operand_depth), self.boxed_expr(Ty::Bits, operand_depth))
            }
            4 => Expr::Concat(self.boxed_expr(Ty::Bits, operand_depth), self.boxed_expr(Ty::Bits, operand_depth)),
            5 => Expr::SliceAt(self.boxed_expr(Ty::Bits, operand_depth), self.boxed_expr(Ty::Bits, operand_depth)),
            6 => match self.random_place(Ty::Nibble, false, operand_depth) {
                Some(place) => Expr::Widen(place),
                None => Expr::Const(1),
            },
            7 => Expr::Part(self.boxed_expr(Ty::Struct, operand_depth), self.rng.usize(..FIELDS)),
            8 => Expr::Part(self.boxed_expr(Ty::Header, operand_depth), 0),
            _ => match self.random_place(Ty::Bits, false, depth) {
                Some(place) => Expr::Read(place),
                None => Expr::Const(self.rng.u8(..8)),
            },
        }
    }

    /// Generates a truth value; `depth` bounds its operands. In the ingress control it may be the
    /// hit of a table.
    fn bool_expr(&mut self, depth: usize) -> Expr {
        let operand_depth = depth.saturating_sub(1);
        if depth > 0 && self.at == CodeContext::Ingress && self.one_in(4) {
            let table = self.rng.usize(..self.tables.len().max(1));
            if self.may_apply(table) {
                return Expr::Hit(table, self.rng.bool());
            }
        }
        match self.rng.u8(..8) {
            0..3 if depth > 0 => Expr::Logic(
                self.rng.bool(),
                self.boxed_expr(Ty::Bool, operand_depth),
                self.boxed_expr(Ty::Bool, operand_depth),
            ),
            3 if depth > 0 && self.one_in(2) => Expr::Not(self.boxed_expr(Ty::Bool, operand_depth)),
            3 => {
                let ty = if self.one_in(4) { Ty::Union } else { Ty::Header };
                match self.random_place(ty, false, depth) {
                    Some(place) => Expr::IsValid(place),
                    None => Expr::Bool(self.rng.bool()),
                }
            }
            4 => {
                let ty = *self.rng.choice(&[Ty::Header, Ty::Union, Ty::Struct]).unwrap_or(&Ty::Header);
                Expr::Equal(self.rng.bool(), self.boxed_expr(ty, operand_depth), self.boxed_expr(ty, operand_depth))
            }
            _ => {
                let (a, b) = (self.boxed_expr(Ty::Bits, operand_depth), self.boxed_expr(Ty::Bits, operand_depth));
                if self.one_in(3) { Expr::Equal(self.rng.bool(), a, b) } else { Expr::Less(a, b) }
            }
        }
    }

    /// Returns whether the budget allows to apply a table, and if so, consumes its cost.
    pub(super) fn may_apply(&mut self, table: usize) -> bool {
        let Some(cost) = self.table_costs.get(table).filter(|cost| **cost <= self.budget) else { return false };
        self.budget -= cost;
        true
    }

    /// Generates a call with a result of that type; `None`: of any callee, as a statement.
    pub(super) fn call(&mut self, result: Option<Ty>, depth: usize) -> Option<Call> {
        let callable = |n: &usize| {
            let kind = self.codes[*n].kind;
            let fits = match kind {
                CodeKind::Function => result.is_none() || self.codes[*n].result == result,
                CodeKind::Action => result.is_none() && matches!(self.at, CodeContext::Action | CodeContext::Ingress),
                CodeKind::Control => result.is_none() && self.at == CodeContext::Ingress,
            };
            fits && self.costs[*n] <= self.budget
        };
        let callable: Vec<usize> = (0..self.codes.len()).filter(callable).collect();
        let n = *self.rng.choice(&callable)?;
        self.budget -= self.costs[n];
        self.arguments(Callee::Code(n), &self.codes[n].params.clone(), depth)
    }

    /// Generates a call with arguments; `None` if the scope has no l-value for a parameter.
    pub(super) fn arguments(&mut self, callee: Callee, params: &[Param], depth: usize) -> Option<Call> {
        let is_named = self.one_in(2);
        let order = if is_named { self.shuffled(params.len()) } else { (0..params.len()).collect() };
        // Without names, only the last arguments can be omitted.
        let last_given = params.iter().rposition(|p| p.default.is_none()).map_or(0, |index| index + 1);
        let first_omissible = if !is_named && self.one_in(2) { last_given } else { params.len() };
        let mut args = Vec::new();
        for index in order {
            let param = &params[index];
            if param.default.is_some() && (index >= first_omissible || (is_named && self.one_in(2))) {
                continue;
            }
            let arg = match param.dir {
                Dir::In => Arg::In(self.random_expr(param.ty, depth)),
                Dir::Out if self.one_in(10) => Arg::Nothing,
                Dir::Out => self.random_place(param.ty, true, depth).map_or(Arg::Nothing, Arg::Place),
                Dir::InOut => Arg::Place(self.random_place(param.ty, true, depth)?),
            };
            args.push((index, arg));
        }
        Some(Call { callee, args, named: is_named && !params.is_empty() })
    }
}
