//! Verification of tables: keys, actions, default action, entries, attached objects.

use super::{PipelineVerifier, ViolationKind};
use crate::entity::{ActionId, ExternId};
use crate::externs::ExternKind;
use crate::table::*;
use crate::types::{Const, Type};
use num_bigint::BigUint;
use num_traits::Zero;
use std::collections::{HashMap, HashSet};

impl PipelineVerifier<'_> {
    pub(super) fn verify_tables(&mut self) {
        let p = self.pipeline;
        let mut attached: HashMap<ExternId, usize> = HashMap::new();
        for table in p.tables.values() {
            self.verify_keys(table);
            self.verify_table_actions(table);
            self.verify_entries(table);
            self.verify_attached_objects(table);
            for object in [table.direct_counter, table.direct_meter].into_iter().flatten() {
                *attached.entry(object).or_default() += 1;
            }
        }
        let mut shared: Vec<ExternId> = attached.into_iter().filter(|(_, n)| *n > 1).map(|(o, _)| o).collect();
        shared.sort_unstable();
        for object in shared {
            let name = p.externs.get(object).map_or("", |o| &o.preamble.name);
            self.report_declaration("extern", name, ViolationKind::SharedDirect(object.to_string()));
        }
    }

    fn report_table(&mut self, table: &Table, kind: ViolationKind) {
        self.report_declaration("table", &table.preamble.name, kind);
    }

    fn verify_keys(&mut self, table: &Table) {
        for key in &table.keys {
            self.verify_key_type("table", &table.preamble.name, key.ty);
        }
        if table.keys.iter().filter(|k| k.kind == MatchKind::Lpm).count() > 1 {
            self.report_table(table, ViolationKind::TwoLpmKeys);
        }
    }

    /// Verifies the actions of a table: they exist and are listed once, and the default action is
    /// one of them that may be the default.
    fn verify_table_actions(&mut self, table: &Table) {
        let mut seen = HashSet::new();
        for action in &table.actions {
            if self.pipeline.actions.get(action.action).is_none() {
                self.report_table(table, ViolationKind::MissingEntity(action.action.to_string()));
            }
            if !seen.insert(action.action) {
                self.report_table(table, ViolationKind::ListedTwice(action.action.to_string()));
            }
            if action.table_only && action.default_only {
                self.report_table(table, ViolationKind::TableAndDefaultOnly);
            }
        }
        match table.actions.iter().find(|a| a.action == table.default_action.action) {
            Some(action) if action.table_only => self.report_table(table, ViolationKind::DefaultIsTableOnly),
            Some(_) => {}
            None => {
                let name = self.action_name(table.default_action.action);
                self.report_table(table, ViolationKind::NotAnAction(name));
            }
        }
        self.verify_action_call(table, &table.default_action);
    }

    fn action_name(&self, action: ActionId) -> String {
        self.pipeline.actions.get(action).map_or_else(|| action.to_string(), |a| a.preamble.name.clone())
    }

    fn verify_action_call(&mut self, table: &Table, call: &ActionCall) {
        // An action that does not exist is reported in the list of actions.
        let Some(action) = self.pipeline.actions.get(call.action) else { return };
        if action.params.len() != call.args.len() {
            let what = format!("arguments of {}", action.preamble.name);
            let kind = ViolationKind::Count { what, expected: action.params.len(), found: call.args.len() };
            self.report_table(table, kind);
        }
        for (param, arg) in action.params.iter().zip(&call.args) {
            let value = Const { ty: param.ty, bits: arg.clone() };
            if self.const_violation(&value).is_some() {
                let what = format!("the argument for {}", param.name);
                self.report_table(table, ViolationKind::DoesNotFit { what, ty: param.ty });
            }
        }
    }

    /// Verifies the entries of a table: they match its keys and name actions that entries may use.
    fn verify_entries(&mut self, table: &Table) {
        let keys: Vec<&MatchKey> = table.match_keys().map(|(_, key)| key).collect();
        let has_priority = table.has_priority();
        for (entry_index, entry) in table.entries.iter().enumerate() {
            if entry.keys.len() != keys.len() {
                let what = format!("keys of entry {entry_index}");
                self.report_table(table, ViolationKind::Count { what, expected: keys.len(), found: entry.keys.len() });
            }
            for (key_index, (key, matched)) in keys.iter().zip(&entry.keys).enumerate() {
                self.verify_key_match(table, (entry_index, key_index), key, matched);
            }
            if !has_priority && entry.priority != 0 {
                self.report_table(table, ViolationKind::NeedlessPriority(entry_index));
            }
            match table.actions.iter().find(|a| a.action == entry.action.action) {
                Some(action) if action.default_only => {
                    let name = self.action_name(action.action);
                    self.report_table(table, ViolationKind::EntryIsDefaultOnly(name));
                }
                Some(_) => {}
                None => {
                    let name = self.action_name(entry.action.action);
                    self.report_table(table, ViolationKind::NotAnAction(name));
                }
            }
            self.verify_action_call(table, &entry.action);
        }
    }

    /// Verifies the match `matched` of an entry for one key: its match kind and width are those of
    /// the key, and it is in canonical form, without bits outside of its mask or prefix. `entry`
    /// and `key_index` are the indices of the entry and the key, for messages.
    fn verify_key_match(
        &mut self,
        table: &Table,
        (entry, key_index): (usize, usize),
        key: &MatchKey,
        matched: &KeyMatch,
    ) {
        let bad_match = |what| ViolationKind::BadMatch { entry, key: key_index, what };
        let width = key.ty.width();
        let value_fits = |value: &BigUint| value.bits() <= u64::from(width);
        let all_fit = match matched {
            KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) | KeyMatch::Lpm { value, .. } => value_fits(value),
            KeyMatch::Ternary { value, mask } => value_fits(value) && value_fits(mask),
            KeyMatch::Range { lo, hi } => value_fits(lo) && value_fits(hi),
            KeyMatch::Optional(None) => true,
        };
        if matched.kind() != key.kind {
            self.report_table(table, ViolationKind::MatchKind { entry, key: key_index });
            return;
        }
        if !all_fit {
            self.report_table(table, bad_match("a value is wider than the key"));
            return;
        }
        match matched {
            KeyMatch::Ternary { value, mask } if !(value ^ (value & mask)).is_zero() => {
                self.report_table(table, bad_match("the value has bits outside the mask"));
            }
            KeyMatch::Lpm { prefix_len, .. } if *prefix_len > width => {
                self.report_table(table, bad_match("the prefix is longer than the key"));
            }
            KeyMatch::Lpm { value, prefix_len } => {
                let host_bits = width - prefix_len;
                if value.trailing_zeros().is_some_and(|zeros| zeros < u64::from(host_bits)) {
                    self.report_table(table, bad_match("the value has bits after its prefix"));
                }
            }
            KeyMatch::Range { lo, hi } if crate::eval::to_number(key.ty, lo) > crate::eval::to_number(key.ty, hi) => {
                self.report_table(table, bad_match("the range is empty"));
            }
            _ => {}
        }
    }

    /// Verifies the extern objects attached to a table: they exist and are of the kind that the
    /// property needs. The meter's result goes to a numeric or enum variable.
    fn verify_attached_objects(&mut self, table: &Table) {
        let is_kind = |o: ExternId, f: fn(&ExternKind) -> bool| self.pipeline.externs.get(o).map(|o| f(&o.kind));
        let checks = [
            (
                table.implementation.map(|o| {
                    let is_profile: fn(&ExternKind) -> bool =
                        |k| matches!(k, ExternKind::ActionProfile { .. } | ExternKind::ActionSelector { .. });
                    (o, is_kind(o, is_profile))
                }),
                "an action profile or selector",
            ),
            (
                table.direct_counter.map(|o| (o, is_kind(o, |k| matches!(k, ExternKind::DirectCounter { .. })))),
                "a direct counter",
            ),
            (
                table.direct_meter.map(|o| (o, is_kind(o, |k| matches!(k, ExternKind::DirectMeter { .. })))),
                "a direct meter",
            ),
        ];
        for (check, expected) in checks {
            match check {
                Some((object, None)) => self.report_table(table, ViolationKind::MissingEntity(object.to_string())),
                Some((object, Some(false))) => {
                    self.report_table(table, ViolationKind::ExternKind { what: object.to_string(), expected });
                }
                _ => {}
            }
        }
        if let Some(var) = table.meter_result {
            match self.pipeline.vars.get(var).map(|v| v.ty) {
                None => self.report_table(table, ViolationKind::MissingEntity(var.to_string())),
                Some(Type::Bit(_) | Type::Int(_) | Type::Enum(_)) => {}
                Some(found) => {
                    let what = "the meter's result".to_string();
                    self.report_table(table, ViolationKind::TypeClass { what, expected: "a color", found });
                }
            }
        }
    }
}
