//! Symbolic execution of extern calls: which calls a rewrite supports, and the counters they
//! update.

use super::NotRewritable;
use super::symbolic_executor::SymbolicExecutor;
use super::symbolic_value::{FIXED, SumOperand, SymbolicSum, SymbolicValue};
use super::template::{CountedBytes, CounterRef};
use interp::block_hook::{BlockStepper, CallArg, DecodedCall, InstIndex, Reg, StepResult};
use ir::{Arch, ExternFn, HashAlgorithm};

/// Returns the registers of an argument; none for a name or a table.
fn arg_regs(call: &DecodedCall, index: usize) -> &[Reg] {
    match call.args.get(index) {
        Some(CallArg::Values(regs)) => regs,
        Some(CallArg::Value(reg)) => std::slice::from_ref(reg),
        _ => &[],
    }
}

/// Returns the value of an argument of up to 64 bits; 0 if it is missing.
fn scalar_arg(stepper: &BlockStepper<'_>, call: &DecodedCall, index: usize) -> u64 {
    match call.args.get(index) {
        Some(CallArg::Value(reg)) => stepper.reg_words()[reg.first_word as usize],
        _ => 0,
    }
}

fn table_arg(call: &DecodedCall) -> usize {
    let table = call.args.iter().find_map(|arg| if let CallArg::Table(table) = arg { Some(*table) } else { None });
    table.unwrap_or(0)
}

impl SymbolicExecutor {
    /// Constrains all arguments of a call.
    fn constrain_args(&mut self, call: &DecodedCall) {
        for index in 0..call.args.len() {
            arg_regs(call, index).iter().for_each(|reg| self.constrain_register(*reg));
        }
    }

    /// Executes an extern call: constrains the arguments that its effect depends on, records
    /// counter updates, and sets the origin of its results. A call that a rewrite cannot express
    /// makes the packet not rewritable.
    pub fn execute_call(&mut self, stepper: &mut BlockStepper<'_>, pc: InstIndex, call: &DecodedCall) -> StepResult {
        use ExternFn::*;
        let mut result = SymbolicValue::Const;
        let is_checksum16 = call.algorithm.unwrap_or(HashAlgorithm::Csum16) == HashAlgorithm::Csum16;
        match call.func {
            CounterCount => self.execute_count(stepper, call),
            DirectCounterCount => self.execute_direct_count(stepper, call),
            HashGet | Checksum16Get if call.args.len() == 1 && is_checksum16 => {
                let sum = self.checksum_terms(stepper, arg_regs(call, 0));
                result = SymbolicValue::Sum(Box::new(sum), true);
            }
            HashGet | Hash | Checksum16Get | ChecksumUpdate | IsHostPort | IsNetPort | SendToPort | Assert | Assume => {
                self.constrain_args(call);
            }
            // The calls that supplied their data were constrained.
            ChecksumClear | ChecksumGet | LogMsg | DropPacket => {}
            VerifyChecksum => self.execute_verify_checksum(stepper, call, is_checksum16),
            UpdateChecksum => result = self.execute_update_checksum(stepper, call, is_checksum16),
            VerifyChecksumWithPayload | UpdateChecksumWithPayload => self.constraints.fail(NotRewritable::Payload),
            InternetChecksumClear
            | InternetChecksumAdd
            | InternetChecksumSubtract
            | InternetChecksumGet
            | InternetChecksumGetState
            | InternetChecksumSetState => result = self.execute_internet_checksum(stepper, call),
            MarkToDrop => {
                let well_known = stepper.program().well_known;
                for reg in [well_known.egress_spec, well_known.mcast_grp].into_iter().flatten() {
                    self.set_origin(reg.first_word, SymbolicValue::Fixed);
                }
            }
            RestartExpireTimer => {
                let table = table_arg(call);
                if let Some(application) = self.application_of_hit(stepper, table) {
                    self.counter_updates.push((CounterRef::Restart(application), CountedBytes::LENGTH));
                }
            }
            MeterExecute | DirectMeterExecute => self.constraints.fail(NotRewritable::Meter),
            RegisterRead | RegisterWrite => self.constraints.fail(NotRewritable::Register),
            RandomRead | Random | AllocateFlowId => self.constraints.fail(NotRewritable::Random),
            DigestPack => self.constraints.fail(NotRewritable::Digest),
            AddEntry | PortPoolTake | EntryQuotaTake => self.constraints.fail(NotRewritable::AddEntry),
            SetEntryExpireTime => self.constraints.fail(NotRewritable::Timer),
            Clone | Resubmit | Recirculate | MirrorPacket | PnaRecirculate => {
                self.constraints.fail(NotRewritable::Copies)
            }
            Truncate => self.constraints.fail(NotRewritable::Truncate),
        }
        let step = stepper.step(pc);
        for reg in &call.results {
            for word in 0..reg.words {
                let sym = if word == 0 { result.clone() } else { SymbolicValue::Const };
                // A truncated sum is not supported.
                let is_whole_sum = !matches!(sym, SymbolicValue::Sum(..)) || reg.width >= 16;
                if !is_whole_sum {
                    self.constraints.fail(NotRewritable::Checksum);
                }
                self.set_origin(reg.first_word + word, sym);
            }
        }
        step
    }

