//! Semantic comparison of P4Infos: the order of tables, actions and other objects does not count.

use super::model::P4Info;
use super::tree::ToMessage;
use super::txtpb::{self, MessageTree, MessageValue, OPTIONAL};
use std::collections::BTreeMap;
use std::fmt;

/// A difference of two P4Infos.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct P4InfoDifference {
    /// Path from the top: `tables[ingress.t].match_fields[1].bitwidth`.
    pub path: String,
    /// The fields in `path` without the labels of objects: `tables`, `match_fields`, `bitwidth`.
    pub fields: Vec<String>,
    /// Value in our P4Info, if any.
    pub ours: Option<String>,
    /// Value in their P4Info, if any.
    pub theirs: Option<String>,
}

impl fmt::Display for P4InfoDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |v: &Option<String>| v.clone().unwrap_or_else(|| "nothing".into());
        write!(f, "{}: {} here, {} there", self.path, show(&self.ours), show(&self.theirs))
    }
}

/// Compares with a P4Info in text protobuf. They are equal if the list is empty.
///
/// # Errors
/// A message with the line, if the text is not text protobuf.
pub fn compare(ours: &P4Info, theirs_txtpb: &str) -> Result<Vec<P4InfoDifference>, String> {
    Ok(compare_fields(ours, &txtpb::parse(theirs_txtpb)?))
}

/// Compares two P4Infos. They are equal if the list is empty.
pub fn differences(ours: &P4Info, theirs: &P4Info) -> Vec<P4InfoDifference> {
    compare_fields(ours, &theirs.to_message())
}

/// Compares with a P4Info given as a tree of fields. They are equal if the list is empty.
pub fn compare_fields(ours: &P4Info, theirs: &MessageTree) -> Vec<P4InfoDifference> {
    let mut differences = Vec::new();
    compare_messages(&FieldPath::default(), &ours.to_message(), theirs, &mut differences);
    differences
}

/// Path of a value in the messages.
#[derive(Clone, Default)]
struct FieldPath {
    path: String,
    fields: Vec<String>,
}

impl FieldPath {
    fn with_field(&self, name: &str) -> FieldPath {
        let mut inner = self.clone();
        if !inner.path.is_empty() {
            inner.path.push('.');
        }
        inner.path.push_str(name);
        inner.fields.push(name.to_owned());
        inner
    }

    fn with_item(&self, label: &str) -> FieldPath {
        FieldPath { path: format!("{}[{label}]", self.path), fields: self.fields.clone() }
    }
}

/// Lists in which the order has a meaning.
const ORDERED: [&str; 3] = ["members", "expressions", "kv_pairs"];

/// Fields that are not lists, so that names and ids do not label their messages.
const SINGLE: [&str; 4] = ["pkg_info", "preamble", "type_name", "index_type_name"];

/// Returns the label of a message in a list: the name of an object, otherwise an id, a key or a
/// name.
fn message_label(message: &MessageTree) -> Option<String> {
    let named = |message: &MessageTree, field| match message.get(field) {
        Some(MessageValue::Bytes(text)) => Some(String::from_utf8_lossy(text).into_owned()),
        Some(MessageValue::Word(word)) => Some(word.clone()),
        _ => None,
    };
    if let Some(MessageValue::Message(preamble)) = message.get("preamble") {
        return named(preamble, "name").or_else(|| named(preamble, "id"));
    }
    ["id", "param_id", "key", "name"].into_iter().find_map(|field| named(message, field))
}

