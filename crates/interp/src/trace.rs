//! What happened to a packet, step by step.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A named value, as [`entries::Meaning`] writes it: addresses as addresses, else decimal up to 16 bits, hexadecimal beyond; `true` and `false`; names of
/// errors and of enumeration members.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NamedValue {
    /// Name of the key, field, parameter or variable.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the fields are what `Display` says of them
pub enum Event {
    /// A packet, or a copy of one, begins a pass through the pipeline.
    Packet { origin: String, port: Option<u32>, bytes: usize },
    /// A block of the architecture begins.
    Enter { block: String, role: String },
    /// A parser state is entered.
    State { name: String },
    /// A header was extracted.
    Extract { header: String, fields: Vec<NamedValue> },
    /// The parser stopped with an error.
    ParserError { error: String },
    /// A table was looked up; `hit` is `None` on a miss, when the default action runs.
    Table { table: String, keys: Vec<NamedValue>, hit: Option<Hit>, action: String, arguments: Vec<NamedValue> },
    /// A variable changed.
    Set { variable: String, from: String, to: String },
    /// A header became valid or invalid.
    Validity { header: String, valid: bool },
    /// A header was copied.
    CopyHeader { to: String, from: String },
    /// An extern was called.
    Extern { call: String, arguments: Vec<String>, results: Vec<String> },
    /// `log_msg`.
    Log { message: String },
    /// A header was emitted.
    Emit { header: String },
    /// The architecture copies, sends or drops.
    Architecture { what: String },
    /// What became of a packet.
    Verdict { verdict: String, reason: Option<String>, bytes: usize },
}

/// The entry that was hit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hit {
    /// Its keys, as the control plane wrote them.
    pub entry: String,
    /// Its priority, in tables that have priorities.
    pub priority: Option<i32>,
    /// Where it comes from (a line of a region file, of the program).
    pub provenance: Option<String>,
    /// The member or group of an action profile that it refers to.
    pub through: Option<String>,
}

/// An event with its place in the program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
    /// `file:line` of the program, if it comes from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// All steps of one packet and its copies, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Trace {
    /// The steps.
    pub steps: Vec<Step>,
}

/// The most steps that are kept: a packet that loops must not fill the memory.
pub const MAX_STEPS: usize = 100_000;

impl Trace {
    /// Adds a step; beyond [`MAX_STEPS`] it is left out.
    pub fn push(&mut self, event: Event, at: Option<String>) {
        if self.steps.len() < MAX_STEPS {
            self.steps.push(Step { event, at });
        }
    }

    /// As JSON: an object with the list `steps`.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The events alone.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.steps.iter().map(|step| &step.event)
    }
}

/// One readable line a step.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            let indent = match step.event {
                Event::Packet { .. } | Event::Verdict { .. } => "",
                Event::Enter { .. } | Event::Architecture { .. } => "  ",
                _ => "    ",
            };
            write!(f, "{indent}{}", step.event)?;
            match &step.at {
                Some(at) => writeln!(f, "   [{at}]")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

fn list(values: &[NamedValue]) -> String {
    values.iter().map(|v| format!("{}={}", v.name, v.value)).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Packet { origin, port: Some(port), bytes } => write!(f, "{origin}, port {port}, {bytes} bytes"),
            Event::Packet { origin, port: None, bytes } => write!(f, "{origin}, {bytes} bytes"),
            Event::Enter { block, role } => write!(f, "{role} {block}"),
            Event::State { name } => write!(f, "state {name}"),
            Event::Extract { header, fields } => write!(f, "extract {header}: {}", list(fields)),
            Event::ParserError { error } => write!(f, "parser error {error}"),
            Event::Table { table, keys, hit, action, arguments } => {
                write!(f, "table {table}({}): ", list(keys))?;
                match hit {
                    None => write!(f, "miss")?,
                    Some(hit) => {
                        write!(f, "hit {}", hit.entry)?;
                        if let Some(priority) = hit.priority {
                            write!(f, " priority {priority}")?;
                        }
                        if let Some(provenance) = &hit.provenance {
                            write!(f, " from {provenance}")?;
                        }
                        if let Some(through) = &hit.through {
                            write!(f, " by {through}")?;
                        }
                    }
                }
                write!(f, " -> {action}({})", list(arguments))
            }
            Event::Set { variable, from, to } => write!(f, "{variable}: {from} -> {to}"),
            Event::Validity { header, valid: true } => write!(f, "{header} becomes valid"),
            Event::Validity { header, valid: false } => write!(f, "{header} becomes invalid"),
            Event::CopyHeader { to, from } => write!(f, "{to} = {from}"),
            Event::Extern { call, arguments, results } => {
                write!(f, "{call}({})", arguments.join(", "))?;
                if results.is_empty() { Ok(()) } else { write!(f, " = {}", results.join(", ")) }
            }
            Event::Log { message } => write!(f, "log: {message}"),
            Event::Emit { header } => write!(f, "emit {header}"),
            Event::Architecture { what } => write!(f, "{what}"),
            Event::Verdict { verdict, reason: Some(reason), .. } => write!(f, "=> {verdict}: {reason}"),
            Event::Verdict { verdict, reason: None, bytes } => write!(f, "=> {verdict}, {bytes} bytes"),
        }
    }
}
