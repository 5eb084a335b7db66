//! Checks `transition select`.

use super::keyset::KeysetColumn;
use super::parser::StateIndices;
use super::{Checker, unknown_expr};
use crate::ast;
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, KeysetItem, SelectCase, TransitionKind, TyKind};

impl Checker<'_> {
    /// Checks `select (exprs) { cases }`; `states` has the states of the parser by name. A case
    /// with an error keeps its target, so that the state counts as reachable.
    pub(super) fn check_select(
        &mut self,
        exprs: &[ast::Expr],
        cases: &[ast::SelectCase],
        states: &StateIndices,
    ) -> TransitionKind {
        let mut columns = Vec::new();
        for expr in exprs {
            let value = self.check_expr(expr, None);
            columns.push(self.keyset_column(value));
        }
        let mut checked = Vec::new();
        for case in cases {
            let keyset = self.check_keyset(&case.keyset, &columns, "select").unwrap_or_default();
            let target = self.resolve_target(&case.state, states);
            checked.push(SelectCase { keyset, target, span: case.span });
        }
        self.warn_covered_cases(&checked);
        let mut exprs = Vec::new();
        columns.into_iter().for_each(|c| c.leaves(&mut exprs));
        TransitionKind::Select { exprs, cases: checked }
    }

    /// Warns about cases after one that matches everything, because they are unreachable.
    fn warn_covered_cases(&mut self, cases: &[SelectCase]) {
        let takes_all = |c: &SelectCase| !c.keyset.is_empty() && c.keyset.iter().all(|k| *k == KeysetItem::Any);
        let Some(at) = cases.iter().position(takes_all) else { return };
        if let Some(next) = cases.get(at + 1) {
            self.report(
                Diagnostic::warning("unreachable-case", next.span, "this case is never reached")
                    .label(cases[at].span, "this one matches everything")
                    .help("move the case that matches everything to the end"),
            );
        }
    }

    /// Returns the key set column of an expression.
    fn keyset_column(&mut self, value: Expr) -> KeysetColumn {
        let value = match (value.kind, self.type_kind(value.ty)) {
            (ExprKind::Aggregate(elements, _), TyKind::Tuple(_)) => {
                return KeysetColumn::Group(elements.into_iter().map(|e| self.keyset_column(e)).collect());
            }
            (kind, _) => Expr { kind, ..value },
        };
        if self.selectable(value.ty) {
            return KeysetColumn::One(value);
        }
        let shown = self.type_text(value.ty);
        self.error(
            Diagnostic::error("select-type", value.span, format!("values of type `{shown}` cannot be selected on"))
                .help("select on bits, integers, enums, bools and errors; name the fields one by one"),
        );
        KeysetColumn::One(unknown_expr(value.span))
    }
}
