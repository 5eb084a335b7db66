//! A pipeline of a virtual switch, with the ways that packets take through it.
//!
//! `programs/vswitch/NAME/NAME.p4` is the program; `traversals.json` beside it has the tables by number, and a list of traversals: `tables` names the
//! tables in their order, `20?` one that is missed, `24:swap_inner` one whose entry does not have the first action that goes on; `end` is what the
//! last table does, `kind` what the packets are, `weight` the share of rules and flows.

use crate::program::{self, CARRIED_VSWITCH, Sources, VSWITCH};
use ir::{ActionId, MatchKind, Pipeline, TableId};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::fields::Field;

/// All pipelines, in the order of the published figures.
pub const NAMES: [&str; 5] = ["ofd", "psc", "ols", "ant", "otl"];

/// The number that ends a walk.
pub const END: u8 = 255;

/// What the last table of a traversal does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The packet leaves through the port that was decided.
    Forward,
    /// Dropped by an entry.
    Deny,
    /// To the controller, by an entry.
    Punt,
    /// Back to the sender.
    Reply,
    /// What the table's default action says.
    Default,
}

/// What the packets of a traversal are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Kind {
    Ipv4,
    Ipv6,
    Multicast,
    Mpls,
    Arp,
    Control,
}

/// One table of a traversal.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number in the pipeline.
    pub number: u8,
    /// The table.
    pub table: TableId,
    /// What its entries do; `None` if it is missed.
    pub action: Option<ActionId>,
    /// Its keys.
    pub keys: Vec<StepKey>,
}

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct StepKey {
    /// What it looks at; `None` is something that no rule speaks of.
    pub field: Option<Field>,
    /// How.
    pub kind: MatchKind,
}

/// A way through the pipeline.
#[derive(Clone, Debug)]
pub struct Traversal {
    /// Its name.
    pub name: String,
    /// Its tables.
    pub steps: Vec<Step>,
    /// Its share of rules and flows, among all weights.
    pub weight: f64,
    /// What the last table does.
    pub end: End,
    /// What its packets are.
    pub kind: Kind,
}

/// A pipeline with its traversals.
#[derive(Clone, Debug)]
pub struct Vswitch {
    /// Its name: one of [`NAMES`].
    pub name: &'static str,
    /// The program.
    pub pipeline: Arc<Pipeline>,
    /// Its tables by the numbers of the published pipeline.
    pub tables: BTreeMap<u8, TableId>,
    /// The ways through it.
    pub traversals: Vec<Traversal>,
    /// How its traffic is made unless it is asked for otherwise.
    pub traffic: Shares,
}

/// How flows are drawn.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locality {
    /// Exponent of Zipf's law over a network's rules; 0: all alike.
    pub exponent: f64,
    /// The share of a network's rules that is drawn from, above 0 and at most 1.
    pub share: f64,
    /// Values that a field takes within what a rule leaves open, from 1.
    pub variants: u64,
}

/// How a pipeline's traffic is made.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    /// How flows are drawn at high locality.
    pub high: Locality,
    /// At low locality.
    pub low: Locality,
    /// Packets of a flow on average.
    pub packets_per_flow: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tables: BTreeMap<u8, String>,
    traffic: Shares,
    traversals: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    tables: String,
    weight: f64,
    end: End,
    kind: Kind,
}