    /// Returns how many bytes a counter counts: the argument, or the packet's length. `index`:
    /// index of that argument.
    fn counted_bytes(&mut self, stepper: &BlockStepper<'_>, call: &DecodedCall, index: usize) -> CountedBytes {
        let Some(CallArg::Value(reg)) = call.args.get(index) else { return CountedBytes::LENGTH };
        let value = stepper.reg_words()[reg.first_word as usize];
        let sym = self.origin_of(reg.first_word);
        match self.constraints.as_length(&sym, value) {
            Some(length) => CountedBytes::Length(length),
            None => {
                self.constrain_value(reg.first_word);
                CountedBytes::Constant(value)
            }
        }
    }

    /// Records the update of an indexed counter. Its index is a constant of the flow.
    fn execute_count(&mut self, stepper: &BlockStepper<'_>, call: &DecodedCall) {
        let (Some(CallArg::Value(reg)), Some(counter)) = (call.args.first(), call.object) else { return };
        self.constrain_register(*reg);
        let bytes = self.counted_bytes(stepper, call, 1);
        self.counter_updates.push((CounterRef::Counter(counter, self.path_record.index_count() - 1), bytes));
    }

    /// Records the update of the direct counter of the entry that the packet hit. Only PNA counts
    /// by a call; v1model counts at each hit.
    fn execute_direct_count(&mut self, stepper: &BlockStepper<'_>, call: &DecodedCall) {
        if self.facts.pipeline.arch != Arch::Pna {
            return;
        }
        let table = table_arg(call);
        let bytes = self.counted_bytes(stepper, call, 1);
        if let Some(application) = self.application_of_hit(stepper, table) {
            self.counter_updates.push((CounterRef::Direct(application), bytes));
        }
    }

    /// Returns the last application in which the packet hit an entry of the table.
    fn application_of_hit(&self, stepper: &BlockStepper<'_>, table: usize) -> Option<usize> {
        stepper.last_hit_slot(table).and_then(|number| self.path_record.last_hit(table, number))
    }

    /// Returns the bits and lengths of hashed data, in the program's order, the most significant
    /// bit first.
    fn sum_operands(&mut self, stepper: &BlockStepper<'_>, data: &[Reg]) -> Vec<SumOperand> {
        let mut operands = Vec::new();
        for reg in data {
            let mut reg = *reg;
            if reg.is_varbit {
                self.constrain_value(reg.first_word);
                let width = stepper.reg_words()[reg.first_word as usize].min(u64::from(reg.width)) as u32;
                reg = Reg { first_word: reg.first_word + 1, words: width.div_ceil(64), width, ..reg };
            }
            if let (SymbolicValue::Length(length), 16..=64) = (self.origin_of(reg.first_word), reg.width)
                && self.constraints.is_short(length)
            {
                // The length is in the low 16 bits. The bits above are 0.
                operands.extend((16..reg.width).map(|_| SumOperand::Bit(FIXED, false)));
                self.constraints.constrain_within(length, 0xffff);
                operands.push(SumOperand::Length(length));
                continue;
            }
            for bit_index in (0..reg.width).rev() {
                let (bit, value) = self.bit_origin(stepper, reg.first_word, bit_index);
                operands.push(SumOperand::Bit(bit, value));
            }
        }
        operands
    }

    /// Returns the one's complement sum of registers.
    fn checksum_terms(&mut self, stepper: &BlockStepper<'_>, data: &[Reg]) -> SymbolicSum {
        let operands = self.sum_operands(stepper, data);
        let mut sum = SymbolicSum::default();
        self.constraints.add_words(&mut sum, &operands);
        sum
    }

