//! Whether an entry is one for its table, and its packed form.

use crate::batch::{MeterConfig, UpdateKind};
use crate::entry::{Action, ActionSpec, PackedKey, TableEntry};
use crate::error::{EntryError, MeterError};
use crate::layout::{KeyLayout, pack_args};
use ir::{ActionCall, ExternKind, Key, KeyMatch, MatchKind, Pipeline, Table, TableId};
use num_bigint::BigUint;
use num_traits::One;

/// The table of that number.
pub fn table(pipeline: &Pipeline, table: TableId) -> Result<&Table, EntryError> {
    let count = pipeline.tables.len();
    pipeline.tables.get(table).ok_or(EntryError::UnknownTable { index: table.0, count })
}

/// Checks keys against their declaration and packs them. `owner` is the table's or value set's name.
pub fn keys(owner: &str, declared: &[Key], layout: &KeyLayout, given: &[KeyMatch]) -> Result<PackedKey, EntryError> {
    if given.len() != layout.fields.len() {
        let names: Vec<&str> = layout.fields.iter().map(|f| declared[f.position].name.as_str()).collect();
        return Err(EntryError::KeyCount {
            table: owner.to_owned(),
            expected: names.len(),
            got: given.len(),
            names: names.join(", "),
        });
    }
    for (field, given) in layout.fields.iter().zip(given) {
        key(owner, &declared[field.position], given)?;
    }
    Ok(layout.pack(given))
}

fn key(owner: &str, key: &Key, given: &KeyMatch) -> Result<(), EntryError> {
    let width = key.ty.width();
    let (table, name) = (|| owner.to_owned(), || key.name.clone());
    let fits = |value: &BigUint| match value.bits() > u64::from(width) {
        false => Ok(()),
        true => Err(EntryError::ValueTooWide {
            table: table(),
            key: name(),
            value: value.clone(),
            width,
            largest: ones(width),
        }),
    };
    match (key.kind, given) {
        (MatchKind::Exact, KeyMatch::Exact(value)) => fits(value),
        (MatchKind::Ternary, KeyMatch::Ternary { value, mask }) => {
            fits(value)?;
            fits(mask)?;
            let mend = value & mask;
            if mend == *value {
                return Ok(());
            }
            let (value, mask) = (value.clone(), mask.clone());
            Err(EntryError::BitsOutsideMask { table: table(), key: name(), value, mask, mend })
        }
        (MatchKind::Lpm, KeyMatch::Lpm { value, prefix_len }) => {
            fits(value)?;
            let prefix_len = *prefix_len;
            if prefix_len > width {
                return Err(EntryError::PrefixTooLong { table: table(), key: name(), prefix_len, width });
            }
            let host = width - prefix_len;
            let mend = (value >> host) << host;
            if mend == *value {
                return Ok(());
            }
            Err(EntryError::HostBits { table: table(), key: name(), value: value.clone(), prefix_len, mend })
        }
        (MatchKind::Range, KeyMatch::Range { lo, hi }) => {
            fits(lo)?;
            fits(hi)?;
            // Flipping the sign bit maps the order of two's complement to that of unsigned numbers.
            let order = |value: &BigUint| match key.ty.is_signed() && width > 0 {
                true => value ^ (BigUint::one() << (width - 1)),
                false => value.clone(),
            };
            if order(lo) <= order(hi) {
                return Ok(());
            }
            Err(EntryError::EmptyRange { table: table(), key: name(), lo: lo.clone(), hi: hi.clone() })
        }
        (MatchKind::Optional, KeyMatch::Optional(value)) => value.as_ref().map_or(Ok(()), fits),
        (declared, given) => {
            let (expected, example) = match declared {
                MatchKind::Exact | MatchKind::Selector => ("exact", "10"),
                MatchKind::Ternary => ("ternary", "10 &&& 0xff"),
                MatchKind::Lpm => ("lpm", "10.0.0.0/8"),
                MatchKind::Range => ("range", "1..9"),
                MatchKind::Optional => ("optional", "10 or *"),
            };
            let got = match given {
                KeyMatch::Exact(_) => "exact",
                KeyMatch::Ternary { .. } => "ternary",
                KeyMatch::Lpm { .. } => "lpm",
                KeyMatch::Range { .. } => "range",
                KeyMatch::Optional(_) => "optional",
            };
            Err(EntryError::WrongMatchKind { table: table(), key: name(), expected, got, example })
        }
    }
}

