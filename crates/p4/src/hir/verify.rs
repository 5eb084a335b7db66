//! The invariants of a typed program that was accepted: what lowering relies on.
//!
//! All types are known, both sides of assignments and operators agree, calls have an argument for each parameter, and
//! indices are in range. A violation is always a bug of the checker, never of the program; tests run this on all that
//! is accepted.

use super::{
    Call, CallArg, Callee, Construct, Expr, ExprKind, KeysetItem, LocalDecl, LocalId, LocalKind, ObjectKind, Order,
    Program, Stmt, StmtKind, Ty, TyKind, Types,
};
use crate::ast::BinaryOp;
use crate::span::Span;

/// What is wrong with a typed program, one sentence each; nothing if all invariants hold.
pub fn verify(program: &Program) -> Vec<String> {
    let mut verifier = Verifier { p: program, found: Vec::new() };
    verifier.program();
    verifier.found
}

struct Verifier<'p> {
    p: &'p Program,
    found: Vec<String>,
}

impl Verifier<'_> {
    fn wrong(&mut self, expr: &Expr, what: &str) {
        self.found.push(format!("{:?}: {what}", expr.span));
    }

    fn program(&mut self) {
        let p = self.p;
        for local in &p.locals {
            if !matches!(local.kind, LocalKind::ConstructorParam(..)) && !self.known(local.ty) {
                self.found.push(format!("{:?}: `{}` is of no known type", local.span, local.name));
            }
        }
        p.functions.iter().for_each(|f| self.stmts(&f.body));
        p.actions.iter().for_each(|a| self.stmts(&a.body));
        p.instances.iter().for_each(|i| self.construct(&i.construct));
        for table in &p.tables {
            table.keys.iter().for_each(|k| self.expr(&k.expr));
            for listed in &table.actions {
                let params = &p.actions[listed.action.index()].params;
                self.args(&params[..listed.args.len().min(params.len())], &listed.args, &[]);
            }
            let exprs = table.default_action.1.iter().chain(&table.size);
            exprs.chain(table.properties.iter().filter_map(|p| p.value.as_ref())).for_each(|e| self.expr(e));
            for entry in &table.entries {
                self.keyset(&entry.keyset);
                entry.args.iter().for_each(|e| self.expr(e));
                if entry.keyset.len() != table.keys.len() || entry.action >= table.actions.len() {
                    self.found.push(format!("{:?}: an entry does not fit its table", entry.span));
                }
            }
        }
        for object in &p.objects {
            match &object.kind {
                ObjectKind::Parser(body) => {
                    self.locals(&body.locals);
                    for state in &body.states {
                        self.stmts(&state.body);
                        if let super::TransitionKind::Select { exprs, cases } = &state.transition.kind {
                            exprs.iter().for_each(|e| self.expr(e));
                            cases.iter().for_each(|c| self.keyset(&c.keyset));
                        }
                    }
                }
                ObjectKind::Control(body) => {
                    self.locals(&body.locals);
                    self.stmts(&body.apply);
                }
                _ => {}
            }
        }
    }

    fn locals(&mut self, locals: &[LocalDecl]) {
        for local in locals {
            if let LocalDecl::Var(id, Some(init)) = local {
                self.same(self.p.locals[id.index()].ty, init);
            }
        }
    }

    /// Whether nothing of the type is left to be found out.
    fn known(&self, ty: Ty) -> bool {
        match self.p.types.kind(ty) {
            TyKind::Unknown | TyKind::Infer(_) | TyKind::InvalidHeader => false,
            TyKind::Struct(_, args) | TyKind::Extern(_, args) | TyKind::Object(_, args) | TyKind::Tuple(args) => {
                args.iter().all(|t| self.known(*t))
            }
            TyKind::List(t) | TyKind::Set(t) | TyKind::Stack(t, _) => self.known(*t),
            _ => true,
        }
    }

    /// The expression is of that type.
    fn same(&mut self, ty: Ty, expr: &Expr) {
        self.expr(expr);
        if expr.ty != ty {
            let (have, want) = (self.p.show(expr.ty), self.p.show(ty));
            self.wrong(expr, &format!("a `{have}` stands where a `{want}` is needed"));
        }
    }

    fn stmts(&mut self, stmts: &[Stmt]) {
        stmts.iter().for_each(|s| self.stmt(s));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Block(stmts) => self.stmts(stmts),
            StmtKind::Var(id, Some(init)) => self.same(self.p.locals[id.index()].ty, init),
            StmtKind::Assign { left, op, right } => {
                self.expr(left);
                match op {
                    None => self.same(left.ty, right),
                    Some(BinaryOp::Shl | BinaryOp::Shr) => self.expr(right),
                    Some(_) => self.same(left.ty, right),
                }
            }
            StmtKind::Call(call) => self.call(call),
            StmtKind::If(condition, yes, no) => {
                self.same(Types::BOOL, condition);
                self.stmt(yes);
                no.iter().for_each(|no| self.stmt(no));
            }
            StmtKind::SwitchAction { cases, .. } => {
                cases.iter().filter_map(|c| c.body.as_ref()).for_each(|b| self.stmt(b))
            }
            StmtKind::SwitchValue { on, cases } => {
                self.expr(on);
                for case in cases {
                    case.values.iter().for_each(|v| self.same(on.ty, v));
                    case.body.iter().for_each(|b| self.stmt(b));
                }
            }
            StmtKind::For { init, cond, update, body } => {
                self.stmts(init);
                self.same(Types::BOOL, cond);
                self.stmts(update);
                self.stmt(body);
            }
            StmtKind::ForIn { var, over, body } => {
                match over {
                    super::ForRange::Range(lo, hi) => {
                        let ty = self.p.locals[var.index()].ty;
                        self.same(ty, lo);
                        self.same(ty, hi);
                    }
                    super::ForRange::Elements(e) => self.expr(e),
                }
                self.stmt(body);
            }
            StmtKind::Return(Some(value)) => self.expr(value),
            _ => {}
        }
    }

    fn keyset(&mut self, items: &[KeysetItem]) {
        for item in items {
            match item {
                KeysetItem::Value(v) => self.expr(v),
                KeysetItem::Mask(a, b) | KeysetItem::Range(a, b) => {
                    self.expr(a);
                    self.same(a.ty, b);
                }
                KeysetItem::Any | KeysetItem::ValueSet(_) => {}
            }
        }
    }

    fn expr(&mut self, expr: &Expr) {
        if !self.known(expr.ty) {
            self.wrong(expr, "an expression is of no known type");
        }
        match &expr.kind {
            ExprKind::Field(a, _) | ExprKind::Cast(a) | ExprKind::Unary(_, a) | ExprKind::Slice { base: a, .. } => {
                self.expr(a);
            }
            ExprKind::StackNext(a) | ExprKind::StackLast(a) | ExprKind::StackLastIndex(a) => self.expr(a),
            ExprKind::Index(a, b) | ExprKind::DynSlice { base: a, lo: b, .. } => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Binary(BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Concat, a, b) => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Binary(_, a, b) => {
                self.expr(a);
                self.same(a.ty, b);
            }
            ExprKind::Mux(c, a, b) => {
                self.same(Types::BOOL, c);
                self.same(expr.ty, a);
                self.same(expr.ty, b);
            }
            ExprKind::Aggregate(elements, order) => {
                self.order(expr.span, order, elements.len());
                self.elements(expr, elements);
            }
            ExprKind::Call(call) => self.call(call),
            ExprKind::Construct(construct) => self.construct(construct),
            _ => {}
        }
    }

    fn elements(&mut self, expr: &Expr, elements: &[Expr]) {
        let wanted = match self.p.types.kind(expr.ty) {
            TyKind::Struct(id, args) => {
                // Generic fields are compared once type arguments are put in, which is lowering's to do.
                let decl = &self.p.structs[id.index()];
                if args.is_empty() { decl.fields.iter().map(|f| f.ty).collect() } else { Vec::new() }
            }
            TyKind::Tuple(types) => types.clone(),
            TyKind::Stack(element, n) => vec![*element; *n as usize],
            TyKind::List(element) => vec![*element; elements.len()],
            _ => return self.wrong(expr, "a list is of no type that has elements"),
        };
        if wanted.is_empty() {
            return elements.iter().for_each(|e| self.expr(e));
        }
        if wanted.len() != elements.len() {
            self.wrong(expr, "a list has the wrong number of elements");
        }
        wanted.into_iter().zip(elements).for_each(|(ty, e)| self.same(ty, e));
    }

    fn construct(&mut self, construct: &Construct) {
        construct.args.iter().flatten().for_each(|e| self.expr(e));
        if construct.type_args.iter().any(|t| !self.known(*t)) {
            self.found.push(format!("{:?}: a type argument is not known", construct.span));
        }
    }

    fn order(&mut self, span: Span, order: &Order, len: usize) {
        let mut positions = order.positions(len);
        positions.sort_unstable();
        if !positions.into_iter().eq(0..len) {
            self.found.push(format!("{span:?}: the order of evaluation does not name each position once"));
        }
    }

    fn call(&mut self, call: &Call) {
        let p = self.p;
        self.order(call.span, &call.order, call.args.len());
        let params: &[LocalId] = match &call.callee {
            Callee::Function(id) => &p.functions[id.index()].params,
            Callee::ExternFunction(id) => &p.extern_functions[id.index()].params,
            Callee::Action(id) => &p.actions[id.index()].params,
            Callee::Method(_, id, at) => match p.externs[id.index()].methods.get(*at) {
                Some(method) => &method.params,
                None => return self.found.push(format!("{:?}: there is no such method", call.span)),
            },
            _ => return call.args.iter().for_each(|a| self.arg(a)),
        };
        self.args(params, &call.args, &call.type_args);
    }

    fn args(&mut self, params: &[LocalId], args: &[CallArg], type_args: &[Ty]) {
        if params.len() != args.len() || type_args.iter().any(|t| !self.known(*t)) {
            let span = params.first().map(|p| self.p.locals[p.index()].span);
            self.found.push(format!("{span:?}: arguments do not go with the parameters declared here"));
        }
        args.iter().for_each(|a| self.arg(a));
    }

    fn arg(&mut self, arg: &CallArg) {
        if let CallArg::Expr(e) = arg {
            self.expr(e);
        }
    }
}
