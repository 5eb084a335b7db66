//! Entries as text: names from the program, values as [`entries::ValueFormat`] formats them.

use crate::Node;
use crate::nat::{NatNames, last_part};
use crate::status::{EntryRow, ShownValue};
use entries::{ActionSpec, StoredEntry, ValueFormat};
use ir::{KeyMatch, Pipeline, TableId};
use num_bigint::BigUint;
use p4runtime::ShownStrings;
use std::collections::HashMap;
use std::sync::Arc;

/// Name of keys and parameters of the gateway's program with the number of a VPC.
pub const VPC: &str = "vpc";
/// Name of the key that says whether a session's entry is for packets from a VPC; the others are for packets
/// from the Internet, which have no VPC.
const IS_OUTBOUND: &str = "is_outbound";
/// Names of a key and of a parameter of sessions with the number of a machine with NAT64. As a key, it is like
/// an address of 0.0.0.0/8, which no machine has.
const ADDRESS: &str = "address";
const NUMBER: &str = "number";

/// Names that stand for numbers: strings of controllers, and VPCs of the region in force.
pub struct ShownNames<'a> {
    strings: ShownStrings<'a>,
    vpcs: HashMap<u64, String>,
    nat: Arc<NatNames>,
}

impl<'a> ShownNames<'a> {
    /// Returns the names of a node. `state` is its control state.
    pub fn new(node: &Node, state: &'a entries::ControlState) -> ShownNames<'a> {
        ShownNames {
            strings: ShownStrings::new(state, &node.translations),
            vpcs: node.region.vpc_names(),
            nat: node.region.nat_names().unwrap_or_default(),
        }
    }

    /// Returns the machine with NAT64 whose number a session has in the place of an address.
    fn machine(&self, name: &str, value: &BigUint) -> Option<String> {
        let number = u32::try_from(value).ok().filter(|_| [ADDRESS, NUMBER].contains(&last_part(name)))?;
        self.nat.machine_v6(number).map(|address| address.to_string())
    }

    fn vpc(&self, of: ValueFormat<'_>, value: &BigUint) -> Option<String> {
        (last_part(of.name) == VPC).then(|| self.vpcs.get(&u64::try_from(value).ok()?).cloned()).flatten()
    }
}

/// Returns the name of a VPC, or the controller's string for a value of a translated type.
fn translated_value(names: &ShownNames<'_>, of: ValueFormat<'_>, value: &BigUint) -> Option<String> {
    // Quoted, because the string can contain any character.
    let string = || names.strings.of(of.type_name, value).map(|string| format!("{string:?}"));
    names.vpc(of, value).or_else(string)
}

/// Returns whether an entry is for packets from the Internet.
fn is_from_internet(keys: &[(&ir::MatchKey, &KeyMatch)]) -> bool {
    keys.iter().any(|(key, given)| {
        last_part(&key.name) == IS_OUTBOUND && matches!(given, KeyMatch::Exact(value) if *value == BigUint::ZERO)
    })
}

fn format_match(strings: &ShownNames<'_>, of: ValueFormat<'_>, given: &KeyMatch) -> String {
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
pub fn row(pipeline: &Pipeline, strings: &ShownNames<'_>, table: TableId, entry: &StoredEntry) -> EntryRow {
    let spec = entry.to_table_entry(pipeline, table);
    let declared = &pipeline.tables[table];
    let keys: Vec<_> = declared.match_keys().map(|(_, key)| key).zip(&spec.keys).collect();
    let has_no_vpc = is_from_internet(&keys);
    let machine = |name: &str, given: &KeyMatch| match given {
        KeyMatch::Exact(value) if declared.add_on_miss && !has_no_vpc => strings.machine(name, value),
        _ => None,
    };
    let keys = keys.into_iter().map(|(key, given)| ShownValue {
        name: key.name.clone(),
        value: match has_no_vpc && last_part(&key.name) == VPC {
            true => "-".to_owned(),
            false => machine(&key.name, given).unwrap_or_else(|| format_match(strings, ValueFormat::from(key), given)),
        },
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
                    let machine = || (param.name == NUMBER).then(|| strings.machine(NUMBER, value)).flatten();
                    let known = translated_value(strings, of, value).or_else(machine);
                    let value = known.unwrap_or_else(|| of.format_value(value));
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
