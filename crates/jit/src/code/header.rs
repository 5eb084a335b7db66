//! Headers: validity, fields, extraction, copies, emission.

use crate::abi::{Context, Emitted, Head, LONGEST_HEADER};
use crate::analysis::cells::Cell;
use crate::analysis::headers::Place;
use crate::analysis::node::{Node, Step};
use crate::analysis::tiling::lies;
use crate::code::bytes::Around;
use crate::code::registers::{Regs, int, pieces, trusted};
use crate::code::stage::StageCode;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64};
use ir::{Block, Entity, HeaderId, Inst, Type, Value};
use packet::EngineReason;
use std::mem::offset_of;

impl StageCode<'_, '_> {
    // ---- validity ----

    /// Whether a header is valid.
    pub fn is_valid(&mut self, id: HeaderId) -> cl::Value {
        if self.known.valid.contains(id.index()) {
            return self.truth(true);
        }
        if self.known.invalid.contains(id.index()) {
            return self.truth(false);
        }
        let word = self.cell(Cell::Valid(id.0 / 64));
        let bit = self.right(word, id.0 % 64);
        let bit = self.cut(bit, 1);
        self.b.ins().ireduce(I8, bit)
    }

    fn change_valid(&mut self, id: HeaderId, valid: bool) {
        let cell = Cell::Valid(id.0 / 64);
        let word = self.cell(cell);
        let bit = 1u64 << (id.0 % 64);
        let changed = if valid {
            let bit = self.number(bit);
            self.b.ins().bor(word, bit)
        } else {
            let rest = self.number(!bit);
            self.b.ins().band(word, rest)
        };
        self.set_cell(cell, changed);
    }

    /// Makes a header valid, and the other members of its union invalid.
    fn make_valid(&mut self, id: HeaderId) {
        self.change_valid(id, true);
        for sibling in self.c.plan.headers.siblings[id.index()].clone() {
            self.change_valid(sibling, false);
        }
    }

    /// `setInvalid`.
    pub fn set_invalid(&mut self, id: HeaderId) {
        if !self.known.invalid.contains(id.index()) {
            self.change_valid(id, false);
        }
    }

    /// `setValid`: a header that was invalid gets room in the frame, all 0.
    pub fn set_valid(&mut self, id: HeaderId) {
        if self.known.valid.contains(id.index()) {
            // Siblings of a valid member are invalid already.
            return;
        }
        let [fresh, go_on] = [(); 2].map(|()| self.b.create_block());
        if self.known.invalid.contains(id.index()) {
            self.b.ins().jump(fresh, &[]);
        } else {
            let valid = self.is_valid(id);
            self.b.ins().brif(valid, go_on, &[], fresh, &[]);
        }
        self.enter(fresh);
        let room = self.room(id);
        self.clear_bytes(room, self.c.plan.headers.most[id.index()]);
        self.place_header(id, room);
        self.make_valid(id);
        self.b.ins().jump(go_on, &[]);
        self.enter(go_on);
    }

    /// Where the frame has room for a header.
    fn room(&mut self, id: HeaderId) -> cl::Value {
        let at = self.c.layout.rooms[id.index()].unwrap_or(0);
        self.in_frame(at)
    }

    fn place_header(&mut self, id: HeaderId, at: cl::Value) {
        if self.c.plan.headers.places[id.index()] == Place::Moves {
            self.set_cell(Cell::HeaderAt(id), at);
        }
        if self.c.plan.headers.varbit[id.index()].is_some() {
            let zero = self.number(0);
            self.set_cell(Cell::VarbitLen(id), zero);
        }
    }

    fn clear_bytes(&mut self, at: cl::Value, bytes: u32) {
        let zero = self.number(0);
        for word in 0..bytes.div_ceil(8) {
            self.b.ins().store(trusted(), zero, at, word as i32 * 8);
        }
    }

    /// The address of a header that is valid.
    pub fn address(&mut self, id: HeaderId) -> cl::Value {
        match self.c.plan.headers.places[id.index()] {
            Place::Moves => self.cell(Cell::HeaderAt(id)),
            Place::Fixed(at) => {
                let data = self.head(offset_of!(Head, arrival.data), 8);
                self.b.ins().iadd_imm_s(data, i64::from(at))
            }
            _ => self.room(id),
        }
    }

    /// How many bytes behind the packet's first a header that is valid lies at the end of the present node, if that is certain.
    fn place_now(&self, id: HeaderId) -> Option<u64> {
        match self.c.plan.headers.places[id.index()] {
            Place::Fixed(at) => Some(u64::from(at)),
            Place::Moves => {
                let cell = self.c.plan.cells.of(Cell::HeaderAt(id));
                self.c.plan.constants.before(self.node, cell).filter(|_| !self.moves_here(id))
            }
            _ => None,
        }
    }

