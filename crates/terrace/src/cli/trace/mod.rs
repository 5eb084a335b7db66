//! `terrace trace`.

mod build;
mod capture_filter;
mod elsewhere;
mod fields;
mod input;
mod layers;
#[cfg(feature = "wings")]
mod offload;
mod on_node;
mod pcapng;
mod render;

use super::failure::Failure;
use super::inputs::InputArgs;
use super::ui::Ui;
use clap::Args;
use fields::FieldArgs;
use input::Input;
use interp::{Config, Interp};
use io::capture::{CaptureReader, Record};
use node::explain::answer::Verdicted;
use on_node::NodeArgs;
use packet::{Packet, hex};
use region::Region;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Say what happens to a packet, and why.
///
/// The packet comes from a capture (--pcap, --frame), from hex digits (--hex), from words (--packet), or from fields (--vni, --inner-src, ...): then
/// it is built as the VM's server would send it. Each table that is hit is shown with the line of the region file that the entry comes from.
///
/// With --node, the tables are those of a node that runs. Without a packet, the packets that pass there are shown, each with what became of it and
/// why: --filter says which.
///
/// Where the tiers of a program are in several processes, name them all: first the one with the switch, and then those below. A packet is followed from
/// process to process.
#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(flatten)]
    inputs: InputArgs,
    /// A capture file.
    #[arg(long, value_name = "FILE.pcap", group = "packet", help_heading = "Packet")]
    pcap: Option<PathBuf>,
    /// Which packet of the capture, counted from 1 as Wireshark does.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "pcap", help_heading = "Packet")]
    frame: u64,
    /// The packet's bytes as hex digits, from the Ethernet header on.
    #[arg(long, value_name = "HEX", group = "packet", help_heading = "Packet")]
    hex: Option<String>,
    /// The packet in words, lengths and checksums filled in:
    /// `eth(dst=02:00:00:00:00:01)/ipv4(dst=10.0.0.2)/udp(dport=53)/payload(64)`. Layers are eth, vlan, arp, ipv4, ipv6, icmp, icmpv6,
    /// tcp, udp, vxlan, payload.
    #[arg(long = "packet", value_name = "LAYERS", group = "packet", help_heading = "Packet")]
    words: Option<String>,
    /// The port on which the packet arrives; unless given, that of the VM's server, or 0.
    #[arg(long, value_name = "PORT", help_heading = "Packet")]
    port: Option<u32>,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    on_node: NodeArgs,
    /// Show every step: variables, headers, externs.
    #[arg(long, short)]
    verbose: bool,
    /// Show what of the packet's way a flow cache keeps: which bits of each key decided, and what each packet must decide anew, and why.
    #[arg(long, conflicts_with = "verbose")]
    offload: bool,
}

impl TraceArgs {
    /// `terrace why-not-offloaded`: the same packets, another question.
    pub(super) fn why_not_offloaded(self, ui: Ui) -> Result<(), Failure> {
        TraceArgs { offload: true, ..self }.run(ui)
    }

    pub(super) fn run(self, ui: Ui) -> Result<(), Failure> {
        let given = [self.pcap.is_some(), self.hex.is_some(), self.words.is_some(), self.fields.vni.is_some()];
        let has_packet = given.contains(&true);
        let sockets = self.on_node.sockets();
        if !sockets.is_empty() {
            if !has_packet && self.offload {
                return Err(Failure::Usage(
                    "what is offloaded is asked of one packet; give one, with --hex, --packet or --vni".to_owned(),
                ));
            }
            if !has_packet {
                return self.on_node.live(&sockets, self.port, self.verbose, ui);
            }
            let region = self.inputs.region.as_deref().map(region::load).transpose().map_err(Failure::refused)?;
            let input = self.packet(region.as_ref())?;
            return self.on_node.explain(&sockets, &input, self.offload, self.verbose, ui);
        }
        if !has_packet {
            let ways = "--pcap FILE [--frame N], --hex DIGITS, --packet LAYERS, or --vni N --inner-src A --inner-dst B";
            return Err(Failure::Usage(format!(
                "there is no packet to trace; give one of {ways}, or --node to see those that pass on a node"
            )));
        }
        let inputs = self.inputs.load(ui)?;
        let input = self.packet(inputs.region.as_ref())?;
        if self.offload {
            return tell_offload(&inputs, &input, ui);
        }
        let mut engine = Interp::new(Arc::clone(&inputs.pipeline), Config::default())
            .map_err(|error| Failure::Bug(error.to_string()))?;
        engine.write(&inputs.batch).map_err(|refused| Failure::refused(&refused.error))?;
        let (outputs, trace) = engine.trace(&input.bytes, input.port, input.at);
        let verdicts = Verdicted::all(&outputs, engine.reasons());
        let document = json!({
            "packet": { "port": input.port, "bytes": input.bytes.len(), "hex": hex(&input.bytes) },
            "steps": trace.to_json()["steps"],
            "verdicts": verdicts,
        });
        ui.result(&document, || render::steps(&trace.steps, &verdicts, self.verbose))
    }

