//! Checks rules about all entries of a table.
//! The rules concern masks and their match kinds, priorities, and duplicates.

use super::Checker;
use super::fold::same_constant;
use super::fold::wrap_unsigned;
use crate::ast::{self, TableProperty};
use crate::diag::Diagnostic;
use crate::hir::{Entry, Expr, ExprKind, KeysetItem, Table};
use num_bigint::BigInt;
use num_traits::ToPrimitive;

impl Checker<'_> {
    /// Checks entries that are individually valid.
    pub(super) fn check_entry_rules(&mut self, table: &Table, decl: &ast::TableDecl) {
        for entry in &table.entries {
            for (item, key) in entry.keyset.iter().zip(&table.keys) {
                let kind = self.prog.match_kinds[key.match_kind].clone();
                self.check_match_kind_item(item, &kind);
            }
        }
        self.report_duplicate_entries(table);
        self.check_priorities(table, decl);
    }

    /// Checks that keys of `match_kind` support the item of an entry, if it is a mask or range.
    /// `exact` and `optional` accept a mask of ones only, `lpm` one of a prefix.
    fn check_match_kind_item(&mut self, item: &KeysetItem, match_kind: &str) {
        let (item_name, span) = match item {
            KeysetItem::Mask(value, _) => ("mask", value.span),
            KeysetItem::Range(lo, _) => ("range", lo.span),
            _ => return,
        };
        let is_all_ones = |mask: &Expr, c: &Self| match (&mask.kind, c.width_bits(mask.ty)) {
            (ExprKind::Int(mask_value), Some(width)) => {
                wrap_unsigned(mask_value, width) == (BigInt::from(1) << width) - 1
            }
            _ => false,
        };
        let is_prefix_mask = |mask: &Expr, c: &Self| match (&mask.kind, c.width_bits(mask.ty)) {
            (ExprKind::Int(mask_value), Some(width)) => is_prefix(&wrap_unsigned(mask_value, width), width),
            _ => true,
        };
        let problem = match (match_kind, item) {
            ("exact" | "optional", KeysetItem::Mask(_, mask)) if is_all_ones(mask, self) => return,
            ("exact" | "optional", _) => format!("a key of kind `{match_kind}` cannot match a {item_name}"),
            ("lpm", KeysetItem::Mask(_, mask)) if is_prefix_mask(mask, self) => return,
            ("lpm", KeysetItem::Mask(..)) => "this is not the mask of a prefix: its 1 bits must come first".to_owned(),
            ("lpm", _) => "a key of kind `lpm` cannot match a range".to_owned(),
            ("ternary", KeysetItem::Range(..)) => "a key of kind `ternary` cannot match a range".to_owned(),
            ("range", KeysetItem::Mask(..)) => "a key of kind `range` cannot match a mask".to_owned(),
            _ => return,
        };
        self.fail("entry-key", span, problem);
    }

    /// Reports equal entries of a table with only exact keys.
    fn report_duplicate_entries(&mut self, table: &Table) {
        let exact = |kind: usize| &*self.prog.match_kinds[kind] == "exact";
        if !table.keys.iter().all(|k| exact(k.match_kind)) {
            return;
        }
        // Literals as text find duplicates without comparing all pairs.
        let mut seen: std::collections::HashMap<String, &Entry> = Default::default();
        for entry in &table.entries {
            let Some(text) = literal_key(entry) else { continue };
            if let Some(first) = seen.get(&text) {
                let diagnostic = Diagnostic::error("entry-duplicate", entry.span, "an entry with this key exists")
                    .label(first.span, "the other entry")
                    .help("remove one of the two");
                self.report(diagnostic);
            } else {
                seen.insert(text, entry);
            }
        }
    }

    /// Checks the rules of explicit priorities (specification, "Entry priorities"): the table
    /// orders its entries by priority, and the first entry has one.
    fn check_priorities(&mut self, table: &Table, decl: &ast::TableDecl) {
        let Some(first) = table.entries.iter().find(|e| e.priority.is_some()) else {
            return self.check_priority_range(table);
        };
        let property_span =
            |name: &str| decl.properties.iter().find(|p: &&TableProperty| p.name.as_str() == name).map(|p| p.span);
        let needs_priority = |k: &crate::hir::Key| !matches!(&*self.prog.match_kinds[k.match_kind], "exact" | "lpm");
        if table.const_entries {
            self.error(
                Diagnostic::error("priority", first.span, "`const entries` have no priorities: their order decides")
                    .help("remove the priorities, or `const` before `entries`"),
            );
        } else if !table.keys.iter().any(needs_priority) {
            let span = property_span("key").unwrap_or(first.span);
            self.error(
                Diagnostic::error(
                    "priority",
                    span,
                    "with these keys, at most one entry matches, so there are no priorities",
                )
                .label(first.span, "a priority is given here"),
            );
        } else if table.entries[0].priority.is_none() {
            let entry = table.entries[0].span;
            self.error(
                Diagnostic::error("priority", entry, "the first entry must have a priority, as others have one")
                    .label(first.span, "for example this one"),
            );
        } else {
            self.check_priority_range(table);
        }
    }

    /// Checks that all priorities, explicit and implicit, fit in 32 bits. An entry without one
    /// follows the entry before it by `priority_delta`.
    fn check_priority_range(&mut self, table: &Table) {
        let property = |name: &str| table.properties.iter().find(|p| &*p.name == name)?.value.as_ref();
        let delta = match property("priority_delta").map(|v| &v.kind) {
            Some(ExprKind::Int(delta)) => delta.clone(),
            _ => BigInt::from(1),
        };
        let largest_wins = !matches!(property("largest_priority_wins").map(|v| &v.kind), Some(ExprKind::Bool(false)));
        let has_explicit = table.entries.iter().any(|e| e.priority.is_some());
        let step = if largest_wins && has_explicit { -delta } else { delta };
        let mut next = BigInt::from(1);
        for entry in &table.entries {
            let priority = entry.priority.clone().unwrap_or(next);
            if priority.to_u32().is_none() {
                let message =
                    format!("an entry gets the priority {priority}, and priorities are from 0 to {}", u32::MAX);
                let diagnostic = Diagnostic::error("priority", table.span, message)
                    .label(entry.span, "this entry")
                    .help("write its priority, or choose another `priority_delta`");
                return self.error(diagnostic);
            }
            next = priority + &step;
        }
    }
}

/// Returns whether the 1 bits of a mask of `width` bits come first.
fn is_prefix(mask: &BigInt, width: u32) -> bool {
    let inverse = (BigInt::from(1) << width) - 1 - mask;
    let above = &inverse + 1;
    (inverse & above) == BigInt::from(0)
}

/// Returns the key of an entry as text if it consists of literals.
fn literal_key(entry: &Entry) -> Option<String> {
    let mut text = String::new();
    for item in &entry.keyset {
        let KeysetItem::Value(value) = item else { return None };
        same_constant(&value.kind, &value.kind)?;
        text.push_str(&format!("{:?},", value.kind));
    }
    Some(text)
}
