//! Entries as text: names from the program, values as [`entries::ValueFormat`] formats them.

use crate::status::{EntryRow, ShownValue};
use entries::{ActionSpec, StoredEntry, ValueFormat};
use ir::{KeyMatch, Pipeline, TableId};
use num_bigint::BigUint;
use p4runtime::ShownStrings;

/// Returns the controller's string for a value of a translated type.
fn translated_value(strings: &ShownStrings<'_>, of: ValueFormat<'_>, value: &BigUint) -> Option<String> {
    // Quoted, because the string can contain any character.
    strings.of(of.type_name, value).map(|string| format!("{string:?}"))
}

fn format_match(strings: &ShownStrings<'_>, of: ValueFormat<'_>, given: &KeyMatch) -> String {
    let whole = match given {
        KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => Some(value),
        KeyMatch::Ternary { value, mask } if mask.count_ones() == u64::from(of.ty.width()) => Some(value),
        KeyMatch::Lpm { value, prefix_len } if *prefix_len == of.ty.width() => Some(value),
        KeyMatch::Range { lo, hi } if lo == hi => Some(lo),
        _ => None,
    };
    whole.and_then(|value| translated_value(strings, of, value)).unwrap_or_else(|| of.format_match(given))
}

/// Converts an entry of a table, without its counter.
pub fn row(pipeline: &Pipeline, strings: &ShownStrings<'_>, table: TableId, entry: &StoredEntry) -> EntryRow {
    let spec = entry.to_table_entry(pipeline, table);
    let declared = &pipeline.tables[table];
    let keys = declared.match_keys().zip(&spec.keys).map(|((_, key), given)| ShownValue {
        name: key.name.clone(),
        value: format_match(strings, ValueFormat::from(key), given),
    });
    let (action, arguments) = match &spec.action {
        ActionSpec::Member(id) => (format!("member {id}"), Vec::new()),
        ActionSpec::Group(id) => (format!("group {id}"), Vec::new()),
        ActionSpec::Call(call) => match pipeline.actions.get(call.action) {
            None => (String::new(), Vec::new()),
            Some(action) => {
                let arguments = action.params.iter().zip(&call.args);
                let arguments = arguments.map(|(param, value)| {
                    let of = ValueFormat::from(param);
                    let value = translated_value(strings, of, value).unwrap_or_else(|| of.format_value(value));
                    ShownValue { name: param.name.clone(), value }
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

/// Formats an entry as one line.
pub fn line(row: &EntryRow) -> String {
    let list =
        |all: &[ShownValue]| all.iter().map(|n| format!("{}={}", n.name, n.value)).collect::<Vec<_>>().join(", ");
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
