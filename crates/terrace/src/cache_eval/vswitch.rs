//! A virtual switch pipeline with its traversals.
//!
//! The program is `programs/vswitch/NAME/NAME.p4`. The file `traversals.json` beside it has the
//! tables by number and a list of traversals. In each, `tables` lists the tables in order: `20?` is
//! a table with a miss, `24:swap_inner` one with another action than the first one that continues.
//! `end` is the action of the last table, `kind` the packet type, `weight` the share of rules and
//! flows.

use crate::program::{self, CARRIED_VSWITCH, Sources, VSWITCH};
use ir::{ActionId, MatchKind, Pipeline, TableId};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::fields::Field;

/// Names of all pipelines, in the order of the published figures.
pub const NAMES: [&str; 5] = ["ofd", "psc", "ols", "ant", "otl"];

/// Table number that ends a traversal.
pub const END: u8 = 255;

/// Outcome of the last table of a traversal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraversalEnd {
    /// Forwards the packet through the chosen port.
    Forward,
    /// Dropped by an entry.
    Deny,
    /// Sent to the controller by an entry.
    Punt,
    /// Sent back to the sender.
    Reply,
    /// Default action of the table.
    Default,
}

/// Packet type of a traversal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum PacketType {
    Ipv4,
    Ipv6,
    Multicast,
    Mpls,
    Arp,
    Control,
}

/// One table of a traversal.
#[derive(Clone, Debug)]
pub struct TraversalStep {
    /// Number of the table in the pipeline.
    pub number: u8,
    /// Id of the table.
    pub table: TableId,
    /// Action of its entries; `None` for a miss.
    pub action: Option<ActionId>,
    /// Match keys of the table.
    pub keys: Vec<StepKey>,
}

/// Match key of a table.
#[derive(Clone, Copy, Debug)]
pub struct StepKey {
    /// Field that the key matches on. `None` if no rule constrains it.
    pub field: Option<Field>,
    /// Match kind.
    pub kind: MatchKind,
}

/// A path through the pipeline.
#[derive(Clone, Debug)]
pub struct Traversal {
    /// Name of the traversal.
    pub name: String,
    /// Tables in order.
    pub steps: Vec<TraversalStep>,
    /// Weight of its share of rules and flows.
    pub weight: f64,
    /// Outcome of the last table.
    pub end: TraversalEnd,
    /// Packet type.
    pub kind: PacketType,
}

/// A pipeline with its traversals.
#[derive(Clone, Debug)]
pub struct Vswitch {
    /// Name, one of [`NAMES`].
    pub name: &'static str,
    /// Compiled program.
    pub pipeline: Arc<Pipeline>,
    /// Tables by their numbers in the published pipeline.
    pub tables: BTreeMap<u8, TableId>,
    /// Paths through the pipeline.
    pub traversals: Vec<Traversal>,
    /// Default traffic parameters.
    pub traffic: TrafficDefaults,
}

/// Parameters by which flows are drawn.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locality {
    /// Exponent of Zipf's law over the rules of a network; 0: uniform.
    pub exponent: f64,
    /// Share of a network's rules that is drawn from, above 0 and at most 1.
    pub share: f64,
    /// Number of values that a field takes within the wildcard bits of a rule, from 1.
    pub variants: u64,
}

