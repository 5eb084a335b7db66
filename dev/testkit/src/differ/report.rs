//! A difference, written down.

use super::case::{Case, Source, Step};
use super::compare::hex;
use super::print::print;
use super::run::Difference;
use super::subject::{Build, Oracle, Subject};
use entries::Update;
use std::fmt::Write;

/// Packets beyond this number are not explained.
const MAX_EXPLAINED: usize = 8;

/// The report on a case that shows a difference; `rerun` is the command that makes it again.
pub fn report(case: &Case, difference: &Difference, subject: &str, rerun: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{subject} differs from the interpreter: {:?}, in step {}", difference.kind, difference.step);
    let _ = writeln!(out, "\n{}\n\nseed {}; run again: {rerun}\n", difference.what, case.seed);
    let _ = writeln!(out, "settings: {:?}\n", case.setup);
    match &case.source {
        Source::Made(program) => out.push_str(&print(program)),
        Source::File(name) => {
            let _ = writeln!(out, "program: {name}");
        }
    }
    for (number, step) in case.steps.iter().enumerate() {
        let _ = writeln!(out, "\n--- step {number}");
        match step {
            Step::Write(batch) => batch.updates.iter().for_each(|update| written(case, update, &mut out)),
            Step::Packets(packets) => {
                for packet in packets {
                    let bytes = hex(&packet.bytes);
                    let _ = writeln!(out, "packet on port {} at {}: {bytes}", packet.port, packet.at);
                }
            }
            Step::Tick(now) => {
                let _ = writeln!(out, "time {now}");
            }
        }
    }
    if case.packets() <= MAX_EXPLAINED {
        explained(case, &mut out);
    }
    out
}

fn written(case: &Case, update: &Update, out: &mut String) {
    let _ = match update {
        Update::Entry(kind, entry) => {
            let text = entries::format_entry(&case.pipeline, entry);
            writeln!(out, "{kind:?} {text} (counter {:?}, meter {:?})", entry.counter, entry.meter)
        }
        Update::DefaultAction(table, spec) => {
            let name = case.pipeline.tables.get(*table).map_or("?", |table| table.preamble.name.as_str());
            writeln!(out, "default action of {name}: {spec:?}")
        }
        other => writeln!(out, "{other:?}"),
    };
}

/// What the oracle did with each packet.
fn explained(case: &Case, out: &mut String) {
    let text = match &case.source {
        Source::Made(program) => Some(print(program)),
        Source::File(_) => None,
    };
    let build = Build { text: text.as_deref(), pipeline: &case.pipeline, setup: &case.setup };
    let Ok(mut oracle) = Oracle::new(&build) else { return };
    for step in &case.steps {
        match step {
            Step::Write(batch) => drop(oracle.write(batch)),
            Step::Tick(now) => drop(oracle.tick(*now)),
            Step::Packets(packets) => {
                for packet in packets {
                    let mut emitted = Vec::new();
                    let trace = oracle.traced(0, packet, &mut emitted);
                    let _ = writeln!(out, "\n--- what the interpreter did\n{trace}");
                    for one in emitted {
                        let _ = writeln!(out, "{:?} {:?}: {}", one.verdict, one.origin, hex(&one.bytes));
                    }
                }
            }
        }
    }
}
