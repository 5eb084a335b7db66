//! Headers: validity, fields, extraction, copies, emission.

use crate::abi::{EmittedHeader, FrameHeader, MAX_HEADER_BYTES, StageContext};
use crate::analysis::frame_slots::FrameSlot;
use crate::analysis::header_adjacency::in_place_bytes;
use crate::analysis::headers::HeaderLocation;
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::code::bytes::ReadableSpan;
use crate::code::registers::{ValueRegs, int_type, split_powers_of_two, trusted_flags};
use crate::code::stage::StageBuilder;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64};
use ir::{Block, Entity, HeaderId, Inst, Type, Value};
use packet::EngineReason;
use std::mem::offset_of;

impl StageBuilder<'_, '_> {
    // ---- validity ----

    /// Returns whether a header is valid.
    pub fn is_valid(&mut self, id: HeaderId) -> cl::Value {
        if self.validity.valid.contains(id.index()) {
            return self.iconst_bool(true);
        }
        if self.validity.invalid.contains(id.index()) {
            return self.iconst_bool(false);
        }
        let word = self.slot_value(FrameSlot::Valid(id.0 / 64));
        let bit = self.shr_imm(word, id.0 % 64);
        let bit = self.mask_to_width(bit, 1);
        self.b.ins().ireduce(I8, bit)
    }

    fn change_valid(&mut self, id: HeaderId, valid: bool) {
        let cell = FrameSlot::Valid(id.0 / 64);
        let word = self.slot_value(cell);
        let bit = 1u64 << (id.0 % 64);
        let changed = if valid {
            let bit = self.iconst_u64(bit);
            self.b.ins().bor(word, bit)
        } else {
            let rest = self.iconst_u64(!bit);
            self.b.ins().band(word, rest)
        };
        self.set_slot(cell, changed);
    }

    /// Sets a header valid, and the other members of its union invalid.
    fn make_valid(&mut self, id: HeaderId) {
        self.change_valid(id, true);
        for sibling in self.c.plan.headers.siblings[id.index()].clone() {
            self.change_valid(sibling, false);
        }
    }

    /// Emits `setInvalid`.
    pub fn set_invalid(&mut self, id: HeaderId) {
        if !self.validity.invalid.contains(id.index()) {
            self.change_valid(id, false);
        }
    }

    /// Emits `setValid`: a header that was invalid gets storage in the frame, all 0; one that is
    /// already valid keeps its contents.
    pub fn set_valid(&mut self, id: HeaderId) {
        if self.validity.valid.contains(id.index()) {
            // Siblings of a valid member are already invalid.
            return;
        }
        let [was_invalid, go_on] = [(); 2].map(|()| self.b.create_block());
        if self.validity.invalid.contains(id.index()) {
            self.b.ins().jump(was_invalid, &[]);
        } else {
            let valid = self.is_valid(id);
            self.b.ins().brif(valid, go_on, &[], was_invalid, &[]);
        }
        self.switch_to_sealed(was_invalid);
        let storage = self.frame_storage(id);
        self.clear_bytes(storage, self.c.plan.headers.max_bytes[id.index()]);
        self.set_header_location(id, storage);
        self.make_valid(id);
        self.b.ins().jump(go_on, &[]);
        self.switch_to_sealed(go_on);
    }

    /// Returns the address of a header's storage in the frame.
    fn frame_storage(&mut self, id: HeaderId) -> cl::Value {
        let at = self.c.layout.header_storage[id.index()].unwrap_or(0);
        self.frame_address(at)
    }

    fn set_header_location(&mut self, id: HeaderId, at: cl::Value) {
        if self.c.plan.headers.locations[id.index()] == HeaderLocation::Dynamic {
            self.set_slot(FrameSlot::HeaderAddr(id), at);
        }
        if self.c.plan.headers.varbit[id.index()].is_some() {
            let zero = self.iconst_u64(0);
            self.set_slot(FrameSlot::VarbitLen(id), zero);
        }
    }

    fn clear_bytes(&mut self, at: cl::Value, bytes: u32) {
        let zero = self.iconst_u64(0);
        for word in 0..bytes.div_ceil(8) {
            self.b.ins().store(trusted_flags(), zero, at, word as i32 * 8);
        }
    }