/// Traffic parameters of a pipeline.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficDefaults {
    /// Draw parameters at high locality.
    pub high: Locality,
    /// Draw parameters at low locality.
    pub low: Locality,
    /// Average number of packets of a flow.
    pub packets_per_flow: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TraversalsFile {
    tables: BTreeMap<u8, String>,
    traffic: TrafficDefaults,
    traversals: Vec<TraversalJson>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TraversalJson {
    name: String,
    tables: String,
    weight: f64,
    end: TraversalEnd,
    kind: PacketType,
}

/// Compiles a built-in pipeline and reads its traversals.
///
/// # Errors
/// If the name is unknown; the message lists the known names. Any other error is a bug, because the
/// built-in files then contradict each other.
pub fn load(name: &str) -> Result<Vswitch, String> {
    let found = NAMES.into_iter().find(|found| found.eq_ignore_ascii_case(name));
    let name = found.ok_or_else(|| format!("there is no pipeline `{name}`; there are {}", NAMES.join(", ")))?;
    let compiled = program::compile(Path::new(&format!("{CARRIED_VSWITCH}/{name}/{name}.p4")), &Sources::default());
    let pipeline = Arc::new(compiled.pipeline.ok_or_else(|| {
        let lines: Vec<String> =
            compiled.diagnostics.iter().map(|found| found.one_line(&compiled.source_map)).collect();
        format!("{name}.p4 does not compile: {}", lines.join("; "))
    })?);
    let path = format!("{name}/traversals.json");
    let text = VSWITCH.get_file(&path).and_then(|file| file.contents_utf8()).ok_or_else(|| format!("no {path}"))?;
    let file: TraversalsFile = serde_json::from_str(text).map_err(|error| format!("{path}: {error}"))?;
    let mut tables = BTreeMap::new();
    for (number, table) in &file.tables {
        tables.insert(*number, entries::find_table(&pipeline, table).map_err(|error| format!("{path}: {error}"))?);
    }
    let resolve =
        |written| resolve_traversal(&pipeline, &tables, written).map_err(|problem| format!("{path}: {problem}"));
    let traversals = file.traversals.into_iter().map(resolve).collect::<Result<_, _>>()?;
    Ok(Vswitch { name, pipeline, tables, traversals, traffic: file.traffic })
}

/// Resolves the tables and actions of a traversal. In its text, a table may be followed by `?` for
/// a miss or by `:` and an action; otherwise its action is the one that continues or, in the last
/// table, the one that ends as the traversal does.
fn resolve_traversal(
    pipeline: &Pipeline,
    tables: &BTreeMap<u8, TableId>,
    json: TraversalJson,
) -> Result<Traversal, String> {
    let words: Vec<&str> = json.tables.split_whitespace().collect();
    let mut steps = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let (number, suffix) = match word.find(['?', ':']) {
            Some(end) => word.split_at(end),
            None => (*word, ""),
        };
        let unknown = || format!("`{word}` of `{}` is no table", json.name);
        let number: u8 = number.parse().map_err(|_| unknown())?;
        let table = *tables.get(&number).ok_or_else(unknown)?;
        let is_last = index + 1 == words.len();
        let action = match (suffix, is_last) {
            ("?", _) => None,
            ("", true) => Some(last_action(pipeline, table, json.end)?),
            ("", false) => Some(continuing_action(pipeline, table)?),
            (named, _) => Some(action_named(pipeline, table, &named[1..])?),
        };
        let keys = pipeline.tables[table].keys.iter();
        let keys = keys.map(|key| StepKey { field: Field::named(&key.name), kind: key.kind }).collect();
        steps.push(TraversalStep { number, table, action, keys });
    }
    let TraversalJson { name, weight, end, kind, .. } = json;
    if steps.is_empty() || !(weight > 0.0 && weight.is_finite()) {
        return Err(format!("`{name}` has no tables, or no weight"));
    }
    Ok(Traversal { name, steps, weight, end, kind })
}

fn table_actions(pipeline: &Pipeline, table: TableId) -> impl Iterator<Item = (ActionId, &str)> {
    let listed = pipeline.tables[table].actions.iter().filter(|listed| !listed.default_only);
    listed.map(|listed| (listed.action, pipeline.actions[listed.action].preamble.name.as_str()))
}

fn action_named(pipeline: &Pipeline, table: TableId, name: &str) -> Result<ActionId, String> {
    let found = table_actions(pipeline, table).find(|(_, full)| entries::matches_name(full, name));
    let table = &pipeline.tables[table].preamble.name;
    found.map(|(action, _)| action).ok_or_else(|| format!("`{table}` has no action `{name}`"))
}

/// Returns the first action with a next table.
fn continuing_action(pipeline: &Pipeline, table: TableId) -> Result<ActionId, String> {
    let goes = |action: ActionId| pipeline.actions[action].params.iter().any(|param| param.name == "next");
    let found = table_actions(pipeline, table).find(|(action, _)| goes(*action));
    let table = &pipeline.tables[table].preamble.name;
    found.map(|(action, _)| action).ok_or_else(|| format!("no action of `{table}` continues to another table"))
}

fn last_action(pipeline: &Pipeline, table: TableId, end: TraversalEnd) -> Result<ActionId, String> {
    match end {
        TraversalEnd::Forward => continuing_action(pipeline, table),
        TraversalEnd::Deny => action_named(pipeline, table, "deny"),
        TraversalEnd::Punt => action_named(pipeline, table, "to_controller"),
        TraversalEnd::Reply => {
            action_named(pipeline, table, "turn_around").or_else(|_| action_named(pipeline, table, "answer_arp"))
        }
        TraversalEnd::Default => Err("a traversal that ends with a default action misses its last table".to_owned()),
    }
}
