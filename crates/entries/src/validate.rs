//! Validation of entries for their tables.
//! All checks are on the packed form, independent of how it was built.

use crate::bits::{big_from_words, fits_width, words_for};
use crate::entry::{MeterConfig, StoredActionRef, UpdateKind};
use crate::error::{EntryError, MeterError};
use crate::layout::{KeyLayout, PackedKeyField};
use crate::match_key::KeyFieldPattern;
use crate::packed::PackedEntry;
use ir::{ActionId, ExternId, ExternKind, MatchKey, MatchKind, Param, Pipeline, Table, TableId};
use num_bigint::BigUint;
use num_traits::One;
use std::cmp::Ordering;

/// Returns the table of that number.
pub fn find_table(pipeline: &Pipeline, table: TableId) -> Result<&Table, EntryError> {
    let count = pipeline.tables.len();
    pipeline.tables.get(table).ok_or(EntryError::UnknownTable { index: table.0, count })
}

/// Checks packed keys against their declaration.
pub fn check_keys(owner: &str, declared: &[MatchKey], layout: &KeyLayout, key: &[u64]) -> Result<(), EntryError> {
    if key.len() != layout.len {
        return Err(EntryError::KeyWords { table: owner.to_owned(), expected: layout.len, got: key.len() });
    }
    match layout.fields.iter().find(|field| !is_valid_field(field, key)) {
        None => Ok(()),
        Some(field) => Err(field_error(owner, &declared[field.position].name, field, key)),
    }
}

/// Reports whether the words of a field are a valid match.
fn is_valid_field(field: &PackedKeyField, key: &[u64]) -> bool {
    let (value, width) = (field.value(key), field.width);
    let form = match field.pattern(key) {
        KeyFieldPattern::Any => value.iter().all(|word| *word == 0),
        KeyFieldPattern::Value(_) => field.kind != MatchKind::Optional || field.second(key)[0] == 1,
        KeyFieldPattern::Masked { mask, .. } => {
            fits_width(mask, width) && value.iter().zip(mask).all(|(v, m)| v & !m == 0)
        }
        KeyFieldPattern::Prefix { len, .. } => len <= u64::from(width) && no_host_bits(field, value, len as u32),
        KeyFieldPattern::Range { low, high } => {
            fits_width(high, width) && field.compare(low, high) != Ordering::Greater
        }
    };
    form && fits_width(value, width)
}

fn no_host_bits(field: &PackedKeyField, value: &[u64], prefix_len: u32) -> bool {
    let host = field.width - prefix_len;
    let (whole, rest) = ((host / 64) as usize, host % 64);
    value.iter().take(whole).all(|word| *word == 0) && value.get(whole).is_none_or(|word| word & ((1 << rest) - 1) == 0)
}

/// Returns the error of an invalid key field. `words` is the packed key; `owner` and `name` are the
/// names of the table and the key. The order of the tests decides which of several errors is shown.
fn field_error(owner: &str, name: &str, field: &PackedKeyField, words: &[u64]) -> EntryError {
    let (table, width) = (owner.to_owned(), field.width);
    // The second number is a mask, prefix length, upper bound or presence, by the match kind.
    let (value, second) = (big_from_words(field.value(words)), big_from_words(field.second(words)));
    let is_too_wide = |value: &BigUint| value.bits() > u64::from(width);
    let key = name.to_owned();
    if field.kind == MatchKind::Optional && second != BigUint::one() {
        let presence = second.try_into().unwrap_or(u64::MAX);
        return EntryError::Presence { table, key, presence, value };
    }
    if is_too_wide(&value) {
        return value_too_wide_error(owner, name, value, width);
    }
    match field.pattern(words) {
        KeyFieldPattern::Masked { .. } | KeyFieldPattern::Range { .. } if is_too_wide(&second) => {
            value_too_wide_error(owner, name, second, width)
        }
        KeyFieldPattern::Range { .. } => EntryError::EmptyRange { table, key, lo: value, hi: second },
        KeyFieldPattern::Prefix { len, .. } => match u32::try_from(len).unwrap_or(u32::MAX) {
            prefix_len if prefix_len > width => EntryError::PrefixTooLong { table, key, prefix_len, width },
            prefix_len => {
                let corrected = (&value >> (width - prefix_len)) << (width - prefix_len);
                EntryError::HostBits { table, key, value, prefix_len, corrected }
            }
        },
        KeyFieldPattern::Any | KeyFieldPattern::Value(_) | KeyFieldPattern::Masked { .. } => {
            let corrected = &value & &second;
            EntryError::BitsOutsideMask { table, key, value, mask: second, corrected }
        }
    }
}

pub fn value_too_wide_error(owner: &str, name: &str, value: BigUint, width: u32) -> EntryError {
    let largest = largest_value(width);
    EntryError::ValueTooWide { table: owner.to_owned(), key: name.to_owned(), value, width, largest }
}

/// Returns the greatest value of a width.
fn largest_value(width: u32) -> BigUint {
    (BigUint::one() << width) - BigUint::one()
}