    fn packet(&self, region: Option<&Region>) -> Result<Input, Failure> {
        let port = self.port.unwrap_or(0);
        if let Some(path) = &self.pcap {
            let packet = frame(path, self.frame)?;
            return Ok(Input { bytes: packet.bytes().to_vec(), port, at: packet.received_at });
        }
        if let Some(text) = &self.hex {
            return Ok(Input { bytes: digits(text)?, port, at: 0 });
        }
        if let Some(text) = &self.words {
            let bytes = build::packet(text).map_err(|bad| Failure::Usage(format!("--packet: {bad}")))?;
            return Ok(Input { bytes, port, at: 0 });
        }
        let built = self.fields.build(region)?;
        Ok(Input { bytes: built.bytes, port: self.port.or(built.port).unwrap_or(0), at: 0 })
    }
}

/// Packet number `wanted` of a capture.
fn frame(path: &Path, wanted: u64) -> Result<Packet, Failure> {
    let refused = |error: io::capture::CaptureError| Failure::Refused(format!("{:#}", anyhow::Error::from(error)));
    let mut reader = CaptureReader::open(path).map_err(refused)?;
    let mut packet = Packet::new();
    let mut number = 0;
    loop {
        let record = reader.next(&mut packet).map_err(refused)?;
        if matches!(record, Record::End) {
            let has = format!("{} has {number} packets", path.display());
            return Err(Failure::Refused(format!("{has}, so there is no packet {wanted}; give --frame 1 to {number}")));
        }
        number += 1;
        if number == wanted {
            return match record {
                Record::Oversize(bytes) => {
                    Err(Failure::Refused(format!("packet {wanted} has {bytes} bytes; no port takes such a packet")))
                }
                _ => Ok(packet),
            };
        }
    }
}

/// Bytes from hex digits; blanks, colons and a leading `0x` are skipped.
fn digits(text: &str) -> Result<Vec<u8>, Failure> {
    let text = text.trim();
    let text = text.strip_prefix("0x").unwrap_or(text);
    let mut nibbles = Vec::new();
    for character in text.chars().filter(|c| !c.is_whitespace() && *c != ':') {
        let nibble = character.to_digit(16);
        let wrong = || Failure::Usage(format!("--hex: `{character}` is no hex digit; give digits 0-9 and a-f"));
        nibbles.push(nibble.ok_or_else(wrong)? as u8);
    }
    if nibbles.len() % 2 == 1 {
        return Err(Failure::Usage("--hex ends in half a byte; add or remove a digit".to_owned()));
    }
    if nibbles.len() / 2 > packet::MAX_LEN {
        return Err(Failure::Usage(format!("--hex has more than {} bytes, the longest packet", packet::MAX_LEN)));
    }
    Ok(nibbles.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(feature = "wings")]
use offload::tell as tell_offload;

/// There is no flow cache to be asked.
#[cfg(not(feature = "wings"))]
fn tell_offload(_: &super::inputs::Inputs, _: &Input, _: Ui) -> Result<(), Failure> {
    Err(Failure::Usage(node::explain::offloaded::CannotOffload::NoCaches.to_string()))
}
