//! What a node answers on its control socket.

use super::present;
use super::protocol::{Answer, EntriesOf, Request};
use super::server::{Answers, Respond};
use crate::Node;
use crate::explain::{self, TraceAnswer, TraceOf};
use crate::status::Count;
use ir::{Pipeline, TableId};
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
            Request::Clear => {
                node.clear();
                Answer::Cleared
            }
            Request::Trace(of) => return trace(&node, &of, answers),
            Request::Explain { port, hex } => {
                match explain::answer::unhex(&hex).map(|bytes| node.explain(&bytes, port)) {
                    Some(Ok(told)) => Answer::Explained(Box::new(told)),
                    Some(Err(error)) => Answer::Refused { message: error.to_string() },
                    None => Answer::Refused { message: "`hex` is not an even number of hex digits".into() },
                }
            }
        };
        answers.say(&answer)
    }
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

/// The table of that name, full or the end of it after a dot.
///
/// # Errors
/// What there is instead.
fn find(pipeline: &Pipeline, name: &str) -> Result<TableId, String> {
    let ends = |full: &str| full.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    let tables = || pipeline.tables.iter().map(|(id, table)| (id, table.preamble.name.as_str()));
    if let Some((id, _)) = tables().find(|(_, full)| *full == name) {
        return Ok(id);
    }
    let found: Vec<(TableId, &str)> = tables().filter(|(_, full)| ends(full)).collect();
    match found.as_slice() {
        [(id, _)] => Ok(*id),
        [] => {
            let known: Vec<&str> = tables().map(|(_, full)| full).collect();
            Err(format!("there is no table `{name}`; the tables are {}", known.join(", ")))
        }
        several => {
            let known: Vec<&str> = several.iter().map(|(_, full)| *full).collect();
            Err(format!("`{name}` is the end of several names: say which of {}", known.join(", ")))
        }
    }
}

/// The entries of a table, as of one moment, in bounded memory.
fn entries(node: &Node, of: &EntriesOf, answers: &mut Answers<'_>) -> io::Result<()> {
    let Some(state) = p4runtime::Device::state(node) else {
        return answers.say(&Answer::Refused { message: "no program runs; a controller sets one by P4Runtime".into() });
    };
    let pipeline = state.pipeline().clone();
    let table = match find(&pipeline, &of.table) {
        Ok(table) => table,
        Err(message) => return answers.say(&Answer::Refused { message }),
    };
    let counted = pipeline.tables[table].direct_counter.is_some();
    let (mut some, mut matching) = (Vec::new(), 0);
    for entry in state.entries(table) {
        let mut row = present::row(&pipeline, table, entry);
        if of.containing.as_ref().is_some_and(|text| !present::line(&row).contains(text.as_str())) {
            continue;
        }
        matching += 1;
        if matching > of.limit {
            continue;
        }
        if counted {
            row.counter = p4runtime::Device::direct_counter(node, table, entry).map(Count::from);
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
