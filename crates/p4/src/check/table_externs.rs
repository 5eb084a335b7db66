//! Checks externs attached to tables, and the use of `add_entry` in PNA.

use super::Checker;
use crate::diag::Diagnostic;
use crate::hir::{ActionId, Call, Callee, Expr, ExprKind, Stmt, StmtKind, Table};
use std::collections::HashMap;

/// Properties that attach an instance exclusively to one table.
const OWNED: [&str; 4] = ["counters", "meters", "pna_direct_counter", "pna_direct_meter"];

impl Checker<'_> {
    /// Reports a direct counter or meter attached to two tables, because it has one cell for each
    /// entry of one table.
    pub(super) fn check_shared_direct_externs(&mut self) {
        let mut owners = HashMap::new();
        let mut found = Vec::new();
        for table in &self.prog.tables {
            for property in table.properties.iter().filter(|p| OWNED.contains(&&*p.name)) {
                let Some(Expr { kind: ExprKind::Instance(id), .. }) = &property.value else { continue };
                match owners.insert(*id, property.span) {
                    Some(first) => found.push((property.span, first, self.prog.instances[id.index()].name.clone())),
                    None => continue,
                }
            }
        }
        for (span, first, name) in found {
            let diagnostic = Diagnostic::error("shared-extern", span, format!("`{name}` is attached to two tables"))
                .label(first, "attached here first")
                .help("give each table an instance of its own");
            self.error(diagnostic);
        }
    }

    /// Checks that `add_entry` is only called by the default action of a table with `add_on_miss =
    /// true`, because it adds to the table that missed (PNA specification, section "Tables with
    /// add-on-miss").
    pub(super) fn check_add_on_miss(&mut self) {
        let adding_actions: Vec<ActionId> = (0..self.prog.actions.len() as u32)
            .map(ActionId)
            .filter(|id| self.calls_add_entry(&self.prog.actions[id.index()].body))
            .collect();
        if adding_actions.is_empty() {
            return;
        }
        let mut misuses = Vec::new();
        for table in &self.prog.tables {
            for (action_index, listed) in
                table.actions.iter().enumerate().filter(|(_, l)| adding_actions.contains(&l.action))
            {
                let action = &self.prog.actions[listed.action.index()].name;
                let message = if action_index != table.default_action.0 {
                    format!(
                        "action `{action}` calls `add_entry`, and is not the default action of table `{}`",
                        table.name
                    )
                } else if !adds_on_miss(table) {
                    format!("action `{action}` calls `add_entry`, and table `{}` adds no entries", table.name)
                } else {
                    continue;
                };
                misuses.push((listed.span, table.span, message));
            }
        }
        for (span, table, message) in misuses {
            let diagnostic = Diagnostic::error("add-on-miss", span, message)
                .label(table, "the table")
                .help("set `add_on_miss = true` in the table, and make the action its `default_action`");
            self.error(diagnostic);
        }
    }

    fn calls_add_entry(&self, stmts: &[Stmt]) -> bool {
        stmts.iter().any(|stmt| match &stmt.kind {
            StmtKind::Block(inner) => self.calls_add_entry(inner),
            StmtKind::Call(call) => self.is_add_entry(call),
            StmtKind::Assign { right, .. } | StmtKind::Var(_, Some(right)) => match &right.kind {
                ExprKind::Call(call) => self.is_add_entry(call),
                _ => false,
            },
            StmtKind::If(_, yes, no) => {
                let branches = std::iter::once(yes).chain(no);
                branches.into_iter().any(|b| self.calls_add_entry(std::slice::from_ref(b)))
            }
            _ => false,
        })
    }

    fn is_add_entry(&self, call: &Call) -> bool {
        let Callee::ExternFunction(id) = call.callee else { return false };
        matches!(&*self.prog.extern_functions[id.index()].name, "add_entry" | "add_entry_if" | "add_entry_pair")
    }
}

fn adds_on_miss(table: &Table) -> bool {
    let property = table.properties.iter().find(|p| &*p.name == "add_on_miss");
    property.and_then(|p| p.value.as_ref()).is_some_and(|v| v.kind == ExprKind::Bool(true))
}