/// The greatest value of a width.
fn ones(width: u32) -> BigUint {
    (BigUint::one() << width) - BigUint::one()
}

/// Checks an action and its arguments for a table, as an entry's (`default` false) or the default action.
pub fn call(pipeline: &Pipeline, table: &Table, call: &ActionCall, default: bool) -> Result<Action, EntryError> {
    let name = || table.preamble.name.clone();
    let Some(listed) = table.actions.iter().find(|listed| listed.action == call.action) else {
        let known = table.actions.iter().filter_map(|a| pipeline.actions.get(a.action));
        let known: Vec<&str> = known.map(|a| a.preamble.name.as_str()).collect();
        let action = match pipeline.actions.get(call.action) {
            Some(action) => action.preamble.name.clone(),
            None => format!("number {}", call.action.0),
        };
        return Err(EntryError::UnknownAction { table: name(), action, known: known.join(", ") });
    };
    let action = &pipeline.actions[call.action];
    let action_name = || action.preamble.name.clone();
    if listed.default_only && !default {
        return Err(EntryError::DefaultOnly { table: name(), action: action_name() });
    }
    if listed.table_only && default {
        return Err(EntryError::TableOnly { table: name(), action: action_name() });
    }
    if action.params.len() != call.args.len() {
        let names: Vec<&str> = action.params.iter().map(|p| p.name.as_str()).collect();
        return Err(EntryError::Arity {
            table: name(),
            action: action_name(),
            expected: names.len(),
            got: call.args.len(),
            names: names.join(", "),
        });
    }
    for (param, value) in action.params.iter().zip(&call.args) {
        let width = param.ty.width();
        if value.bits() > u64::from(width) {
            return Err(EntryError::ArgTooWide {
                table: name(),
                action: action_name(),
                param: param.name.clone(),
                value: value.clone(),
                width,
                largest: ones(width),
            });
        }
    }
    Ok(Action::Call(call.action, pack_args(pipeline, call.action, &call.args)))
}

/// Checks what an entry or default action does; whether members and groups exist is the state's to check.
pub fn action(pipeline: &Pipeline, table: &Table, spec: &ActionSpec, default: bool) -> Result<Action, EntryError> {
    let name = || table.preamble.name.clone();
    let profile = table.implementation.and_then(|id| pipeline.externs.get(id));
    match (spec, profile) {
        (ActionSpec::Call(given), None) => call(pipeline, table, given, default),
        // The default of a table with a profile is the program's own action, which is in no profile.
        (ActionSpec::Call(given), Some(_)) if default => call(pipeline, table, given, default),
        (ActionSpec::Call(_), Some(profile)) => {
            Err(EntryError::NeedsMember { table: name(), profile: profile.preamble.name.clone() })
        }
        (ActionSpec::Member(_) | ActionSpec::Group(_), None) => Err(EntryError::NoProfile { table: name() }),
        (ActionSpec::Member(id), Some(_)) => Ok(Action::Member(*id)),
        (ActionSpec::Group(id), Some(profile)) => match profile.kind {
            ExternKind::ActionSelector { .. } => Ok(Action::Group(*id)),
            _ => Err(EntryError::NoGroups { table: name(), profile: profile.preamble.name.clone() }),
        },
    }
}

/// Checks everything about an entry that does not depend on what else is there, but key and action.
pub fn attributes(table: &Table, entry: &TableEntry, kind: UpdateKind) -> Result<(), EntryError> {
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
    if let Some(config) = &entry.meter {
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
