//! What a node answers on its control socket.

use super::present;
use super::protocol::{Answer, EntriesOf, Request};
use super::server::{Answers, Respond};
use crate::Node;
use crate::explain::{CannotExplain, TraceAnswer, TraceOf, WhatIf, machine};
use crate::region::RegionError;
use std::io;
use std::sync::Weak;

/// Entries that are looked at under one lock, and sent in one line.
const SOME: usize = 256;

/// Answers for a node, as long as there is one.
pub struct Responder(pub Weak<Node>);

impl Respond for Responder {
    fn respond(&self, request: Request, answers: &mut Answers<'_>) -> io::Result<()> {
        let Some(node) = self.0.upgrade() else {
            return answers.say(&Answer::Refused { message: "the node is ending".into() });
        };
        let answer = match request {
            Request::Version => Answer::Version(node.version()),
            Request::Tables => Answer::Tables { tables: node.tables() },
            Request::Entries(of) => return entries(&node, &of, answers),
            Request::Ports => Answer::Ports { ports: node.ports_shown() },
            Request::Stages => {
                let interpreted = node.version().program.and_then(|program| program.interpreted);
                Answer::Stages { stages: node.stages(), interpreted }
            }
            Request::Drops => Answer::Drops { drops: node.drops() },
            Request::Workers => Answer::Workers { workers: node.workers() },
            Request::Sessions => Answer::Sessions(node.sessions()),
            Request::Counters => return counters(&node, answers),
            Request::RegionApply { file } => region(node.apply_region(file.as_deref()).map(Answer::RegionApplied)),
            Request::RegionDiff { file } => region(node.diff_region(file.as_deref()).map(Answer::RegionDiffers)),
            Request::Region => region(node.region_status().map(Answer::Region)),
            Request::Clear => {
                node.clear();
                Answer::Cleared
            }
            Request::Trace(of) => return trace(&node, &of, answers),
            Request::Followed { mark } => Answer::Followed { machine: machine(), parts: node.followed(mark) },
            Request::Explain { port, hex, from, offload } => {
                let told = packet::unhex(&hex).map(|bytes| {
                    let told = node.explain_from(&bytes, port, from)?;
                    let offload = if offload { node.offloaded(&bytes, told.packet.port)? } else { None };
                    Ok::<_, CannotExplain>(WhatIf { offload, ..told })
                });
                match told {
                    Some(Ok(told)) => Answer::Explained(Box::new(told)),
                    Some(Err(error)) => Answer::Refused { message: error.to_string() },
                    None => Answer::Refused { message: "`hex` is not an even number of hex digits".into() },
                }
            }
        };
        answers.say(&answer)
    }
}

fn region(outcome: Result<Answer, RegionError>) -> Answer {
    outcome.unwrap_or_else(|error| Answer::Refused { message: error.to_string() })
}

/// Counters, in bounded memory for each line.
fn counters(node: &Node, answers: &mut Answers<'_>) -> io::Result<()> {
    let counters = node.counters();
    for cells in counters.chunks(SOME) {
        answers.say(&Answer::Counters { counters: cells.to_vec() })?;
    }
    answers.say(&Answer::End { matching: counters.len() as u64 })
}

/// Packets that pass, until enough have, the time is over, or nobody listens.
fn trace(node: &Node, of: &TraceOf, answers: &mut Answers<'_>) -> io::Result<()> {
    let answers = std::cell::RefCell::new(answers);
    let say = |answer| match answer {
        TraceAnswer::Refused { message } => answers.borrow_mut().say(&Answer::Refused { message }),
        answer => answers.borrow_mut().say(&Answer::Trace(answer)),
    };
    node.serve_trace(of, || answers.borrow_mut().wanted(), say)
}

/// The entries of a table, as of one moment, in bounded memory.
fn entries(node: &Node, of: &EntriesOf, answers: &mut Answers<'_>) -> io::Result<()> {
    let Some(state) = p4runtime::Device::state(node) else {
        return answers.say(&Answer::Refused { message: "no program runs; a controller sets one by P4Runtime".into() });
    };
    let pipeline = state.pipeline().clone();
    let table = match entries::find_table(&pipeline, &of.table) {
        Ok(table) => table,
        Err(error) => return answers.say(&Answer::Refused { message: error.to_string() }),
    };
    let counted = pipeline.tables[table].direct_counter.is_some();
    let strings = p4runtime::ShownStrings::new(&state, &node.translations);
    let (mut some, mut matching) = (Vec::new(), 0);
    for entry in state.entries(table) {
        let mut row = present::row(&pipeline, &strings, table, entry);
        if of.containing.as_ref().is_some_and(|text| !present::line(&row).contains(text.as_str())) {
            continue;
        }
        matching += 1;
        if matching > of.limit {
            continue;
        }
        if counted {
            row.counter = p4runtime::Device::direct_counter(node, table, entry);
        }
        some.push(row);
        if some.len() == SOME {
            answers.say(&Answer::Entries { entries: std::mem::take(&mut some) })?;
        }
    }
    if !some.is_empty() {
        answers.say(&Answer::Entries { entries: some })?;
    }
    answers.say(&Answer::End { matching })
}
