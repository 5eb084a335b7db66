//! A packet in flight: its bytes, its variables, and what the program has asked the architecture for.

use crate::program::{Program, Reg};
use crate::wire::{BitBuffer, PAD};
use ir::VarId;

/// What a program asked for with `clone`, `resubmit`, `recirculate`: the variables to preserve.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Asked for.
    pub wanted: bool,
    /// Clone session.
    pub session: u32,
    /// Code and call that hold the list of variables.
    pub site: (usize, u32),
}

/// Where a PNA program sends a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Destination {
    /// It did not say.
    #[default]
    None,
    /// `drop_packet`.
    Drop,
    /// `send_to_port`.
    Port(u32),
}

/// Frames to be used again. Boxed, because they move between here and the queue, and are several hundred bytes.
#[allow(clippy::vec_box)]
pub type FramePool = Vec<Box<Frame>>;

/// A packet in flight.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Variables, constants, values.
    pub slots: Vec<u64>,
    /// Validity of each header.
    pub valid: Vec<bool>,
    /// The packet as it came into this pass, and zeros behind.
    pub data: Vec<u8>,
    /// Its length in bytes.
    pub len: usize,
    /// How many of its bits are parsed.
    pub cursor: usize,
    /// What the deparser has emitted.
    pub out: BitBuffer,
    /// Index of the parser's error.
    pub parser_error: u32,
    /// The state reject was reached.
    pub rejected: bool,
    /// `verify_checksum` found a mismatch.
    pub checksum_error: bool,
    /// Where the packet came in.
    pub port: u32,
    /// Length in bytes when it came in or was recirculated: what counters and meters use.
    pub ingress_length: u32,
    /// Bytes of valid headers when the parser was done.
    pub parsed_bytes: usize,
    /// See [`Request`].
    pub clone: Request,
    /// See [`Request`].
    pub resubmit: Request,
    /// See [`Request`].
    pub recirculate: Request,
    /// v1model `truncate`, in bytes.
    pub truncate: Option<u32>,
    /// PNA's verdict.
    pub destination: Destination,
    /// PNA `recirculate()`.
    pub pna_recirculate: bool,
    /// PNA mirror sessions by slot.
    pub mirror: [Option<u32>; 4],
    /// An `assert` failed.
    pub assert_failed: bool,
    /// The deparser emitted more than a packet can hold.
    pub too_long: bool,
    /// For each table the number of the entry that was hit last, plus 1; 0 after a miss.
    pub hits: Vec<u32>,
    /// For each table the colour of its direct meter.
    pub colours: Vec<u8>,
    /// Sums of `InternetChecksum` objects.
    pub sums: Vec<u16>,
    /// Data of `Checksum` objects.
    pub checksums: Vec<BitBuffer>,
    /// How often the packet was resubmitted, recirculated or cloned before.
    pub passes: u32,
    /// The copy that it is.
    pub origin: packet::Origin,
    /// v1model: instance_type with which it enters the next block.
    pub instance_type: u32,
    /// Copies are cut to this many bytes; 0: not.
    pub cut: u32,
    /// What an overseer keeps with the packet and its copies; the engine does not look at it.
    pub attached: Vec<u16>,
}

impl Frame {
    /// A frame for packets of a program.
    pub fn new(program: &Program) -> Frame {
        Frame {
            slots: program.initial.clone(),
            valid: vec![false; program.headers.len()],
            data: vec![0; PAD],
            hits: vec![0; program.tables],
            colours: vec![0; program.tables],
            sums: vec![0; program.externs],
            checksums: vec![BitBuffer::default(); program.externs],
            ..Frame::default()
        }
    }

    /// Begins a pass: all variables are 0, all headers invalid, nothing is asked for. Bytes, port, lengths, passes and
    /// origin stay.
    pub fn begin(&mut self, program: &Program) {
        let (first, count) = program.plain;
        self.slots[first as usize..(first + count) as usize].fill(0);
        // Fields of headers that are not valid are 0 already.
        for header in 0..self.valid.len() {
            if self.valid[header] {
                self.invalidate(program, header as u32);
            }
        }
        self.cursor = 0;
        self.parser_error = 0;
        self.rejected = false;
        self.checksum_error = false;
        self.truncate = None;
        self.destination = Destination::None;
        self.pna_recirculate = false;
        self.mirror = [None; 4];
        self.too_long = false;
        self.hits.fill(0);
        self.clear_requests();
    }

    /// Nothing is asked for.
    pub fn clear_requests(&mut self) {
        self.clone.wanted = false;
        self.resubmit.wanted = false;
        self.recirculate.wanted = false;
    }

    /// Becomes a packet that has come in on a port, with that length to be counted by if not its own.
    pub fn arrive(&mut self, bytes: &[u8], port: u32, came_with: Option<u32>) {
        self.set_data(bytes);
        self.port = port;
        self.ingress_length = came_with.unwrap_or(self.len as u32);
        self.passes = 0;
        self.origin = packet::Origin::Received;
        self.cut = 0;
        self.assert_failed = false;
    }

