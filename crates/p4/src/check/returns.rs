//! Checks that a function always returns a value.

use super::Checker;
use crate::ast::FunctionDecl;
use crate::diag::Diagnostic;
use crate::hir::{ExprKind, Stmt, StmtKind, Ty, Types};

impl Checker<'_> {
    /// Reports a function with a reachable end that lacks a result.
    pub(super) fn check_returns(&mut self, body: &[Stmt], result: Ty, decl: &FunctionDecl) {
        if matches!(result, Types::VOID | Types::UNKNOWN) || block_always_ends(body) {
            return;
        }
        let message = format!("function `{}` does not return a value on all paths", decl.name);
        self.error(
            Diagnostic::error("missing-return", decl.name.span, message)
                .label(decl.body.span.end(), "the end can be reached here")
                .help("end each path with `return value;`"),
        );
    }
}

/// Returns whether the end of the statements is unreachable.
fn block_always_ends(stmts: &[Stmt]) -> bool {
    stmts.iter().any(always_ends)
}

fn always_ends(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Return(_) | StmtKind::Exit => true,
        StmtKind::Block(stmts) => block_always_ends(stmts),
        StmtKind::If(condition, yes, no) => match condition.kind {
            ExprKind::Bool(true) => always_ends(yes),
            ExprKind::Bool(false) => no.as_ref().is_some_and(|no| always_ends(no)),
            _ => always_ends(yes) && no.as_ref().is_some_and(|no| always_ends(no)),
        },
        StmtKind::SwitchAction { cases, .. } => {
            cases.iter().any(|c| c.default) && cases.iter().all(|c| c.body.as_ref().is_some_and(always_ends))
        }
        StmtKind::SwitchValue { cases, .. } => {
            cases.iter().any(|c| c.default) && cases.iter().all(|c| c.body.as_ref().is_some_and(always_ends))
        }
        _ => false,
    }
}
