//! Visitors for expressions and statements.

use super::{Call, CallArg, Callee, Expr, ExprKind, ForRange, Stmt, StmtKind};

/// Calls `f` for the expression and its descendants, parents first.
pub fn walk_expr(expr: &Expr, f: &mut dyn FnMut(&Expr)) {
    f(expr);
    for_children(expr, &mut |child| walk_expr(child, f));
}

/// Calls `f` for each direct child of the expression: operands, elements and arguments.
pub fn for_children<'e>(expr: &'e Expr, f: &mut dyn FnMut(&'e Expr)) {
    match &expr.kind {
        ExprKind::Field(a, _)
        | ExprKind::StackNext(a)
        | ExprKind::StackLast(a)
        | ExprKind::StackLastIndex(a)
        | ExprKind::Slice { base: a, .. }
        | ExprKind::Unary(_, a)
        | ExprKind::Cast(a) => f(a),
        ExprKind::Index(a, b) | ExprKind::DynSlice { base: a, lo: b, .. } | ExprKind::Binary(_, a, b) => {
            f(a);
            f(b);
        }
        ExprKind::Mux(a, b, c) => [a, b, c].into_iter().for_each(|e| f(e)),
        ExprKind::Aggregate(items, _) => items.iter().for_each(f),
        ExprKind::Construct(construct) => construct.args.iter().flatten().for_each(f),
        ExprKind::Call(call) => call_children(call, f),
        ExprKind::Int(_)
        | ExprKind::Bool(_)
        | ExprKind::Str(_)
        | ExprKind::Error(_)
        | ExprKind::MatchKind(_)
        | ExprKind::EnumMember(..)
        | ExprKind::Local(_)
        | ExprKind::Instance(_)
        | ExprKind::InvalidHeader
        | ExprKind::Default
        | ExprKind::ApplyHit(_)
        | ExprKind::ApplyMiss(_) => {}
    }
}

fn call_children<'e>(call: &'e Call, f: &mut dyn FnMut(&'e Expr)) {
    match &call.callee {
        Callee::IsValid(e)
        | Callee::SetValid(e)
        | Callee::SetInvalid(e)
        | Callee::PushFront(e, _)
        | Callee::PopFront(e, _) => f(e),
        _ => {}
    }
    for arg in &call.args {
        if let CallArg::Expr(e) = arg {
            f(e);
        }
    }
}

/// Calls `f` for the arguments of the call, the object on which it is called, and their
/// descendants.
pub fn walk_call(call: &Call, f: &mut dyn FnMut(&Expr)) {
    call_children(call, &mut |child| walk_expr(child, f));
}

impl Expr {
    /// Returns whether the expression contains a call or a table application.
    pub fn has_call(&self) -> bool {
        let mut found = false;
        walk_expr(self, &mut |e| {
            found |= matches!(e.kind, ExprKind::Call(_) | ExprKind::ApplyHit(_) | ExprKind::ApplyMiss(_));
        });
        found
    }
}

/// Calls `f` for each expression of the statements, and `c` for each call that is a statement.
pub fn walk_stmts(stmts: &[Stmt], f: &mut dyn FnMut(&Expr), c: &mut dyn FnMut(&Call)) {
    for stmt in stmts {
        walk_stmt(stmt, f, c);
    }
}

/// Calls `on_expr` for each expression in the statement with its descendants, and `on_call` for
/// each call that is a statement of its own.
fn walk_stmt(stmt: &Stmt, on_expr: &mut dyn FnMut(&Expr), on_call: &mut dyn FnMut(&Call)) {
    match &stmt.kind {
        StmtKind::Block(stmts) => walk_stmts(stmts, on_expr, on_call),
        StmtKind::Var(_, init) => init.iter().for_each(|e| walk_expr(e, on_expr)),
        StmtKind::Assign { left, right, .. } => {
            walk_expr(left, on_expr);
            walk_expr(right, on_expr);
        }
        StmtKind::Call(call) => {
            on_call(call);
            walk_call(call, on_expr);
        }
        StmtKind::If(cond, then, els) => {
            walk_expr(cond, on_expr);
            walk_stmt(then, on_expr, on_call);
            els.iter().for_each(|s| walk_stmt(s, on_expr, on_call));
        }
        StmtKind::SwitchAction { cases, .. } => {
            cases.iter().filter_map(|k| k.body.as_ref()).for_each(|s| walk_stmt(s, on_expr, on_call));
        }
        StmtKind::SwitchValue { on, cases } => {
            walk_expr(on, on_expr);
            cases.iter().filter_map(|k| k.body.as_ref()).for_each(|s| walk_stmt(s, on_expr, on_call));
        }
        StmtKind::For { init, cond, update, body } => {
            walk_stmts(init, on_expr, on_call);
            walk_expr(cond, on_expr);
            walk_stmts(update, on_expr, on_call);
            walk_stmt(body, on_expr, on_call);
        }
        StmtKind::ForIn { over, body, .. } => {
            match over {
                ForRange::Range(a, b) => {
                    walk_expr(a, on_expr);
                    walk_expr(b, on_expr);
                }
                ForRange::Elements(e) => walk_expr(e, on_expr),
            }
            walk_stmt(body, on_expr, on_call);
        }
        StmtKind::Return(value) => value.iter().for_each(|e| walk_expr(e, on_expr)),
        StmtKind::Instance(_) | StmtKind::Break | StmtKind::Continue | StmtKind::Exit => {}
    }
}

/// Calls `f` for the expression, then for its descendants as `f` left them; `f` can change them.
pub fn walk_expr_mut(expr: &mut Expr, f: &mut dyn FnMut(&mut Expr)) {
    f(expr);
    match &mut expr.kind {
        ExprKind::Field(a, _)
        | ExprKind::StackNext(a)
        | ExprKind::StackLast(a)
        | ExprKind::StackLastIndex(a)
        | ExprKind::Slice { base: a, .. }
        | ExprKind::Unary(_, a)
        | ExprKind::Cast(a) => walk_expr_mut(a, f),
        ExprKind::Index(a, b) | ExprKind::DynSlice { base: a, lo: b, .. } | ExprKind::Binary(_, a, b) => {
            walk_expr_mut(a, f);
            walk_expr_mut(b, f);
        }
        ExprKind::Mux(a, b, c) => [a, b, c].into_iter().for_each(|e| walk_expr_mut(e, f)),
        ExprKind::Aggregate(items, _) => items.iter_mut().for_each(|e| walk_expr_mut(e, f)),
        ExprKind::Construct(construct) => construct.args.iter_mut().flatten().for_each(|e| walk_expr_mut(e, f)),
        ExprKind::Call(call) => walk_call_mut(call, f),
        ExprKind::Int(_)
        | ExprKind::Bool(_)
        | ExprKind::Str(_)
        | ExprKind::Error(_)
        | ExprKind::MatchKind(_)
        | ExprKind::EnumMember(..)
        | ExprKind::Local(_)
        | ExprKind::Instance(_)
        | ExprKind::InvalidHeader
        | ExprKind::Default
        | ExprKind::ApplyHit(_)
        | ExprKind::ApplyMiss(_) => {}
    }
}

fn walk_call_mut(call: &mut Call, f: &mut dyn FnMut(&mut Expr)) {
    match &mut call.callee {
        Callee::IsValid(e)
        | Callee::SetValid(e)
        | Callee::SetInvalid(e)
        | Callee::PushFront(e, _)
        | Callee::PopFront(e, _) => walk_expr_mut(e, f),
        _ => {}
    }
    for arg in &mut call.args {
        if let CallArg::Expr(e) = arg {
            walk_expr_mut(e, f);
        }
    }
}
