//! `terrace trace`.

mod build;
mod capture_filter;
mod cross_node;
mod fields;
mod input;
mod layers;
#[cfg(feature = "wings")]
mod offload;
mod on_node;
mod pcapng;
mod render;

use super::failure::CommandError;
use super::inputs::InputArgs;
use super::ui::OutputSettings;
use clap::Args;
use fields::FieldArgs;
use input::TracedInput;
use interp::{Config, Interp};
use io::capture::{CaptureReader, Record};
use node::explain::trace_json::VerdictJson;
use on_node::NodeArgs;
use packet::{Packet, hex};
use region::ResolvedRegion;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Trace a packet through a program and explain its verdict.
///
/// The packet comes from a capture (--pcap, --packet-number), from hex digits (--hex), from a layer
/// description (--packet), or from fields (--vni, --inner-src, ...): then it is built as the VM's
/// server would send it. Each table hit is shown with the line of the region file that the entry
/// comes from.
///
/// With --node, the tables are those of a running node. Without a packet, packets that pass the
/// node are shown, each with its verdict and the reason; --filter selects packets.
///
/// If the tiers of a program run in several processes, list all of them: first the process with the
/// switch, and then those below. A packet is followed across the processes.
#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(flatten)]
    inputs: InputArgs,
    /// Capture file.
    #[arg(long, value_name = "FILE.pcap", group = "packet", help_heading = "Packet")]
    pcap: Option<PathBuf>,
    /// Number of the packet in the capture, counted from 1 as in Wireshark.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "pcap", help_heading = "Packet")]
    packet_number: u64,
    /// Bytes of the packet as hex digits, from the Ethernet header on.
    #[arg(long, value_name = "HEX", group = "packet", help_heading = "Packet")]
    hex: Option<String>,
    /// Layers of the packet; lengths and checksums are computed:
    /// `eth(dst=02:00:00:00:00:01)/ipv4(dst=10.0.0.2)/udp(dport=53)/payload(64)`. Layers are eth,
    /// vlan, arp, ipv4, ipv6, icmp, icmpv6, tcp, udp, vxlan, payload.
    #[arg(long = "packet", value_name = "LAYERS", group = "packet", help_heading = "Packet")]
    words: Option<String>,
    /// Ingress port of the packet. Default: the port to the VM's server, or 0.
    #[arg(long, value_name = "PORT", help_heading = "Packet")]
    port: Option<u32>,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    on_node: NodeArgs,
    /// Show every event: variables, headers, externs.
    #[arg(long, short)]
    verbose: bool,
    /// Show which parts of the packet's path a flow cache can keep: the key bits that were
    /// decisive, and the operations that each packet must repeat, with the reason.
    #[arg(long, conflicts_with = "verbose")]
    offload: bool,
}

impl TraceArgs {
    /// Runs `terrace why-not-offloaded`, an alias of `terrace trace --offload`.
    pub(super) fn why_not_offloaded(self, ui: OutputSettings) -> Result<(), CommandError> {
        TraceArgs { offload: true, ..self }.run(ui)
    }

