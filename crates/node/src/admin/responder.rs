//! Responses of a node on its control socket.

use super::protocol::{ControlRequest, ControlResponse, EntriesRequest};
use super::server::{ControlHandler, ResponseWriter};
use super::{present, sessions};
use crate::Node;
use crate::explain::{ExplainError, HypotheticalTrace, TraceRequest, TraceResponse, boot_id};
use crate::region::RegionError;
use std::io;
use std::sync::Weak;

/// Number of rows in one response.
const ROWS_PER_RESPONSE: usize = 256;

/// Answers requests for a node while the node exists.
pub struct NodeResponder(pub Weak<Node>);

impl ControlHandler for NodeResponder {
    fn respond(&self, request: ControlRequest, answers: &mut ResponseWriter<'_>) -> io::Result<()> {
        let Some(node) = self.0.upgrade() else {
            return answers.say(&ControlResponse::Refused { message: "the node is ending".into() });
        };
        let answer = match request {
            ControlRequest::Version => ControlResponse::Version(node.version()),
            ControlRequest::Tables => ControlResponse::Tables { tables: node.tables() },
            ControlRequest::Entries(of) => return send_entries(&node, &of, answers),
            ControlRequest::Sessions { selection, limit } => {
                return sessions::send_sessions(&node, &selection, limit, answers);
            }
            ControlRequest::DeleteSessions { selection } => {
                return sessions::delete_sessions(&node, &selection, answers);
            }
            ControlRequest::Nat { top } => region_response(node.nat_status(top).map(ControlResponse::Nat)),
            ControlRequest::NatAddress { address, port, vpc } => {
                region_response(node.nat_address(address, port, vpc.as_deref()).map(ControlResponse::NatAddress))
            }
            ControlRequest::Services => region_response(node.service_status().map(ControlResponse::Services)),
            ControlRequest::Ports => ControlResponse::Ports { ports: node.port_statuses() },
            ControlRequest::Stages => {
                let interpreted = node.version().program.and_then(|program| program.interpreted);
                ControlResponse::Stages { stages: node.stages(), interpreted }
            }
            ControlRequest::Drops => ControlResponse::Drops { drops: node.drops() },
            ControlRequest::Workers => ControlResponse::Workers { workers: node.workers() },
            ControlRequest::Controllers => ControlResponse::Controllers(node.controllers()),
            ControlRequest::Counters => return send_counters(&node, answers),
            ControlRequest::RegionApply { file } => {
                region_response(node.apply_region(file.as_deref()).map(ControlResponse::RegionApplied))
            }
            ControlRequest::RegionDiff { file } => {
                region_response(node.diff_region(file.as_deref()).map(ControlResponse::RegionDiffers))
            }
            ControlRequest::Region => region_response(node.region_status().map(ControlResponse::Region)),
            ControlRequest::ResetCounters => {
                node.reset_counters();
                ControlResponse::CountersReset
            }
            ControlRequest::Trace(of) => return send_trace(&node, &of, answers),
            ControlRequest::TraceRecords { trace_id } => {
                ControlResponse::TraceRecords { machine: boot_id(), parts: node.trace_parts(trace_id) }
            }
            ControlRequest::Explain { port, hex, from, offload } => {
                let told = packet::unhex(&hex).map(|bytes| {
                    let told = node.explain_from(&bytes, port, from)?;
                    let offload = if offload { node.explain_offload(&bytes, told.packet.port)? } else { None };
                    Ok::<_, ExplainError>(HypotheticalTrace { offload, ..told })
                });
                match told {
                    Some(Ok(told)) => ControlResponse::Explained(Box::new(told)),
                    Some(Err(error)) => ControlResponse::Refused { message: error.to_string() },
                    None => ControlResponse::Refused { message: "`hex` is not an even number of hex digits".into() },
                }
            }
        };
        answers.say(&answer)
    }
}

fn region_response(outcome: Result<ControlResponse, RegionError>) -> ControlResponse {
    outcome.unwrap_or_else(|error| ControlResponse::Refused { message: error.to_string() })
}

/// Sends the counters in chunks of bounded size.
fn send_counters(node: &Node, answers: &mut ResponseWriter<'_>) -> io::Result<()> {
    let counters = node.counters();
    for cells in counters.chunks(ROWS_PER_RESPONSE) {
        answers.say(&ControlResponse::Counters { counters: cells.to_vec() })?;
    }
    answers.say(&ControlResponse::End { matching: counters.len() as u64 })
}

/// Sends traced packets until the trace ends or the client disconnects.
fn send_trace(node: &Node, of: &TraceRequest, answers: &mut ResponseWriter<'_>) -> io::Result<()> {
    let answers = std::cell::RefCell::new(answers);
    let say = |answer| match answer {
        TraceResponse::Refused { message } => answers.borrow_mut().say(&ControlResponse::Refused { message }),
        answer => answers.borrow_mut().say(&ControlResponse::Trace(answer)),
    };
    node.serve_trace(of, || answers.borrow_mut().wanted(), say)
}

/// Sends the entries of a table as of one moment, in chunks of bounded size.
fn send_entries(node: &Node, of: &EntriesRequest, answers: &mut ResponseWriter<'_>) -> io::Result<()> {
    let Some(state) = p4runtime::Device::state(node) else {
        return answers
            .say(&ControlResponse::Refused { message: "no program runs; a controller sets one by P4Runtime".into() });
    };
    let pipeline = state.pipeline().clone();
    let table = match entries::find_table(&pipeline, &of.table) {
        Ok(table) => table,
        Err(error) => return answers.say(&ControlResponse::Refused { message: error.to_string() }),
    };
    let counted = pipeline.tables[table].direct_counter.is_some();
    let strings = present::ShownNames::new(node, &state);
    let (mut some, mut matching) = (Vec::new(), 0);
    for entry in state.entries(table) {
        let mut row = present::row(&pipeline, &strings, table, entry);
        if of.filter.as_ref().is_some_and(|text| !present::line(&row).contains(text.as_str())) {
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
        if some.len() == ROWS_PER_RESPONSE {
            answers.say(&ControlResponse::Entries { entries: std::mem::take(&mut some) })?;
        }
    }
    if !some.is_empty() {
        answers.say(&ControlResponse::Entries { entries: some })?;
    }
    answers.say(&ControlResponse::End { matching })
}