    /// Executes a method of an `InternetChecksum` object (PNA), whose sum is kept between calls.
    /// Returns the origin of the result.
    fn execute_internet_checksum(&mut self, stepper: &BlockStepper<'_>, call: &DecodedCall) -> SymbolicValue {
        use ExternFn::*;
        let object = call.object.map_or(0, |id| id.0 as usize);
        let mut sum = self.sums.remove(&object).unwrap_or_default();
        let mut result = SymbolicValue::Const;
        match call.func {
            InternetChecksumClear => sum = SymbolicSum::default(),
            InternetChecksumAdd => {
                let operands = self.sum_operands(stepper, arg_regs(call, 0));
                self.constraints.add_words(&mut sum, &operands);
            }
            InternetChecksumSubtract => {
                // a - b is a + ~b (RFC 1624), for a constant `b`.
                arg_regs(call, 0).iter().for_each(|reg| self.constrain_register(*reg));
                let subtracted = self.checksum_terms(stepper, arg_regs(call, 0));
                sum.constant += u64::from(!self.constraints.sum_value(&subtracted));
                sum.varies = true;
            }
            InternetChecksumGet => result = SymbolicValue::Sum(Box::new(sum.clone()), true),
            InternetChecksumGetState => result = SymbolicValue::Sum(Box::new(sum.clone()), false),
            _ => {
                self.constrain_args(call);
                sum = SymbolicSum {
                    constant: scalar_arg(stepper, call, 0) & 0xffff,
                    varies: true,
                    ..SymbolicSum::default()
                };
            }
        }
        self.sums.insert(object, sum);
        if matches!(result, SymbolicValue::Sum(..)) { self.constant_if_known(result) } else { result }
    }

    /// Returns a constant if all terms of the sum are constants.
    fn constant_if_known(&self, sym: SymbolicValue) -> SymbolicValue {
        match &sym {
            SymbolicValue::Sum(sum, _) if self.constraints.is_constant_sum(sum) => SymbolicValue::Const,
            _ => sym,
        }
    }

    /// Executes `update_checksum(condition, data, checksum, algorithm)` of v1model. Returns the
    /// origin of the new checksum. If the condition is false, this is the old checksum.
    fn execute_update_checksum(
        &mut self,
        stepper: &BlockStepper<'_>,
        call: &DecodedCall,
        is_checksum16: bool,
    ) -> SymbolicValue {
        let Some(CallArg::Value(condition)) = call.args.first() else { return SymbolicValue::Const };
        self.constrain_register(*condition);
        if stepper.reg_words()[condition.first_word as usize] == 0 {
            return match (arg_regs(call, 2), &call.results[..]) {
                ([old], [new]) if old.words == 1 && !old.is_varbit && old.width == new.width => {
                    self.raw_origin(old.first_word)
                }
                _ => {
                    self.constrain_args(call);
                    SymbolicValue::Const
                }
            };
        }
        if !is_checksum16 {
            arg_regs(call, 1).iter().for_each(|reg| self.constrain_register(*reg));
            return SymbolicValue::Const;
        }
        let sum = self.checksum_terms(stepper, arg_regs(call, 1));
        self.constant_if_known(SymbolicValue::Sum(Box::new(sum), true))
    }

    /// Executes `verify_checksum(condition, data, checksum, algorithm)` of v1model. A correct
    /// checksum becomes a check that the other packets of the flow must pass.
    fn execute_verify_checksum(&mut self, stepper: &BlockStepper<'_>, call: &DecodedCall, is_checksum16: bool) {
        let Some(CallArg::Value(condition)) = call.args.first() else { return };
        self.constrain_register(*condition);
        if stepper.reg_words()[condition.first_word as usize] == 0 {
            return;
        }
        let [field] = arg_regs(call, 2) else { return self.constrain_args(call) };
        if !is_checksum16 || field.width != 16 {
            return self.constrain_args(call);
        }
        let sum = self.checksum_terms(stepper, arg_regs(call, 1));
        let stored = stepper.reg_words()[field.first_word as usize];
        if stored != u64::from(!self.constraints.sum_value(&sum)) {
            return self.constraints.fail(NotRewritable::Checksum);
        }
        let sym = self.raw_origin(field.first_word);
        match self.constraints.packet_field(&sym) {
            Some(at) => self.add_check(&sum, 0xffff, Some(at)),
            None => {
                self.constraints.constrain_slot_bits(&sym, u64::MAX);
                self.constraints.note_value_dependence(&sym);
                self.add_check(&sum, !(stored as u16), None);
            }
        }
    }
}
