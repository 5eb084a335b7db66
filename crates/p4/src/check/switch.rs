//! Checks `switch` over a table's action and over values.

use super::Checker;
use super::fold::same_constant;
use crate::ast::{self, SwitchCase};
use crate::diag::Diagnostic;
use crate::hir::{Expr, Stmt, StmtKind, SwitchActionCase, SwitchValueCase, TableId, TyKind, Types};
use crate::span::Span;

impl Checker<'_> {
    /// Checks `switch (subject) { cases }` over `t.apply().action_run` or over a value. After an
    /// error, the bodies of the cases are still checked, and the result is `None`.
    pub(super) fn check_switch(&mut self, subject: &ast::Expr, cases: &[SwitchCase], span: Span) -> Option<StmtKind> {
        self.default_is_last(cases, span);
        if let ast::ExprKind::Member { base, member } = &subject.kind
            && member.as_str() == "action_run"
            && let super::member::MemberBase::Value(value) = self.check_member_base(base)
        {
            if value.ty == Types::UNKNOWN {
                self.check_case_bodies(cases);
                return None;
            }
            if let Some(table) = self.applied_table(&value) {
                return Some(self.switch_action(table, cases));
            }
        }
        let subject_value = self.check_expr(subject, None);
        let is_comparable = matches!(
            self.type_kind(subject_value.ty),
            TyKind::Bit(_)
                | TyKind::Int(_)
                | TyKind::Bool
                | TyKind::Enum(_)
                | TyKind::Error
                | TyKind::NewType(_)
                | TyKind::InfInt
        );
        if !is_comparable {
            if subject_value.ty != Types::UNKNOWN {
                let type_text = self.type_text(subject_value.ty);
                self.error(
                    Diagnostic::error("switch-type", subject.span, format!("there is no `switch` over `{type_text}`"))
                        .help("a `switch` compares integers, enums, errors and bools, or takes `t.apply().action_run`"),
                );
            }
            self.check_case_bodies(cases);
            return None;
        }
        Some(self.switch_value(subject_value, cases))
    }

    fn check_case_bodies(&mut self, cases: &[SwitchCase]) {
        for block in cases.iter().filter_map(|c| c.block.as_ref()) {
            self.check_block_stmt(block);
        }
    }

    fn default_is_last(&mut self, cases: &[SwitchCase], span: Span) {
        let is_default = |c: &&SwitchCase| c.label.kind == ast::ExprKind::Default;
        let mut defaults = cases.iter().filter(is_default);
        let (Some(first), second) = (defaults.next(), defaults.next()) else { return };
        if let Some(second) = second {
            self.error(
                Diagnostic::error("switch-default", span, "a `switch` has only one `default`")
                    .label(first.label.span, "the first")
                    .label(second.label.span, "the second"),
            );
        } else if cases.last().is_some_and(|c| c.label.kind != ast::ExprKind::Default) {
            self.error(
                Diagnostic::error("switch-default", span, "`default` must be the last label of a `switch`")
                    .label(first.label.span, "`default` is here"),
            );
        }
    }

    /// Checks a `switch` over the action that `table` ran. Labels without a body share the body of
    /// the next label, so they are collected in an open case until a body closes it.
    fn switch_action(&mut self, table: TableId, cases: &[SwitchCase]) -> StmtKind {
        let mut closed_cases: Vec<SwitchActionCase> = Vec::new();
        let mut open_case = SwitchActionCase { actions: Vec::new(), default: false, body: None };
        let mut seen: Vec<(usize, Span)> = Vec::new();
        for case in cases {
            match &case.label.kind {
                ast::ExprKind::Default => open_case.default = true,
                _ => {
                    if let Some(action) = self.action_label(table, &case.label) {
                        self.check_label_once(&mut seen, action, case.label.span);
                        open_case.actions.push(action);
                    }
                }
            }
            if let Some(block) = &case.block {
                open_case.body = Some(self.check_block_stmt(block));
                closed_cases.push(std::mem::replace(
                    &mut open_case,
                    SwitchActionCase { actions: Vec::new(), default: false, body: None },
                ));
            }
        }
        if !open_case.actions.is_empty() || open_case.default {
            closed_cases.push(open_case);
        }
        StmtKind::SwitchAction { table, cases: closed_cases }
    }

    fn check_label_once(&mut self, seen: &mut Vec<(usize, Span)>, label: usize, span: Span) {
        if let Some((_, first)) = seen.iter().find(|(l, _)| *l == label) {
            self.error(
                Diagnostic::error("switch-label", span, "this label is used twice").label(*first, "first used here"),
            );
        }
        seen.push((label, span));
    }

    /// Returns the index of the labelled action in the table's list. Reports an unknown one and
    /// returns `None`.
    fn action_label(&mut self, table: TableId, label: &ast::Expr) -> Option<usize> {
        let decl = &self.prog.tables[table.index()];
        let name = match &label.kind {
            ast::ExprKind::Name(path) => Some(path.as_str()),
            _ => None,
        };
        let names: Vec<_> = decl.actions.iter().map(|a| self.prog.actions[a.action.index()].name.clone()).collect();
        let action_index = name.and_then(|name| names.iter().position(|n| **n == *name));
        if action_index.is_none() {
            let table_name = decl.name.clone();
            let text = self.sources.text(label.span).to_owned();
            let mut diagnostic = Diagnostic::error(
                "switch-label",
                label.span,
                format!("`{text}` is not an action of table `{table_name}`"),
            );
            if let Some(similar) = name.and_then(|n| crate::suggest::closest_name(n, names.iter().map(|n| &**n))) {
                diagnostic = diagnostic.help(format!("did you mean `{similar}`?"));
            }
            self.error(diagnostic);
        }
        action_index
    }

    /// Checks a `switch` over the value `on`. Labels without a body share the body of the next
    /// label, so they are collected in an open case until a body closes it.
    fn switch_value(&mut self, on: Expr, cases: &[SwitchCase]) -> StmtKind {
        let mut closed_cases: Vec<SwitchValueCase> = Vec::new();
        let mut open_case = SwitchValueCase { values: Vec::new(), default: false, body: None };
        let mut seen: Vec<Expr> = Vec::new();
        for case in cases {
            match &case.label.kind {
                ast::ExprKind::Default => open_case.default = true,
                _ => {
                    if let Some(value) = self.value_label(&on, &case.label) {
                        if let Some(first) = seen.iter().find(|s| same_constant(&s.kind, &value.kind) == Some(true)) {
                            let first = first.span;
                            self.error(
                                Diagnostic::error("switch-label", value.span, "this label is used twice")
                                    .label(first, "first used here"),
                            );
                        }
                        seen.push(value.clone());
                        open_case.values.push(value);
                    }
                }
            }
            if let Some(block) = &case.block {
                let body: Stmt = self.check_block_stmt(block);
                open_case.body = Some(body);
                closed_cases.push(std::mem::replace(
                    &mut open_case,
                    SwitchValueCase { values: Vec::new(), default: false, body: None },
                ));
            }
        }
        if !open_case.values.is_empty() || open_case.default {
            closed_cases.push(open_case);
        }
        StmtKind::SwitchValue { on, cases: closed_cases }
    }

    fn value_label(&mut self, on: &Expr, label: &ast::Expr) -> Option<Expr> {
        let value = self.check_expr(label, Some(on.ty));
        let value = self.coerce_for(value, on.ty, on.span, "the compared value");
        if value.ty == Types::UNKNOWN {
            return None;
        }
        if !self.is_known(&value) {
            self.fail("not-constant", label.span, "a label must be known at compile time");
            return None;
        }
        Some(value)
    }
}
