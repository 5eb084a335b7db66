//! How P4Info differs in meaning from a text: the order of tables, actions and the like does not count.

use super::model::P4Info;
use super::tree;
use super::txtpb::{self, Message, Value};
use std::collections::BTreeMap;
use std::fmt;

/// A place where two P4Infos differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The field, from the top: `tables[33574068].match_fields[1].bitwidth`.
    pub path: String,
    /// What ours has there, if anything.
    pub ours: Option<String>,
    /// What theirs has there, if anything.
    pub theirs: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |v: &Option<String>| v.clone().unwrap_or_else(|| "nothing".into());
        write!(f, "{}: {} here, {} there", self.path, show(&self.ours), show(&self.theirs))
    }
}

/// Compares with a text in text protobuf. Equal if the list is empty. A text that does not parse is one difference.
pub fn compare(ours: &P4Info, theirs_txtpb: &str) -> Vec<Difference> {
    let mut differences = Vec::new();
    match txtpb::parse(theirs_txtpb) {
        Ok(theirs) => messages("", &tree::p4info(ours), &theirs, &mut differences),
        Err(error) => {
            differences.push(Difference { path: "the text".into(), ours: None, theirs: Some(error) });
        }
    }
    differences
}

/// Lists whose order has a meaning.
const ORDERED: [&str; 3] = ["members", "expressions", "kv_pairs"];

/// What stands for a message in a list: its id, else its name.
fn key(message: &Message) -> Option<String> {
    let id = |m: &Message| match m.get("id") {
        Some(Value::Word(id)) => Some(id.clone()),
        _ => None,
    };
    if let Some(Value::Message(preamble)) = message.get("preamble") {
        return id(preamble);
    }
    let named = |field| match message.get(field) {
        Some(Value::Bytes(text)) => Some(String::from_utf8_lossy(text).into_owned()),
        Some(Value::Word(word)) => Some(word.clone()),
        _ => None,
    };
    id(message).or_else(|| named("param_id")).or_else(|| named("key")).or_else(|| named("name"))
}

fn summary(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => txtpb::quoted(bytes),
        Value::Word(word) => word.clone(),
        Value::Message(message) => {
            let parts = message.fields.iter().map(|(name, value)| format!("{name}: {}", summary(value)));
            format!("{{ {} }}", parts.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A field that protobuf takes for absent: a default, or an empty `type_info`, which p4c prints as soon as it looked for one.
fn is_default(name: &str, value: &Value) -> bool {
    match value {
        Value::Word(word) => ["0", "false", "UNSPECIFIED", "TABLE_AND_DEFAULT", "NO_TIMEOUT"].contains(&word.as_str()),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Message(message) => name == "type_info" && message.fields.is_empty(),
    }
}

fn grouped(message: &Message) -> BTreeMap<&str, Vec<&Value>> {
    let mut groups: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for (name, value) in message.fields.iter().filter(|(n, v)| !is_default(n, v)) {
        groups.entry(name).or_default().push(value);
    }
    groups
}

fn messages(path: &str, ours: &Message, theirs: &Message, out: &mut Vec<Difference>) {
    let (ours, theirs) = (grouped(ours), grouped(theirs));
    let mut names: Vec<&str> = ours.keys().chain(theirs.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        let empty = Vec::new();
        let (left, right) = (ours.get(name).unwrap_or(&empty), theirs.get(name).unwrap_or(&empty));
        let pairs = pair_up(left, right, ORDERED.contains(&name));
        let single = left.len() <= 1 && right.len() <= 1;
        for (label, left, right) in pairs {
            let keyed = matches!(left.or(right), Some(Value::Message(m)) if key(m).is_some());
            let path = if single && !keyed { path.clone() } else { format!("{path}[{label}]") };
            values(&path, left, right, out);
        }
    }
}

type Pair<'v> = (String, Option<&'v Value>, Option<&'v Value>);

/// Which value belongs to which: by position, by key, or else by being equal.
fn pair_up<'v>(ours: &[&'v Value], theirs: &[&'v Value], ordered: bool) -> Vec<Pair<'v>> {
    let key_of = |v: &Value| match v {
        Value::Message(m) => key(m),
        _ => None,
    };
    let keys: Option<Vec<String>> = ours.iter().chain(theirs).map(|v| key_of(v)).collect();
    if let Some(keys) = keys.filter(|_| !ordered) {
        let mut pairs: BTreeMap<String, (Option<&Value>, Option<&Value>)> = BTreeMap::new();
        for (n, (key, value)) in keys.into_iter().zip(ours.iter().chain(theirs)).enumerate() {
            let slot = pairs.entry(key).or_default();
            if n < ours.len() {
                slot.0 = Some(value);
            } else {
                slot.1 = Some(value);
            }
        }
        return pairs.into_iter().map(|(key, (left, right))| (key, left, right)).collect();
    }
    let (mut left, mut right) = (ours.to_vec(), theirs.to_vec());
    if !ordered {
        left.sort_by_key(|v| summary(v));
        right.sort_by_key(|v| summary(v));
    }
    let len = left.len().max(right.len());
    (0..len).map(|n| (n.to_string(), left.get(n).copied(), right.get(n).copied())).collect()
}

fn values(path: &str, ours: Option<&Value>, theirs: Option<&Value>, out: &mut Vec<Difference>) {
    match (ours, theirs) {
        (Some(Value::Message(a)), Some(Value::Message(b))) => messages(path, a, b, out),
        (a, b) if a == b => {}
        (a, b) => {
            let difference = Difference { path: path.to_string(), ours: a.map(summary), theirs: b.map(summary) };
            out.push(difference);
        }
    }
}