    /// Whether an instruction of the present node may move a header.
    fn moves_here(&self, id: HeaderId) -> bool {
        let Step::Block(control, block) = self.c.plan.flow.nodes[self.node] else { return false };
        self.body_of(control).blocks[block].insts.iter().any(|data| match &data.inst {
            Inst::Extract(other) | Inst::ExtractVarbit(other, _) | Inst::SetValid(other) => *other == id,
            Inst::CopyHeader { dst, .. } => *dst == id,
            _ => false,
        })
    }

    // ---- fields ----

    /// Reads a header's field; 0 if the header is not valid.
    pub fn field(&mut self, id: HeaderId, index: u32) -> Regs {
        let place = self.c.plan.headers.fields[id.index()][index as usize];
        if self.known.invalid.contains(id.index()) {
            let zero = self.number(0);
            return vec![zero; entries::words_for(place.width)];
        }
        let known = self.known.valid.contains(id.index());
        if let Some(regs) = self.held.get(&(id, index)).filter(|_| known) {
            return regs.clone();
        }
        self.write_waiting(id);
        let mut base = self.address(id);
        if !known {
            let valid = self.is_valid(id);
            let zeros = self.of_context(offset_of!(Context, zeros));
            base = self.b.ins().select(valid, base, zeros);
        }
        let steady = self.untouched.contains(&id);
        let regs = self.load_field(Around { base, bytes: self.c.plan.headers.bytes[id.index()], steady }, place);
        if known {
            self.held.insert((id, index), regs.clone());
        }
        regs
    }

    /// Writes a header's field; without effect if the header is not valid.
    pub fn set_field(&mut self, id: HeaderId, index: u32, regs: &[cl::Value]) {
        if self.known.invalid.contains(id.index()) {
            return;
        }
        let place = self.c.plan.headers.fields[id.index()][index as usize];
        if self.known.valid.contains(id.index()) {
            self.held.insert((id, index), regs.to_vec());
            return self.wait(id, place.bit, place.width, regs);
        }
        let base = self.address(id);
        let valid = self.is_valid(id);
        let sink = self.of_context(offset_of!(Context, sink));
        let base = self.b.ins().select(valid, base, sink);
        self.held.remove(&(id, index));
        self.store_field(base, place, regs);
    }

    /// Copies validity and fields.
    pub fn copy_header(&mut self, dst: HeaderId, src: HeaderId) {
        if dst == src {
            return;
        }
        let [copy, clear, go_on] = [(); 3].map(|()| self.b.create_block());
        let valid = self.is_valid(src);
        self.b.ins().brif(valid, copy, &[], clear, &[]);
        self.enter(copy);
        let from = self.address(src);
        let to = self.room(dst);
        for (at, size) in pieces(self.c.plan.headers.bytes[src.index()], 8) {
            let part = self.b.ins().load(int(size), trusted(), from, at as i32);
            self.b.ins().store(trusted(), part, to, at as i32);
        }
        self.place_header(dst, to);
        self.make_valid(dst);
        self.b.ins().jump(go_on, &[]);
        self.enter(clear);
        self.change_valid(dst, false);
        self.b.ins().jump(go_on, &[]);
        self.enter(go_on);
    }

    // ---- parser ----

    /// Sets the parser's error and leaves the parser, if `wrong`; goes on otherwise.
    pub fn reject_if(&mut self, wrong: cl::Value, error: cl::Value) {
        let [bad, good] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(wrong, bad, &[], good, &[]);
        self.reject_or(bad, good, error);
    }

    fn reject_or(&mut self, bad: cl::Block, good: cl::Block, error: cl::Value) {
        self.b.set_cold_block(bad);
        self.enter(bad);
        self.rejected();
        self.set_cell(Cell::ParserError, error);
        self.leave_body();
        self.enter(good);
    }

    fn error(&mut self, name: &str) -> cl::Value {
        let number = self.c.pipeline.errors.iter().position(|error| error == name).unwrap_or(0);
        self.number(number as u64)
    }

    /// Rejects unless so many bytes from the cursor on are in the packet. Gives the cursor behind them.
    fn need(&mut self, bytes: cl::Value) -> cl::Value {
        let cursor = self.cell(Cell::Cursor);
        let after = self.b.ins().iadd(cursor, bytes);
        if self.c.plan.flow.on_trace(self.node) {
            // Packets are long enough that begin the trace.
            return after;
        }
        let len = self.head(offset_of!(Head, arrival.len), 4);
        let short = self.b.ins().icmp(IntCC::UnsignedGreaterThan, after, len);
        let error = self.error("PacketTooShort");
        self.reject_if(short, error);
        after
    }

