//! Extern calls: frequent ones inline, all others by the interpreter's code.

use crate::abi::{FrameHeader, MIN_DEFERRED_COUNTERS, PendingCount, StageContext, destination};
use crate::analysis::frame_slots::FrameSlot;
use crate::code::annotations::InstRole;
use crate::code::registers::{ValueRegs, trusted_flags};
use crate::code::stage::StageBuilder;
use crate::counters::CounterRange;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use ir::{Entity, ExternArg, ExternFn, ExternId, Inst, TableId, Type, Value};
use packet::EngineReason;
use std::mem::offset_of;

impl StageBuilder<'_, '_> {
    /// Emits an extern call. Returns false if the packet ends here.
    pub fn extern_call(&mut self, inst: &Inst, results: &[Value]) -> bool {
        use ExternFn::*;
        let Inst::Extern { object, func, args } = inst else { return true };
        self.record_extern_call(*func, args);
        match func {
            CounterCount if object.is_some_and(|id| self.c.counters[id.index()].is_some()) => {
                self.count_indexed(*object, args);
            }
            DropPacket => {
                // The low half of a destination says its kind (`abi::destination`), the high half
                // the port.
                let drop = self.iconst_u64(1);
                self.set_slot(FrameSlot::Destination, drop);
            }
            SendToPort => {
                let port = self.low_register(scalar_arg(args, 0));
                let port = self.mask_to_width(port, 32);
                let port = self.shl_imm(port, 32);
                let sent = self.b.ins().bor_imm_u(port, 2);
                self.set_slot(FrameSlot::Destination, sent);
            }
            PnaRecirculate => {
                let before = self.slot_value(FrameSlot::Destination);
                let dropped = self.b.ins().icmp_imm_u(IntCC::Equal, before, i64::from(destination::DROP));
                let dropped = self.b.ins().uextend(I64, dropped);
                let again = self.b.ins().bor_imm_u(dropped, i64::from(destination::RECIRCULATE));
                self.set_slot(FrameSlot::Destination, again);
            }
            MarkToDrop => {
                // Port 511 is v1model's drop port.
                for (name, value) in [("egress_spec", 511), ("mcast_grp", 0)] {
                    self.set_standard(name, value);
                }
            }
            LogMsg => {}
            Assert | Assume => {
                let holds = self.value(scalar_arg(args, 0))[0];
                let [bad, good] = [(); 2].map(|()| self.b.create_block());
                self.b.ins().brif(holds, good, &[], bad, &[]);
                self.switch_to_sealed(bad);
                self.record_rejection();
                self.emit_engine_drop(EngineReason::AssertFailed);
                self.switch_to_sealed(good);
            }
            Truncate => {
                // 0 means that the packet is not truncated.
                let length = self.low_register(scalar_arg(args, 0));
                let length = self.b.ins().iadd_imm_s(length, 1);
                self.set_slot(FrameSlot::Truncate, length);
            }
            InternetChecksumClear
            | InternetChecksumAdd
            | InternetChecksumSubtract
            | InternetChecksumGet
            | InternetChecksumGetState
            | InternetChecksumSetState => self.internet_checksum(*object, *func, args, results),
            HashGet
            | Hash
            | Checksum16Get
            | VerifyChecksum
            | UpdateChecksum
            | VerifyChecksumWithPayload
            | UpdateChecksumWithPayload => self.hash_call(*object, *func, args, results),
            // v1model counts where the entry is hit.
            AddEntry => self.add_entry(inst, results),
            DirectCounterCount if self.c.pipeline.arch == ir::Arch::V1Model => {}
            _ => self.slow_call(inst, results),
        }
        true
    }

    fn set_standard(&mut self, name: &str, value: u64) {
        if let Some(var) = self.c.pipeline.intrinsics.get(&format!("standard_metadata.{name}")) {
            let width = self.c.pipeline.vars[*var].ty.width();
            let value = self.iconst_u64(value & crate::code::registers::low_bits_mask(width));
            self.set_variable(*var, &[value]);
        }
    }

    // ---- counters ----

