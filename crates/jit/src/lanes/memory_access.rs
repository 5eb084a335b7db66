//! Memory accesses of vector code: frames, packets, table values, and the worker's memory.

use crate::abi::{FrameHeader, FrameInput};
use crate::code::annotations::InstRole;
use crate::lanes::bound::low_bits;
use crate::lanes::convert::{LaneValue, LookupResults, Vectorizer, carried_word};
use crate::lanes::ir::{OpId, VectorOp};
use crate::plan::stages::StageEntry;
use crate::plan::vector_layout::DATA_OFFSET;
use cranelift_codegen::ir as cl;
use ir::{Entity, TableId};

/// Number of bytes that can be read of any table's value.
const WORD: u32 = 8;

impl Vectorizer<'_> {
    /// Converts a load of `bytes` bytes. Returns `None` if vector code cannot do it, for instance
    /// for an address beyond the bytes that every packet has.
    pub(super) fn convert_load(&mut self, inst: cl::Inst, address: LaneValue, bytes: u32) -> Option<LaneValue> {
        match address {
            LaneValue::Place(offset) => self.convert_queue_load(offset),
            LaneValue::Frame(offset) => self.convert_frame_load(u32::try_from(offset).ok()?, bytes),
            LaneValue::Packet(offset) => {
                let offset = u32::try_from(offset).ok()?;
                let is_readable = offset + bytes <= self.packets.bytes;
                is_readable.then(|| LaneValue::Vector(self.packets.read_bytes(&mut self.b, &self.state, offset, bytes)))
            }
            // Words of the worker's memory that are equal for all packets of a batch. The slots of
            // a table read as 0, because eight packets are always queued for a batched lookup: its
            // cost per packet is small.
            LaneValue::Context(offset) if self.is_slots_address(offset) => Some(LaneValue::Vector(self.b.constant(0))),
            LaneValue::Context(offset) if bytes == 8 && self.is_batch_constant_address(offset) => {
                Some(LaneValue::Pointed(i32::try_from(offset).ok()?, 0))
            }
            LaneValue::Pointed(pointer, distance) => {
                let (offset, bytes) = (i32::try_from(distance).ok()?, bytes as u8);
                let is_supported = matches!(bytes, 1 | 2 | 4 | 8);
                is_supported.then(|| LaneValue::Vector(self.b.add_pure(VectorOp::Pointed { pointer, offset, bytes })))
            }
            LaneValue::Value(lookup, offset) => {
                let role = self.annotations.roles.get(&inst);
                let offset = u32::try_from(offset).ok()?;
                match role {
                    Some(InstRole::Value(_)) if offset + bytes <= lookup.readable => {
                        Some(LaneValue::Vector(self.load_from_rows(lookup, offset, bytes)))
                    }
                    _ => {
                        let base = self.vector_of(address)?;
                        self.convert_load(inst, LaneValue::Vector(base), bytes)
                    }
                }
            }
            LaneValue::Vector(base) => match self.annotations.roles.get(&inst) {
                Some(InstRole::Value(len)) => self.load_from_value(base, bytes, *len),
                _ if bytes == 4 || bytes == 8 => Some(LaneValue::Vector(self.emit_gather(base, 0, bytes as u8))),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns whether the word at an offset from the context is an address that does not change
    /// while a stage runs.
    fn is_batch_constant_address(&self, at: i64) -> bool {
        let memory = &self.c.memory;
        let tables = self.c.pipeline.tables.len() as i64 * 8;
        let lists = [(memory.defaults, tables), (memory.counters, self.c.pipeline.externs.len() as i64 * 8)];
        lists.iter().any(|(first, bytes)| (i64::from(*first)..i64::from(*first) + bytes).contains(&at))
    }

    /// Returns whether the word at an offset from the context is the address of a table's slots.
    fn is_slots_address(&self, at: i64) -> bool {
        let first = i64::from(self.c.memory.slots);
        (first..first + self.c.pipeline.tables.len() as i64 * 8).contains(&at)
    }

    /// Loads a frame address from the queue, or its lookup result.
    fn convert_queue_load(&mut self, at: i64) -> Option<LaneValue> {
        let memory = &self.c.memory;
        let first = i64::from(memory.queues[self.stage].frames);
        let looked = match at {
            0 => return Some(LaneValue::Frame(0)),
            _ if at == i64::from(memory.results) - first => self.stage_results(),
            _ if at == i64::from(memory.paired_results) - first => self.paired_results(),
            _ => None,
        };
        looked.map(LaneValue::Found)
    }

    fn stage_results(&self) -> Option<LookupResults> {
        match self.start {
            StageEntry::Table(_, table) => Some(self.lookup_results(self.layout.results, table)),
            _ => None,
        }
    }

    fn paired_results(&self) -> Option<LookupResults> {
        let StageEntry::Table(node, _) = self.start else { return None };
        let companion = self.c.plan.flow.paired_lookup(node)?;
        Some(self.lookup_results(self.layout.paired_results, companion.table))
    }

    fn lookup_results(&self, list: i32, table: TableId) -> LookupResults {
        let default = self.c.memory.defaults + (table.index() * size_of::<u64>()) as i32;
        LookupResults { list, default, readable: self.c.table_layouts[table.index()].value.readable_bytes as u32 }
    }

    /// Returns whether an access covers a whole frame field: of the header, a slot, or a value's
    /// word.
    fn is_in_frame(&self, at: u32, bytes: u32) -> bool {
        (at as usize) < size_of::<FrameHeader>() || self.frame.get(&at) == Some(&bytes)
    }

    /// Converts a load from the frame: a value that this code has stored there, or that the packet
    /// carries. The offset of the packet's pointer stands for the packet itself.
    fn convert_frame_load(&mut self, offset: u32, bytes: u32) -> Option<LaneValue> {
        if !self.is_in_frame(offset, bytes) {
            return None;
        }
        if offset == DATA_OFFSET && bytes == 8 {
            return Some(LaneValue::Packet(0));
        }
        if let Some(written) = self.state.frame.get(&offset) {
            return Some(LaneValue::Vector(*written));
        }
        let mask = self.b.constant(low_bits(8 * bytes));
        let word = match carried_word(&mut self.b, self.place, offset) {
            Some(word) => word,
            // Words of the input hold two numbers.
            None => {
                let word = carried_word(&mut self.b, self.place, offset & !7)
                    .filter(|_| (offset as usize) < size_of::<FrameInput>())?;
                self.b.shr(word, 8 * (offset % 8))
            }
        };
        Some(LaneValue::Vector(self.b.and(word, mask)))
    }

    /// Loads 4 or 8 bytes at `offset` from each lane's address. A load of 8 bytes that this code
    /// has already done is reused, because gathers are slow.
    fn emit_gather(&mut self, base: OpId, offset: i32, bytes: u8) -> OpId {
        // The instruction adds a constant offset.
        let (base, offset) = match *self.b.op(base) {
            VectorOp::Add(inner, addend) => {
                match self.b.constant_of(addend).and_then(|addend| i32::try_from(addend as i64).ok()) {
                    Some(addend) => (inner, offset + addend),
                    None => (base, offset),
                }
            }
            _ => (base, offset),
        };
        if let Some(read) = self.state.read.get(&(base, offset)).filter(|_| bytes == 8) {
            return *read;
        }
        let read = self.b.add_pure(VectorOp::Gather { base, offset, bytes, mask: self.mask });
        if bytes == 8 {
            self.state.read.insert((base, offset), read);
        }
        read
    }

    /// Loads bytes that all values of the lookup have.
    fn load_from_rows(&mut self, looked: LookupResults, at: u32, bytes: u32) -> OpId {
        let rows = self.b.add_pure(VectorOp::Rows { pointers: looked.list, offset: 0, bytes: looked.readable as u8 });
        let (word, shift) = (at / WORD, 8 * (at % WORD));
        let lower = self.b.add_pure(VectorOp::Word(rows, word as u8));
        let mut number = self.b.shr(lower, shift);
        if at % WORD + bytes > WORD {
            let upper = self.b.add_pure(VectorOp::Word(rows, word as u8 + 1));
            let upper = self.b.shl(upper, 64 - shift);
            number = self.b.or(number, upper);
        }
        let mask = self.b.constant(low_bits(8 * bytes));
        self.b.and(number, mask)
    }

    /// Loads from a table's value of `len` bytes, of which eight can always be read. The address
    /// includes the offset. Returns `None` if the offset is no small number.
    fn load_from_value(&mut self, address: OpId, bytes: u32, len: u32) -> Option<LaneValue> {
        let (base, offset) = match *self.b.op(address) {
            VectorOp::Add(inner, addend) => match self.b.constant_of(addend) {
                Some(addend) => (inner, u32::try_from(addend).ok()?),
                None => (address, 0),
            },
            _ => (address, 0),
        };
        let end = offset + bytes;
        // Aligns word loads to the start of the value, or near its end to that, so that several
        // numbers share a load.
        let start = if end <= WORD {
            0
        } else {
            let last_word = len.max(end) - WORD;
            let distance = last_word.saturating_sub(offset).div_ceil(WORD) * WORD;
            last_word.checked_sub(distance).filter(|start| end <= start + WORD).unwrap_or(end - WORD)
        };
        let word = self.emit_gather(base, start as i32, 8);
        let shifted = self.b.shr(word, 8 * (offset - start));
        let mask = self.b.constant(low_bits(8 * bytes));
        Some(LaneValue::Vector(self.b.and(shifted, mask)))
    }

    /// Converts a store of `bytes` bytes to the frame or the packet, which is kept as state until
    /// the stage's end. Returns `None` for any other address.
    pub(super) fn convert_store(&mut self, address: LaneValue, value: OpId, bytes: u32) -> Option<()> {
        let mask = self.b.constant(low_bits(8 * bytes));
        match address {
            LaneValue::Frame(offset) => {
                let offset = u32::try_from(offset).ok()?;
                let value = self.b.and(value, mask);
                if self.is_in_frame(offset, bytes) {
                    self.state.frame.insert(offset, value);
                    return Some(());
                }
                None
            }
            LaneValue::Packet(offset) => {
                let offset = u32::try_from(offset).ok()?;
                if offset + bytes > self.packets.bytes {
                    return None;
                }
                self.state.write_bytes(offset, bytes, value);
                Some(())
            }
            _ => None,
        }
    }
}