    fn at_cursor(&mut self) -> cl::Value {
        let data = self.head(offset_of!(Head, arrival.data), 8);
        let cursor = self.cell(Cell::Cursor);
        self.b.ins().iadd(data, cursor)
    }

    /// `extract` of a header; with the varbit's length in bits if that is given.
    pub fn extract(&mut self, id: HeaderId, varbit: Option<cl::Value>) {
        let fixed = self.c.plan.headers.bytes[id.index()];
        let most = self.c.plan.headers.varbit[id.index()];
        let mut bytes = self.number(u64::from(fixed));
        let bits = match varbit {
            Some(bits) => {
                let limit = self.number(u64::from(most.unwrap_or(0)));
                let long = self.b.ins().icmp(IntCC::UnsignedGreaterThan, bits, limit);
                let error = self.error("HeaderTooShort");
                self.reject_if(long, error);
                let odd = self.cut(bits, 3);
                let error = self.error("ParserInvalidArgument");
                self.reject_if(odd, error);
                let more = self.right(bits, 3);
                bytes = self.b.ins().iadd(bytes, more);
                bits
            }
            None => self.number(0),
        };
        let after = self.need(bytes);
        if self.c.plan.headers.places[id.index()] == Place::Moves {
            let at = self.at_cursor();
            self.set_cell(Cell::HeaderAt(id), at);
        }
        if most.is_some() {
            self.set_cell(Cell::VarbitLen(id), bits);
        }
        self.set_cell(Cell::Cursor, after);
        self.make_valid(id);
    }

    /// `advance` by a number of bits.
    pub fn advance(&mut self, bits: cl::Value) {
        let odd = self.cut(bits, 3);
        let error = self.error("ParserInvalidArgument");
        self.reject_if(odd, error);
        let bytes = self.right(bits, 3);
        let after = self.need(bytes);
        self.set_cell(Cell::Cursor, after);
    }

    /// `lookahead`.
    pub fn lookahead(&mut self, ty: Type) -> Regs {
        let bytes = ty.width().div_ceil(8);
        let needed = self.number(u64::from(bytes));
        self.need(needed);
        let base = self.at_cursor();
        let place = crate::analysis::headers::FieldPlace { bit: 0, width: ty.width() };
        let regs = self.load_field(Around { base, bytes, steady: false }, place);
        if ty == Type::Bool { vec![self.b.ins().ireduce(I8, regs[0])] } else { regs }
    }

    /// `verify`.
    pub fn verify(&mut self, cond: Value, error: Value) {
        let cond = self.value(cond)[0];
        let error = self.value(error)[0];
        let [bad, good] = [(); 2].map(|()| self.b.create_block());
        let off = self.c.plan.flow.turned_back(self.node);
        self.branch(cond, (good, false), (bad, off));
        self.reject_or(bad, good, error);
    }

