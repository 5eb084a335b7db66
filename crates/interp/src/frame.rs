//! Packet in flight: its bytes, its variables, and the program's requests to the architecture.

use crate::bit_io::{BitBuffer, PAD};
use crate::program::{DecodedProgram, Reg};
use ir::VarId;

/// Request by `clone`, `resubmit` or `recirculate`, with the field list to preserve.
#[derive(Clone, Debug, Default)]
pub struct CopyRequest {
    /// Whether the request was made.
    pub is_requested: bool,
    /// Clone session.
    pub session: u32,
    /// Block and call that hold the list of variables.
    pub site: (usize, u32),
}

/// Destination that a PNA program chose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Destination {
    /// None chosen.
    #[default]
    None,
    /// `drop_packet`.
    Drop,
    /// `send_to_port`.
    Port(u32),
}

/// Frames for reuse. They are boxed, because they move between the pool and the queue and are
/// several hundred bytes long.
#[allow(clippy::vec_box)]
pub type FramePool = Vec<Box<Frame>>;

/// Packet in flight.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Words of variables, constants and values.
    pub reg_words: Vec<u64>,
    /// Validity of each header.
    pub valid: Vec<bool>,
    /// Bytes of the packet at the start of this pass, followed by zeros.
    pub data: Vec<u8>,
    /// Length of the packet in bytes.
    pub len: usize,
    /// Number of parsed bits.
    pub cursor: usize,
    /// Output of the deparser.
    pub out: BitBuffer,
    /// Index of the parser's error.
    pub parser_error: u32,
    /// Whether the parser reached the state `reject`.
    pub is_rejected: bool,
    /// Whether `verify_checksum` found a mismatch.
    pub checksum_error: bool,
    /// Ingress port.
    pub port: u32,
    /// Length in bytes on arrival or recirculation, which counters and meters use.
    pub ingress_len_bytes: u32,
    /// [`packet::Offload::segment_excess`] of the packet.
    pub segment_excess: u16,
    /// Bytes of valid headers at the end of the parser.
    pub parsed_bytes: usize,
    /// Pending `clone` request.
    pub clone: CopyRequest,
    /// Pending `resubmit` request.
    pub resubmit: CopyRequest,
    /// Pending `recirculate` request.
    pub recirculate: CopyRequest,
    /// Length in bytes of v1model `truncate`.
    pub truncate_bytes: Option<u32>,
    /// PNA: destination that the program chose.
    pub destination: Destination,
    /// Whether PNA `recirculate()` was called.
    pub pna_recirculate: bool,
    /// PNA mirror sessions by mirror slot.
    pub mirror: [Option<u32>; 4],
    /// Whether an `assert` failed.
    pub assert_failed: bool,
    /// Whether the deparser emitted more bytes than a packet can hold.
    pub is_too_long: bool,
    /// For each table the slot of the last hit entry plus 1; 0 after a miss.
    pub hit_slots: Vec<u32>,
    /// Color of the direct meter of each table.
    pub meter_colors: Vec<u8>,
    /// Sums of `InternetChecksum` objects.
    pub sums: Vec<u16>,
    /// Data of `Checksum` objects.
    pub checksums: Vec<BitBuffer>,
    /// Number of earlier resubmissions, recirculations and clones of the packet.
    pub passes: u32,
    /// Origin of the packet: received, or a copy and of which kind.
    pub origin: packet::PacketOrigin,
    /// v1model: `instance_type` for the next block.
    pub instance_type: u32,
    /// Truncation length of a copy in bytes; 0: none.
    pub max_copy_bytes: u32,
    /// Data of an overseer that follows the packet and its copies. The engine ignores it.
    pub attached: Vec<u16>,
}

impl Frame {
    /// Creates a frame for packets of a program.
    pub fn new(program: &DecodedProgram) -> Frame {
        Frame {
            reg_words: program.initial.clone(),
            valid: vec![false; program.headers.len()],
            data: vec![0; PAD],
            hit_slots: vec![0; program.tables],
            meter_colors: vec![0; program.tables],
            sums: vec![0; program.externs],
            checksums: vec![BitBuffer::default(); program.externs],
            ..Frame::default()
        }
    }

    /// Starts a pass: all variables are 0, all headers invalid, and there are no requests. Bytes,
    /// port, lengths, passes and origin are kept.
    pub fn reset_for_pass(&mut self, program: &DecodedProgram) {
        let (first, count) = program.non_header_words;
        self.reg_words[first as usize..(first + count) as usize].fill(0);
        // Fields of invalid headers are 0 already.
        for header in 0..self.valid.len() {
            if self.valid[header] {
                self.invalidate(program, header as u32);
            }
        }
        self.cursor = 0;
        self.parser_error = 0;
        self.is_rejected = false;
        self.checksum_error = false;
        self.truncate_bytes = None;
        self.destination = Destination::None;
        self.pna_recirculate = false;
        self.mirror = [None; 4];
        self.is_too_long = false;
        self.hit_slots.fill(0);
        self.clear_requests();
    }

    /// Clears all requests.
    pub fn clear_requests(&mut self) {
        self.clone.is_requested = false;
        self.resubmit.is_requested = false;
        self.recirculate.is_requested = false;
    }

