//! Extern calls: the frequent ones in place, all others by the interpreter's own code.

use crate::abi::{Context, FAR_COUNTERS, Head, Pending};
use crate::analysis::cells::Cell;
use crate::code::registers::{Regs, trusted};
use crate::code::stage::StageCode;
use crate::code::told::Mark;
use crate::counters::Place;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use ir::{Arg, Entity, ExternFn, ExternId, Inst, TableId, Type, Value};
use packet::EngineReason;
use std::mem::offset_of;

impl StageCode<'_, '_> {
    /// An extern call. False if the packet's way ends here.
    pub fn extern_call(&mut self, inst: &Inst, results: &[Value]) -> bool {
        use ExternFn::*;
        let Inst::Extern { object, func, args } = inst else { return true };
        self.calls(*func, args);
        match func {
            CounterCount if object.is_some_and(|id| self.c.counters[id.index()].is_some()) => {
                self.count_indexed(*object, args);
            }
            DropPacket => {
                let drop = self.number(1);
                self.set_cell(Cell::Destination, drop);
            }
            SendToPort => {
                let port = self.low(scalar(args, 0));
                let port = self.cut(port, 32);
                let port = self.left(port, 32);
                let sent = self.b.ins().bor_imm_u(port, 2);
                self.set_cell(Cell::Destination, sent);
            }
            MarkToDrop => {
                for (name, value) in [("egress_spec", 511), ("mcast_grp", 0)] {
                    self.set_standard(name, value);
                }
            }
            LogMsg => {}
            Assert | Assume => {
                let holds = self.value(scalar(args, 0))[0];
                let [bad, good] = [(); 2].map(|()| self.b.create_block());
                self.b.ins().brif(holds, good, &[], bad, &[]);
                self.enter(bad);
                self.rejected();
                self.give_up(EngineReason::AssertFailed);
                self.enter(good);
            }
            Truncate => {
                let length = self.low(scalar(args, 0));
                let length = self.b.ins().iadd_imm_s(length, 1);
                self.set_cell(Cell::Truncate, length);
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
            DirectCounterCount if self.c.pipeline.arch == ir::Arch::V1Model => {}
            _ => self.slow_call(inst, results),
        }
        true
    }

    fn set_standard(&mut self, name: &str, value: u64) {
        if let Some(var) = self.c.pipeline.intrinsics.get(&format!("standard_metadata.{name}")) {
            let width = self.c.pipeline.vars[*var].ty.width();
            let value = self.number(value & crate::code::registers::mask(width));
            self.set_variable(*var, &[value]);
        }
    }

    // ---- counters ----

    fn count_indexed(&mut self, object: Option<ExternId>, args: &[Arg]) {
        let Some(object) = object else { return };
        let Some(Place { size, step, .. }) = self.c.counters[object.index()] else { return };
        let bytes = match args.get(1) {
            Some(Arg::Value(value)) => self.low(*value),
            _ => self.head(offset_of!(Head, arrival.counted), 4),
        };
        let low = self.index(args);
        let limit = self.number(size);
        let within = self.b.ins().icmp(IntCC::UnsignedLessThan, low, limit);
        let [count, go_on] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(within, count, &[], go_on, &[]);
        self.enter(count);
        let at = self.c.memory.counters + object.index() as i32 * 8;
        let array = self.b.ins().load(I64, trusted(), self.context, at);
        // As many lie together as divide a line.
        let offset = self.left(low, (step * size_of::<[u64; 2]>()).trailing_zeros());
        let counter = self.b.ins().iadd(array, offset);
        self.count(counter, bytes, size);
        self.b.ins().jump(go_on, &[]);
        self.enter(go_on);
    }

    /// The first argument as an index: all ones if it is greater than any.
    pub(super) fn index(&mut self, args: &[Arg]) -> cl::Value {
        let index = self.value(scalar(args, 0));
        if index.len() == 1 {
            return index[0];
        }
        let high = index[1..].iter().copied().reduce(|x, y| self.b.ins().bor(x, y)).unwrap_or(index[0]);
        let most = self.number(u64::MAX);
        self.b.ins().select(high, most, index[0])
    }

    fn count(&mut self, counter: cl::Value, bytes: cl::Value, size: u64) {
        if size < FAR_COUNTERS {
            let packets = self.b.ins().load(I64, trusted(), counter, 0);
            let packets = self.b.ins().iadd_imm_s(packets, 1);
            let first = self.b.ins().store(trusted(), packets, counter, 0);
            let sum = self.b.ins().load(I64, trusted(), counter, 8);
            let sum = self.b.ins().iadd(sum, bytes);
            let second = self.b.ins().store(trusted(), sum, counter, 8);
            self.mark(first, Mark::Part);
            return self.mark(second, Mark::Count { counter, bytes });
        }
        let count_at = offset_of!(Context, pending_count);
        let count = self.b.ins().load(I64, trusted(), self.context, count_at as i32);
        let list = self.of_context(offset_of!(Context, pending));
        let offset = self.b.ins().imul_imm_s(count, size_of::<Pending>() as i64);
        let place = self.b.ins().iadd(list, offset);
        let parts = [(counter, offset_of!(Pending, at)), (bytes, offset_of!(Pending, bytes))];
        for (part, at) in parts {
            let written = self.b.ins().store(trusted(), part, place, at as i32);
            self.mark(written, Mark::Part);
        }
        let more = self.b.ins().iadd_imm_s(count, 1);
        let counted = self.b.ins().store(trusted(), more, self.context, count_at as i32);
        self.mark(counted, Mark::Count { counter, bytes });
    }

    /// Tells the interpreter's bookkeeping of a hit, for direct counters and meters and idle times.
    pub fn tell_hit(&mut self, table: TableId, hit: cl::Value, number: cl::Value) {
        let [tell, go_on] = [(); 2].map(|()| self.b.create_block());
        let zero = self.number(0);
        self.set_cell(Cell::Colour(table), zero);
        self.b.ins().brif(hit, tell, &[], go_on, &[]);
        self.enter(tell);
        self.c.told.borrow_mut().push((self.c.stage.get(), table));
        let id = self.number(u64::from(table.0));
        let (context, frame) = (self.context, self.frame);
        let colour = self.call_helper(self.c.helpers.hit, &[context, frame, id, number], true).unwrap_or(zero);
        self.set_cell(Cell::Colour(table), colour);
        if let Some(var) = self.c.pipeline.tables[table].meter_result {
            let width = self.c.pipeline.vars[var].ty.width();
            let value = self.cut(colour, width);
            match self.c.pipeline.vars[var].kind {
                ir::VarKind::Field(header, index) => self.set_field(header, index, &[value]),
                _ => {
                    let regs = self.widened(&[value], width);
                    self.set_variable(var, &regs);
                }
            }
        }
        self.b.ins().jump(go_on, &[]);
        self.enter(go_on);
    }

    // ---- all others ----

    fn slow_call(&mut self, inst: &Inst, results: &[Value]) {
        let Inst::Extern { args, .. } = inst else { return };
        let mut word = 0;
        for value in args.iter().flat_map(|arg| match arg {
            Arg::Value(value) => std::slice::from_ref(value),
            Arg::Values(values) => values.as_slice(),
            _ => &[],
        }) {
            let ty = self.value_type(*value);
            let regs: Regs = self.value(*value).iter().map(|reg| self.as_number(ty, *reg)).collect();
            self.store_area(word, &regs);
            word += regs.len();
        }
        let table = args.iter().find_map(|arg| match arg {
            Arg::Table(table) => Some(*table),
            _ => None,
        });
        let zero = self.number(0);
        let hit = match table {
            Some(table) => {
                let number = self.cell(Cell::Hit(table));
                let colour = self.cell(Cell::Colour(table));
                let colour = self.left(colour, 32);
                self.b.ins().bor(number, colour)
            }
            None => zero,
        };
        let site = self.c.site(self.control, inst, results.iter().map(|r| self.value_type(*r)).collect());
        let site = self.number(site as u64);
        let (context, frame) = (self.context, self.frame);
        self.call_helper(self.c.helpers.call, &[context, frame, site, hit], false);
        for result in results {
            let ty = self.value_type(*result);
            let count = entries::words_for(ty.width());
            let regs: Regs = (0..count).map(|index| self.load_area(word + index)).collect();
            word += count;
            let regs = if ty == Type::Bool { self.cast(Type::Bit(64), ty, &regs) } else { regs };
            self.set_value(*result, &regs);
        }
    }
}

/// A scalar argument.
pub(super) fn scalar(args: &[Arg], index: usize) -> Value {
    match args.get(index) {
        Some(Arg::Value(value)) => *value,
        _ => Value(u32::MAX),
    }
}

/// The leaves of a data argument.
pub(super) fn values(args: &[Arg], index: usize) -> Vec<Value> {
    match args.get(index) {
        Some(Arg::Values(values)) => values.clone(),
        Some(Arg::Value(value)) => vec![*value],
        _ => Vec::new(),
    }
}