/// Compiles a pipeline that the binary carries, and reads its traversals.
///
/// # Errors
/// An unknown name, and the known ones. Else the carried files contradict each other, which is a bug.
pub fn load(name: &str) -> Result<Vswitch, String> {
    let known = NAMES.into_iter().find(|known| known.eq_ignore_ascii_case(name));
    let name = known.ok_or_else(|| format!("there is no pipeline `{name}`; there are {}", NAMES.join(", ")))?;
    let compiled = program::compile(Path::new(&format!("{CARRIED_VSWITCH}/{name}/{name}.p4")), &Sources::default());
    let pipeline = Arc::new(compiled.pipeline.ok_or_else(|| {
        let lines: Vec<String> =
            compiled.diagnostics.iter().map(|found| found.one_line(&compiled.source_map)).collect();
        format!("{name}.p4 does not compile: {}", lines.join("; "))
    })?);
    let path = format!("{name}/traversals.json");
    let text = VSWITCH.get_file(&path).and_then(|file| file.contents_utf8()).ok_or_else(|| format!("no {path}"))?;
    let file: File = serde_json::from_str(text).map_err(|error| format!("{path}: {error}"))?;
    let mut tables = BTreeMap::new();
    for (number, table) in &file.tables {
        tables.insert(*number, entries::find_table(&pipeline, table).map_err(|error| format!("{path}: {error}"))?);
    }
    let read = |written| traversal(&pipeline, &tables, written).map_err(|why| format!("{path}: {why}"));
    let traversals = file.traversals.into_iter().map(read).collect::<Result<_, _>>()?;
    Ok(Vswitch { name, pipeline, tables, traversals, traffic: file.traffic })
}

fn traversal(pipeline: &Pipeline, tables: &BTreeMap<u8, TableId>, written: Written) -> Result<Traversal, String> {
    let words: Vec<&str> = written.tables.split_whitespace().collect();
    let mut steps = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let (number, how) = match word.find(['?', ':']) {
            Some(end) => word.split_at(end),
            None => (*word, ""),
        };
        let unknown = || format!("`{word}` of `{}` is no table", written.name);
        let number: u8 = number.parse().map_err(|_| unknown())?;
        let table = *tables.get(&number).ok_or_else(unknown)?;
        let last = at + 1 == words.len();
        let action = match (how, last) {
            ("?", _) => None,
            ("", true) => Some(last_action(pipeline, table, written.end)?),
            ("", false) => Some(going_on(pipeline, table)?),
            (named, _) => Some(action_named(pipeline, table, &named[1..])?),
        };
        let keys = pipeline.tables[table].keys.iter();
        let keys = keys.map(|key| StepKey { field: Field::named(&key.name), kind: key.kind }).collect();
        steps.push(Step { number, table, action, keys });
    }
    let Written { name, weight, end, kind, .. } = written;
    if steps.is_empty() || !(weight > 0.0 && weight.is_finite()) {
        return Err(format!("`{name}` has no tables, or no weight"));
    }
    Ok(Traversal { name, steps, weight, end, kind })
}

fn actions(pipeline: &Pipeline, table: TableId) -> impl Iterator<Item = (ActionId, &str)> {
    let listed = pipeline.tables[table].actions.iter().filter(|listed| !listed.default_only);
    listed.map(|listed| (listed.action, pipeline.actions[listed.action].preamble.name.as_str()))
}

fn action_named(pipeline: &Pipeline, table: TableId, name: &str) -> Result<ActionId, String> {
    let found = actions(pipeline, table).find(|(_, full)| entries::names(full, name));
    let table = &pipeline.tables[table].preamble.name;
    found.map(|(action, _)| action).ok_or_else(|| format!("`{table}` has no action `{name}`"))
}

/// The first action that has a table to go to.
fn going_on(pipeline: &Pipeline, table: TableId) -> Result<ActionId, String> {
    let goes = |action: ActionId| pipeline.actions[action].params.iter().any(|param| param.name == "next");
    let found = actions(pipeline, table).find(|(action, _)| goes(*action));
    let table = &pipeline.tables[table].preamble.name;
    found.map(|(action, _)| action).ok_or_else(|| format!("no action of `{table}` goes on"))
}

fn last_action(pipeline: &Pipeline, table: TableId, end: End) -> Result<ActionId, String> {
    match end {
        End::Forward => going_on(pipeline, table),
        End::Deny => action_named(pipeline, table, "deny"),
        End::Punt => action_named(pipeline, table, "to_controller"),
        End::Reply => {
            action_named(pipeline, table, "turn_around").or_else(|_| action_named(pipeline, table, "answer_arp"))
        }
        End::Default => Err("a traversal that ends with a default action misses its last table".to_owned()),
    }
}
