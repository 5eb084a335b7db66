//! Whether an entry is one for its table: everything is looked at here, in the packed form, whoever packed it.

use crate::bits::{big_from_words, fits, words_for};
use crate::entry::{MeterConfig, PackedAction, UpdateKind};
use crate::error::{EntryError, MeterError};
use crate::layout::{KeyField, KeyLayout};
use crate::match_key::Pattern;
use crate::packed::PackedEntry;
use ir::{ActionId, ExternId, ExternKind, Key, MatchKind, Param, Pipeline, Table, TableId};
use num_bigint::BigUint;
use num_traits::One;
use std::cmp::Ordering;

/// The table of that number.
pub fn table(pipeline: &Pipeline, table: TableId) -> Result<&Table, EntryError> {
    let count = pipeline.tables.len();
    pipeline.tables.get(table).ok_or(EntryError::UnknownTable { index: table.0, count })
}

/// Checks packed keys against their declaration.
pub fn keys(owner: &str, declared: &[Key], layout: &KeyLayout, key: &[u64]) -> Result<(), EntryError> {
    if key.len() != layout.len {
        return Err(EntryError::KeyWords { table: owner.to_owned(), expected: layout.len, got: key.len() });
    }
    match layout.fields.iter().find(|field| !valid(field, key)) {
        None => Ok(()),
        Some(field) => Err(fault(owner, &declared[field.position].name, field, key)),
    }
}

/// Whether a field of a key can be what its words say.
fn valid(field: &KeyField, key: &[u64]) -> bool {
    let (value, width) = (field.value(key), field.width);
    let form = match field.pattern(key) {
        Pattern::Any => value.iter().all(|word| *word == 0),
        Pattern::Value(_) => field.kind != MatchKind::Optional || field.second(key)[0] == 1,
        Pattern::Masked { mask, .. } => fits(mask, width) && value.iter().zip(mask).all(|(v, m)| v & !m == 0),
        Pattern::Prefix { len, .. } => len <= u64::from(width) && no_host_bits(field, value, len as u32),
        Pattern::Range { low, high } => fits(high, width) && field.compare(low, high) != Ordering::Greater,
    };
    form && fits(value, width)
}

fn no_host_bits(field: &KeyField, value: &[u64], prefix_len: u32) -> bool {
    let host = field.width - prefix_len;
    let (whole, rest) = ((host / 64) as usize, host % 64);
    value.iter().take(whole).all(|word| *word == 0) && value.get(whole).is_none_or(|word| word & ((1 << rest) - 1) == 0)
}

/// What is wrong with a field that is not valid.
fn fault(owner: &str, name: &str, field: &KeyField, words: &[u64]) -> EntryError {
    let (table, width) = (owner.to_owned(), field.width);
    let (value, second) = (big_from_words(field.value(words)), big_from_words(field.second(words)));
    let wide = |value: &BigUint| value.bits() > u64::from(width);
    let key = name.to_owned();
    if field.kind == MatchKind::Optional && second != BigUint::one() {
        let presence = second.try_into().unwrap_or(u64::MAX);
        return EntryError::Presence { table, key, presence, value };
    }
    if wide(&value) {
        return too_wide(owner, name, value, width);
    }
    match field.pattern(words) {
        Pattern::Masked { .. } | Pattern::Range { .. } if wide(&second) => too_wide(owner, name, second, width),
        Pattern::Range { .. } => EntryError::EmptyRange { table, key, lo: value, hi: second },
        Pattern::Prefix { len, .. } => match u32::try_from(len).unwrap_or(u32::MAX) {
            prefix_len if prefix_len > width => EntryError::PrefixTooLong { table, key, prefix_len, width },
            prefix_len => {
                let mend = (&value >> (width - prefix_len)) << (width - prefix_len);
                EntryError::HostBits { table, key, value, prefix_len, mend }
            }
        },
        Pattern::Any | Pattern::Value(_) | Pattern::Masked { .. } => {
            let mend = &value & &second;
            EntryError::BitsOutsideMask { table, key, value, mask: second, mend }
        }
    }
}

pub fn too_wide(owner: &str, name: &str, value: BigUint, width: u32) -> EntryError {
    let largest = ones(width);
    EntryError::ValueTooWide { table: owner.to_owned(), key: name.to_owned(), value, width, largest }
}

/// The greatest value of a width.
fn ones(width: u32) -> BigUint {
    (BigUint::one() << width) - BigUint::one()
}

/// The action, if the table has it, for an entry (`default` false) or as the default action.
pub fn listed<'a>(
    pipeline: &'a Pipeline,
    table: &Table,
    id: ActionId,
    default: bool,
) -> Result<&'a ir::Action, EntryError> {
    let name = || table.preamble.name.clone();
    let found = table.actions.iter().find(|listed| listed.action == id);
    let (Some(listed), Some(action)) = (found, pipeline.actions.get(id)) else {
        let known = table.actions.iter().filter_map(|a| pipeline.actions.get(a.action));
        let known: Vec<&str> = known.map(|a| a.preamble.name.as_str()).collect();
        let action = match pipeline.actions.get(id) {
            Some(action) => action.preamble.name.clone(),
            None => format!("number {}", id.0),
        };
        return Err(EntryError::UnknownAction { table: name(), action, known: known.join(", ") });
    };
    let action_name = || action.preamble.name.clone();
    if listed.default_only && !default {
        return Err(EntryError::DefaultOnly { table: name(), action: action_name() });
    }
    if listed.table_only && default {
        return Err(EntryError::TableOnly { table: name(), action: action_name() });
    }
    Ok(action)
}

