//! Analyses side effects of expressions, and variables that actions mention.

use super::lowering::Lowering;
use crate::hir::{self, *};
use std::collections::HashSet;
use std::rc::Rc;

/// Returns whether evaluation has no side effects and cannot exit.
pub(super) fn is_pure(expr: &Expr) -> bool {
    let mut pure = true;
    walk_expr(expr, &mut |e| match &e.kind {
        ExprKind::Call(call) => pure &= matches!(call.callee, Callee::IsValid(_) | Callee::SizeOf(..)),
        ExprKind::StackNext(_) | ExprKind::StackLast(_) | ExprKind::ApplyHit(_) | ExprKind::ApplyMiss(_) => {
            pure = false
        }
        _ => {}
    });
    pure
}

/// Returns whether an argument is pure.
pub(super) fn is_pure_arg(arg: &CallArg) -> bool {
    match arg {
        CallArg::Expr(e) => is_pure(e),
        CallArg::DontCare | CallArg::Missing => true,
    }
}

/// Returns the variable that contains an l-value.
pub(super) fn root_variable(expr: &Expr) -> Option<LocalId> {
    match &expr.kind {
        ExprKind::Local(id) => Some(*id),
        ExprKind::Field(base, _)
        | ExprKind::Index(base, _)
        | ExprKind::StackNext(base)
        | ExprKind::StackLast(base)
        | ExprKind::Slice { base, .. }
        | ExprKind::DynSlice { base, .. } => root_variable(base),
        _ => None,
    }
}

/// Returns whether statements can return before their end.
pub(super) fn returns_early(stmts: &[Stmt]) -> bool {
    fn returns(stmt: &Stmt) -> bool {
        match &stmt.kind {
            StmtKind::Return(_) => true,
            StmtKind::Block(stmts) => stmts.iter().any(returns),
            StmtKind::If(_, then, els) => returns(then) || els.as_ref().is_some_and(|s| returns(s)),
            StmtKind::SwitchAction { cases, .. } => cases.iter().filter_map(|c| c.body.as_ref()).any(returns),
            StmtKind::SwitchValue { cases, .. } => cases.iter().filter_map(|c| c.body.as_ref()).any(returns),
            StmtKind::For { body, .. } | StmtKind::ForIn { body, .. } => returns(body),
            _ => false,
        }
    }
    let last_is_return = matches!(stmts.last().map(|s| &s.kind), Some(StmtKind::Return(_)));
    let checked = if last_is_return { &stmts[..stmts.len() - 1] } else { stmts };
    checked.iter().any(returns)
}

impl Lowering<'_> {
    /// Returns the variables that an action mentions, directly or through called actions. The
    /// result is cached per action.
    pub(super) fn mentioned_locals(&mut self, id: hir::ActionId) -> Rc<HashSet<LocalId>> {
        if let Some(cached) = self.mentions.get(&id) {
            return Rc::clone(cached);
        }
        let mut locals = HashSet::new();
        let mut seen = HashSet::from([id]);
        let mut pending = vec![id];
        while let Some(action) = pending.pop() {
            walk_stmts(
                &self.hir.actions[action.index()].body,
                &mut |e| {
                    if let ExprKind::Local(local) = &e.kind {
                        locals.insert(*local);
                    }
                },
                &mut |call| {
                    if let Callee::Action(callee) = &call.callee
                        && seen.insert(*callee)
                    {
                        pending.push(*callee);
                    }
                },
            );
        }
        let locals = Rc::new(locals);
        self.mentions.insert(id, Rc::clone(&locals));
        locals
    }
}
