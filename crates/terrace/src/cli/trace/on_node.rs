//! `terrace trace --node`: traces packets on running nodes.

use super::input::TracedInput;
use super::pcapng::PcapNg;
use super::{capture_filter, cross_node, render};
use crate::cli::failure::CommandError;
use crate::cli::show::{USUAL_SOCKET, failed, unexpected};
use crate::cli::ui::{OutputSettings, write_on};
use clap::Args;
use node::admin::cross_node::{self as nodes, CrossNodeTrace};
use node::admin::{ControlRequest, ControlResponse, ResponseStream};
use node::explain::trace_json::TraceJson;
use node::explain::{MAX_PACKETS, TraceRequest, TraceResponse};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum time to wait for the nodes that should have seen a packet.
const PATIENCE: Duration = Duration::from_millis(500);

/// Options of traces on a node.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "On a node")]
pub struct NodeArgs {
    /// Trace on the node with this control socket: `socket` under [control] in its configuration.
    /// Without SOCKET, the one in TERRACE_NODE, or /run/terrace/control.sock. May be repeated for
    /// the processes of the tiers below.
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, default_missing_value = USUAL_SOCKET)]
    #[arg(conflicts_with_all = ["program", "entries"])]
    node: Vec<PathBuf>,
    /// Follow passing packets through all tiers, with the time spent in each. Implied by more than
    /// one --node.
    #[arg(long, requires = "node", conflicts_with_all = ["packet", "vni"])]
    live: bool,
    /// Show only packets that match this filter, in the syntax of tcpdump (man pcap-filter): 'udp
    /// port 4789'.
    #[arg(long, value_name = "EXPRESSION", requires = "node", conflicts_with_all = ["packet", "vni"])]
    filter: Option<String>,
    /// Show only packets that are dropped, wholly or in part; with --live, by any tier.
    #[arg(long, requires = "node", conflicts_with_all = ["packet", "vni"])]
    drops: bool,
    /// Show only packets that are dropped for this reason, wholly or in part.
    #[arg(long, value_name = "NAME", requires = "node", conflicts_with_all = ["packet", "vni"])]
    reason: Option<String>,
    /// Stop after N packets.
    #[arg(long, value_name = "N", default_value_t = 20, requires = "node")]
    count: u64,
    /// Stop after N seconds.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "node")]
    seconds: u64,
    /// Write the packets to a pcapng file for Wireshark, with the explanations as comments; `-` is
    /// standard output.
    #[arg(long, value_name = "FILE", requires = "node", conflicts_with_all = ["packet", "vni"])]
    pcapng: Option<PathBuf>,
}

impl NodeArgs {
    /// Returns the control sockets of the nodes; empty without --node.
    pub fn sockets(&self) -> Vec<PathBuf> {
        let socket = |given: &PathBuf| {
            let usual = std::env::var_os("TERRACE_NODE").filter(|_| given.as_os_str() == USUAL_SOCKET);
            usual.map_or_else(|| given.clone(), PathBuf::from)
        };
        self.node.iter().map(socket).collect()
    }

    /// Explains a hypothetical packet. With `offload`, explains which parts of its path flow caches
    /// can keep.
    pub fn explain(
        &self,
        sockets: &[PathBuf],
        input: &TracedInput,
        offload: bool,
        verbose: bool,
        ui: OutputSettings,
    ) -> Result<(), CommandError> {
        let told = nodes::explain(sockets, &input.bytes, input.port, offload).map_err(failed)?;
        let Some((first, others)) = told.split_first() else { return Ok(()) };
        let mut document = serde_json::to_value(&first.told).map_err(|error| CommandError::Bug(error.to_string()))?;
        if !others.is_empty() {
            document["elsewhere"] = json!(others);
        }
        ui.result(&document, || cross_node::hypothetical_trace(&told, verbose))
    }

