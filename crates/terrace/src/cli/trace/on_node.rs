//! `terrace trace --node`: asks a node that runs.

use super::input::Input;
use super::pcapng::PcapNg;
use super::{capture_filter, elsewhere, render};
use crate::cli::failure::Failure;
use crate::cli::show::{USUAL_SOCKET, failed, unexpected};
use crate::cli::ui::{Ui, write_on};
use clap::Args;
use node::admin::elsewhere::{self as nodes, Story};
use node::admin::{Answer, Asking, Request};
use node::explain::answer::Traced;
use node::explain::{MAX_PACKETS, TraceAnswer, TraceOf};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How long those are asked that should have had a packet.
const PATIENCE: Duration = Duration::from_millis(500);

/// What is asked of a node.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "On a node")]
pub struct NodeArgs {
    /// Ask the node whose control socket this is: `socket` under [control] in its configuration. Without SOCKET, the one that TERRACE_NODE names, or
    /// /run/terrace/control.sock. Given again, those of the tiers below in other processes.
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, default_missing_value = USUAL_SOCKET)]
    #[arg(conflicts_with_all = ["program", "entries"])]
    node: Vec<PathBuf>,
    /// Follow the packets that pass through all tiers, with the times that each one took. It is so, too, with more than one --node.
    #[arg(long, requires = "node", conflicts_with_all = ["packet", "vni"])]
    live: bool,
    /// Show packets that this takes, in the syntax of tcpdump (man pcap-filter): 'udp port 4789'.
    #[arg(long, value_name = "EXPRESSION", requires = "node", conflicts_with_all = ["packet", "vni"])]
    filter: Option<String>,
    /// Show packets of which something is dropped; of those that are followed, by whichever tier.
    #[arg(long, requires = "node", conflicts_with_all = ["packet", "vni"])]
    drops: bool,
    /// Show packets of which something is dropped for this reason.
    #[arg(long, value_name = "NAME", requires = "node", conflicts_with_all = ["packet", "vni"])]
    reason: Option<String>,
    /// End after so many packets.
    #[arg(long, value_name = "N", default_value_t = 20, requires = "node")]
    count: u64,
    /// End after so many seconds.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "node")]
    seconds: u64,
    /// Write the packets to a file that Wireshark reads, with the explanations as comments; `-` is standard output.
    #[arg(long, value_name = "FILE", requires = "node", conflicts_with_all = ["packet", "vni"])]
    pcapng: Option<PathBuf>,
}

impl NodeArgs {
    /// The sockets of the nodes that are asked: none if none are.
    pub fn sockets(&self) -> Vec<PathBuf> {
        let socket = |given: &PathBuf| {
            let usual = std::env::var_os("TERRACE_NODE").filter(|_| given.as_os_str() == USUAL_SOCKET);
            usual.map_or_else(|| given.clone(), PathBuf::from)
        };
        self.node.iter().map(socket).collect()
    }

    /// What would become of a packet; with `offload`, what of its way flow caches keep.
    pub fn explain(
        &self,
        sockets: &[PathBuf],
        input: &Input,
        offload: bool,
        verbose: bool,
        ui: Ui,
    ) -> Result<(), Failure> {
        let told = nodes::explain(sockets, &input.bytes, input.port, offload).map_err(failed)?;
        let Some((first, others)) = told.split_first() else { return Ok(()) };
        let mut document = serde_json::to_value(&first.told).map_err(|error| Failure::Bug(error.to_string()))?;
        if !others.is_empty() {
            document["elsewhere"] = json!(others);
        }
        ui.result(&document, || elsewhere::asked(&told, verbose))
    }

    /// Packets that pass.
    pub fn live(&self, sockets: &[PathBuf], port: Option<u32>, verbose: bool, ui: Ui) -> Result<(), Failure> {
        let Some((socket, others)) = sockets.split_first() else { return Ok(()) };
        let follow = self.live || !others.is_empty();
        if follow && self.pcapng.is_some() {
            let what = "--pcapng is of one node, and without --live: a packet that is followed has a way, not a place";
            return Err(Failure::Usage(what.to_owned()));
        }
        let filter = self.filter.as_deref().map(capture_filter::compile).transpose()?;
        let (drops, reason) = (self.drops, self.reason.clone());
        // Who drops a packet that goes on to another tier is known when it has been followed.
        let by_outcome = follow && (drops || reason.is_some());
        let packets = if by_outcome { MAX_PACKETS } else { self.count };
        let of = TraceOf { filter, port, drops, reason, follow, packets, seconds: self.seconds };
        let mut answers = Asking::begin(socket, &Request::Trace(of)).map_err(failed)?;
        let (mut told, mut followed) = (0, 0);
        let (mut names, mut file) = (BTreeMap::new(), None);
        loop {
            match answers.answer().map_err(failed)? {
                Answer::Trace(TraceAnswer::Begun { ports }) => {
                    let ports: BTreeMap<u32, String> = ports.into_iter().map(|port| (port.number, port.name)).collect();
                    file = self.pcapng.as_deref().map(|path| PcapNg::create(path, ports.clone())).transpose()?;
                    names = ports;
                    ui.note(format!("tracing up to {} packets for {} s", self.count, self.seconds));
                }
                Answer::Trace(TraceAnswer::Packet(mut traced)) => {
                    let story = match follow {
                        true => Some(nodes::follow(socket, others, &traced, PATIENCE).map_err(failed)?),
                        false => None,
                    };
                    if let Some(story) = story.as_ref().filter(|_| by_outcome) {
                        if !story.drops(&traced, self.reason.as_deref()) {
                            continue;
                        }
                        followed += 1;
                        traced.number = followed;
                    }
                    if !self.show(&traced, story.as_ref(), &names, file.as_mut(), verbose, ui)? {
                        return Ok(());
                    }
                    if by_outcome && followed == self.count {
                        ui.note(format!("{followed} packets"));
                        return Ok(());
                    }
                }
                Answer::Trace(TraceAnswer::Waiting { lost }) => note_lost(lost, &mut told, ui),
                Answer::Trace(TraceAnswer::Ended { shown, lost }) => {
                    note_lost(lost, &mut told, ui);
                    let shown = if by_outcome { followed } else { shown };
                    let where_to = self.pcapng.as_ref().map(|path| format!(", written to {}", path.display()));
                    ui.note(format!("{shown} packets{}", where_to.unwrap_or_default()));
                    return Ok(());
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Whether anybody reads on.
    fn show(
        &self,
        traced: &Traced,
        story: Option<&Story>,
        names: &BTreeMap<u32, String>,
        file: Option<&mut PcapNg>,
        verbose: bool,
        ui: Ui,
    ) -> Result<bool, Failure> {
        if let Some(file) = file {
            return file.write(traced, verbose);
        }
        if ui.json {
            // A document a line, so that they can be read as they come.
            let mut document = serde_json::to_value(traced).map_err(|error| Failure::Bug(error.to_string()))?;
            if let Some(story) = story {
                document["elsewhere"] = json!(story);
            }
            return write_on(&format!("{document}\n"));
        }
        let port = |number: u32| match names.get(&number) {
            Some(name) => format!("port {number} ({name})"),
            None => format!("port {number}"),
        };
        let story = story.map(|story| elsewhere::story(traced, story, verbose)).unwrap_or_default();
        write_on(&(render::traced(traced, port, verbose) + &story))
    }
}

/// Says once more whenever it has become more.
fn note_lost(lost: u64, told: &mut u64, ui: Ui) {
    if lost > *told {
        *told = lost;
        ui.note(format!("{lost} more packets came than can be explained in the time; narrow it down with --filter"));
    }
}