/// Returns the action `id`, if the table lists it for that use: as the default action
/// (`is_default`) or in an entry.
pub fn listed_action<'a>(
    pipeline: &'a Pipeline,
    table: &Table,
    id: ActionId,
    is_default: bool,
) -> Result<&'a ir::Action, EntryError> {
    let name = || table.preamble.name.clone();
    let listed_action = table.actions.iter().find(|listed| listed.action == id);
    let (Some(listed), Some(action)) = (listed_action, pipeline.actions.get(id)) else {
        let listed_names = table.actions.iter().filter_map(|a| pipeline.actions.get(a.action));
        let listed_names: Vec<&str> = listed_names.map(|a| a.preamble.name.as_str()).collect();
        let action = match pipeline.actions.get(id) {
            Some(action) => action.preamble.name.clone(),
            None => format!("number {}", id.0),
        };
        return Err(EntryError::UnknownAction { table: name(), action, known: listed_names.join(", ") });
    };
    let action_name = || action.preamble.name.clone();
    if listed.default_only && !is_default {
        return Err(EntryError::DefaultOnly { table: name(), action: action_name() });
    }
    if listed.table_only && is_default {
        return Err(EntryError::TableOnly { table: name(), action: action_name() });
    }
    Ok(action)
}

/// Creates the error for `got` arguments of an action.
pub fn arity_error(table: &Table, action: &ir::Action, got: usize) -> EntryError {
    let names: Vec<&str> = action.params.iter().map(|p| p.name.as_str()).collect();
    EntryError::Arity {
        table: table.preamble.name.clone(),
        action: action.preamble.name.clone(),
        expected: names.len(),
        got,
        names: names.join(", "),
    }
}

pub fn arg_too_wide_error(table: &Table, action: &ir::Action, param: &Param, value: BigUint) -> EntryError {
    let width = param.ty.width();
    EntryError::ArgTooWide {
        table: table.preamble.name.clone(),
        action: action.preamble.name.clone(),
        param: param.name.clone(),
        value,
        width,
        largest: largest_value(width),
    }
}

pub fn needs_member_error(pipeline: &Pipeline, table: &Table, profile: ExternId) -> EntryError {
    let profile = pipeline.externs.get(profile).map_or_else(String::new, |object| object.preamble.name.clone());
    EntryError::NeedsMember { table: table.preamble.name.clone(), profile }
}

/// Checks an action and its packed arguments `words` for a table, as the default action
/// (`is_default`) or in an entry. Each argument must have its number of words and fit its width.
pub fn check_args(
    pipeline: &Pipeline,
    table: &Table,
    id: ActionId,
    words: &[u64],
    is_default: bool,
) -> Result<(), EntryError> {
    let action = listed_action(pipeline, table, id, is_default)?;
    let mut remaining = words;
    for param in &action.params {
        let width = param.ty.width();
        let Some((value, after_value)) = remaining.split_at_checked(words_for(width)) else {
            return Err(arg_words_error(table, action, words.len()));
        };
        if !fits_width(value, width) {
            return Err(arg_too_wide_error(table, action, param, big_from_words(value)));
        }
        remaining = after_value;
    }
    match remaining {
        [] => Ok(()),
        _ => Err(arg_words_error(table, action, words.len())),
    }
}

fn arg_words_error(table: &Table, action: &ir::Action, got: usize) -> EntryError {
    let expected = action.params.iter().map(|param| words_for(param.ty.width())).sum();
    let (table, action) = (table.preamble.name.clone(), action.preamble.name.clone());
    EntryError::ArgWords { table, action, expected, got }
}

/// Checks the action of an entry, or the default action if `is_default`. A table with an action
/// profile takes members and groups in entries, other tables calls. The state checks that members
/// and groups exist.
pub fn check_action(
    pipeline: &Pipeline,
    table: &Table,
    action: StoredActionRef<'_>,
    is_default: bool,
) -> Result<(), EntryError> {
    let name = || table.preamble.name.clone();
    let profile = table.implementation.and_then(|id| Some((id, pipeline.externs.get(id)?)));
    match (action, profile) {
        (StoredActionRef::Call(id, words), None) => check_args(pipeline, table, id, words, is_default),
        // The default action of a table with a profile is the program's own action, which is not a
        // member of the profile.
        (StoredActionRef::Call(id, words), Some(_)) if is_default => check_args(pipeline, table, id, words, is_default),
        (StoredActionRef::Call(..), Some((id, _))) => Err(needs_member_error(pipeline, table, id)),
        (StoredActionRef::Member(_) | StoredActionRef::Group(_), None) => Err(EntryError::NoProfile { table: name() }),
        (StoredActionRef::Member(_), Some(_)) => Ok(()),
        (StoredActionRef::Group(_), Some((_, profile))) => match profile.kind {
            ExternKind::ActionSelector { .. } => Ok(()),
            _ => Err(EntryError::NoGroups { table: name(), profile: profile.preamble.name.clone() }),
        },
    }
}

/// Checks the attributes of an entry that do not depend on other entries, except key and action.
/// For a deletion, only the identity counts.
pub fn check_attributes(table: &Table, entry: &PackedEntry, kind: UpdateKind) -> Result<(), EntryError> {
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
        check_meter(config).map_err(|source| EntryError::Meter { table: name(), source })?;
    }
    Ok(())
}

/// Checks a meter's configuration (RFC 2698, section 2).
pub fn check_meter(config: &MeterConfig) -> Result<(), MeterError> {
    if config.pir < config.cir {
        return Err(MeterError::PeakBelowCommitted { cir: config.cir, pir: config.pir });
    }
    if config.pburst == 0 {
        return Err(MeterError::ZeroBurst { which: "peak" });
    }
    Ok(())
}