    /// A parser that may loop counts its states.
    pub fn count_state(&mut self, control: usize, block: Block) {
        let Some(limit) = self.c.state_limit else { return };
        let states = self.body_of(control).states.iter().filter(|state| state.block == block).count() as u64;
        if states == 0 {
            return;
        }
        let at = offset_of!(Head, arrival.states);
        let before = self.states();
        let after = self.b.ins().iadd_imm_s(before, states as i64);
        self.set_head(at, 4, after);
        let limit = self.number(limit);
        let over = self.b.ins().icmp(IntCC::UnsignedGreaterThan, after, limit);
        let [bad, good] = [(); 2].map(|()| self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(over, bad, &[], good, &[]);
        self.enter(bad);
        self.give_up(EngineReason::ParserTimeout);
        self.enter(good);
    }

    // ---- deparser ----

    /// Nothing is emitted yet.
    pub fn begin_deparser(&mut self, node: Node) {
        if Some(node) != self.c.plan.flow.deparser {
            return;
        }
        let zero = self.number(0);
        self.b.def_var(self.emit.count, zero);
        self.b.def_var(self.emit.front, zero);
        self.b.def_var(self.emit.next, zero);
        self.b.def_var(self.emit.gaps, zero);
        self.leave_if_whole(node);
    }

    /// If the headers that the deparser emits are known here and are those that the parser took, the packet leaves as it lies there. What
    /// follows is for packets of which the parser took more. Whether that is known.
    pub fn leave_if_whole(&mut self, deparser: Node) -> bool {
        let plan = self.c.plan;
        let tiles = plan.order.tiles(self.c.pipeline, &plan.flow, &plan.headers, &self.known, deparser);
        let at = |id: HeaderId| self.place_now(id);
        let lies = || lies(self.c.pipeline, &plan.flow, &plan.headers, &self.known, at, deparser);
        let Some(bytes) = tiles.or_else(lies) else { return false };
        let [whole, other] = [(); 2].map(|()| self.b.create_block());
        let cursor = self.cell(Cell::Cursor);
        let all = self.b.ins().icmp_imm_u(IntCC::Equal, cursor, bytes as i64);
        self.b.ins().brif(all, whole, &[], other, &[]);
        self.enter(whole);
        let lies = self.truth(true);
        self.tell_verdict(Some(lies));
        self.finish();
        self.b.set_cold_block(other);
        self.enter(other);
        true
    }

    /// Tells the engine that the packet begins at `front`, with all its headers in front of the payload.
    pub fn leave_in_place(&mut self, front: cl::Value, cursor: cl::Value) {
        let one = self.number(1);
        self.set_head(offset_of!(Head, in_place), 2, one);
        self.set_head(offset_of!(Head, front), 8, front);
        self.set_head(offset_of!(Head, cursor), 4, cursor);
    }

    /// `emit`.
    pub fn emit(&mut self, id: HeaderId) {
        if self.known.invalid.contains(id.index()) {
            return;
        }
        let [emit, go_on] = [(); 2].map(|()| self.b.create_block());
        let valid = self.is_valid(id);
        self.b.ins().brif(valid, emit, &[], go_on, &[]);
        self.enter(emit);
        let at = self.address(id);
        let mut bytes = self.number(u64::from(self.c.plan.headers.bytes[id.index()]));
        if self.c.plan.headers.varbit[id.index()].is_some() {
            let bits = self.cell(Cell::VarbitLen(id));
            let more = self.right(bits, 3);
            bytes = self.b.ins().iadd(bytes, more);
        }
        let count = self.b.use_var(self.emit.count);
        let offset = self.b.ins().imul_imm_s(count, size_of::<Emitted>() as i64);
        let place = self.b.ins().iadd(self.frame, offset);
        let list = self.c.layout.emitted as i32;
        self.b.ins().store(trusted(), at, place, list + offset_of!(Emitted, at) as i32);
        self.b.ins().store(trusted(), bytes, place, list + offset_of!(Emitted, len) as i32);
        let zero = self.number(0);
        let first = self.b.ins().icmp(IntCC::Equal, count, zero);
        let front = self.b.use_var(self.emit.front);
        let front = self.b.ins().select(first, at, front);
        self.b.def_var(self.emit.front, front);
        // Anything but 0 where a header does not stand right behind the one before.
        let expected = self.b.use_var(self.emit.next);
        let expected = self.b.ins().select(first, at, expected);
        let distance = self.b.ins().bxor(expected, at);
        let gaps = self.b.use_var(self.emit.gaps);
        let gaps = self.b.ins().bor(gaps, distance);
        self.b.def_var(self.emit.gaps, gaps);
        let next = self.b.ins().iadd(at, bytes);
        self.b.def_var(self.emit.next, next);
        let more = self.b.ins().iadd_imm_s(count, 1);
        self.b.def_var(self.emit.count, more);
        self.b.ins().jump(go_on, &[]);
        self.enter(go_on);
    }

    /// Tells the engine what was emitted. A bool: whether that is in front of the payload as it was when the packet came.
    pub fn end_deparser(&mut self) -> cl::Value {
        let data = self.head(offset_of!(Head, arrival.data), 8);
        let cursor = self.cell(Cell::Cursor);
        let payload = self.b.ins().iadd(data, cursor);
        let count = self.b.use_var(self.emit.count);
        let zero = self.number(0);
        let none = self.b.ins().icmp(IntCC::Equal, count, zero);
        let front = self.b.use_var(self.emit.front);
        let front = self.b.ins().select(none, payload, front);
        let next = self.b.use_var(self.emit.next);
        let next = self.b.ins().select(none, payload, next);
        let distance = self.b.ins().bxor(next, payload);
        let gaps = self.b.use_var(self.emit.gaps);
        let gaps = self.b.ins().bor(gaps, distance);
        let in_place = self.b.ins().icmp(IntCC::Equal, gaps, zero);
        let begins = self.b.ins().icmp(IntCC::Equal, front, data);
        let lies = self.b.ins().band(in_place, begins);
        let in_place = self.b.ins().uextend(I64, in_place);
        self.set_head(offset_of!(Head, in_place), 2, in_place);
        self.set_head(offset_of!(Head, emitted), 2, count);
        self.set_head(offset_of!(Head, front), 8, front);
        self.set_head(offset_of!(Head, cursor), 4, cursor);
        lies
    }
}

const _: () = assert!(LONGEST_HEADER >= 8 * 1024);