    /// Emits the increment of an indexed counter with a range of its own in the worker's counters.
    /// An index outside of the object counts nothing.
    fn count_indexed(&mut self, object: Option<ExternId>, args: &[ExternArg]) {
        let Some(object) = object else { return };
        let Some(CounterRange { size, step, .. }) = self.c.counters[object.index()] else { return };
        let bytes = match args.get(1) {
            Some(ExternArg::Value(value)) => self.low_register(*value),
            _ => self.load_frame_header(offset_of!(FrameHeader, input.metered_len), 4),
        };
        let index = self.index_argument(args);
        let limit = self.iconst_u64(size);
        let is_within = self.b.ins().icmp(IntCC::UnsignedLessThan, index, limit);
        let [count, go_on] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(is_within, count, &[], go_on, &[]);
        self.switch_to_sealed(count);
        let array_offset = self.c.memory.counters + object.index() as i32 * 8;
        let array = self.b.ins().load(I64, trusted_flags(), self.context, array_offset);
        // The number of interleaved objects is a power of two.
        let offset = self.shl_imm(index, (step * size_of::<[u64; 2]>()).trailing_zeros());
        let counter = self.b.ins().iadd(array, offset);
        self.emit_counter_update(counter, bytes, size);
        self.b.ins().jump(go_on, &[]);
        self.switch_to_sealed(go_on);
    }

    /// Returns the first argument as an index; all ones if it does not fit in 64 bits.
    pub(super) fn index_argument(&mut self, args: &[ExternArg]) -> cl::Value {
        let index = self.value(scalar_arg(args, 0));
        if index.len() == 1 {
            return index[0];
        }
        let high = index[1..].iter().copied().reduce(|x, y| self.b.ins().bor(x, y)).unwrap_or(index[0]);
        let most = self.iconst_u64(u64::MAX);
        self.b.ins().select(high, most, index[0])
    }

    /// Emits the addition of one packet and its bytes to a counter. A counter of a large object
    /// (`size` counters) probably misses the cache, so its update goes to the list of pending
    /// counts, which the worker applies after prefetching.
    fn emit_counter_update(&mut self, counter: cl::Value, bytes: cl::Value, size: u64) {
        if size < MIN_DEFERRED_COUNTERS {
            let packets = self.b.ins().load(I64, trusted_flags(), counter, 0);
            let packets = self.b.ins().iadd_imm_s(packets, 1);
            let first = self.b.ins().store(trusted_flags(), packets, counter, 0);
            let sum = self.b.ins().load(I64, trusted_flags(), counter, 8);
            let sum = self.b.ins().iadd(sum, bytes);
            let second = self.b.ins().store(trusted_flags(), sum, counter, 8);
            self.annotate(first, InstRole::Part);
            return self.annotate(second, InstRole::Count { counter, bytes });
        }
        let count_at = offset_of!(StageContext, pending_count);
        let count = self.b.ins().load(I64, trusted_flags(), self.context, count_at as i32);
        let list = self.load_context_ptr(offset_of!(StageContext, pending));
        let offset = self.b.ins().imul_imm_s(count, size_of::<PendingCount>() as i64);
        let pending_entry = self.b.ins().iadd(list, offset);
        let parts = [(counter, offset_of!(PendingCount, at)), (bytes, offset_of!(PendingCount, bytes))];
        for (part, field_offset) in parts {
            let written = self.b.ins().store(trusted_flags(), part, pending_entry, field_offset as i32);
            self.annotate(written, InstRole::Part);
        }
        let new_count = self.b.ins().iadd_imm_s(count, 1);
        let counted = self.b.ins().store(trusted_flags(), new_count, self.context, count_at as i32);
        self.annotate(counted, InstRole::Count { counter, bytes });
    }