    /// Returns the address of a valid header.
    pub fn address(&mut self, id: HeaderId) -> cl::Value {
        match self.c.plan.headers.locations[id.index()] {
            HeaderLocation::Dynamic => self.slot_value(FrameSlot::HeaderAddr(id)),
            HeaderLocation::Fixed(at) => {
                let data = self.load_frame_header(offset_of!(FrameHeader, input.data), 8);
                self.b.ins().iadd_imm_s(data, i64::from(at))
            }
            _ => self.frame_storage(id),
        }
    }

    /// Returns the offset in bytes of a valid header at the end of the current node, if it is
    /// constant.
    fn constant_offset(&self, id: HeaderId) -> Option<u64> {
        match self.c.plan.headers.locations[id.index()] {
            HeaderLocation::Fixed(at) => Some(u64::from(at)),
            HeaderLocation::Dynamic => {
                let cell = self.c.plan.slots.index_of(FrameSlot::HeaderAddr(id));
                self.c.plan.constants.before(self.node, cell).filter(|_| !self.is_moved_in_node(id))
            }
            _ => None,
        }
    }

    /// Returns whether an instruction of the current node may move a header.
    fn is_moved_in_node(&self, id: HeaderId) -> bool {
        let NodeKind::Block(control, block) = self.c.plan.flow.nodes[self.node] else { return false };
        self.body_of(control).blocks[block].insts.iter().any(|data| match &data.inst {
            Inst::Extract(other) | Inst::ExtractVarbit(other, _) | Inst::SetValid(other) => *other == id,
            Inst::CopyHeader { dst, .. } => *dst == id,
            _ => false,
        })
    }

    // ---- fields ----

    /// Loads a header's field; 0 if the header is invalid. A field of a header that is known to be
    /// valid stays cached in registers.
    pub fn load_header_field(&mut self, id: HeaderId, index: u32) -> ValueRegs {
        let field = self.c.plan.headers.fields[id.index()][index as usize];
        if self.validity.invalid.contains(id.index()) {
            let zero = self.iconst_u64(0);
            return vec![zero; entries::words_for(field.width)];
        }
        let is_valid_known = self.validity.valid.contains(id.index());
        if let Some(regs) = self.field_regs.get(&(id, index)).filter(|_| is_valid_known) {
            return regs.clone();
        }
        self.emit_pending_stores(id);
        let mut base = self.address(id);
        if !is_valid_known {
            let valid = self.is_valid(id);
            let zeros = self.load_context_ptr(offset_of!(StageContext, zeros));
            base = self.b.ins().select(valid, base, zeros);
        }
        let is_never_written = self.unwritten_headers.contains(&id);
        let regs = self.load_field(
            ReadableSpan { base, bytes: self.c.plan.headers.bytes[id.index()], steady: is_never_written },
            field,
        );
        if is_valid_known {
            self.field_regs.insert((id, index), regs.clone());
        }
        regs
    }

    /// Stores a header's field; no effect if the header is invalid.
    pub fn store_header_field(&mut self, id: HeaderId, index: u32, regs: &[cl::Value]) {
        if self.validity.invalid.contains(id.index()) {
            return;
        }
        let place = self.c.plan.headers.fields[id.index()][index as usize];
        if self.validity.valid.contains(id.index()) {
            self.field_regs.insert((id, index), regs.to_vec());
            return self.defer_store(id, place.bit, place.width, regs);
        }
        let base = self.address(id);
        let valid = self.is_valid(id);
        let sink = self.load_context_ptr(offset_of!(StageContext, sink));
        let base = self.b.ins().select(valid, base, sink);
        self.field_regs.remove(&(id, index));
        self.store_field(base, place, regs);
    }

    /// Copies validity and fields. The copy is made in the frame, and `dst` is then there.
    pub fn copy_header(&mut self, dst: HeaderId, src: HeaderId) {
        if dst == src {
            return;
        }
        let [copy, clear, go_on] = [(); 3].map(|()| self.b.create_block());
        let valid = self.is_valid(src);
        self.b.ins().brif(valid, copy, &[], clear, &[]);
        self.switch_to_sealed(copy);
        let from = self.address(src);
        let to = self.frame_storage(dst);
        for (offset, size) in split_powers_of_two(self.c.plan.headers.bytes[src.index()], 8) {
            let part = self.b.ins().load(int_type(size), trusted_flags(), from, offset as i32);
            self.b.ins().store(trusted_flags(), part, to, offset as i32);
        }
        self.set_header_location(dst, to);
        self.make_valid(dst);
        self.b.ins().jump(go_on, &[]);
        self.switch_to_sealed(clear);
        self.change_valid(dst, false);
        self.b.ins().jump(go_on, &[]);
        self.switch_to_sealed(go_on);
    }

