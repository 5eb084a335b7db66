//! Whether a function always gives a result.

use super::Checker;
use crate::ast::FunctionDecl;
use crate::diag::Diagnostic;
use crate::hir::{ExprKind, Stmt, StmtKind, Ty, Types};

impl Checker<'_> {
    /// Reports a function whose end can be reached without a result.
    pub(super) fn returns_always(&mut self, body: &[Stmt], result: Ty, decl: &FunctionDecl) {
        if matches!(result, Types::VOID | Types::UNKNOWN) || block_ends(body) {
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

/// Whether what follows the statements is never reached.
fn block_ends(stmts: &[Stmt]) -> bool {
    stmts.iter().any(ends)
}

fn ends(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Return(_) | StmtKind::Exit => true,
        StmtKind::Block(stmts) => block_ends(stmts),
        StmtKind::If(condition, yes, no) => match condition.kind {
            ExprKind::Bool(true) => ends(yes),
            ExprKind::Bool(false) => no.as_ref().is_some_and(|no| ends(no)),
            _ => ends(yes) && no.as_ref().is_some_and(|no| ends(no)),
        },
        StmtKind::SwitchAction { cases, .. } => {
            cases.iter().any(|c| c.default) && cases.iter().all(|c| c.body.as_ref().is_some_and(ends))
        }
        StmtKind::SwitchValue { cases, .. } => {
            cases.iter().any(|c| c.default) && cases.iter().all(|c| c.body.as_ref().is_some_and(ends))
        }
        _ => false,
    }
}
