//! Trace of a packet: its events in order.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Named value in the notation of [`entries::ValueFormat`]: addresses as addresses, other numbers
/// decimal up to 16 bits and hexadecimal beyond, `true` and `false`, names of errors and of
/// enumeration members.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NamedValue {
    /// Name of the key, field, parameter or variable.
    pub name: String,
    /// Formatted value.
    pub value: String,
}

/// Event in the processing of a packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the fields are what `Display` says of them
pub enum TraceEvent {
    /// A packet, or a copy of one, started a pass through the pipeline.
    Packet { origin: String, port: Option<u32>, bytes: usize },
    /// A programmable block was entered.
    Enter { block: String, role: String },
    /// A parser state was entered.
    State { name: String },
    /// A header was extracted.
    Extract { header: String, fields: Vec<NamedValue> },
    /// The parser stopped with an error.
    ParserError { error: String },
    /// A table was looked up; `hit` is `None` on a miss, when the default action runs.
    Table { table: String, keys: Vec<NamedValue>, hit: Option<EntryHit>, action: String, arguments: Vec<NamedValue> },
    /// A packet added an entry to a table.
    Added { table: String, entry: String, action: String, arguments: Vec<NamedValue> },
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
    /// The architecture copied, sent or dropped a packet.
    Architecture { what: String },
    /// A packet got its verdict.
    Verdict { verdict: String, reason: Option<String>, bytes: usize },
}

/// The entry that was hit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EntryHit {
    /// Match fields of the entry, in the control plane's notation.
    pub entry: String,
    /// Priority, in tables that have priorities.
    pub priority: Option<i32>,
    /// Source of the entry (a line of a region file or of the program).
    pub provenance: Option<String>,
    /// Member or group of an action profile that the entry refers to.
    pub through: Option<String>,
}

/// Event with its source location.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TraceStep {
    /// The event.
    #[serde(flatten)]
    pub event: TraceEvent,
    /// `file:line` of the program, if the event has a source location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// Events of one packet and its copies, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PacketTrace {
    /// The events with their locations.
    pub steps: Vec<TraceStep>,
}

/// Maximum number of steps in a trace, because a packet that loops must not fill the memory.
pub const MAX_STEPS: usize = 100_000;

impl PacketTrace {
    /// Adds a step, unless the trace has [`MAX_STEPS`].
    pub fn push(&mut self, event: TraceEvent, at: Option<String>) {
        if self.steps.len() < MAX_STEPS {
            self.steps.push(TraceStep { event, at });
        }
    }

    /// Converts the trace to JSON: an object with the list `steps`.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Returns the events without their locations.
    pub fn events(&self) -> impl Iterator<Item = &TraceEvent> {
        self.steps.iter().map(|step| &step.event)
    }
}

/// Formats one line for each step.
impl fmt::Display for PacketTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            let indent = match step.event {
                TraceEvent::Packet { .. } | TraceEvent::Verdict { .. } => "",
                TraceEvent::Enter { .. } | TraceEvent::Architecture { .. } => "  ",
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

impl fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceEvent::Packet { origin, port: Some(port), bytes } => write!(f, "{origin}, port {port}, {bytes} bytes"),
            TraceEvent::Packet { origin, port: None, bytes } => write!(f, "{origin}, {bytes} bytes"),
            TraceEvent::Enter { block, role } => write!(f, "{role} {block}"),
            TraceEvent::State { name } => write!(f, "state {name}"),
            TraceEvent::Extract { header, fields } => write!(f, "extract {header}: {}", list(fields)),
            TraceEvent::ParserError { error } => write!(f, "parser error {error}"),
            TraceEvent::Table { table, keys, hit, action, arguments } => {
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
            TraceEvent::Added { table, entry, action, arguments } => {
                write!(f, "added to {table}: {entry} -> {action}({})", list(arguments))
            }
            TraceEvent::Set { variable, from, to } => write!(f, "{variable}: {from} -> {to}"),
            TraceEvent::Validity { header, valid: true } => write!(f, "{header} becomes valid"),
            TraceEvent::Validity { header, valid: false } => write!(f, "{header} becomes invalid"),
            TraceEvent::CopyHeader { to, from } => write!(f, "{to} = {from}"),
            TraceEvent::Extern { call, arguments, results } => {
                write!(f, "{call}({})", arguments.join(", "))?;
                if results.is_empty() { Ok(()) } else { write!(f, " = {}", results.join(", ")) }
            }
            TraceEvent::Log { message } => write!(f, "log: {message}"),
            TraceEvent::Emit { header } => write!(f, "emit {header}"),
            TraceEvent::Architecture { what } => write!(f, "{what}"),
            TraceEvent::Verdict { verdict, reason: Some(reason), .. } => write!(f, "=> {verdict}: {reason}"),
            TraceEvent::Verdict { verdict, reason: None, bytes } => write!(f, "=> {verdict}, {bytes} bytes"),
        }
    }
}