    /// Traces a packet: on running nodes if sockets are given, otherwise on the interpreter with
    /// the entries of the arguments. Without a packet, shows packets that pass a node.
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        let packet_sources = [self.pcap.is_some(), self.hex.is_some(), self.words.is_some(), self.fields.vni.is_some()];
        let has_packet = packet_sources.contains(&true);
        let sockets = self.on_node.sockets();
        if !sockets.is_empty() {
            if !has_packet && self.offload {
                return Err(CommandError::Usage(
                    "--offload explains one packet; give one with --hex, --packet or --vni".to_owned(),
                ));
            }
            if !has_packet {
                return self.on_node.live(&sockets, self.port, self.verbose, ui);
            }
            let region = self.inputs.region.as_deref().map(region::load).transpose().map_err(CommandError::refused)?;
            let input = self.packet(region.as_ref())?;
            return self.on_node.explain(&sockets, &input, self.offload, self.verbose, ui);
        }
        if !has_packet {
            let sources = "--pcap FILE [--packet-number N], --hex DIGITS, --packet LAYERS, or --vni N --inner-src A --inner-dst B";
            return Err(CommandError::Usage(format!(
                "there is no packet to trace; give one of {sources}, or --node to see packets that pass a node"
            )));
        }
        let inputs = self.inputs.load(ui)?;
        let input = self.packet(inputs.region.as_ref())?;
        if self.offload {
            return tell_offload(&inputs, &input, ui);
        }
        let mut engine = Interp::new(Arc::clone(&inputs.pipeline), Config::default())
            .map_err(|error| CommandError::Bug(error.to_string()))?;
        engine.write(&inputs.batch).map_err(|refused| CommandError::refused(&refused.error))?;
        let (outputs, trace) = engine.trace(&input.bytes, input.port, input.at);
        let verdicts = VerdictJson::all(&outputs, engine.reasons());
        let document = json!({
            "packet": { "port": input.port, "bytes": input.bytes.len(), "hex": hex(&input.bytes) },
            "steps": trace.to_json()["steps"],
            "verdicts": verdicts,
        });
        ui.result(&document, || render::render_steps(&trace.steps, &verdicts, self.verbose))
    }

    fn packet(&self, region: Option<&ResolvedRegion>) -> Result<TracedInput, CommandError> {
        let port = self.port.unwrap_or(0);
        if let Some(path) = &self.pcap {
            let packet = read_captured_packet(path, self.packet_number)?;
            return Ok(TracedInput { bytes: packet.bytes().to_vec(), port, at: packet.rx_time_ns });
        }
        if let Some(text) = &self.hex {
            return Ok(TracedInput { bytes: parse_hex(text)?, port, at: 0 });
        }
        if let Some(text) = &self.words {
            let bytes = build::packet(text).map_err(|bad| CommandError::Usage(format!("--packet: {bad}")))?;
            return Ok(TracedInput { bytes, port, at: 0 });
        }
        let built = self.fields.build(region)?;
        Ok(TracedInput { bytes: built.bytes, port: self.port.or(built.port).unwrap_or(0), at: 0 })
    }
}

/// Reads packet number `packet_number` of a capture.
fn read_captured_packet(path: &Path, packet_number: u64) -> Result<Packet, CommandError> {
    let refused = |error: io::capture::CaptureError| CommandError::Refused(format!("{:#}", anyhow::Error::from(error)));
    let mut reader = CaptureReader::open(path).map_err(refused)?;
    let mut packet = Packet::new();
    let mut number = 0;
    loop {
        let record = reader.next(&mut packet).map_err(refused)?;
        if matches!(record, Record::End) {
            let file_text = format!("{} has {number} packets", path.display());
            return Err(CommandError::Refused(format!(
                "{file_text}, so there is no packet {packet_number}; give --packet-number 1 to {number}"
            )));
        }
        number += 1;
        if number == packet_number {
            return match record {
                Record::Oversize(bytes) => Err(CommandError::Refused(format!(
                    "packet {packet_number} has {bytes} bytes; no port takes such a packet"
                ))),
                _ => Ok(packet),
            };
        }
    }
}

/// Parses hex digits; blanks, colons and a leading `0x` are skipped.
fn parse_hex(text: &str) -> Result<Vec<u8>, CommandError> {
    let text = text.trim();
    let text = text.strip_prefix("0x").unwrap_or(text);
    let mut nibbles = Vec::new();
    for character in text.chars().filter(|c| !c.is_whitespace() && *c != ':') {
        let nibble = character.to_digit(16);
        let wrong = || CommandError::Usage(format!("--hex: `{character}` is no hex digit; give digits 0-9 and a-f"));
        nibbles.push(nibble.ok_or_else(wrong)? as u8);
    }
    if nibbles.len() % 2 == 1 {
        return Err(CommandError::Usage("--hex ends in half a byte; add or remove a digit".to_owned()));
    }
    if nibbles.len() / 2 > packet::MAX_WIRE_LEN {
        return Err(CommandError::Usage(format!(
            "--hex has more than {} bytes, the longest packet",
            packet::MAX_WIRE_LEN
        )));
    }
    Ok(nibbles.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(feature = "wings")]
use offload::print_offload_explanation as tell_offload;

/// Refuses the command, because this build has no flow cache.
#[cfg(not(feature = "wings"))]
fn tell_offload(_: &super::inputs::ProgramInputs, _: &TracedInput, _: OutputSettings) -> Result<(), CommandError> {
    Err(CommandError::Usage(node::explain::offload::OffloadError::NoCaches.to_string()))
}
