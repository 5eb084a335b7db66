//! `terrace trace`.

mod fields;

use super::failure::Failure;
use super::inputs::{InputArgs, Inputs};
use super::ui::{Ui, style};
use crate::stf::report::hex;
use clap::Args;
use fields::FieldArgs;
use interp::{Config, Event, Interp, Outputs, Trace};
use io::capture::{CaptureReader, Record};
use packet::{Packet, Verdict};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Say what happens to a packet, and why.
///
/// The packet comes from a capture (--pcap, --frame), from hex digits (--hex), or from fields (--vni, --inner-src, ...): then it is built as the
/// VM's server would send it. Each table that is hit is shown with the line of the region file that the entry comes from.
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
    /// The port on which the packet arrives; unless given, that of the VM's server, or 0.
    #[arg(long, value_name = "PORT", help_heading = "Packet")]
    port: Option<u32>,
    #[command(flatten)]
    fields: FieldArgs,
    /// Show every step: variables, headers, externs.
    #[arg(long, short)]
    verbose: bool,
}

/// A packet and where it arrives.
struct Input {
    bytes: Vec<u8>,
    port: u32,
    /// Nanoseconds.
    at: u64,
}

impl TraceArgs {
    pub(super) fn run(self, ui: Ui) -> Result<(), Failure> {
        if self.pcap.is_none() && self.hex.is_none() && self.fields.vni.is_none() {
            let ways = "--pcap FILE [--frame N], --hex DIGITS, or --vni N --inner-src A --inner-dst B";
            return Err(Failure::Usage(format!("there is no packet to trace; give one of {ways}")));
        }
        let inputs = self.inputs.load(ui)?;
        let input = self.packet(&inputs)?;
        let mut engine = Interp::new(Arc::clone(&inputs.pipeline), Config::default())
            .map_err(|error| Failure::Bug(error.to_string()))?;
        engine.write(&inputs.batch).map_err(|refused| Failure::refused(&refused.error))?;
        let (outputs, trace) = engine.trace(&input.bytes, input.port, input.at);
        let verdicts = verdicts(&engine, &outputs);
        let document = json!({
            "packet": { "port": input.port, "bytes": input.bytes.len(), "hex": hex(&input.bytes) },
            "steps": trace.to_json()["steps"],
            "verdicts": verdicts,
        });
        ui.result(&document, || render(&trace, &verdicts, self.verbose))
    }

    fn packet(&self, inputs: &Inputs) -> Result<Input, Failure> {
        let port = self.port.unwrap_or(0);
        if let Some(path) = &self.pcap {
            let packet = frame(path, self.frame)?;
            return Ok(Input { bytes: packet.bytes().to_vec(), port, at: packet.received_at });
        }
        if let Some(text) = &self.hex {
            return Ok(Input { bytes: digits(text)?, port, at: 0 });
        }
        let built = self.fields.build(inputs.region.as_ref())?;
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

/// What became of the packet and its copies.
fn verdicts(engine: &Interp, outputs: &Outputs) -> Vec<Value> {
    let reasons = engine.reasons();
    let one = |out: &interp::OutPacket| match out.verdict {
        Verdict::Forward { port } => json!({ "verdict": "forward", "port": port.0, "hex": hex(&out.bytes) }),
        Verdict::ToCpu { reason } => {
            json!({ "verdict": "cpu", "reason": reasons.cpu_name(reason), "hex": hex(&out.bytes) })
        }
        Verdict::Drop(reason) => json!({ "verdict": "drop", "reason": reasons.drop_name(reason) }),
    };
    outputs.packets().iter().map(one).collect()
}

/// One line a step. What leads to the verdict is always there: blocks, parser states, tables; the rest with `verbose`.
fn render(trace: &Trace, verdicts: &[Value], verbose: bool) -> String {
    let mut text = String::new();
    let dim = style::DIM;
    for step in &trace.steps {
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
        if let Some(bytes) = verdict["hex"].as_str() {
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