    /// Reports a hit to the interpreter's host, for direct counters, meters and idle timeouts.
    /// `hit` is not 0 on a hit; `entry_id` is then the id of the entry. Stores the colour of a
    /// direct meter.
    pub fn report_hit(&mut self, table: TableId, hit: cl::Value, entry_id: cl::Value) {
        let [report, go_on] = [(); 2].map(|()| self.b.create_block());
        let zero = self.iconst_u64(0);
        self.set_slot(FrameSlot::MeterColor(table), zero);
        self.b.ins().brif(hit, report, &[], go_on, &[]);
        self.switch_to_sealed(report);
        self.c.hit_reports.borrow_mut().push((self.c.stage.get(), table));
        let id = self.iconst_u64(u64::from(table.0));
        let (context, frame) = (self.context, self.frame);
        let colour = self.call_helper(self.c.helpers.hit, &[context, frame, id, entry_id], true).unwrap_or(zero);
        self.set_slot(FrameSlot::MeterColor(table), colour);
        if let Some(var) = self.c.pipeline.tables[table].meter_result {
            let width = self.c.pipeline.vars[var].ty.width();
            let value = self.mask_to_width(colour, width);
            match self.c.pipeline.vars[var].kind {
                ir::VarKind::Field(header, index) => self.store_header_field(header, index, &[value]),
                _ => {
                    let regs = self.zero_extend_regs(&[value], width);
                    self.set_variable(var, &regs);
                }
            }
        }
        self.b.ins().jump(go_on, &[]);
        self.switch_to_sealed(go_on);
    }

    // ---- all others ----

    /// Emits a call of the interpreter's implementation. The call area passes the arguments as
    /// 64-bit words and after them returns the results. A direct resource also needs the entry that
    /// was hit: its id, with the colour of its meter in the high half.
    fn slow_call(&mut self, inst: &Inst, results: &[Value]) {
        let Inst::Extern { args, .. } = inst else { return };
        let word = self.store_call_args(args);
        let hit = self.hit_argument(args);
        let site = self.c.site(self.control, inst, results.iter().map(|r| self.value_type(*r)).collect());
        let site = self.iconst_u64(site as u64);
        let (context, frame) = (self.context, self.frame);
        self.call_helper(self.c.helpers.call, &[context, frame, site, hit], false);
        self.load_call_results(results, word);
    }

    /// Stores the arguments of a call in the call area. Returns their number of words.
    pub(super) fn store_call_args(&mut self, args: &[ExternArg]) -> usize {
        let mut word = 0;
        for value in args.iter().flat_map(|arg| match arg {
            ExternArg::Value(value) => std::slice::from_ref(value),
            ExternArg::Values(values) => values.as_slice(),
            _ => &[],
        }) {
            let ty = self.value_type(*value);
            let regs: ValueRegs = self.value(*value).iter().map(|reg| self.as_number(ty, *reg)).collect();
            self.store_call_area(word, &regs);
            word += regs.len();
        }
        word
    }

    /// Returns the entry that the packet has hit in a call's table, plus 1, with the color of its
    /// meter in the high half; 0 without a table, and after a miss.
    pub(super) fn hit_argument(&mut self, args: &[ExternArg]) -> cl::Value {
        let table = args.iter().find_map(|arg| match arg {
            ExternArg::Table(table) => Some(*table),
            _ => None,
        });
        match table {
            Some(table) => {
                let entry_id = self.slot_value(FrameSlot::HitEntry(table));
                let colour = self.slot_value(FrameSlot::MeterColor(table));
                let colour = self.shl_imm(colour, 32);
                self.b.ins().bor(entry_id, colour)
            }
            None => self.iconst_u64(0),
        }
    }

    /// Sets the results of a call from the call area, from this word on.
    fn load_call_results(&mut self, results: &[Value], mut word: usize) {
        for result in results {
            let ty = self.value_type(*result);
            let count = entries::words_for(ty.width());
            let regs: ValueRegs = (0..count).map(|index| self.load_call_area(word + index)).collect();
            word += count;
            let regs = if ty == Type::Bool { self.cast(Type::Bit(64), ty, &regs) } else { regs };
            self.set_value(*result, &regs);
        }
    }
}

/// Returns a scalar argument.
pub(super) fn scalar_arg(args: &[ExternArg], index: usize) -> Value {
    match args.get(index) {
        Some(ExternArg::Value(value)) => *value,
        _ => Value(u32::MAX),
    }
}

/// Returns the leaves of a data argument.
pub(super) fn value_args(args: &[ExternArg], index: usize) -> Vec<Value> {
    match args.get(index) {
        Some(ExternArg::Values(values)) => values.clone(),
        Some(ExternArg::Value(value)) => vec![*value],
        _ => Vec::new(),
    }
}
