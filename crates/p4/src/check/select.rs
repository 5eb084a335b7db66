//! `transition select`.

use super::keyset::Column;
use super::parser::States;
use super::{Checker, unknown};
use crate::ast;
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, SelectCase, TransitionKind, TyKind};

impl Checker<'_> {
    /// `select (exprs) { cases }`
    pub(super) fn select(&mut self, exprs: &[ast::Expr], cases: &[ast::SelectCase], states: &States) -> TransitionKind {
        let mut columns = Vec::new();
        for expr in exprs {
            let value = self.expr(expr, None);
            columns.push(self.column(value));
        }
        let mut checked = Vec::new();
        for case in cases {
            let keyset = self.keyset(&case.keyset, &columns, "select").unwrap_or_default();
            let target = self.target(&case.state, states);
            checked.push(SelectCase { keyset, target, span: case.span });
        }
        let mut exprs = Vec::new();
        columns.into_iter().for_each(|c| c.leaves(&mut exprs));
        TransitionKind::Select { exprs, cases: checked }
    }

    /// The column that an expression makes.
    fn column(&mut self, value: Expr) -> Column {
        let value = match (value.kind, self.kind(value.ty)) {
            (ExprKind::Aggregate(elements), TyKind::Tuple(_)) => {
                return Column::Group(elements.into_iter().map(|e| self.column(e)).collect());
            }
            (kind, _) => Expr { kind, ..value },
        };
        if self.selectable(value.ty) {
            return Column::One(value);
        }
        let shown = self.show(value.ty);
        self.error(
            Diagnostic::error("select-type", value.span, format!("values of type `{shown}` cannot be selected on"))
                .help("select on bits, integers, enums, bools and errors; name the fields one by one"),
        );
        Column::One(unknown(value.span))
    }
}