fn format_value(value: &MessageValue) -> String {
    match value {
        MessageValue::Bytes(bytes) => txtpb::quote_bytes(bytes),
        MessageValue::Word(word) => word.clone(),
        MessageValue::Message(message) => {
            let parts = message.fields.iter().map(|(name, value)| format!("{name}: {}", format_value(value)));
            format!("{{ {} }}", parts.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Reports whether protobuf treats the field as absent: a default, or an empty message (p4c prints
/// an empty `type_info`).
fn is_default(name: &str, value: &MessageValue) -> bool {
    match value {
        MessageValue::Word(word) => {
            ["0", "false", "UNSPECIFIED", "TABLE_AND_DEFAULT", "NO_TIMEOUT"].contains(&word.as_str())
        }
        MessageValue::Bytes(bytes) => bytes.is_empty(),
        MessageValue::Message(message) => OPTIONAL.contains(&name) && message.fields.is_empty(),
    }
}

fn group_by_name(message: &MessageTree) -> BTreeMap<&str, Vec<&MessageValue>> {
    let mut groups: BTreeMap<&str, Vec<&MessageValue>> = BTreeMap::new();
    for (name, value) in message.fields.iter().filter(|(n, v)| !is_default(n, v)) {
        groups.entry(name).or_default().push(value);
    }
    groups
}

fn compare_messages(location: &FieldPath, ours: &MessageTree, theirs: &MessageTree, out: &mut Vec<P4InfoDifference>) {
    let (ours, theirs) = (group_by_name(ours), group_by_name(theirs));
    let mut names: Vec<&str> = ours.keys().chain(theirs.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let location = location.with_field(name);
        let empty = Vec::new();
        let (left, right) = (ours.get(name).unwrap_or(&empty), theirs.get(name).unwrap_or(&empty));
        let pairs = pair_up(left, right, ORDERED.contains(&name) || SINGLE.contains(&name));
        let single = left.len() <= 1 && right.len() <= 1;
        for (label, left, right) in pairs {
            let keyed = !SINGLE.contains(&name)
                && matches!(left.or(right), Some(MessageValue::Message(m)) if message_label(m).is_some());
            let location = if single && !keyed { location.clone() } else { location.with_item(&label) };
            compare_values(&location, left, right, out);
        }
    }
}

type ValuePair<'v> = (String, Option<&'v MessageValue>, Option<&'v MessageValue>);

/// Pairs the values of a repeated field in two P4Infos: by position if `ordered`, by key if all
/// values have one, or else by equality. Returns the label of each pair, our value and theirs;
/// `None` for a value without counterpart.
fn pair_up<'v>(ours: &[&'v MessageValue], theirs: &[&'v MessageValue], ordered: bool) -> Vec<ValuePair<'v>> {
    let key_of = |v: &MessageValue| match v {
        MessageValue::Message(m) => message_label(m),
        _ => None,
    };
    let keys: Option<Vec<String>> = ours.iter().chain(theirs).map(|v| key_of(v)).collect();
    if let Some(keys) = keys.filter(|_| !ordered) {
        let mut pairs: BTreeMap<String, (Option<&MessageValue>, Option<&MessageValue>)> = BTreeMap::new();
        for (index, (key, value)) in keys.into_iter().zip(ours.iter().chain(theirs)).enumerate() {
            let slot = pairs.entry(key).or_default();
            if index < ours.len() {
                slot.0 = Some(value);
            } else {
                slot.1 = Some(value);
            }
        }
        return pairs.into_iter().map(|(key, (left, right))| (key, left, right)).collect();
    }
    let (mut left, mut right) = (ours.to_vec(), theirs.to_vec());
    if !ordered {
        // Values that both have are not a difference. The remaining values are paired arbitrarily.
        left.retain(|value| match right.iter().position(|other| other == value) {
            Some(other_index) => {
                right.remove(other_index);
                false
            }
            None => true,
        });
    }
    let len = left.len().max(right.len());
    (0..len).map(|index| (index.to_string(), left.get(index).copied(), right.get(index).copied())).collect()
}

fn compare_values(
    location: &FieldPath,
    ours: Option<&MessageValue>,
    theirs: Option<&MessageValue>,
    out: &mut Vec<P4InfoDifference>,
) {
    match (ours, theirs) {
        (Some(MessageValue::Message(a)), Some(MessageValue::Message(b))) => compare_messages(location, a, b, out),
        (a, b) if a == b => {}
        (a, b) => {
            let FieldPath { path, fields } = location.clone();
            out.push(P4InfoDifference { path, fields, ours: a.map(format_value), theirs: b.map(format_value) });
        }
    }
}
