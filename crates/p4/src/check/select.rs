//! `transition select`.

use super::keyset::Column;
use super::parser::States;
use super::{Checker, unknown};
use crate::ast;
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, KeysetItem, SelectCase, TransitionKind, TyKind};

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
        self.covered_cases(&checked);
        let mut exprs = Vec::new();
        columns.into_iter().for_each(|c| c.leaves(&mut exprs));
        TransitionKind::Select { exprs, cases: checked }
    }

    /// Cases behind one that takes everything are never looked at.
    fn covered_cases(&mut self, cases: &[SelectCase]) {
        let takes_all = |c: &SelectCase| !c.keyset.is_empty() && c.keyset.iter().all(|k| *k == KeysetItem::Any);
        let Some(at) = cases.iter().position(takes_all) else { return };
        if let Some(next) = cases.get(at + 1) {
            self.report(
                Diagnostic::warning("unreachable-case", next.span, "this case is never looked at")
                    .label(cases[at].span, "this one takes everything")
                    .help("move the case that takes everything to the end"),
            );
        }
    }

    /// The column that an expression makes.
    fn column(&mut self, value: Expr) -> Column {
        let value = match (value.kind, self.kind(value.ty)) {
            (ExprKind::Aggregate(elements, _), TyKind::Tuple(_)) => {
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