    // ---- parser ----

    /// Sets the parser's error and leaves the parser if `wrong`; continues otherwise.
    pub fn reject_if(&mut self, wrong: cl::Value, error: cl::Value) {
        let [bad, good] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(wrong, bad, &[], good, &[]);
        self.emit_rejection(bad, good, error);
    }

    fn emit_rejection(&mut self, bad: cl::Block, good: cl::Block, error: cl::Value) {
        self.b.set_cold_block(bad);
        self.switch_to_sealed(bad);
        self.record_rejection();
        self.set_slot(FrameSlot::ParserError, error);
        self.leave_body();
        self.switch_to_sealed(good);
    }

    fn error_number(&mut self, name: &str) -> cl::Value {
        let number = self.c.pipeline.errors.iter().position(|error| error == name).unwrap_or(0);
        self.iconst_u64(number as u64)
    }

    /// Rejects a packet that has fewer than `bytes` bytes after the cursor. Returns the cursor
    /// after them.
    fn emit_length_check(&mut self, bytes: cl::Value) -> cl::Value {
        let cursor = self.slot_value(FrameSlot::Cursor);
        let after = self.b.ins().iadd(cursor, bytes);
        if self.c.plan.flow.is_on_hot_path(self.node) {
            // Packets on the hot path are long enough.
            return after;
        }
        let len = self.load_frame_header(offset_of!(FrameHeader, input.len), 4);
        let short = self.b.ins().icmp(IntCC::UnsignedGreaterThan, after, len);
        let error = self.error_number("PacketTooShort");
        self.reject_if(short, error);
        after
    }

    fn at_cursor(&mut self) -> cl::Value {
        let data = self.load_frame_header(offset_of!(FrameHeader, input.data), 8);
        let cursor = self.slot_value(FrameSlot::Cursor);
        self.b.ins().iadd(data, cursor)
    }

    /// Emits `extract` of a header, with the varbit's length in bits if given. Rejects a length
    /// that the field cannot have, and a packet that is too short. The header stays where it is in
    /// the packet.
    pub fn extract(&mut self, id: HeaderId, varbit: Option<cl::Value>) {
        let fixed_bytes = self.c.plan.headers.bytes[id.index()];
        let max_varbit_bits = self.c.plan.headers.varbit[id.index()];
        let mut bytes = self.iconst_u64(u64::from(fixed_bytes));
        let bits = match varbit {
            Some(bits) => {
                let limit = self.iconst_u64(u64::from(max_varbit_bits.unwrap_or(0)));
                let is_too_long = self.b.ins().icmp(IntCC::UnsignedGreaterThan, bits, limit);
                let error = self.error_number("HeaderTooShort");
                self.reject_if(is_too_long, error);
                let partial_byte = self.mask_to_width(bits, 3);
                let error = self.error_number("ParserInvalidArgument");
                self.reject_if(partial_byte, error);
                let varbit_bytes = self.shr_imm(bits, 3);
                bytes = self.b.ins().iadd(bytes, varbit_bytes);
                bits
            }
            None => self.iconst_u64(0),
        };
        let end = self.emit_length_check(bytes);
        if self.c.plan.headers.locations[id.index()] == HeaderLocation::Dynamic {
            let at = self.at_cursor();
            self.set_slot(FrameSlot::HeaderAddr(id), at);
        }
        if max_varbit_bits.is_some() {
            self.set_slot(FrameSlot::VarbitLen(id), bits);
        }
        self.set_slot(FrameSlot::Cursor, end);
        self.make_valid(id);
    }

    /// Emits `advance` by a number of bits.
    pub fn advance(&mut self, bits: cl::Value) {
        let odd = self.mask_to_width(bits, 3);
        let error = self.error_number("ParserInvalidArgument");
        self.reject_if(odd, error);
        let bytes = self.shr_imm(bits, 3);
        let after = self.emit_length_check(bytes);
        self.set_slot(FrameSlot::Cursor, after);
    }

