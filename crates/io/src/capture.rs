//! pcap files of both byte orders, with microseconds or nanoseconds.
//!
//! The format is that of draft-ietf-opsawg-pcap: a file header of 24 bytes, then records with a
//! header of 16 bytes and the packet. Lengths in a file are not trusted; memory is bounded by
//! [`MAX_WIRE_LEN`]. Errors contain the record number, counted from 1 as in Wireshark, and its
//! offset in the file.
//!
//! pcapng is not supported. A file in that format is refused with the command that converts it.

use packet::{MAX_WIRE_LEN, Packet};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use thiserror::Error;

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const MAGIC_PCAPNG: u32 = 0x0a0d_0d0a;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;
/// Maximum length of a record in bytes (libpcap's MAXIMUM_SNAPLEN). A longer one means that the
/// file is damaged, because no capture program writes it.
const MAX_RECORD: u32 = 256 * 1024;

/// Error of reading or writing a capture file.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The file cannot be opened, read or written.
    #[error("cannot {action} the capture file `{file}`")]
    Io {
        /// The file's name.
        file: String,
        /// The operation that failed.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a pcap file.
    #[error("`{file}` is not a pcap file: {problem}")]
    NotPcap {
        /// The file's name.
        file: String,
        /// The problem, and the fix if there is one.
        problem: String,
    },
    /// A record is damaged or incomplete. The records before it are valid.
    #[error("`{file}`, packet {record} (at byte {offset}): {problem}")]
    Record {
        /// The file's name.
        file: String,
        /// The packet's number, from 1.
        record: u64,
        /// Offset of the record in the file, in bytes.
        offset: u64,
        /// The problem, and the fix if there is one.
        problem: String,
    },
}

/// Result of [`CaptureReader::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// The next packet.
    Packet,
    /// A packet of this many bytes that was skipped, because it is longer than [`MAX_WIRE_LEN`].
    Oversize(usize),
    /// The end of the file.
    End,
}

/// Reads a pcap file packet by packet.
pub struct CaptureReader<R: Read> {
    file: String,
    source: R,
    big_endian: bool,
    nanoseconds: bool,
    /// Number of the next record, from 1.
    record: u64,
    /// Offset of the next record in the file, in bytes.
    offset: u64,
}

impl CaptureReader<BufReader<File>> {
    /// Opens the file at `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let file = path.as_ref().display().to_string();
        match File::open(path.as_ref()) {
            Ok(source) => CaptureReader::new(file, BufReader::with_capacity(1 << 16, source)),
            Err(source) => Err(CaptureError::Io { file, action: "open", source }),
        }
    }
}

impl<R: Read> CaptureReader<R> {
    /// Reads the file header from `source`, which determines the byte order and the unit of the
    /// times. `file` is the name of the file in errors.
    pub fn new(file: impl Into<String>, mut source: R) -> Result<Self, CaptureError> {
        let file = file.into();
        let mut header = [0; 24];
        let read_len = read_fully(&mut source, &mut header).map_err(|source| CaptureError::Io {
            file: file.clone(),
            action: "read",
            source,
        })?;
        let not_pcap = |problem: String| CaptureError::NotPcap { file: file.clone(), problem };
        let magic = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        if read_len >= 4 && magic == MAGIC_PCAPNG {
            return Err(not_pcap("it is a pcapng file; convert it with `editcap -F pcap IN OUT`".into()));
        }
        let (big_endian, nanoseconds) = match (magic, magic.swap_bytes()) {
            (MAGIC_MICROSECONDS, _) => (true, false),
            (MAGIC_NANOSECONDS, _) => (true, true),
            (_, MAGIC_MICROSECONDS) => (false, false),
            (_, MAGIC_NANOSECONDS) => (false, true),
            _ => return Err(not_pcap(format!("its first bytes are {magic:#010x}"))),
        };
        if read_len < header.len() {
            return Err(not_pcap(format!("its header has {read_len} of {} bytes", header.len())));
        }
        let mut reader = CaptureReader { file, source, big_endian, nanoseconds, record: 1, offset: 24 };
        // The header: magic number, major and minor version, three fields without use here, link
        // type.
        let [network, version] = [reader.read_u32(&header, 20), reader.read_u32(&header, 4)];
        // `version` holds the 16-bit fields major and minor, read as one number of the file's byte
        // order.
        let major = if big_endian { version >> 16 } else { version & 0xffff };
        let problem = match network & 0xffff {
            // A bit in the upper half indicates frame check sequences after the packets, which
            // would be read as payload.
            _ if network & 0x0400_0000 != 0 => {
                "its packets end with a frame check sequence; remove it with `editcap -C -4`".into()
            }
            ETHERNET if major == 2 => return Ok(reader),
            ETHERNET => format!("it has version {major}; only version 2 is known"),
            other => format!("its packets have link type {other}, not Ethernet (1)"),
        };
        Err(CaptureError::NotPcap { file: std::mem::take(&mut reader.file), problem })
    }

