//! Renders traces as text.

use crate::cli::ui::style;
use interp::{TraceEvent, TraceStep};
use node::explain::trace_json::{Explanation, TraceJson, VerdictJson};
use std::fmt::Write;

/// Renders one line per event. Blocks, parser states and tables are always shown, other events only
/// with `verbose`.
pub fn render_steps(steps: &[TraceStep], verdicts: &[VerdictJson], verbose: bool) -> String {
    let mut text = String::new();
    let dim = style::DIM;
    for step in steps {
        let (indent, line) = match &step.event {
            event @ TraceEvent::Packet { .. } => ("", format!("{}{event}{:#}", style::HEAD, style::HEAD)),
            TraceEvent::Enter { block, role } => ("  ", format!("{role} {}{block}{:#}", style::NAME, style::NAME)),
            event @ TraceEvent::Table { hit, .. } => ("    ", render_table(event, hit.as_ref())),
            event @ (TraceEvent::State { .. }
            | TraceEvent::Added { .. }
            | TraceEvent::ParserError { .. }
            | TraceEvent::Architecture { .. }
            | TraceEvent::Log { .. }) => ("    ", event.to_string()),
            event @ TraceEvent::Verdict { reason, .. } => {
                let style = if reason.is_some() { style::BAD } else { style::GOOD };
                ("", format!("{style}{event}{style:#}"))
            }
            event if verbose => ("      ", event.to_string()),
            _ => continue,
        };
        let location = step.at.as_ref().map_or(String::new(), |location| format!("  {dim}[{location}]{dim:#}"));
        let _ = writeln!(text, "{indent}{line}{location}");
    }
    for verdict in verdicts.iter().filter(|_| verbose) {
        if let Some(bytes) = verdict.hex() {
            let _ = writeln!(text, "{dim}bytes{dim:#} {bytes}");
        }
    }
    text
}

/// Renders a table application: keys, entry, and the origin of the entry.
fn render_table(event: &TraceEvent, hit: Option<&interp::EntryHit>) -> String {
    let TraceEvent::Table { table, keys, action, arguments, .. } = event else { return event.to_string() };
    let list = |values: &[interp::NamedValue]| {
        values.iter().map(|value| format!("{}={}", value.name, value.value)).collect::<Vec<_>>().join(", ")
    };
    let bold = style::NAME;
    let mut text = format!("table {bold}{table}{bold:#}({})\n      ", list(keys));
    match hit {
        None => text += "miss",
        Some(hit) => {
            let _ = write!(text, "hit {}", hit.entry);
            if let Some(priority) = hit.priority {
                let _ = write!(text, " priority {priority}");
            }
            if let Some(through) = &hit.through {
                let _ = write!(text, " by {through}");
            }
        }
    }
    let _ = write!(text, " -> {action}({})", list(arguments));
    if let Some(origin) = hit.and_then(|hit| hit.provenance.as_ref()) {
        let good = style::GOOD;
        let _ = write!(text, "\n      {good}from {origin}{good:#}");
    }
    text
}

/// Renders a packet that passed a node: its outcome and explanation. `port` returns the name of a
/// port.
pub fn render_traced(traced: &TraceJson, port: impl Fn(u32) -> String, verbose: bool) -> String {
    let TraceJson { number, packet, worker, verdicts, omitted_verdicts, .. } = traced;
    let (bold, dim) = (style::HEAD, style::DIM);
    let mut text = format!(
        "{bold}#{number} {} on {}, {} bytes{bold:#}",
        format_clock(packet.at_ns),
        port(packet.port),
        packet.bytes
    );
    let _ = writeln!(text, " {dim}worker {worker}{dim:#}");
    for verdict in verdicts {
        let style = if matches!(verdict, VerdictJson::Drop { .. }) { style::BAD } else { style::GOOD };
        let host = traced.host.as_ref().filter(|_| matches!(verdict, VerdictJson::Cpu { .. }));
        let host = host.map(|interface| format!(", to {interface}")).unwrap_or_default();
        let _ = writeln!(text, "  verdict: {style}{verdict}{host}{style:#}");
    }
    if *omitted_verdicts > 0 {
        let _ = writeln!(text, "  and {omitted_verdicts} more copies");
    }
    if let Some(note) = &traced.engine_note {
        let _ = writeln!(text, "  {note}");
    }
    text + &render_explanation(
        "  ",
        traced.mismatch.as_deref(),
        traced.explanation.as_ref(),
        traced.explained_after_ns,
        verbose,
    )
}

/// Renders the explanation of a packet by the node's tables, with a note if it differs from the
/// actual outcome.
pub fn render_explanation(
    indent: &str,
    mismatch: Option<&str>,
    explanation: Option<&Explanation>,
    explained_after_ns: u64,
    verbose: bool,
) -> String {
    let (mut text, dim, warn) = (String::new(), style::DIM, style::WARN);
    if let Some(mismatch) = mismatch {
        let _ = writeln!(text, "{indent}{warn}note{warn:#}: {mismatch}");
    }
    if let Some(explanation) = explanation {
        let later_ms = explained_after_ns as f64 / 1e6;
        let _ = writeln!(
            text,
            "{indent}{dim}explained on tables of version {}, as of {later_ms:.1} ms later{dim:#}",
            explanation.tables_version
        );
        for line in render_steps(&explanation.steps, &explanation.verdicts, verbose).lines() {
            let _ = writeln!(text, "{indent}{line}");
        }
    }
    text
}

/// Formats the time of day in UTC.
pub fn format_clock(at_ns: u64) -> String {
    let (seconds, nanos) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}
