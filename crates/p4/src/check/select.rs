//! `transition select`.

use super::Checker;
use super::parser::States;
use crate::ast;
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, SelectCase, TransitionKind};

impl Checker<'_> {
    /// `select (exprs) { cases }`
    pub(super) fn select(&mut self, exprs: &[ast::Expr], cases: &[ast::SelectCase], states: &States) -> TransitionKind {
        let mut columns = Vec::new();
        for expr in exprs {
            let value = self.expr(expr, None);
            self.column(value, &mut columns);
        }
        let checked = cases.iter().map(|case| {
            let keyset = self.keyset(&case.keyset, &columns, "select").unwrap_or_default();
            let target = self.target(&case.state, states);
            SelectCase { keyset, target, span: case.span }
        });
        let cases = checked.collect();
        TransitionKind::Select { exprs: columns, cases }
    }

    /// Adds the columns that an expression makes: one, or those of a list.
    fn column(&mut self, value: Expr, columns: &mut Vec<Expr>) {
        let value = match value.kind {
            ExprKind::Aggregate(elements) if matches!(self.kind(value.ty), crate::hir::TyKind::Tuple(_)) => {
                for element in elements {
                    self.column(element, columns);
                }
                return;
            }
            _ => value,
        };
        if !self.selectable(value.ty) {
            let shown = self.show(value.ty);
            self.error(
                Diagnostic::error("select-type", value.span, format!("a `{shown}` cannot be selected on"))
                    .help("select on bits, integers, enums, bools and errors; name the fields one by one"),
            );
            columns.push(super::unknown(value.span));
            return;
        }
        columns.push(value);
    }
}