    /// Reads the next packet, its bytes and time, into `packet`. Do not continue after an error,
    /// because the next record cannot be located in a damaged file.
    ///
    /// A record that is shorter than the original packet (a capture with a snap length) is an
    /// error, because a truncated packet differs from the one on the wire.
    pub fn next(&mut self, packet: &mut Packet) -> Result<Record, CaptureError> {
        let mut header = [0; 16];
        let read_len = self.read(&mut header)?;
        if read_len == 0 {
            return Ok(Record::End);
        }
        if read_len < header.len() {
            return Err(self.record_error(format!(
                "the file ends within the record's header ({read_len} of {} bytes)",
                header.len()
            )));
        }
        // The header: time, number of stored bytes, length of the original packet.
        let [seconds, fraction, stored, original] = [0, 4, 8, 12].map(|offset| self.read_u32(&header, offset));
        let fraction_limit = if self.nanoseconds { 1_000_000_000 } else { 1_000_000 };
        if fraction >= fraction_limit {
            return Err(self.record_error(format!("its time has a fraction of {fraction}, beyond {fraction_limit}")));
        }
        if stored > MAX_RECORD {
            return Err(self.record_error(format!("a length of {stored} bytes cannot be; the file is damaged")));
        }
        if stored < original {
            return Err(self.record_error(format!(
                "holds only {stored} of the packet's {original} bytes; capture whole packets (`tcpdump -s 0`)"
            )));
        }
        let time = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * if self.nanoseconds { 1 } else { 1000 };
        let outcome = self.read_content(packet, stored as usize)?;
        packet.rx_time_ns = time;
        self.offset += 16 + u64::from(stored);
        self.record += 1;
        Ok(outcome)
    }

    /// Reads the `len` bytes of a record into `packet`. Skips a record that is longer than any
    /// packet, and returns its length as [`Record::Oversize`].
    ///
    /// # Errors
    /// The file ends within the record, or cannot be read.
    fn read_content(&mut self, packet: &mut Packet, len: usize) -> Result<Record, CaptureError> {
        let (read_len, outcome) = if len <= MAX_WIRE_LEN {
            packet.reset();
            // Does not fail, because the length was checked above.
            let space = packet.receive_space(len).unwrap_or_default();
            let read_len = read_fully(&mut self.source, space).map_err(|source| self.io_error(source))?;
            packet.set_received_len(read_len);
            (read_len, Record::Packet)
        } else {
            let skipped = io::copy(&mut (&mut self.source).take(len as u64), &mut io::sink());
            (skipped.map_err(|source| self.io_error(source))? as usize, Record::Oversize(len))
        };
        if read_len < len {
            packet.reset();
            return Err(self
                .record_error(format!("the file ends within the packet ({read_len} of {len} bytes): it was cut off")));
        }
        Ok(outcome)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, CaptureError> {
        read_fully(&mut self.source, buffer).map_err(|source| self.io_error(source))
    }

    fn read_u32(&self, header: &[u8], offset: usize) -> u32 {
        let bytes = [header[offset], header[offset + 1], header[offset + 2], header[offset + 3]];
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn io_error(&self, source: io::Error) -> CaptureError {
        CaptureError::Io { file: self.file.clone(), action: "read", source }
    }

    fn record_error(&self, problem: String) -> CaptureError {
        CaptureError::Record { file: self.file.clone(), record: self.record, offset: self.offset, problem }
    }
}

/// Reads until `buffer` is full or the source ends. Returns the number of bytes read.
fn read_fully(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read_len = 0;
    while read_len < buffer.len() {
        match source.read(&mut buffer[read_len..]) {
            Ok(0) => break,
            Ok(part_len) => read_len += part_len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read_len)
}

/// Writes a pcap file: little-endian, nanoseconds, Ethernet.
pub struct CaptureWriter<W: Write> {
    file: String,
    sink: W,
}

impl CaptureWriter<BufWriter<File>> {
    /// Creates the file at `path`, or truncates an existing one.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let file = path.as_ref().display().to_string();
        match File::create(path.as_ref()) {
            Ok(sink) => CaptureWriter::new(file, BufWriter::new(sink)),
            Err(source) => Err(CaptureError::Io { file, action: "create", source }),
        }
    }
}

impl<W: Write> CaptureWriter<W> {
    /// Writes to `sink`; `file` is its name in errors.
    pub fn new(file: impl Into<String>, sink: W) -> Result<Self, CaptureError> {
        let mut writer = CaptureWriter { file: file.into(), sink };
        let mut header = Vec::with_capacity(24);
        // Version 2.4, time zone and accuracy (always 0), maximum packet length, link type.
        for word in [MAGIC_NANOSECONDS, 0x0004_0002, 0, 0, u32::from(u16::MAX), ETHERNET] {
            header.extend_from_slice(&word.to_le_bytes());
        }
        writer.write_bytes(&header)?;
        Ok(writer)
    }

    /// Writes a packet with its time of receipt. Times after the year 2106 are written as the
    /// latest time of the format.
    pub fn write(&mut self, packet: &Packet) -> Result<(), CaptureError> {
        let seconds = u32::try_from(packet.rx_time_ns / 1_000_000_000).unwrap_or(u32::MAX);
        let nanoseconds = (packet.rx_time_ns % 1_000_000_000) as u32;
        let len = packet.len() as u32;
        let mut header = [0; 16];
        for (field, word) in header.chunks_exact_mut(4).zip([seconds, nanoseconds, len, len]) {
            field.copy_from_slice(&word.to_le_bytes());
        }
        self.write_bytes(&header)?;
        self.write_bytes(packet.bytes())
    }

    /// Flushes all packets to the operating system. Call it at the end, because `drop` ignores
    /// errors.
    pub fn flush(&mut self) -> Result<(), CaptureError> {
        self.sink.flush().map_err(|source| self.io_error(source))
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), CaptureError> {
        self.sink.write_all(bytes).map_err(|source| self.io_error(source))
    }

    fn io_error(&self, source: io::Error) -> CaptureError {
        CaptureError::Io { file: self.file.clone(), action: "write to", source }
    }
}
