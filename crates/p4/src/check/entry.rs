//! Checks the entries that a table declares.

use super::Checker;
use super::keyset::KeysetColumn;
use super::table_action::has_annotation;
use crate::ast::{self, PropertyValue, TableProperty};
use crate::diag::Diagnostic;
use crate::hir::{Entry, ExprKind, KeysetItem, Table, Types};

impl Checker<'_> {
    /// Checks `entries = { ... }` and adds the entries to the table; its key must be declared
    /// before. `property` is the list, `decl` the whole declaration.
    pub(super) fn check_entries(
        &mut self,
        table: &mut Table,
        entries: &[ast::Entry],
        property: &TableProperty,
        decl: &ast::TableDecl,
    ) {
        if table.keys.is_empty() {
            if entries.is_empty() {
                return;
            }
            let key = decl.properties.iter().find(|p| p.name.as_str() == "key");
            match key.filter(|k| k.span.lo > property.span.lo) {
                Some(key) => self.error(
                    Diagnostic::error("entries", property.span, "the entries precede the table's key")
                        .label(key.span, "the key")
                        .help("move `entries` after `key`"),
                ),
                None if key.is_some_and(|k| !matches!(&k.value, PropertyValue::Key(keys) if keys.is_empty())) => {}
                None => self.error(
                    Diagnostic::error(
                        "entries",
                        decl.name.span,
                        format!("table `{}` has entries but no key", decl.name),
                    )
                    .help("add a `key`, or use `default_action`"),
                ),
            }
            return;
        }
        for entry in entries {
            self.check_annotations(&entry.annotations);
            if let Some(entry) = self.check_entry(table, entry) {
                table.entries.push(entry);
            }
        }
        self.check_entry_rules(table, decl);
    }

    /// Checks one entry against the keys and actions of the table; `None` after an error. A single
    /// `_` for several keys becomes one for each.
    fn check_entry(&mut self, table: &Table, entry: &ast::Entry) -> Option<Entry> {
        let columns: Vec<_> = table.keys.iter().map(|k| KeysetColumn::One(k.expr.clone())).collect();
        let keyset = self.check_keyset(&entry.keyset, &columns, "table");
        let priority = match &entry.priority {
            Some(priority) => Some(self.eval_const_int(priority, "a priority")?),
            None => None,
        };
        let action_index = self.listed_index(table, &entry.action.name, entry.action.span)?;
        if has_annotation(&table.actions[action_index], "defaultonly") {
            let message =
                format!("action `{}` is marked `@defaultonly` and cannot be used in entries", entry.action.name);
            let listed_span = table.actions[action_index].span;
            self.error(Diagnostic::error("entry-action", entry.action.span, message).label(listed_span, "listed here"));
            return None;
        }
        let args = entry.action.args.as_deref().unwrap_or(&[]);
        let args = self.check_full_args(table, action_index, args, entry.action.span)?;
        let keyset = keyset?;
        for item in &keyset {
            self.check_entry_constant(item)?;
        }
        let keyset = match (keyset.as_slice(), table.keys.len()) {
            ([KeysetItem::Any], n) if n > 1 => vec![KeysetItem::Any; n],
            _ => keyset,
        };
        Some(Entry {
            keyset,
            action: action_index,
            args,
            priority,
            is_const: entry.is_const,
            annotations: entry.annotations.clone(),
            span: entry.span,
        })
    }

    fn check_entry_constant(&mut self, item: &KeysetItem) -> Option<()> {
        let values = match item {
            KeysetItem::Value(v) => vec![v],
            KeysetItem::Mask(a, b) | KeysetItem::Range(a, b) => vec![a, b],
            KeysetItem::Any | KeysetItem::ValueSet(_) => Vec::new(),
        };
        for value in values {
            if value.ty != Types::UNKNOWN && !self.is_known(value) {
                let (span, fixed) = (value.span, matches!(value.kind, ExprKind::Int(_)));
                debug_assert!(!fixed);
                self.fail("not-constant", span, "the key of an entry must be known at compile time");
                return None;
            }
        }
        Some(())
    }
}
