//! Renders the report of a mismatch.

use super::case::{ProgramSource, TestCase, TestEvent};
use super::compare::hex;
use super::print::print_program;
use super::run::Mismatch;
use super::subject::{EngineInputs, EngineUnderTest, Oracle};
use entries::StateUpdate;
use std::fmt::Write;

/// Maximum number of packets to explain.
const MAX_EXPLAINED: usize = 8;

/// Renders the report of a case with a mismatch. `rerun` is the command that reproduces it.
pub fn render_report(case: &TestCase, difference: &Mismatch, subject: &str, rerun: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{subject} differs from the interpreter: {:?}, in step {}", difference.kind, difference.step);
    let _ = writeln!(out, "\n{}\n\nseed {}; run again: {rerun}\n", difference.what, case.seed);
    let _ = writeln!(out, "settings: {:?}\n", case.setup);
    match &case.source {
        ProgramSource::Made(program) => out.push_str(&print_program(program)),
        ProgramSource::File(name) => {
            let _ = writeln!(out, "program: {name}");
        }
    }
    for (number, step) in case.steps.iter().enumerate() {
        let _ = writeln!(out, "\n--- step {number}");
        match step {
            TestEvent::Write(batch) => batch.updates.iter().for_each(|update| append_update(case, update, &mut out)),
            TestEvent::Packets(packets) => {
                for packet in packets {
                    let bytes = hex(&packet.bytes);
                    let _ = writeln!(out, "packet on port {} at {}: {bytes}", packet.port, packet.at);
                }
            }
            TestEvent::Tick(now) => {
                let _ = writeln!(out, "time {now}");
            }
        }
    }
    if case.packets() <= MAX_EXPLAINED {
        append_traces(case, &mut out);
    }
    out
}

fn append_update(case: &TestCase, update: &StateUpdate, out: &mut String) {
    let _ = match update {
        StateUpdate::Entry(kind, entry) => {
            let text = entries::format_entry(&case.pipeline, entry);
            writeln!(out, "{kind:?} {text} (counter {:?}, meter {:?})", entry.counter, entry.meter)
        }
        StateUpdate::DefaultAction(table, spec) => {
            let name = case.pipeline.tables.get(*table).map_or("?", |table| table.preamble.name.as_str());
            writeln!(out, "default action of {name}: {spec:?}")
        }
        other => writeln!(out, "{other:?}"),
    };
}

/// Writes the oracle's trace of each packet.
fn append_traces(case: &TestCase, out: &mut String) {
    let text = match &case.source {
        ProgramSource::Made(program) => Some(print_program(program)),
        ProgramSource::File(_) => None,
    };
    let inputs = EngineInputs { text: text.as_deref(), pipeline: &case.pipeline, setup: &case.setup };
    let Ok(mut oracle) = Oracle::new(&inputs) else { return };
    for step in &case.steps {
        match step {
            TestEvent::Write(batch) => drop(oracle.write(batch)),
            TestEvent::Tick(now) => drop(oracle.tick(*now)),
            TestEvent::Packets(packets) => {
                for packet in packets {
                    let mut emitted = Vec::new();
                    let trace = oracle.process_traced(0, packet, &mut emitted);
                    let _ = writeln!(out, "\n--- trace of the interpreter\n{trace}");
                    for packet_out in emitted {
                        let _ = writeln!(
                            out,
                            "{:?} {:?}: {}",
                            packet_out.verdict,
                            packet_out.origin,
                            hex(&packet_out.bytes)
                        );
                    }
                }
            }
        }
    }
}