    /// Fills the frame with a packet received on `port`. `came_with` is the length in bytes to
    /// count instead of the packet's own, `segment_excess` that of [`packet::Offload`].
    pub fn fill_from_received(&mut self, bytes: &[u8], port: u32, came_with: Option<u32>, segment_excess: u16) {
        self.set_data(bytes);
        self.port = port;
        self.segment_excess = segment_excess;
        self.ingress_len_bytes = came_with.unwrap_or(self.len as u32);
        self.passes = 0;
        self.origin = packet::PacketOrigin::Received;
        self.max_copy_bytes = 0;
        self.assert_failed = false;
    }

    /// Copies the bytes of a packet into the frame.
    pub fn set_data(&mut self, bytes: &[u8]) {
        self.len = bytes.len();
        self.data.clear();
        self.data.extend_from_slice(bytes);
        self.data.resize(bytes.len() + PAD, 0);
    }

    /// Copies bytes, headers and variables from another packet, without its requests.
    pub fn copy_from(&mut self, program: &DecodedProgram, other: &Frame) {
        let (first, count) = program.var_words;
        let vars = first as usize..(first + count) as usize;
        self.reg_words[vars.clone()].copy_from_slice(&other.reg_words[vars]);
        self.valid.copy_from_slice(&other.valid);
        self.data.clone_from(&other.data);
        self.len = other.len;
        self.cursor = other.cursor;
        self.parser_error = other.parser_error;
        self.is_rejected = other.is_rejected;
        self.checksum_error = other.checksum_error;
        self.port = other.port;
        self.ingress_len_bytes = other.ingress_len_bytes;
        self.segment_excess = other.segment_excess;
        self.parsed_bytes = other.parsed_bytes;
        self.truncate_bytes = other.truncate_bytes;
        self.passes = other.passes;
        self.origin = other.origin;
        self.instance_type = other.instance_type;
        self.max_copy_bytes = other.max_copy_bytes;
        self.attached.clone_from(&other.attached);
        self.assert_failed = false;
        self.is_too_long = false;
        self.destination = Destination::None;
        self.pna_recirculate = false;
        self.mirror = [None; 4];
        self.hit_slots.fill(0);
        self.clear_requests();
    }

    /// Sets all metadata to 0 and keeps the headers.
    pub fn reset_metadata(&mut self, program: &DecodedProgram) {
        for reg in &program.metadata {
            self.reg_words[reg.first_word as usize..(reg.first_word + reg.words) as usize].fill(0);
        }
    }

    /// Copies the variables of a field list from another packet.
    pub fn preserve(&mut self, program: &DecodedProgram, vars: &[VarId], from: &[u64]) {
        for var in vars {
            if let Some(reg) = program.var_regs.get(var.0 as usize) {
                let range = reg.first_word as usize..(reg.first_word + reg.words) as usize;
                self.reg_words[range.clone()].copy_from_slice(&from[range]);
            }
        }
    }

    /// Returns the bytes that were not parsed.
    pub fn payload(&self) -> &[u8] {
        let from = self.cursor.div_ceil(8).min(self.len);
        &self.data[from..self.len]
    }

    /// Reads a variable of the architecture; 0 if the program does not have it.
    pub fn get(&self, reg: Option<Reg>) -> u64 {
        reg.map_or(0, |reg| self.reg_words[reg.first_word as usize])
    }

    /// Sets a variable of the architecture, if the program has it.
    pub fn set(&mut self, reg: Option<Reg>, value: u64) {
        if let Some(reg) = reg {
            self.reg_words[reg.first_word as usize] = value & crate::wide_int::mask64(reg.width);
        }
    }

    /// Returns the words of a value.
    pub fn words(&self, reg: Reg) -> &[u64] {
        &self.reg_words[reg.first_word as usize..(reg.first_word + reg.words) as usize]
    }

    /// Returns the words of a value for writing.
    pub fn words_mut(&mut self, reg: Reg) -> &mut [u64] {
        &mut self.reg_words[reg.first_word as usize..(reg.first_word + reg.words) as usize]
    }

    /// Appends values in order: each with its width, a varbit with its length.
    pub fn push_data(&self, data: &[Reg], bits: &mut BitBuffer) {
        for reg in data {
            match (reg.is_varbit, self.words(*reg)) {
                (true, [length, words @ ..]) => bits.push_words(*length as u32, words),
                (_, words) => bits.push_words(reg.width, words),
            }
        }
    }

    /// Returns the length in bytes of all valid headers of the packet.
    pub fn header_bytes(&self, program: &DecodedProgram) -> usize {
        let headers = program.headers.iter().zip(&self.valid).filter(|(h, valid)| **valid && !h.is_local);
        let bits = |h: &crate::program::DecodedHeader| {
            let varbit = h.varbit.map_or(0, |index| self.reg_words[h.fields[index].reg.first_word as usize] as usize);
            h.fixed_bits as usize + varbit
        };
        headers.map(|(h, _)| bits(h)).sum::<usize>() / 8
    }

    /// Makes a header invalid and sets its fields to 0.
    pub fn invalidate(&mut self, program: &DecodedProgram, header: u32) {
        let (first, count) = program.headers[header as usize].word_range;
        self.valid[header as usize] = false;
        self.reg_words[first as usize..(first + count) as usize].fill(0);
    }

    /// Makes a header valid and the other members of its union invalid. Fields of a header that was
    /// invalid are 0.
    pub fn validate(&mut self, program: &DecodedProgram, header: u32) {
        self.valid[header as usize] = true;
        for sibling in &program.headers[header as usize].union_members {
            self.invalidate(program, *sibling);
        }
    }
}