    /// Traces packets that pass the node at the first socket, and follows them over the other
    /// nodes. Ends after `--count` packets or `--seconds`. `verbose` shows all steps.
    pub fn live(
        &self,
        sockets: &[PathBuf],
        port: Option<u32>,
        verbose: bool,
        ui: OutputSettings,
    ) -> Result<(), CommandError> {
        let Some((socket, others)) = sockets.split_first() else { return Ok(()) };
        let follow = self.live || !others.is_empty();
        if follow && self.pcapng.is_some() {
            let message =
                "--pcapng works with one node and without --live, because a followed packet is seen at several nodes";
            return Err(CommandError::Usage(message.to_owned()));
        }
        let filter = self.filter.as_deref().map(capture_filter::compile).transpose()?;
        let (drops, reason) = (self.drops, self.reason.clone());
        // If a lower tier may drop the packet, its outcome is known only after following it.
        let by_outcome = follow && (drops || reason.is_some());
        let packets = if by_outcome { MAX_PACKETS } else { self.count };
        let request = TraceRequest { filter, port, drops, reason, follow, packets, seconds: self.seconds };
        let mut answers = ResponseStream::begin(socket, &ControlRequest::Trace(request)).map_err(failed)?;
        let (mut noted_lost, mut followed) = (0, 0);
        let (mut names, mut file) = (BTreeMap::new(), None);
        loop {
            match answers.answer().map_err(failed)? {
                ControlResponse::Trace(TraceResponse::Begun { ports }) => {
                    let ports: BTreeMap<u32, String> = ports.into_iter().map(|port| (port.number, port.name)).collect();
                    file = self.pcapng.as_deref().map(|path| PcapNg::create(path, ports.clone())).transpose()?;
                    names = ports;
                    ui.note(format!("tracing up to {} packets for {} s", self.count, self.seconds));
                }
                ControlResponse::Trace(TraceResponse::Packet(mut traced)) => {
                    let elsewhere = match follow {
                        true => Some(nodes::follow(socket, others, &traced, PATIENCE).map_err(failed)?),
                        false => None,
                    };
                    if let Some(elsewhere) = elsewhere.as_ref().filter(|_| by_outcome) {
                        if !elsewhere.drops(&traced, self.reason.as_deref()) {
                            continue;
                        }
                        followed += 1;
                        traced.number = followed;
                    }
                    if !self.show(&traced, elsewhere.as_ref(), &names, file.as_mut(), verbose, ui)? {
                        return Ok(());
                    }
                    if by_outcome && followed == self.count {
                        ui.note(format!("{followed} packets"));
                        return Ok(());
                    }
                }
                // Packets that the node could not report are noted once for each increase of their
                // number.
                ControlResponse::Trace(TraceResponse::Waiting { lost }) => note_lost(lost, &mut noted_lost, ui),
                ControlResponse::Trace(TraceResponse::Ended { shown, lost }) => {
                    note_lost(lost, &mut noted_lost, ui);
                    let shown = if by_outcome { followed } else { shown };
                    let written_to = self.pcapng.as_ref().map(|path| format!(", written to {}", path.display()));
                    ui.note(format!("{shown} packets{}", written_to.unwrap_or_default()));
                    return Ok(());
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Shows a traced packet. Returns whether the output is still being read.
    fn show(
        &self,
        traced: &TraceJson,
        elsewhere: Option<&CrossNodeTrace>,
        names: &BTreeMap<u32, String>,
        file: Option<&mut PcapNg>,
        verbose: bool,
        ui: OutputSettings,
    ) -> Result<bool, CommandError> {
        if let Some(file) = file {
            return file.write(traced, verbose);
        }
        if ui.json {
            // One document per line, so that a reader can process them as they come.
            let mut document = serde_json::to_value(traced).map_err(|error| CommandError::Bug(error.to_string()))?;
            if let Some(elsewhere) = elsewhere {
                document["elsewhere"] = json!(elsewhere);
            }
            return write_on(&format!("{document}\n"));
        }
        let port = |number: u32| match names.get(&number) {
            Some(name) => format!("port {number} ({name})"),
            None => format!("port {number}"),
        };
        let elsewhere =
            elsewhere.map(|elsewhere| cross_node::cross_node_trace(traced, elsewhere, verbose)).unwrap_or_default();
        write_on(&(render::render_traced(traced, port, verbose) + &elsewhere))
    }
}

/// Prints a note each time the number of lost packets has increased.
fn note_lost(lost: u64, told: &mut u64, ui: OutputSettings) {
    if lost > *told {
        *told = lost;
        ui.note(format!(
            "{lost} packets were not explained, because they arrived too fast; select fewer with --filter"
        ));
    }
}
