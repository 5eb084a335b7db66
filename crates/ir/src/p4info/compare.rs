//! How P4Info differs in meaning from a text: the order of tables, actions and the like does not count.

use super::model::P4Info;
use super::tree::Fields;
use super::txtpb::{self, Message, OPTIONAL, Value};
use std::collections::BTreeMap;
use std::fmt;

/// A place where two P4Infos differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The place, from the top: `tables[ingress.t].match_fields[1].bitwidth`.
    pub path: String,
    /// The fields in `path` without what tells objects apart: `tables`, `match_fields`, `bitwidth`.
    pub fields: Vec<String>,
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

/// Compares with a text in text protobuf. Equal if the list is empty.
///
/// # Errors
/// Why the text is no text protobuf, with the line.
pub fn compare(ours: &P4Info, theirs_txtpb: &str) -> Result<Vec<Difference>, String> {
    Ok(compare_fields(ours, &txtpb::parse(theirs_txtpb)?))
}

/// Compares two P4Infos. Equal if the list is empty.
pub fn differences(ours: &P4Info, theirs: &P4Info) -> Vec<Difference> {
    compare_fields(ours, &theirs.fields())
}

/// Compares with a P4Info of which there are the fields. Equal if the list is empty.
pub fn compare_fields(ours: &P4Info, theirs: &Message) -> Vec<Difference> {
    let mut differences = Vec::new();
    messages(&Place::default(), &ours.fields(), theirs, &mut differences);
    differences
}

/// Where in the messages something is.
#[derive(Clone, Default)]
struct Place {
    path: String,
    fields: Vec<String>,
}

impl Place {
    fn field(&self, name: &str) -> Place {
        let mut inner = self.clone();
        if !inner.path.is_empty() {
            inner.path.push('.');
        }
        inner.path.push_str(name);
        inner.fields.push(name.to_owned());
        inner
    }

    fn item(&self, label: &str) -> Place {
        Place { path: format!("{}[{label}]", self.path), fields: self.fields.clone() }
    }
}

/// Lists whose order has a meaning.
const ORDERED: [&str; 3] = ["members", "expressions", "kv_pairs"];

/// Messages that are no lists, so that their names and ids do not tell them apart.
const SINGLE: [&str; 4] = ["pkg_info", "preamble", "type_name", "index_type_name"];

/// What stands for a message in a list: the name of an object, otherwise an id, a key or a name.
fn key(message: &Message) -> Option<String> {
    let named = |message: &Message, field| match message.get(field) {
        Some(Value::Bytes(text)) => Some(String::from_utf8_lossy(text).into_owned()),
        Some(Value::Word(word)) => Some(word.clone()),
        _ => None,
    };
    if let Some(Value::Message(preamble)) = message.get("preamble") {
        return named(preamble, "name").or_else(|| named(preamble, "id"));
    }
    ["id", "param_id", "key", "name"].into_iter().find_map(|field| named(message, field))
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

/// A field that protobuf takes for absent: a default, or an empty message, as p4c prints `type_info` as soon as it looked for one.
fn is_default(name: &str, value: &Value) -> bool {
    match value {
        Value::Word(word) => ["0", "false", "UNSPECIFIED", "TABLE_AND_DEFAULT", "NO_TIMEOUT"].contains(&word.as_str()),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Message(message) => OPTIONAL.contains(&name) && message.fields.is_empty(),
    }
}

fn grouped(message: &Message) -> BTreeMap<&str, Vec<&Value>> {
    let mut groups: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for (name, value) in message.fields.iter().filter(|(n, v)| !is_default(n, v)) {
        groups.entry(name).or_default().push(value);
    }
    groups
}

fn messages(place: &Place, ours: &Message, theirs: &Message, out: &mut Vec<Difference>) {
    let (ours, theirs) = (grouped(ours), grouped(theirs));
    let mut names: Vec<&str> = ours.keys().chain(theirs.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let place = place.field(name);
        let empty = Vec::new();
        let (left, right) = (ours.get(name).unwrap_or(&empty), theirs.get(name).unwrap_or(&empty));
        let pairs = pair_up(left, right, ORDERED.contains(&name) || SINGLE.contains(&name));
        let single = left.len() <= 1 && right.len() <= 1;
        for (label, left, right) in pairs {
            let keyed =
                !SINGLE.contains(&name) && matches!(left.or(right), Some(Value::Message(m)) if key(m).is_some());
            let place = if single && !keyed { place.clone() } else { place.item(&label) };
            values(&place, left, right, out);
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
        // What both have is no difference; of what is left, nothing says which belongs to which.
        left.retain(|value| match right.iter().position(|other| other == value) {
            Some(at) => {
                right.remove(at);
                false
            }
            None => true,
        });
    }
    let len = left.len().max(right.len());
    (0..len).map(|n| (n.to_string(), left.get(n).copied(), right.get(n).copied())).collect()
}

fn values(place: &Place, ours: Option<&Value>, theirs: Option<&Value>, out: &mut Vec<Difference>) {
    match (ours, theirs) {
        (Some(Value::Message(a)), Some(Value::Message(b))) => messages(place, a, b, out),
        (a, b) if a == b => {}
        (a, b) => {
            let Place { path, fields } = place.clone();
            out.push(Difference { path, fields, ours: a.map(summary), theirs: b.map(summary) });
        }
    }
}
