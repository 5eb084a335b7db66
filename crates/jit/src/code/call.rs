//! Extern calls: the frequent ones in place, all others by the interpreter's own code.

use crate::abi::{Context, Counters, FAR_COUNTERS, Head, Pending};
use crate::code::stage::{StageCode, steady, trusted};
use crate::code::value::Regs;
use crate::plan::cells::Cell;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use ir::{Arg, Entity, ExternFn, ExternId, ExternKind, HashAlgorithm, HeaderId, Inst, TableId, Type, Value};
use packet::EngineReason;
use std::mem::offset_of;

/// A call that the interpreter's code carries out.
#[derive(Clone, Debug)]
pub struct CallSite {
    /// The stage whose code makes it.
    pub stage: usize,
    /// The control in which it stands.
    pub control: usize,
    /// The instruction.
    pub inst: Inst,
    /// Types of its results.
    pub results: Vec<Type>,
}

impl StageCode<'_, '_> {
    /// An extern call. False if the packet's way ends here.
    pub fn extern_call(&mut self, inst: &Inst, results: &[Value]) -> bool {
        use ExternFn::*;
        let Inst::Extern { object, func, args } = inst else { return true };
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
            let value = self.number(value & crate::code::value::mask(width));
            self.set_variable(*var, &[value]);
        }
    }

    // ---- counters ----

    fn count_indexed(&mut self, object: Option<ExternId>, args: &[Arg]) {
        let Some(object) = object else { return };
        let index = self.value(scalar(args, 0));
        let Some(size) = self.c.counters[object.index()] else { return };
        let bytes = match args.get(1) {
            Some(Arg::Value(value)) => self.low(*value),
            _ => self.head(offset_of!(Head, arrival.counted), 2),
        };
        let mut low = index[0];
        if index.len() > 1 {
            let high = index[1..].iter().copied().reduce(|x, y| self.b.ins().bor(x, y)).unwrap_or(low);
            let most = self.number(u64::MAX);
            low = self.b.ins().select(high, most, low);
        }
        let limit = self.number(size);
        let within = self.b.ins().icmp(IntCC::UnsignedLessThan, low, limit);
        let [count, go_on] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(within, count, &[], go_on, &[]);
        self.enter(count);
        let arrays = self.of_context(offset_of!(Context, counters));
        let at = (object.index() * size_of::<Counters>() + offset_of!(Counters, at)) as i32;
        let array = self.b.ins().load(I64, steady(), arrays, at);
        let offset = self.left(low, 4);
        let counter = self.b.ins().iadd(array, offset);
        self.count(counter, bytes, size);
        self.b.ins().jump(go_on, &[]);
        self.enter(go_on);
    }

    fn count(&mut self, counter: cl::Value, bytes: cl::Value, size: u64) {
        if size < FAR_COUNTERS {
            let packets = self.b.ins().load(I64, trusted(), counter, 0);
            let packets = self.b.ins().iadd_imm_s(packets, 1);
            self.b.ins().store(trusted(), packets, counter, 0);
            let sum = self.b.ins().load(I64, trusted(), counter, 8);
            let sum = self.b.ins().iadd(sum, bytes);
            self.b.ins().store(trusted(), sum, counter, 8);
            return;
        }
        let count_at = offset_of!(Context, pending_count);
        let count = self.b.ins().load(I64, trusted(), self.context, count_at as i32);
        let list = self.of_context(offset_of!(Context, pending));
        let offset = self.b.ins().imul_imm_s(count, size_of::<Pending>() as i64);
        let place = self.b.ins().iadd(list, offset);
        self.b.ins().store(trusted(), counter, place, offset_of!(Pending, at) as i32);
        self.b.ins().store(trusted(), bytes, place, offset_of!(Pending, bytes) as i32);
        let more = self.b.ins().iadd_imm_s(count, 1);
        self.b.ins().store(trusted(), more, self.context, count_at as i32);
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

    // ---- sums and hashes ----

    /// The sum of the 16-bit words of values packed without gaps, added to `sum`, which is at most `most`; folded.
    fn add_words(&mut self, mut sum: cl::Value, mut most: u64, values: &[Value]) -> cl::Value {
        let mut bit = 0;
        let mut at = 0;
        while let Some(value) = values.get(at) {
            if let Some((header, first, bits, count)) = self.stretch(&values[at..], bit) {
                let part = self.sum_of_memory(header, first, bits / 8);
                sum = self.plus(sum, part);
                most += 0xffff;
                bit += bits;
                at += count;
                continue;
            }
            if let Some(part) = self.halves(&values[at..], bit) {
                let part = self.left(part, 8 * (1 - bit / 8 % 2));
                sum = self.plus(sum, part);
                most += 0xff00;
                bit += 8;
                at += 2;
                continue;
            }
            at += 1;
            let ty = self.value_type(*value);
            let width = ty.width();
            let regs = self.value(*value);
            let end = bit + width;
            for (index, reg) in regs.iter().enumerate() {
                let reg = self.as_number(ty, *reg);
                let own = width.saturating_sub(index as u32 * 64).min(64);
                // 2^16 counts as 1, so a number may stand at any multiple of 16 bits: only where it ends within its word matters.
                let end = end - index as u32 * 64;
                let shift = (16 - end % 16) % 16;
                let parts = match own {
                    0 => vec![],
                    1..=32 => vec![reg],
                    _ => vec![self.cut(reg, 32), self.right(reg, 32)],
                };
                for part in parts {
                    let part = self.left(part, shift);
                    sum = self.plus(sum, part);
                    most += (crate::code::value::mask(own.min(32))) << shift;
                }
            }
            bit = end;
        }
        self.folded(sum, most)
    }

    /// The byte that the first two values of a list are, if they are fields of a header that lie in one byte, as in the list, and that is in memory as they are.
    fn halves(&mut self, values: &[Value], bit: u32) -> Option<cl::Value> {
        let fresh = |at: usize| self.fresh.get(values.get(at)?).copied();
        let ((header, high), (of, low)) = (fresh(0)?, fresh(1)?);
        let fields = &self.c.plan.headers.fields[header.index()];
        let [high, low] = [fields[high as usize], fields[low as usize]];
        let one_byte = high.width + low.width == 8 && high.bit + high.width == low.bit;
        if header != of || !one_byte || !(bit.is_multiple_of(8) && high.bit.is_multiple_of(8)) {
            return None;
        }
        if self.waits(header, high.bit, 8) {
            return None;
        }
        let base = self.address(header);
        Some(self.load_small(1, trusted(), base, (high.bit / 8) as i32))
    }

    fn plus(&mut self, sum: cl::Value, part: cl::Value) -> cl::Value {
        match self.constant_of(sum) {
            Some(0) => part,
            _ => self.b.ins().iadd(sum, part),
        }
    }

    /// Values at the beginning of a list that are what fields of one header hold, one behind the other in whole 16-bit words of
    /// header and list: header, first bit, how many bits and values.
    fn stretch(&self, values: &[Value], bit: u32) -> Option<(HeaderId, u32, u32, usize)> {
        let (header, first) = *self.fresh.get(values.first()?)?;
        // Wide loads of what was just stored in parts would wait for the stores.
        if self.written.contains(&header) {
            return None;
        }
        let fields = &self.c.plan.headers.fields[header.index()];
        let start = fields[first as usize].bit;
        if !bit.is_multiple_of(16) || !start.is_multiple_of(16) {
            return None;
        }
        let (mut bits, mut found) = (0, None);
        for (count, value) in values.iter().enumerate() {
            match self.fresh.get(value) {
                Some((of, index)) if *of == header && *index == first + count as u32 => {
                    bits += fields[*index as usize].width;
                    if bits.is_multiple_of(16) && bits >= 64 {
                        found = Some((header, start, bits, count + 1));
                    }
                }
                _ => break,
            }
        }
        found
    }

    /// The sum of 16-bit words of a header. A sum of swapped words is the swapped sum (RFC 1071, section 2 (B)).
    fn sum_of_memory(&mut self, header: HeaderId, bit: u32, bytes: u32) -> cl::Value {
        let base = self.address(header);
        let mut sum = self.number(0);
        let mut at = 0;
        while at < bytes {
            let place = (bit / 8 + at) as i32;
            // By loads that extend: all of them are needed here, so none need move.
            let part = match bytes - at {
                2 | 3 => self.b.ins().uload16(I64, trusted(), base, place),
                _ => self.b.ins().uload32(trusted(), base, place),
            };
            at += if bytes - at < 4 { 2 } else { 4 };
            sum = self.plus(sum, part);
        }
        let sum = self.folded(sum, u64::from(bytes) << 32);
        let half = self.b.ins().ireduce(cl::types::I16, sum);
        let half = self.b.ins().bswap(half);
        self.b.ins().uextend(I64, half)
    }

    /// Folds a sum of at most `most` to 16 bits with end-around carry: a number plus itself with its halves exchanged has, in the upper half, the sum of
    /// both with the carry out of the lower one.
    fn folded(&mut self, mut sum: cl::Value, most: u64) -> cl::Value {
        if most <= 0xffff {
            return sum;
        }
        if most > u64::from(u32::MAX) {
            let exchanged = self.b.ins().rotl_imm_u(sum, 32);
            let both = self.b.ins().iadd(sum, exchanged);
            sum = self.right(both, 32);
        }
        let sum = self.b.ins().ireduce(cl::types::I32, sum);
        let exchanged = self.b.ins().rotl_imm_u(sum, 16);
        let both = self.b.ins().iadd(sum, exchanged);
        let upper = self.b.ins().ushr_imm_u(both, 16);
        self.b.ins().uextend(I64, upper)
    }

    /// At the entry of a body all sums are 0.
    pub fn clear_sums(&mut self) {
        let zero = self.number(0);
        for (id, object) in self.c.pipeline.externs.iter() {
            if matches!(object.kind, ExternKind::InternetChecksum) {
                self.set_cell(Cell::Sum(id), zero);
            }
        }
        if self.c.keeps_packet_state {
            let (context, frame) = (self.context, self.frame);
            self.call_helper(self.c.helpers.begin_block, &[context, frame], false);
        }
    }

    /// The greatest that a sum can be before the instruction: nothing, if it is certainly 0 before the block and no instruction of it has changed it.
    fn most_sum(&self, object: ExternId) -> u64 {
        let index = self.c.plan.cells.of(Cell::Sum(object));
        let fresh = self.c.plan.constants.before(self.node, index) == Some(0) && !self.summed.contains(&object);
        if fresh { 0 } else { 0xffff }
    }

    fn internet_checksum(&mut self, object: Option<ExternId>, func: ExternFn, args: &[Arg], results: &[Value]) {
        use ExternFn::*;
        let Some(object) = object else { return };
        let cell = Cell::Sum(object);
        let zero = self.number(0);
        let most = self.most_sum(object);
        if !matches!(func, InternetChecksumGet | InternetChecksumGetState) {
            self.summed.insert(object);
        }
        match func {
            InternetChecksumClear => self.set_cell(cell, zero),
            InternetChecksumSetState => {
                let state = self.low(scalar(args, 0));
                let state = self.cut(state, 16);
                self.set_cell(cell, state);
            }
            InternetChecksumAdd => {
                let sum = self.cell(cell);
                let sum = self.add_words(sum, most, &values(args, 0));
                self.set_cell(cell, sum);
            }
            InternetChecksumSubtract => {
                let other = self.add_words(zero, 0, &values(args, 0));
                let other = self.b.ins().bxor_imm_u(other, 0xffff);
                let sum = self.cell(cell);
                let sum = self.b.ins().iadd(sum, other);
                let sum = self.folded(sum, 0x1_fffe);
                self.set_cell(cell, sum);
            }
            _ => {
                let mut sum = self.cell(cell);
                if func == InternetChecksumGet {
                    sum = self.b.ins().bxor_imm_u(sum, 0xffff);
                }
                self.give(results, sum);
            }
        }
    }

    /// Sets the result of a call, cut to its width.
    fn give(&mut self, results: &[Value], value: cl::Value) {
        let Some(result) = results.first() else { return };
        let ty = self.value_type(*result);
        let regs = self.cast(Type::Bit(64), ty, &[value]);
        self.set_value(*result, &regs);
    }

    /// Values packed without gaps, the first one's highest bit first, filled with 0 bits at the end to whole words: the words in
    /// order, and how many bytes count.
    pub fn packed(&mut self, values: &[Value]) -> (Regs, u32) {
        let (mut all, mut width): (Regs, u32) = (Regs::new(), 0);
        for value in values {
            let ty = self.value_type(*value);
            let regs: Regs = self.value(*value).iter().map(|reg| self.as_number(ty, *reg)).collect();
            all = if width == 0 { regs } else { self.joined(&all, width, &regs, ty.width()) };
            width += ty.width();
        }
        let bytes = width.div_ceil(8);
        if width == 0 {
            return (vec![self.number(0)], 0);
        }
        let fill = width.next_multiple_of(64) - width;
        let zero = self.number(0);
        let mut words = if fill == 0 { all } else { self.joined(&all, width, &[zero], fill) };
        words.reverse();
        (words, bytes)
    }

    /// Writes packed words as bytes.
    pub fn store_packed(&mut self, base: cl::Value, words: &[cl::Value]) {
        for (index, word) in words.iter().enumerate() {
            let swapped = self.b.ins().bswap(*word);
            self.b.ins().store(trusted(), swapped, base, index as i32 * 8);
        }
    }

    /// The hash of values and, if asked, the payload.
    fn hash_of(&mut self, algorithm: HashAlgorithm, data: &[Value], payload: bool) -> cl::Value {
        if algorithm == HashAlgorithm::Csum16 && !payload {
            let zero = self.number(0);
            let sum = self.add_words(zero, 0, data);
            return self.b.ins().bxor_imm_u(sum, 0xffff);
        }
        let (words, bytes) = self.packed(data);
        let area = self.area();
        self.store_packed(area, &words);
        let number = self.number(crate::runtime::algorithm_number(algorithm));
        let bytes = self.number(u64::from(bytes));
        let zero = self.number(0);
        if payload {
            let cursor = self.cell(Cell::Cursor);
            let frame = self.frame;
            return self
                .call_helper(self.c.helpers.hash_payload, &[frame, cursor, number, area, bytes], true)
                .unwrap_or(zero);
        }
        self.call_helper(self.c.helpers.hash, &[number, area, bytes], true).unwrap_or(zero)
    }

    fn hash_call(&mut self, object: Option<ExternId>, func: ExternFn, args: &[Arg], results: &[Value]) {
        use ExternFn::*;
        let algorithm = self.algorithm(object, args);
        let payload = matches!(func, VerifyChecksumWithPayload | UpdateChecksumWithPayload);
        match func {
            HashGet | Checksum16Get if args.len() == 1 => {
                let hash = self.hash_of(algorithm, &values(args, 0), false);
                self.give(results, hash);
            }
            HashGet | Hash => {
                let first = usize::from(func == Hash);
                let hash = self.hash_of(algorithm, &values(args, first + 1), false);
                self.hash_in_range(hash, scalar(args, first), scalar(args, first + 2), results);
            }
            UpdateChecksum | UpdateChecksumWithPayload => {
                let hash = self.hash_of(algorithm, &values(args, 1), payload);
                let cond = self.value(scalar(args, 0))[0];
                // As wide as 128 bits, like the interpreter's.
                let (old_type, old) = (self.value_type(scalar(args, 2)), self.value(scalar(args, 2)));
                let unsigned = if old_type == Type::Bool { old_type } else { Type::Bit(old_type.width()) };
                let old = self.cast(unsigned, Type::Bit(128), &old);
                let low = self.b.ins().select(cond, hash, old[0]);
                let zero = self.number(0);
                let high = self.b.ins().select(cond, zero, old[1]);
                let Some(result) = results.first() else { return };
                let ty = self.value_type(*result);
                let regs = self.cast(Type::Bit(128), ty, &[low, high]);
                self.set_value(*result, &regs);
            }
            _ => {
                let hash = self.hash_of(algorithm, &values(args, 1), payload);
                let checksum = scalar(args, 2);
                let width = self.value_type(checksum).width();
                let hash = self.cut(hash, width.min(64));
                let regs = self.value(checksum);
                let hash = self.widened(&[hash], width);
                let ty = Type::Bit(width);
                let differs = self.binary(ir::BinaryOp::Ne, ty, &hash, &regs, ty)[0];
                let cond = self.value(scalar(args, 0))[0];
                let wrong = self.b.ins().band(cond, differs);
                let wrong = self.b.ins().uextend(I64, wrong);
                let before = self.cell(Cell::ChecksumError);
                let after = self.b.ins().bor(before, wrong);
                self.set_cell(Cell::ChecksumError, after);
            }
        }
    }

    /// base + hash mod max, 0 for the remainder by 0; as 128-bit numbers.
    fn hash_in_range(&mut self, hash: cl::Value, base: Value, most: Value, results: &[Value]) {
        let wide = Type::Bit(128);
        let number = |code: &mut Self, value: Value| {
            let ty = code.value_type(value);
            let unsigned = if ty == Type::Bool { ty } else { Type::Bit(ty.width()) };
            let regs = code.value(value);
            code.cast(unsigned, wide, &regs)
        };
        let (base, most) = (number(self, base), number(self, most));
        let zero = self.number(0);
        let high = self.b.ins().icmp(IntCC::NotEqual, most[1], zero);
        let rest = self.b.ins().icmp(IntCC::Equal, most[0], zero);
        let one = self.number(1);
        let divisor = self.b.ins().select(rest, one, most[0]);
        let remainder = self.b.ins().urem(hash, divisor);
        let remainder = self.b.ins().select(rest, zero, remainder);
        // A limit above 64 bits is above any hash.
        let remainder = self.b.ins().select(high, hash, remainder);
        let sum = self.binary(ir::BinaryOp::Add, wide, &base, &[remainder, zero], wide);
        let Some(result) = results.first() else { return };
        let ty = self.value_type(*result);
        let regs = self.cast(wide, ty, &sum);
        self.set_value(*result, &regs);
    }

    fn algorithm(&self, object: Option<ExternId>, args: &[Arg]) -> HashAlgorithm {
        let named = args.iter().find_map(|arg| match arg {
            Arg::Str(name) => interp::host::hash_algorithm(name),
            _ => None,
        });
        let kind = object.and_then(|id| self.c.pipeline.externs.get(id)).map(|object| &object.kind);
        let own = match kind {
            Some(ExternKind::Hash { algorithm, .. }) => Some(*algorithm),
            _ => None,
        };
        named.or(own).unwrap_or(HashAlgorithm::Csum16)
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
            let count = tables::words_for(ty.width());
            let regs: Regs = (0..count).map(|index| self.load_area(word + index)).collect();
            word += count;
            let regs = if ty == Type::Bool { self.cast(Type::Bit(64), ty, &regs) } else { regs };
            self.set_value(*result, &regs);
        }
    }
}

/// A scalar argument.
fn scalar(args: &[Arg], index: usize) -> Value {
    match args.get(index) {
        Some(Arg::Value(value)) => *value,
        _ => Value(u32::MAX),
    }
}

/// The leaves of a data argument.
fn values(args: &[Arg], index: usize) -> Vec<Value> {
    match args.get(index) {
        Some(Arg::Values(values)) => values.clone(),
        Some(Arg::Value(value)) => vec![*value],
        _ => Vec::new(),
    }
}