/// `got` arguments are not as many as the action has parameters.
pub fn arity(table: &Table, action: &ir::Action, got: usize) -> EntryError {
    let names: Vec<&str> = action.params.iter().map(|p| p.name.as_str()).collect();
    EntryError::Arity {
        table: table.preamble.name.clone(),
        action: action.preamble.name.clone(),
        expected: names.len(),
        got,
        names: names.join(", "),
    }
}

pub fn arg_too_wide(table: &Table, action: &ir::Action, param: &Param, value: BigUint) -> EntryError {
    let width = param.ty.width();
    EntryError::ArgTooWide {
        table: table.preamble.name.clone(),
        action: action.preamble.name.clone(),
        param: param.name.clone(),
        value,
        width,
        largest: ones(width),
    }
}

pub fn needs_member(pipeline: &Pipeline, table: &Table, profile: ExternId) -> EntryError {
    let profile = pipeline.externs.get(profile).map_or_else(String::new, |object| object.preamble.name.clone());
    EntryError::NeedsMember { table: table.preamble.name.clone(), profile }
}

/// Checks an action and its packed arguments for a table, as an entry's (`default` false) or the default action.
pub fn args(pipeline: &Pipeline, table: &Table, id: ActionId, words: &[u64], default: bool) -> Result<(), EntryError> {
    let action = listed(pipeline, table, id, default)?;
    let mut rest = words;
    for param in &action.params {
        let width = param.ty.width();
        let Some((value, behind)) = rest.split_at_checked(words_for(width)) else {
            return Err(arg_words(table, action, words.len()));
        };
        if !fits(value, width) {
            return Err(arg_too_wide(table, action, param, big_from_words(value)));
        }
        rest = behind;
    }
    match rest {
        [] => Ok(()),
        _ => Err(arg_words(table, action, words.len())),
    }
}

fn arg_words(table: &Table, action: &ir::Action, got: usize) -> EntryError {
    let expected = action.params.iter().map(|param| words_for(param.ty.width())).sum();
    let (table, action) = (table.preamble.name.clone(), action.preamble.name.clone());
    EntryError::ArgWords { table, action, expected, got }
}

/// Checks what an entry or default action does; whether members and groups exist is the state's to check.
pub fn action(pipeline: &Pipeline, table: &Table, action: PackedAction<'_>, default: bool) -> Result<(), EntryError> {
    let name = || table.preamble.name.clone();
    let profile = table.implementation.and_then(|id| Some((id, pipeline.externs.get(id)?)));
    match (action, profile) {
        (PackedAction::Call(id, words), None) => args(pipeline, table, id, words, default),
        // The default of a table with a profile is the program's own action, which is in no profile.
        (PackedAction::Call(id, words), Some(_)) if default => args(pipeline, table, id, words, default),
        (PackedAction::Call(..), Some((id, _))) => Err(needs_member(pipeline, table, id)),
        (PackedAction::Member(_) | PackedAction::Group(_), None) => Err(EntryError::NoProfile { table: name() }),
        (PackedAction::Member(_), Some(_)) => Ok(()),
        (PackedAction::Group(_), Some((_, profile))) => match profile.kind {
            ExternKind::ActionSelector { .. } => Ok(()),
            _ => Err(EntryError::NoGroups { table: name(), profile: profile.preamble.name.clone() }),
        },
    }
}

/// Checks everything about an entry that does not depend on what else is there, but key and action.
pub fn attributes(table: &Table, entry: &PackedEntry, kind: UpdateKind) -> Result<(), EntryError> {
    let name = || table.preamble.name.clone();
    let got = entry.priority;
    if table.has_priority() && got < 1 {
        return Err(EntryError::PriorityMissing { table: name(), got });
    }
    if !table.has_priority() && got != 0 {
        return Err(EntryError::PriorityNotAllowed { table: name(), got });
    }
    if kind == UpdateKind::Delete {
        return Ok(());
    }
    if entry.idle_timeout_ns != 0 && !table.idle_timeout {
        return Err(EntryError::NoIdleTimeout { table: name() });
    }
    if entry.counter.is_some() && table.direct_counter.is_none() {
        return Err(EntryError::NoDirectCounter { table: name() });
    }
    if let Some(config) = entry.meter() {
        if table.direct_meter.is_none() {
            return Err(EntryError::NoDirectMeter { table: name() });
        }
        meter(config).map_err(|source| EntryError::Meter { table: name(), source })?;
    }
    Ok(())
}

/// Checks a meter's configuration (RFC 2698, section 2).
pub fn meter(config: &MeterConfig) -> Result<(), MeterError> {
    if config.pir < config.cir {
        return Err(MeterError::PeakBelowCommitted { cir: config.cir, pir: config.pir });
    }
    if config.pburst == 0 {
        return Err(MeterError::ZeroBurst { which: "peak" });
    }
    Ok(())
}