    /// Emits `lookahead`.
    pub fn lookahead(&mut self, ty: Type) -> ValueRegs {
        let bytes = ty.width().div_ceil(8);
        let needed = self.iconst_u64(u64::from(bytes));
        self.emit_length_check(needed);
        let base = self.at_cursor();
        let place = crate::analysis::headers::FieldBits { bit: 0, width: ty.width() };
        let regs = self.load_field(ReadableSpan { base, bytes, steady: false }, place);
        if ty == Type::Bool { vec![self.b.ins().ireduce(I8, regs[0])] } else { regs }
    }

    /// Emits `verify`.
    pub fn verify(&mut self, cond: Value, error: Value) {
        let cond = self.value(cond)[0];
        let error = self.value(error)[0];
        let [bad, good] = [(); 2].map(|()| self.b.create_block());
        let off = self.c.plan.flow.restarts_on_exit_from(self.node);
        self.emit_branch(cond, (good, false), (bad, off));
        self.emit_rejection(bad, good, error);
    }

    /// Counts a state of a parser that may loop.
    pub fn count_state(&mut self, control: usize, block: Block) {
        let Some(limit) = self.c.state_limit else { return };
        let states = self.body_of(control).states.iter().filter(|state| state.block == block).count() as u64;
        if states == 0 {
            return;
        }
        let at = offset_of!(FrameHeader, input.parser_states);
        let before = self.parser_state_count();
        let after = self.b.ins().iadd_imm_s(before, states as i64);
        self.store_frame_header(at, 4, after);
        let limit = self.iconst_u64(limit);
        let over = self.b.ins().icmp(IntCC::UnsignedGreaterThan, after, limit);
        let [bad, good] = [(); 2].map(|()| self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(over, bad, &[], good, &[]);
        self.switch_to_sealed(bad);
        self.emit_engine_drop(EngineReason::ParserTimeout);
        self.switch_to_sealed(good);
    }

    // ---- deparser ----

    /// Starts the deparser without emitted headers.
    pub fn begin_deparser(&mut self, node: FlowNodeId) {
        if Some(node) != self.c.plan.flow.deparser {
            return;
        }
        let zero = self.iconst_u64(0);
        self.b.def_var(self.deparser.count, zero);
        self.b.def_var(self.deparser.front, zero);
        self.b.def_var(self.deparser.next, zero);
        self.b.def_var(self.deparser.gaps, zero);
        self.finish_if_unchanged(node);
    }

    /// Finishes packets that emit exactly the parsed headers; they leave unchanged in their buffer.
    /// The code after it runs for packets with more parsed bytes. Returns false, and emits nothing,
    /// if the headers are not known here.
    pub fn finish_if_unchanged(&mut self, deparser: FlowNodeId) -> bool {
        let plan = self.c.plan;
        let tiles = plan.adjacency.adjacent_bytes(self.c.pipeline, &plan.flow, &plan.headers, &self.validity, deparser);
        let at = |id: HeaderId| self.constant_offset(id);
        let lies = || in_place_bytes(self.c.pipeline, &plan.flow, &plan.headers, &self.validity, at, deparser);
        let Some(bytes) = tiles.or_else(lies) else { return false };
        let [whole, other] = [(); 2].map(|()| self.b.create_block());
        let cursor = self.slot_value(FrameSlot::Cursor);
        let all = self.b.ins().icmp_imm_u(IntCC::Equal, cursor, bytes as i64);
        self.b.ins().brif(all, whole, &[], other, &[]);
        self.switch_to_sealed(whole);
        let lies = self.iconst_bool(true);
        self.store_verdict(Some(lies));
        self.finish();
        self.b.set_cold_block(other);
        self.switch_to_sealed(other);
        true
    }

    /// Stores that the packet starts at `front`, with all its headers in place before the payload.
    pub fn store_output_start(&mut self, front: cl::Value, cursor: cl::Value) {
        let one = self.iconst_u64(1);
        self.store_frame_header(offset_of!(FrameHeader, in_place), 2, one);
        self.store_frame_header(offset_of!(FrameHeader, output_start), 8, front);
        self.store_frame_header(offset_of!(FrameHeader, cursor), 4, cursor);
    }

    /// Emits `emit`: appends the header, if it is valid, to the list of emitted headers in the
    /// frame. The deparser's variables follow the addresses, to find out whether headers and
    /// payload are contiguous.
    pub fn emit_header(&mut self, id: HeaderId) {
        if self.validity.invalid.contains(id.index()) {
            return;
        }
        let [emit, go_on] = [(); 2].map(|()| self.b.create_block());
        let valid = self.is_valid(id);
        self.b.ins().brif(valid, emit, &[], go_on, &[]);
        self.switch_to_sealed(emit);
        let address = self.address(id);
        let mut bytes = self.iconst_u64(u64::from(self.c.plan.headers.bytes[id.index()]));
        if self.c.plan.headers.varbit[id.index()].is_some() {
            let bits = self.slot_value(FrameSlot::VarbitLen(id));
            let varbit_bytes = self.shr_imm(bits, 3);
            bytes = self.b.ins().iadd(bytes, varbit_bytes);
        }
        let count = self.b.use_var(self.deparser.count);
        let offset = self.b.ins().imul_imm_s(count, size_of::<EmittedHeader>() as i64);
        let list_entry = self.b.ins().iadd(self.frame, offset);
        let list = self.c.layout.emitted as i32;
        self.b.ins().store(trusted_flags(), address, list_entry, list + offset_of!(EmittedHeader, at) as i32);
        self.b.ins().store(trusted_flags(), bytes, list_entry, list + offset_of!(EmittedHeader, len) as i32);
        let zero = self.iconst_u64(0);
        let is_first = self.b.ins().icmp(IntCC::Equal, count, zero);
        let front = self.b.use_var(self.deparser.front);
        let front = self.b.ins().select(is_first, address, front);
        self.b.def_var(self.deparser.front, front);
        // Nonzero if a header does not directly follow the previous one.
        let expected = self.b.use_var(self.deparser.next);
        let expected = self.b.ins().select(is_first, address, expected);
        let distance = self.b.ins().bxor(expected, address);
        let gaps = self.b.use_var(self.deparser.gaps);
        let gaps = self.b.ins().bor(gaps, distance);
        self.b.def_var(self.deparser.gaps, gaps);
        let next = self.b.ins().iadd(address, bytes);
        self.b.def_var(self.deparser.next, next);
        let new_count = self.b.ins().iadd_imm_s(count, 1);
        self.b.def_var(self.deparser.count, new_count);
        self.b.ins().jump(go_on, &[]);
        self.switch_to_sealed(go_on);
    }

    /// Stores the emitted headers. Returns a bool: the headers and payload are where they were on
    /// arrival.
    pub fn end_deparser(&mut self) -> cl::Value {
        let data = self.load_frame_header(offset_of!(FrameHeader, input.data), 8);
        let cursor = self.slot_value(FrameSlot::Cursor);
        let payload = self.b.ins().iadd(data, cursor);
        let count = self.b.use_var(self.deparser.count);
        let zero = self.iconst_u64(0);
        let is_empty = self.b.ins().icmp(IntCC::Equal, count, zero);
        let front = self.b.use_var(self.deparser.front);
        let front = self.b.ins().select(is_empty, payload, front);
        let next = self.b.use_var(self.deparser.next);
        let next = self.b.ins().select(is_empty, payload, next);
        let distance = self.b.ins().bxor(next, payload);
        let gaps = self.b.use_var(self.deparser.gaps);
        let gaps = self.b.ins().bor(gaps, distance);
        let in_place = self.b.ins().icmp(IntCC::Equal, gaps, zero);
        let starts_at_data = self.b.ins().icmp(IntCC::Equal, front, data);
        let leaves_as_it_is = self.b.ins().band(in_place, starts_at_data);
        let in_place = self.b.ins().uextend(I64, in_place);
        self.store_frame_header(offset_of!(FrameHeader, in_place), 2, in_place);
        self.store_frame_header(offset_of!(FrameHeader, emitted_count), 2, count);
        self.store_frame_header(offset_of!(FrameHeader, output_start), 8, front);
        self.store_frame_header(offset_of!(FrameHeader, cursor), 4, cursor);
        leaves_as_it_is
    }
}

const _: () = assert!(MAX_HEADER_BYTES >= 8 * 1024);