    /// Takes over a packet's bytes.
    pub fn set_data(&mut self, bytes: &[u8]) {
        self.len = bytes.len();
        self.data.clear();
        self.data.extend_from_slice(bytes);
        self.data.resize(bytes.len() + PAD, 0);
    }

    /// Becomes a copy of another packet: bytes, headers, variables; what it asked for is not copied.
    pub fn copy_from(&mut self, program: &Program, other: &Frame) {
        let (first, count) = program.vars;
        let vars = first as usize..(first + count) as usize;
        self.slots[vars.clone()].copy_from_slice(&other.slots[vars]);
        self.valid.copy_from_slice(&other.valid);
        self.data.clone_from(&other.data);
        self.len = other.len;
        self.cursor = other.cursor;
        self.parser_error = other.parser_error;
        self.rejected = other.rejected;
        self.checksum_error = other.checksum_error;
        self.port = other.port;
        self.ingress_length = other.ingress_length;
        self.parsed_bytes = other.parsed_bytes;
        self.truncate = other.truncate;
        self.passes = other.passes;
        self.origin = other.origin;
        self.instance_type = other.instance_type;
        self.cut = other.cut;
        self.attached.clone_from(&other.attached);
        self.assert_failed = false;
        self.too_long = false;
        self.destination = Destination::None;
        self.pna_recirculate = false;
        self.mirror = [None; 4];
        self.hits.fill(0);
        self.clear_requests();
    }

    /// All metadata become 0, headers stay.
    pub fn reset_metadata(&mut self, program: &Program) {
        for reg in &program.metadata {
            self.slots[reg.slot as usize..(reg.slot + reg.words) as usize].fill(0);
        }
    }

    /// Copies the variables of a field list from another packet.
    pub fn preserve(&mut self, program: &Program, vars: &[VarId], from: &[u64]) {
        for var in vars {
            if let Some(reg) = program.var_regs.get(var.0 as usize) {
                let range = reg.slot as usize..(reg.slot + reg.words) as usize;
                self.slots[range.clone()].copy_from_slice(&from[range]);
            }
        }
    }

    /// The bytes that are not parsed.
    pub fn payload(&self) -> &[u8] {
        let from = self.cursor.div_ceil(8).min(self.len);
        &self.data[from..self.len]
    }

    /// Reads a variable of the architecture; 0 if the program doesn't have it.
    pub fn get(&self, reg: Option<Reg>) -> u64 {
        reg.map_or(0, |reg| self.slots[reg.slot as usize])
    }

    /// Sets a variable of the architecture, if the program has it.
    pub fn set(&mut self, reg: Option<Reg>, value: u64) {
        if let Some(reg) = reg {
            self.slots[reg.slot as usize] = value & crate::words::mask64(reg.width);
        }
    }

    /// The words of a value.
    pub fn words(&self, reg: Reg) -> &[u64] {
        &self.slots[reg.slot as usize..(reg.slot + reg.words) as usize]
    }

    /// The words of a value, to be written.
    pub fn words_mut(&mut self, reg: Reg) -> &mut [u64] {
        &mut self.slots[reg.slot as usize..(reg.slot + reg.words) as usize]
    }

    /// Appends values as a program lists them: each with its width, a varbit with its length.
    pub fn push_data(&self, data: &[Reg], bits: &mut BitBuffer) {
        for reg in data {
            match (reg.varbit, self.words(*reg)) {
                (true, [length, words @ ..]) => bits.push_words(*length as u32, words),
                (_, words) => bits.push_words(reg.width, words),
            }
        }
    }

    /// Bytes of all valid headers of the packet.
    pub fn header_bytes(&self, program: &Program) -> usize {
        let headers = program.headers.iter().zip(&self.valid).filter(|(h, valid)| **valid && !h.local);
        let bits = |h: &crate::program::Header| {
            let varbit = h.varbit.map_or(0, |index| self.slots[h.fields[index].reg.slot as usize] as usize);
            h.bits as usize + varbit
        };
        headers.map(|(h, _)| bits(h)).sum::<usize>() / 8
    }

    /// Makes a header invalid; its fields become 0.
    pub fn invalidate(&mut self, program: &Program, header: u32) {
        let (first, count) = program.headers[header as usize].slots;
        self.valid[header as usize] = false;
        self.slots[first as usize..(first + count) as usize].fill(0);
    }

    /// Makes a header valid, and the other members of its union invalid. Fields of a header that was invalid are 0.
    pub fn validate(&mut self, program: &Program, header: u32) {
        self.valid[header as usize] = true;
        for sibling in &program.headers[header as usize].siblings {
            self.invalidate(program, *sibling);
        }
    }
}
