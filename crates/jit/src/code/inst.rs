//! Translation of instructions.

use crate::code::registers::ValueRegs;
use crate::code::stage::StageBuilder;
use ir::{Entity, Inst, Type, Value, VarKind};

impl StageBuilder<'_, '_> {
    /// Translates an instruction. Returns false if the packet ends here.
    pub fn translate_inst(&mut self, inst: &Inst, results: &[Value]) -> bool {
        match inst {
            Inst::SetValid(header) => self.set_valid(*header),
            Inst::SetInvalid(header) => self.set_invalid(*header),
            Inst::CopyHeader { dst, src } => self.copy_header(*dst, *src),
            Inst::Extract(header) => self.extract(*header, None),
            Inst::ExtractVarbit(header, bits) => {
                let bits = self.low_register(*bits);
                self.extract(*header, Some(bits));
            }
            Inst::Advance(bits) => {
                let bits = self.low_register(*bits);
                self.advance(bits);
            }
            Inst::Verify(cond, error) => self.verify(*cond, *error),
            Inst::Emit(header) => self.emit_header(*header),
            Inst::Store(var, value) => {
                let regs = self.value(*value);
                match self.c.pipeline.vars[*var].kind {
                    VarKind::Field(header, index) => {
                        let ty = self.value_type(*value);
                        let regs: ValueRegs = regs.iter().map(|reg| self.as_number(ty, *reg)).collect();
                        self.store_header_field(header, index, &regs);
                    }
                    _ => self.set_variable(*var, &regs),
                }
            }
            Inst::Extern { .. } => return self.extern_call(inst, results),
            _ => {
                if let Some(result) = results.first() {
                    let regs = self.compute_result(inst, *result);
                    self.set_value(*result, &regs);
                }
            }
        }
        true
    }

    /// Emits the code of an instruction with a result, and returns the registers of the result: 64
    /// bits each, the low ones first. `result` gives the type of an instruction without operands.
    fn compute_result(&mut self, inst: &Inst, result: Value) -> ValueRegs {
        match inst {
            Inst::Const(constant) => self.constant(constant),
            Inst::Load(var) => match self.c.pipeline.vars[*var].kind {
                VarKind::Field(header, index) => {
                    let regs = self.load_header_field(header, index);
                    match self.c.pipeline.vars[*var].ty {
                        Type::Bool => self.cast(Type::Bit(1), Type::Bool, &regs),
                        _ => regs,
                    }
                }
                _ => self.variable(*var),
            },
            Inst::Unary(op, a) => {
                let (ty, a) = (self.value_type(*a), self.value(*a));
                self.unary(*op, ty, &a)
            }
            Inst::Binary(op, a, b) => {
                let (ty, other) = (self.value_type(*a), self.value_type(*b));
                let (a, b) = (self.value(*a), self.value(*b));
                self.binary(*op, ty, &a, &b, other)
            }
            Inst::Cast(to, value) => {
                let (from, regs) = (self.value_type(*value), self.value(*value));
                self.cast(from, *to, &regs)
            }
            Inst::Slice { value, hi, lo } => {
                let regs = self.value(*value);
                self.bits(&regs, *lo, hi.saturating_sub(*lo) + 1)
            }
            Inst::Concat(high, low) => {
                let widths = (self.value_type(*high).width(), self.value_type(*low).width());
                let (high, low) = (self.value(*high), self.value(*low));
                self.concat_regs(&high, widths.0, &low, widths.1)
            }
            Inst::Select { cond, then, els } => {
                self.record_condition(*cond);
                let cond = self.value(*cond)[0];
                let (then, els) = (self.value(*then), self.value(*els));
                then.iter().zip(&els).map(|(then, els)| self.select(cond, *then, *els)).collect()
            }
            Inst::IsValid(header) => vec![self.is_valid(*header)],
            Inst::Lookahead(ty) => self.lookahead(*ty),
            Inst::PacketLength => {
                vec![self.load_frame_header(std::mem::offset_of!(crate::abi::FrameHeader, input.len), 4)]
            }
            Inst::InValueSet(set, keys) => {
                let mut word = 0;
                for key in keys {
                    let ty = self.value_type(*key);
                    let regs: ValueRegs = self.value(*key).iter().map(|reg| self.as_number(ty, *reg)).collect();
                    self.store_call_area(word, &regs);
                    word += regs.len();
                }
                let set = self.iconst_u64(set.index() as u64);
                let context = self.context;
                let found = self.call_helper(self.c.helpers.value_set, &[context, set], true);
                // A function that returns a result always has one; the frame only satisfies the
                // type.
                let found = found.unwrap_or(self.frame);
                self.record_branch(found);
                self.cast(Type::Bit(64), Type::Bool, &[found])
            }
            _ => {
                let ty = self.value_type(result);
                let count = crate::code::registers::regs_for(ty);
                (0..count).map(|_| self.iconst_u64(0)).collect()
            }
        }
    }

    fn select(
        &mut self,
        cond: cranelift_codegen::ir::Value,
        then: cranelift_codegen::ir::Value,
        els: cranelift_codegen::ir::Value,
    ) -> cranelift_codegen::ir::Value {
        use cranelift_codegen::ir::InstBuilder;
        self.b.ins().select(cond, then, els)
    }
}
