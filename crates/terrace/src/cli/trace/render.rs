//! A trace as text for people.

use crate::cli::ui::style;
use interp::{Event, Step};
use node::explain::answer::{Explanation, Traced, Verdicted};
use std::fmt::Write;

/// One line a step. What leads to the verdict is always there: blocks, parser states, tables; the rest with `verbose`.
pub fn steps(steps: &[Step], verdicts: &[Verdicted], verbose: bool) -> String {
    let mut text = String::new();
    let dim = style::DIM;
    for step in steps {
        let (indent, line) = match &step.event {
            event @ Event::Packet { .. } => ("", format!("{}{event}{:#}", style::HEAD, style::HEAD)),
            Event::Enter { block, role } => ("  ", format!("{role} {}{block}{:#}", style::NAME, style::NAME)),
            event @ Event::Table { hit, .. } => ("    ", table(event, hit.as_ref())),
            event @ (Event::State { .. }
            | Event::ParserError { .. }
            | Event::Architecture { .. }
            | Event::Log { .. }) => ("    ", event.to_string()),
            event @ Event::Verdict { reason, .. } => {
                let style = if reason.is_some() { style::BAD } else { style::GOOD };
                ("", format!("{style}{event}{style:#}"))
            }
            event if verbose => ("      ", event.to_string()),
            _ => continue,
        };
        let at = step.at.as_ref().map_or(String::new(), |at| format!("  {dim}[{at}]{dim:#}"));
        let _ = writeln!(text, "{indent}{line}{at}");
    }
    for verdict in verdicts.iter().filter(|_| verbose) {
        if let Some(bytes) = verdict.hex() {
            let _ = writeln!(text, "{dim}bytes{dim:#} {bytes}");
        }
    }
    text
}

/// A table with what was hit in two lines: the keys, and the entry with its origin.
fn table(event: &Event, hit: Option<&interp::Hit>) -> String {
    let Event::Table { table, keys, action, arguments, .. } = event else { return event.to_string() };
    let list = |values: &[interp::NamedValue]| {
        values.iter().map(|value| format!("{}={}", value.name, value.value)).collect::<Vec<_>>().join(", ")
    };
    let name = style::NAME;
    let mut text = format!("table {name}{table}{name:#}({})\n      ", list(keys));
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
    if let Some(from) = hit.and_then(|hit| hit.provenance.as_ref()) {
        let good = style::GOOD;
        let _ = write!(text, "\n      {good}from {from}{good:#}");
    }
    text
}

/// A packet that passed: what became of it, and why. `port` names ports.
pub fn traced(traced: &Traced, port: impl Fn(u32) -> String, verbose: bool) -> String {
    let Traced { number, packet, worker, became, more, .. } = traced;
    let (head, dim) = (style::HEAD, style::DIM);
    let mut text =
        format!("{head}#{number} {} on {}, {} bytes{head:#}", clock(packet.at_ns), port(packet.port), packet.bytes);
    let _ = writeln!(text, " {dim}worker {worker}{dim:#}");
    for fate in became {
        let style = if matches!(fate, Verdicted::Drop { .. }) { style::BAD } else { style::GOOD };
        let _ = writeln!(text, "  became: {style}{fate}{style:#}");
    }
    if *more > 0 {
        let _ = writeln!(text, "  and {more} more copies");
    }
    if let Some(told) = &traced.told {
        let _ = writeln!(text, "  {told}");
    }
    text + &explained("  ", traced.differs.as_deref(), traced.explanation.as_ref(), traced.later_ns, verbose)
}

/// What a node's tables say of a packet that passed, and how far that is what happened.
pub fn explained(
    indent: &str,
    differs: Option<&str>,
    explanation: Option<&Explanation>,
    later_ns: u64,
    verbose: bool,
) -> String {
    let (mut text, dim, warn) = (String::new(), style::DIM, style::WARN);
    if let Some(differs) = differs {
        let _ = writeln!(text, "{indent}{warn}note{warn:#}: {differs}");
    }
    if let Some(explanation) = explanation {
        let later = later_ns as f64 / 1e6;
        let _ = writeln!(
            text,
            "{indent}{dim}explained on tables of version {}, as of {later:.1} ms later{dim:#}",
            explanation.tables_version
        );
        for line in steps(&explanation.steps, &explanation.verdicts, verbose).lines() {
            let _ = writeln!(text, "{indent}{line}");
        }
    }
    text
}

/// The time of day in UTC.
pub fn clock(at_ns: u64) -> String {
    let (seconds, nanos) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}
