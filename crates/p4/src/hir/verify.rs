//! Verifies the invariants of an accepted typed program, on which lowering relies.
//!
//! All types are known, both sides of assignments and operators agree, calls have an argument for
//! each parameter, and indices are in range. A violation is always a bug of the checker, never of
//! the program. Tests verify every accepted program.

use super::{
    Call, CallArg, Callee, Construct, EvalOrder, Expr, ExprKind, KeysetItem, LocalDecl, LocalId, LocalKind, ObjectKind,
    Program, Stmt, StmtKind, Ty, TyKind, Types,
};
use crate::ast::BinaryOp;
use crate::span::Span;

/// Returns one sentence for each violated invariant of a typed program; empty if all hold.
pub fn verify(program: &Program) -> Vec<String> {
    let mut verifier = HirVerifier { program, violations: Vec::new() };
    verifier.verify_program();
    verifier.violations
}

struct HirVerifier<'p> {
    program: &'p Program,
    violations: Vec<String>,
}

impl HirVerifier<'_> {
    fn report_violation(&mut self, expr: &Expr, what: &str) {
        self.violations.push(format!("{:?}: {what}", expr.span));
    }

    /// Verifies all declarations of the program. Violations are collected, not returned.
    fn verify_program(&mut self) {
        let program = self.program;
        for local in &program.locals {
            if !matches!(local.kind, LocalKind::ConstructorParam(..)) && !self.is_known(local.ty) {
                self.violations.push(format!("{:?}: `{}` is of no known type", local.span, local.name));
            }
        }
        program.functions.iter().for_each(|f| self.verify_stmts(&f.body));
        program.actions.iter().for_each(|a| self.verify_stmts(&a.body));
        program.instances.iter().for_each(|i| self.verify_construct(&i.construct));
        for table in &program.tables {
            table.keys.iter().for_each(|k| self.verify_expr(&k.expr));
            for listed in &table.actions {
                let params = &program.actions[listed.action.index()].params;
                self.verify_args(&params[..listed.args.len().min(params.len())], &listed.args, &[]);
            }
            let exprs = table.default_action.1.iter().chain(&table.size);
            exprs
                .chain(table.properties.iter().filter_map(|program| program.value.as_ref()))
                .for_each(|e| self.verify_expr(e));
            for entry in &table.entries {
                self.verify_keyset(&entry.keyset);
                entry.args.iter().for_each(|e| self.verify_expr(e));
                if entry.keyset.len() != table.keys.len() || entry.action >= table.actions.len() {
                    self.violations.push(format!("{:?}: an entry does not fit its table", entry.span));
                }
            }
        }
        for object in &program.objects {
            match &object.kind {
                ObjectKind::Parser(body) => {
                    self.verify_locals(&body.locals);
                    for state in &body.states {
                        self.verify_stmts(&state.body);
                        if let super::TransitionKind::Select { exprs, cases } = &state.transition.kind {
                            exprs.iter().for_each(|e| self.verify_expr(e));
                            cases.iter().for_each(|c| self.verify_keyset(&c.keyset));
                        }
                    }
                }
                ObjectKind::Control(body) => {
                    self.verify_locals(&body.locals);
                    self.verify_stmts(&body.apply);
                }
                _ => {}
            }
        }
    }

    fn verify_locals(&mut self, locals: &[LocalDecl]) {
        for local in locals {
            if let LocalDecl::Var(id, Some(init)) = local {
                self.verify_type(self.program.locals[id.index()].ty, init);
            }
        }
    }

    /// Returns whether the type contains no unknown or inferred component.
    fn is_known(&self, ty: Ty) -> bool {
        match self.program.types.kind(ty) {
            TyKind::Unknown | TyKind::Infer(_) | TyKind::InvalidHeader => false,
            TyKind::Struct(_, args) | TyKind::Extern(_, args) | TyKind::Object(_, args) | TyKind::Tuple(args) => {
                args.iter().all(|t| self.is_known(*t))
            }
            TyKind::List(t) | TyKind::Set(t) | TyKind::Stack(t, _) => self.is_known(*t),
            _ => true,
        }
    }

    /// Verifies that the expression has the given type.
    fn verify_type(&mut self, ty: Ty, expr: &Expr) {
        self.verify_expr(expr);
        if expr.ty != ty {
            let (have, want) = (self.program.type_text(expr.ty), self.program.type_text(ty));
            self.report_violation(expr, &format!("a `{have}` stands where a `{want}` is needed"));
        }
    }

    fn verify_stmts(&mut self, stmts: &[Stmt]) {
        stmts.iter().for_each(|s| self.verify_stmt(s));
    }

    /// Verifies a statement and all statements and expressions in it: conditions are bools, and
    /// both sides of an assignment have one type, except the amount of a shift.
    fn verify_stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Block(stmts) => self.verify_stmts(stmts),
            StmtKind::Var(id, Some(init)) => self.verify_type(self.program.locals[id.index()].ty, init),
            StmtKind::Assign { left, op, right } => {
                self.verify_expr(left);
                match op {
                    None => self.verify_type(left.ty, right),
                    Some(BinaryOp::Shl | BinaryOp::Shr) => self.verify_expr(right),
                    Some(_) => self.verify_type(left.ty, right),
                }
            }
            StmtKind::Call(call) => self.verify_call(call),
            StmtKind::If(condition, yes, no) => {
                self.verify_type(Types::BOOL, condition);
                self.verify_stmt(yes);
                no.iter().for_each(|no| self.verify_stmt(no));
            }
            StmtKind::SwitchAction { cases, .. } => {
                cases.iter().filter_map(|c| c.body.as_ref()).for_each(|b| self.verify_stmt(b))
            }
            StmtKind::SwitchValue { on, cases } => {
                self.verify_expr(on);
                for case in cases {
                    case.values.iter().for_each(|v| self.verify_type(on.ty, v));
                    case.body.iter().for_each(|b| self.verify_stmt(b));
                }
            }
            StmtKind::For { init, cond, update, body } => {
                self.verify_stmts(init);
                self.verify_type(Types::BOOL, cond);
                self.verify_stmts(update);
                self.verify_stmt(body);
            }
            StmtKind::ForIn { var, over, body } => {
                match over {
                    super::ForRange::Range(lo, hi) => {
                        let ty = self.program.locals[var.index()].ty;
                        self.verify_type(ty, lo);
                        self.verify_type(ty, hi);
                    }
                    super::ForRange::Elements(e) => self.verify_expr(e),
                }
                self.verify_stmt(body);
            }
            StmtKind::Return(Some(value)) => self.verify_expr(value),
            _ => {}
        }
    }

    fn verify_keyset(&mut self, items: &[KeysetItem]) {
        for item in items {
            match item {
                KeysetItem::Value(v) => self.verify_expr(v),
                KeysetItem::Mask(a, b) | KeysetItem::Range(a, b) => {
                    self.verify_expr(a);
                    self.verify_type(a.ty, b);
                }
                KeysetItem::Any | KeysetItem::ValueSet(_) => {}
            }
        }
    }

    /// Verifies an expression and its operands: each has a known type, and operands of one type
    /// have it exactly, because the checker has made all conversions explicit.
    fn verify_expr(&mut self, expr: &Expr) {
        if !self.is_known(expr.ty) {
            self.report_violation(expr, "an expression is of no known type");
        }
        match &expr.kind {
            ExprKind::Field(a, _) | ExprKind::Cast(a) | ExprKind::Unary(_, a) | ExprKind::Slice { base: a, .. } => {
                self.verify_expr(a);
            }
            ExprKind::StackNext(a) | ExprKind::StackLast(a) | ExprKind::StackLastIndex(a) => self.verify_expr(a),
            ExprKind::Index(a, b) | ExprKind::DynSlice { base: a, lo: b, .. } => {
                self.verify_expr(a);
                self.verify_expr(b);
            }
            ExprKind::Binary(BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Concat, a, b) => {
                self.verify_expr(a);
                self.verify_expr(b);
            }
            ExprKind::Binary(_, a, b) => {
                self.verify_expr(a);
                self.verify_type(a.ty, b);
            }
            ExprKind::Mux(c, a, b) => {
                self.verify_type(Types::BOOL, c);
                self.verify_type(expr.ty, a);
                self.verify_type(expr.ty, b);
            }
            ExprKind::Aggregate(elements, order) => {
                self.verify_order(expr.span, order, elements.len());
                self.verify_elements(expr, elements);
            }
            ExprKind::Call(call) => self.verify_call(call),
            ExprKind::Construct(construct) => self.verify_construct(construct),
            _ => {}
        }
    }

    /// Verifies the elements of the list `expr`: their number and types fit its type.
    fn verify_elements(&mut self, expr: &Expr, elements: &[Expr]) {
        let element_types = match self.program.types.kind(expr.ty) {
            TyKind::Struct(id, args) => {
                // Types of generic fields are not compared, because only lowering substitutes type
                // arguments.
                let decl = &self.program.structs[id.index()];
                if args.is_empty() { decl.fields.iter().map(|f| f.ty).collect() } else { Vec::new() }
            }
            TyKind::Tuple(types) => types.clone(),
            TyKind::Stack(element, n) => vec![*element; *n as usize],
            TyKind::List(element) => vec![*element; elements.len()],
            _ => return self.report_violation(expr, "a list is of no type that has elements"),
        };
        if element_types.is_empty() {
            return elements.iter().for_each(|e| self.verify_expr(e));
        }
        if element_types.len() != elements.len() {
            self.report_violation(expr, "a list has the wrong number of elements");
        }
        element_types.into_iter().zip(elements).for_each(|(ty, e)| self.verify_type(ty, e));
    }

    fn verify_construct(&mut self, construct: &Construct) {
        construct.args.iter().flatten().for_each(|e| self.verify_expr(e));
        if construct.type_args.iter().any(|t| !self.is_known(*t)) {
            self.violations.push(format!("{:?}: a type argument is not known", construct.span));
        }
    }

    fn verify_order(&mut self, span: Span, order: &EvalOrder, len: usize) {
        let mut positions = order.positions(len);
        positions.sort_unstable();
        if !positions.into_iter().eq(0..len) {
            self.violations.push(format!("{span:?}: the order of evaluation does not name each position once"));
        }
    }

    fn verify_call(&mut self, call: &Call) {
        let p = self.program;
        self.verify_order(call.span, &call.order, call.args.len());
        let params: &[LocalId] = match &call.callee {
            Callee::Function(id) => &p.functions[id.index()].params,
            Callee::ExternFunction(id) => &p.extern_functions[id.index()].params,
            Callee::Action(id) => &p.actions[id.index()].params,
            Callee::Method(_, id, at) => match p.externs[id.index()].methods.get(*at) {
                Some(method) => &method.params,
                None => return self.violations.push(format!("{:?}: there is no such method", call.span)),
            },
            _ => return call.args.iter().for_each(|a| self.verify_arg(a)),
        };
        self.verify_args(params, &call.args, &call.type_args);
    }

    fn verify_args(&mut self, params: &[LocalId], args: &[CallArg], type_args: &[Ty]) {
        if params.len() != args.len() || type_args.iter().any(|t| !self.is_known(*t)) {
            let span = params.first().map(|p| self.program.locals[p.index()].span);
            self.violations.push(format!("{span:?}: arguments do not go with the parameters declared here"));
        }
        args.iter().for_each(|a| self.verify_arg(a));
    }

    fn verify_arg(&mut self, arg: &CallArg) {
        if let CallArg::Expr(e) = arg {
            self.verify_expr(e);
        }
    }
}
