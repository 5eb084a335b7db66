//! Writes traced packets as a pcapng file (draft-ietf-opsawg-pcapng): each received packet with its
//! explanation as a comment, followed by the sent packets. Wireshark shows comments above the
//! packet's headers, and in a column of their own.

use super::render;
use crate::cli::failure::CommandError;
use node::explain::trace_json::{TraceJson, VerdictJson};
use packet::unhex;
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Direction in the flags of a packet block (section 4.3.1).
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;
/// Maximum length of a comment in bytes. The length of an option has 16 bits.
const MAX_COMMENT: usize = 60_000;
/// Timestamp resolution: units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// Source or destination of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Interface {
    Port(u32),
    Cpu,
}

/// A pcapng file, extended with each packet.
pub struct PcapNg {
    path: PathBuf,
    writer: PcapNgWriter<BufWriter<Box<dyn Write>>>,
    ports: BTreeMap<u32, String>,
    /// Numbers of the interface blocks.
    interfaces: BTreeMap<Interface, u32>,
}

impl PcapNg {
    /// Creates a file; `-` is standard output. `ports` are the names of ports.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path, ports: BTreeMap<u32, String>) -> Result<PcapNg, CommandError> {
        let to: Box<dyn Write> = match path.as_os_str() == "-" {
            true => Box::new(std::io::stdout()),
            false => Box::new(std::fs::File::create(path).map_err(|error| write_failed(path, &error))?),
        };
        let writer = PcapNgWriter::new(BufWriter::new(to)).map_err(|error| write_failed(path, &error))?;
        Ok(PcapNg { path: path.to_owned(), writer, ports, interfaces: BTreeMap::new() })
    }

    /// Writes a received packet and the packets sent for it. The file is complete after each call.
    /// Returns whether the output is still being read: it may be a pipe.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, traced: &TraceJson, verbose: bool) -> Result<bool, CommandError> {
        let ports = &self.ports;
        let text = render::render_traced(traced, |port| interface_name(ports, Interface::Port(port)), verbose);
        let text = anstream::adapter::strip_str(&text).to_string();
        let time = Duration::from_nanos(traced.packet.at_ns);
        self.packet(Interface::Port(traced.packet.port), time, &traced.packet.hex, INBOUND, text)?;
        for verdict in &traced.verdicts {
            let comment = format!("verdict on packet #{}: {verdict}", traced.number);
            match verdict {
                VerdictJson::Forward { port, hex, .. } => {
                    self.packet(Interface::Port(*port), time, hex, OUTBOUND, comment)?;
                }
                VerdictJson::Cpu { hex, .. } => self.packet(Interface::Cpu, time, hex, OUTBOUND, comment)?,
                VerdictJson::Drop { .. } => {}
            }
        }
        match self.writer.get_mut().flush() {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(write_failed(&self.path, &error)),
        }
    }

    /// Writes a packet with a comment, which is cut to a length that all readers take. `time` is
    /// the time since 1970; `direction` is the flag for received or sent.
    fn packet(
        &mut self,
        interface: Interface,
        time: Duration,
        hex: &str,
        direction: u32,
        mut comment: String,
    ) -> Result<(), CommandError> {
        if comment.len() > MAX_COMMENT {
            let end = (0..=MAX_COMMENT).rev().find(|end| comment.is_char_boundary(*end)).unwrap_or(0);
            comment.truncate(end);
            comment.push_str("\n(cut)");
        }
        let data = unhex(hex).ok_or_else(|| CommandError::Bug("a packet that is no hex digits".to_owned()))?;
        let interface_id = self.interface(interface)?;
        let options = vec![
            EnhancedPacketOption::Comment(comment.trim_end().to_owned().into()),
            EnhancedPacketOption::Flags(direction),
        ];
        let original_len = data.len() as u32;
        let block = EnhancedPacketBlock { interface_id, timestamp: time, original_len, data: data.into(), options };
        self.writer.write_block(&block.into_block()).map(drop).map_err(|error| write_failed(&self.path, &error))
    }

    /// Returns the number of the interface's block. Writes the block before the interface's first
    /// packet.
    fn interface(&mut self, interface: Interface) -> Result<u32, CommandError> {
        if let Some(known) = self.interfaces.get(&interface) {
            return Ok(*known);
        }
        let number = self.interfaces.len() as u32;
        let description = match interface {
            Interface::Port(port) => format!("port {port}"),
            Interface::Cpu => "the controller".to_owned(),
        };
        let options = vec![
            InterfaceDescriptionOption::IfName(interface_name(&self.ports, interface).into()),
            InterfaceDescriptionOption::IfDescription(description.into()),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ];
        let block = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
        self.writer.write_block(&block.into_block()).map_err(|error| write_failed(&self.path, &error))?;
        self.interfaces.insert(interface, number);
        Ok(number)
    }
}

fn interface_name(ports: &BTreeMap<u32, String>, interface: Interface) -> String {
    match interface {
        Interface::Port(port) => ports.get(&port).cloned().unwrap_or_else(|| format!("port {port}")),
        Interface::Cpu => "cpu".to_owned(),
    }
}

fn write_failed(path: &Path, error: &dyn std::error::Error) -> CommandError {
    CommandError::Environment(format!("cannot write {}: {error}", path.display()))
}
