//! A packet in flight through the chip.

use super::bits::Bits;
use super::layout::{Layout, Reg};
use interp::Colour;
use ir::{Entity, HeaderId, Pipeline, TableId, VarId};
use packet::Origin;
use std::collections::BTreeMap;
use tables::PackedKey;

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

/// What a program asked the architecture for.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// v1model `clone`: session, and variables to preserve.
    pub clone: Option<(u32, Vec<VarId>)>,
    /// v1model `resubmit`.
    pub resubmit: Option<Vec<VarId>>,
    /// v1model `recirculate`.
    pub recirculate: Option<Vec<VarId>>,
    /// v1model `truncate`, in bytes.
    pub truncate: Option<u32>,
    /// PNA's verdict.
    pub destination: Destination,
    /// PNA `recirculate()`.
    pub pna_recirculate: bool,
    /// PNA mirror sessions by slot.
    pub mirror: [Option<u32>; 4],
    /// `verify_checksum` found a mismatch.
    pub checksum_error: bool,
    /// An `assert` failed.
    pub assert_failed: bool,
}

/// What happened at the last application of a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Applied {
    /// In which pass (index, from 1); 0: not yet.
    pub pass: u32,
    /// The entry that was hit.
    pub hit: Option<u32>,
    /// Colour of its direct meter.
    pub colour: Option<Colour>,
}

/// A packet in flight.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Variables, then values.
    pub slots: Vec<u64>,
    /// Validity of each header. Fields of a header that is not valid are 0.
    pub valid: Vec<bool>,
    /// For each variable, header validity and value: the first stage of this pass that can read it.
    pub clocks: Vec<u16>,
    /// The packet as it came into this pass.
    pub data: Vec<u8>,
    /// How many of its bits are parsed.
    pub cursor: usize,
    /// What the deparser has emitted.
    pub out: Bits,
    /// The deparser emitted more than a packet can hold.
    pub too_long: bool,
    /// Index of the parser's error.
    pub parser_error: u32,
    /// See [`Requests`].
    pub asked: Requests,
    /// For each place at which a table is applied, the action that it led to: its position in the table's list plus 1; 0: nothing yet.
    pub arms: Vec<u16>,
    /// By table.
    pub applied: Vec<Applied>,
    /// The keys that tables were looked up with in vain, for tables that packets add entries to.
    pub missed: BTreeMap<TableId, PackedKey>,
    /// Index of the pass of the chip that it is in.
    pub pass: u32,
    /// The parallel pipe that it is in, once a table has asked for one.
    pub pipe: Option<u32>,
    // What the chip's own metadata carry:
    /// The packet as it was received, as long as it has not left the first pass: what is resubmitted or copied.
    pub original: Option<Vec<u8>>,
    /// Its length in bytes when it entered the parser.
    pub length: usize,
    /// Length in bytes when it came in or was recirculated: what counters and meters use.
    pub ingress_length: u32,
    /// Where it came in.
    pub port: u32,
    /// Bytes of valid headers when the parser was done.
    pub parsed_bytes: usize,
    /// How often the packet was resubmitted, recirculated or cloned before.
    pub rounds: u32,
    /// The copy that it is.
    pub origin: Origin,
    /// v1model: instance_type with which it enters the next block.
    pub instance_type: u32,
    /// Copies are cut to this many bytes; 0: not.
    pub cut: u32,
}

impl Frame {
    /// A frame for packets of a pipeline.
    pub fn new(pipeline: &Pipeline, layout: &Layout, sites: usize) -> Frame {
        Frame {
            slots: vec![0; layout.words],
            valid: vec![false; pipeline.headers.len()],
            clocks: vec![0; layout.clocks],
            arms: vec![0; sites],
            applied: vec![Applied::default(); pipeline.tables.len()],
            ..Frame::default()
        }
    }

    /// A packet enters the parser of the first pass: everything is 0, no header is valid, nothing is asked for.
    pub fn begin(&mut self, bytes: &[u8]) {
        self.data.clear();
        self.data.extend_from_slice(bytes);
        self.original = Some(bytes.to_vec());
        self.length = bytes.len();
        self.forget();
        self.cursor = 0;
        self.too_long = false;
        self.parser_error = 0;
        self.asked = Requests { assert_failed: self.asked.assert_failed, ..Requests::default() };
        self.pass = 0;
        self.pipe = None;
        self.applied.fill(Applied::default());
        self.missed.clear();
    }

    /// Nothing is left of what the program knew.
    pub fn forget(&mut self) {
        self.slots.fill(0);
        self.valid.fill(false);
        self.clocks.fill(0);
        self.arms.fill(0);
    }

    /// The bytes that are not parsed.
    pub fn payload(&self) -> &[u8] {
        &self.data[self.cursor.div_ceil(8).min(self.data.len())..]
    }

    /// Bits that are not parsed.
    pub fn bits_left(&self) -> usize {
        (self.data.len() * 8).saturating_sub(self.cursor)
    }

    /// The words of a place.
    pub fn words(&self, reg: Reg) -> &[u64] {
        &self.slots[reg.range()]
    }

    /// The same, to be written.
    pub fn words_mut(&mut self, reg: Reg) -> &mut [u64] {
        &mut self.slots[reg.range()]
    }

    /// The low word of a variable of the architecture; 0 if the program does not have it.
    pub fn get(&self, reg: Option<Reg>) -> u64 {
        reg.map_or(0, |reg| self.slots[reg.slot as usize])
    }

    /// Sets a variable of the architecture, if the program has it.
    pub fn set(&mut self, reg: Option<Reg>, value: u64) {
        if let Some(reg) = reg {
            let mask = if reg.width() >= 64 { u64::MAX } else { (1 << reg.width()) - 1 };
            self.slots[reg.slot as usize] = value & mask;
        }
    }

    /// Makes a header invalid; its fields become 0.
    pub fn invalidate(&mut self, pipeline: &Pipeline, layout: &Layout, header: HeaderId) {
        self.valid[header.index()] = false;
        for var in &pipeline.headers[header].fields {
            let range = layout.var(*var).range();
            self.slots[range].fill(0);
        }
    }

    /// Makes a header valid, and the other members of its union invalid.
    pub fn validate(&mut self, pipeline: &Pipeline, layout: &Layout, header: HeaderId) {
        self.valid[header.index()] = true;
        let union = pipeline.headers[header].union.and_then(|union| pipeline.unions.get(union));
        for member in union.into_iter().flat_map(|union| &union.members).filter(|member| **member != header) {
            self.invalidate(pipeline, layout, *member);
        }
    }

    /// Bytes of all valid headers of the packet.
    pub fn header_bytes(&self, pipeline: &Pipeline, layout: &Layout) -> usize {
        let valid = pipeline.headers.iter().filter(|(id, header)| self.valid[id.index()] && !header.local);
        let bits = |var: &VarId| {
            let reg = layout.var(*var);
            if reg.varbit() { self.slots[reg.slot as usize] as usize } else { reg.width() as usize }
        };
        valid.flat_map(|(_, header)| &header.fields).map(bits).sum::<usize>() / 8
    }
}
