//! Entries as a person reads them: names of the program, values as [`entries::Meaning`] writes them.

use crate::status::{EntryRow, Named};
use entries::{ActionSpec, Entry, Meaning};
use ir::{KeyMatch, Pipeline, TableId};
use num_bigint::BigUint;
use p4runtime::ShownStrings;

/// A value as controllers call it, if they see a string.
fn called(strings: &ShownStrings<'_>, of: Meaning<'_>, value: &BigUint) -> Option<String> {
    // It may hold anything.
    strings.of(of.type_name, value).map(|string| format!("{string:?}"))
}

fn matched(strings: &ShownStrings<'_>, of: Meaning<'_>, given: &KeyMatch) -> String {
    let whole = match given {
        KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => Some(value),
        KeyMatch::Ternary { value, mask } if mask.count_ones() == u64::from(of.ty.width()) => Some(value),
        KeyMatch::Lpm { value, prefix_len } if *prefix_len == of.ty.width() => Some(value),
        KeyMatch::Range { lo, hi } if lo == hi => Some(lo),
        _ => None,
    };
    whole.and_then(|value| called(strings, of, value)).unwrap_or_else(|| of.matched(given))
}

/// An entry of a table, without its counter.
pub fn row(pipeline: &Pipeline, strings: &ShownStrings<'_>, table: TableId, entry: &Entry) -> EntryRow {
    let spec = entry.to_table_entry(pipeline, table);
    let declared = &pipeline.tables[table];
    let keys = declared
        .match_keys()
        .zip(&spec.keys)
        .map(|((_, key), given)| Named { name: key.name.clone(), value: matched(strings, Meaning::from(key), given) });
    let (action, arguments) = match &spec.action {
        ActionSpec::Member(id) => (format!("member {id}"), Vec::new()),
        ActionSpec::Group(id) => (format!("group {id}"), Vec::new()),
        ActionSpec::Call(call) => match pipeline.actions.get(call.action) {
            None => (String::new(), Vec::new()),
            Some(action) => {
                let arguments = action.params.iter().zip(&call.args);
                let arguments = arguments.map(|(param, value)| {
                    let of = Meaning::from(param);
                    let value = called(strings, of, value).unwrap_or_else(|| of.value(value));
                    Named { name: param.name.clone(), value }
                });
                (action.preamble.name.clone(), arguments.collect())
            }
        },
    };
    EntryRow {
        keys: keys.collect(),
        action,
        arguments,
        priority: spec.priority,
        idle_timeout_ns: spec.idle_timeout_ns,
        counter: None,
        is_const: spec.is_const,
    }
}

/// An entry in one line.
pub fn line(row: &EntryRow) -> String {
    let list = |all: &[Named]| all.iter().map(|n| format!("{}={}", n.name, n.value)).collect::<Vec<_>>().join(", ");
    let mut text = format!("{} -> {}", list(&row.keys), row.action);
    if !row.action.starts_with("member ") && !row.action.starts_with("group ") {
        text += &format!("({})", list(&row.arguments));
    }
    if row.priority != 0 {
        text += &format!(" priority={}", row.priority);
    }
    if row.idle_timeout_ns != 0 {
        text += &format!(" timeout={}s", row.idle_timeout_ns as f64 / 1e9);
    }
    text
}
