//! What lanes read and write: frames, packets, tables' values, and what lies behind the context.

use crate::abi::{Arrival, Head};
use crate::code::told::Mark;
use crate::lanes::bound::low;
use crate::lanes::convert::{Converting, Looked, Val, column};
use crate::lanes::ir::{Id, Op};
use crate::plan::lanes::DATA;
use crate::plan::stages::Start;
use cranelift_codegen::ir as cl;
use ir::{Entity, TableId};

/// So many bytes of any table's value may be read.
const WORD: u32 = 8;

impl Converting<'_> {
    /// Reads so many bytes.
    pub(super) fn read(&mut self, inst: cl::Inst, address: Val, bytes: u32) -> Option<Val> {
        match address {
            Val::Place(at) => self.read_list(at),
            Val::Frame(at) => self.read_frame(u32::try_from(at).ok()?, bytes),
            Val::Packet(at) => {
                let at = u32::try_from(at).ok()?;
                let within = at + bytes <= self.packets.bytes;
                within.then(|| Val::Vector(self.packets.read(&mut self.b, &self.state, at, bytes)))
            }
            // Places behind the context that hold what is the same for all packets of a batch.
            // Eight packets wait for a lookup together even if it could be made in place: their stage's own cost is little.
            Val::Context(at) if self.is_slots(at) => Some(Val::Vector(self.b.constant(0))),
            Val::Context(at) if bytes == 8 && self.is_steady(at) => Some(Val::Pointed(i32::try_from(at).ok()?, 0)),
            Val::Pointed(pointer, at) => {
                let (offset, bytes) = (i32::try_from(at).ok()?, bytes as u8);
                let known = matches!(bytes, 1 | 2 | 4 | 8);
                known.then(|| Val::Vector(self.b.plain(Op::Pointed { pointer, offset, bytes })))
            }
            Val::Value(looked, at) => {
                let mark = self.told.marks.get(&inst);
                let at = u32::try_from(at).ok()?;
                match mark {
                    Some(Mark::Value(_)) if at + bytes <= looked.readable => {
                        Some(Val::Vector(self.read_row(looked, at, bytes)))
                    }
                    _ => {
                        let base = self.vector(address)?;
                        self.read(inst, Val::Vector(base), bytes)
                    }
                }
            }
            Val::Vector(base) => match self.told.marks.get(&inst) {
                Some(Mark::Value(len)) => self.read_value(base, bytes, *len),
                _ if bytes == 4 || bytes == 8 => Some(Val::Vector(self.gather(base, 0, bytes as u8))),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether what lies there behind the context stays as it is while a stage runs, and is an address.
    fn is_steady(&self, at: i64) -> bool {
        let memory = &self.c.memory;
        let tables = self.c.pipeline.tables.len() as i64 * 8;
        let lists = [(memory.defaults, tables), (memory.counters, self.c.pipeline.externs.len() as i64 * 8)];
        lists.iter().any(|(first, bytes)| (i64::from(*first)..i64::from(*first) + bytes).contains(&at))
    }

    /// Whether a table's slots lie there behind the context.
    fn is_slots(&self, at: i64) -> bool {
        let first = i64::from(self.c.memory.slots);
        (first..first + self.c.pipeline.tables.len() as i64 * 8).contains(&at)
    }

    /// The frame of those that wait, or what was looked up for them.
    fn read_list(&mut self, at: i64) -> Option<Val> {
        let memory = &self.c.memory;
        let first = i64::from(memory.queues[self.stage].frames);
        let looked = match at {
            0 => return Some(Val::Frame(0)),
            _ if at == i64::from(memory.results) - first => self.looked_up(),
            _ if at == i64::from(memory.together) - first => self.looked_up_together(),
            _ => None,
        };
        looked.map(Val::Found)
    }

    fn looked_up(&self) -> Option<Looked> {
        match self.start {
            Start::Site(_, table) => Some(self.looked(self.layout.results, table)),
            _ => None,
        }
    }

    fn looked_up_together(&self) -> Option<Looked> {
        let Start::Site(node, _) = self.start else { return None };
        let companion = self.c.plan.flow.together(node)?;
        Some(self.looked(self.layout.together, companion.table))
    }

    fn looked(&self, list: i32, table: TableId) -> Looked {
        let default = self.c.memory.defaults + (table.index() * size_of::<u64>()) as i32;
        Looked { list, default, readable: self.c.shapes[table.index()].value.readable as u32 }
    }

    /// Whether that is all of something that a frame has: of the head, a cell, or a value's word.
    fn is_in_frame(&self, at: u32, bytes: u32) -> bool {
        (at as usize) < size_of::<Head>() || self.frame.get(&at) == Some(&bytes)
    }

    fn read_frame(&mut self, at: u32, bytes: u32) -> Option<Val> {
        if !self.is_in_frame(at, bytes) {
            return None;
        }
        if at == DATA && bytes == 8 {
            return Some(Val::Packet(0));
        }
        if let Some(written) = self.state.frame.get(&at) {
            return Some(Val::Vector(*written));
        }
        let mask = self.b.constant(low(8 * bytes));
        let word = match column(&mut self.b, self.place, at) {
            Some(word) => word,
            // Words of arrivals hold two numbers.
            None => {
                let word = column(&mut self.b, self.place, at & !7).filter(|_| (at as usize) < size_of::<Arrival>())?;
                self.b.shr(word, 8 * (at % 8))
            }
        };
        Some(Val::Vector(self.b.and(word, mask)))
    }

    fn gather(&mut self, base: Id, offset: i32, bytes: u8) -> Id {
        // Constants are added by the instruction.
        let (base, offset) = match *self.b.op(base) {
            Op::Add(inner, more) => match self.b.constant_of(more).and_then(|more| i32::try_from(more as i64).ok()) {
                Some(more) => (inner, offset + more),
                None => (base, offset),
            },
            _ => (base, offset),
        };
        if let Some(read) = self.state.read.get(&(base, offset)).filter(|_| bytes == 8) {
            return *read;
        }
        let read = self.b.plain(Op::Gather { base, offset, bytes, mask: self.mask });
        if bytes == 8 {
            self.state.read.insert((base, offset), read);
        }
        read
    }

    /// Reads bytes that all of the values have that were looked up.
    fn read_row(&mut self, looked: Looked, at: u32, bytes: u32) -> Id {
        let rows = self.b.plain(Op::Rows { pointers: looked.list, offset: 0, bytes: looked.readable as u8 });
        let (word, shift) = (at / WORD, 8 * (at % WORD));
        let lower = self.b.plain(Op::Word(rows, word as u8));
        let mut number = self.b.shr(lower, shift);
        if at % WORD + bytes > WORD {
            let upper = self.b.plain(Op::Word(rows, word as u8 + 1));
            let upper = self.b.shl(upper, 64 - shift);
            number = self.b.or(number, upper);
        }
        let mask = self.b.constant(low(8 * bytes));
        self.b.and(number, mask)
    }

    /// Reads of a table's value that is `len` bytes long, and of which eight may always be read. The address has the offset in it.
    fn read_value(&mut self, address: Id, bytes: u32, len: u32) -> Option<Val> {
        let (base, at) = match *self.b.op(address) {
            Op::Add(inner, more) => match self.b.constant_of(more) {
                Some(more) => (inner, u32::try_from(more).ok()?),
                None => (address, 0),
            },
            _ => (address, 0),
        };
        let end = at + bytes;
        // Words from the first byte on as far as that goes, then words that end with the value, so that several numbers are read at once.
        let start = if end <= WORD {
            0
        } else {
            let last = len.max(end) - WORD;
            let back = last.saturating_sub(at).div_ceil(WORD) * WORD;
            last.checked_sub(back).filter(|start| end <= start + WORD).unwrap_or(end - WORD)
        };
        let word = self.gather(base, start as i32, 8);
        let shifted = self.b.shr(word, 8 * (at - start));
        let mask = self.b.constant(low(8 * bytes));
        Some(Val::Vector(self.b.and(shifted, mask)))
    }

    /// Writes so many bytes.
    pub(super) fn write_to(&mut self, address: Val, value: Id, bytes: u32) -> Option<()> {
        let mask = self.b.constant(low(8 * bytes));
        match address {
            Val::Frame(at) => {
                let at = u32::try_from(at).ok()?;
                let value = self.b.and(value, mask);
                if self.is_in_frame(at, bytes) {
                    self.state.frame.insert(at, value);
                    return Some(());
                }
                None
            }
            Val::Packet(at) => {
                let at = u32::try_from(at).ok()?;
                if at + bytes > self.packets.bytes {
                    return None;
                }
                self.state.write(at, bytes, value);
                Some(())
            }
            _ => None,
        }
    }
}
