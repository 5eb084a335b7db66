//! Lowers methods of `packet_in` and `packet_out`, and `verify`.

use super::lowering::{LowerResult, Lowering};
use super::storage::{Storage, StorageLeaf, header_id};
use super::type_layout::TypeLayout;
use super::value::{LValue, RValue};
use crate::hir::{Call, CallArg, Expr, Ty};
use crate::span::Span;
use ir::{HeaderId, Type, Value};

impl Lowering<'_> {
    /// Lowers a method of `packet_in`.
    pub(super) fn packet_in(&mut self, method: &str, call: &Call, ty: Ty) -> LowerResult<RValue> {
        match method {
            "extract" => self.lower_extract(call),
            "lookahead" => {
                // A call with an unused result is kept, because it can fail on a short packet.
                let ty = call.type_args.first().copied().unwrap_or(ty);
                self.lower_lookahead(ty, call.span)
            }
            "advance" => {
                let bits = self.scalar_arg(call, 0)?;
                self.builder.advance(bits);
                Ok(RValue::Void)
            }
            "length" => Ok(RValue::Scalar(self.builder.packet_length())),
            _ => self.unsupported(call.span, format_args!("`packet_in.{method}`")),
        }
    }

    /// Lowers `extract(header)` or `extract(header, bits)`, where `bits` is the size of the
    /// header's `varbit` field. `extract(_)` reads into a temporary header. For `stack.next`, each
    /// element has its own path, which also advances the stack's next index.
    fn lower_extract(&mut self, call: &Call) -> LowerResult<RValue> {
        let Some(arg) = call.args.first() else { return Ok(RValue::Void) };
        let (access, ty) = match arg {
            CallArg::Expr(header) => (self.arg_access(0, header)?, header.ty),
            _ => {
                let ty = call.type_args.first().copied().unwrap_or(crate::hir::Types::VOID);
                let storage = self.allocate_temporary("skipped", ty, call.span)?;
                (LValue::Storage(storage), ty)
            }
        };
        let bits = self.optional_scalar_arg(call, 1)?;
        match access {
            LValue::Storage(storage) => self.extract_to(&storage, bits, call.span)?,
            LValue::Dynamic { candidates, index, next } => {
                self.emit_index_paths(index, candidates.len(), |lower, n| match n {
                    Some(n) => {
                        lower.extract_to(&candidates[n], bits, call.span)?;
                        if let Some(next) = next {
                            let advanced = lower.builder.bits(32, n + 1);
                            lower.builder.store(next, advanced);
                        }
                        Ok(())
                    }
                    None if next.is_some() => {
                        // Out of bounds; the check of `.next` already rejected the packet.
                        lower.builder.reject();
                        Ok(())
                    }
                    None => {
                        // The packet advances even if the index selects no element.
                        let storage = lower.allocate_temporary("skipped", ty, call.span)?;
                        lower.extract_to(&storage, bits, call.span)
                    }
                })?;
            }
            _ => return self.unsupported(call.span, "extracting to this"),
        }
        Ok(RValue::Void)
    }

    fn extract_to(&mut self, place: &Storage, bits: Option<Value>, span: Span) -> LowerResult<()> {
        let Some(header) = header_id(place) else {
            return self.unsupported(span, "extracting into something other than a header");
        };
        match bits {
            Some(bits) => self.builder.extract_varbit(header, bits),
            None => self.builder.extract(header),
        }
        Ok(())
    }

    /// Lowers `lookahead<T>()`: reads the bits of a value of type `ty` without advancing. A struct
    /// or header is read as one wide scalar and cut into its leaves, the first in the highest bits.
    fn lower_lookahead(&mut self, ty: Ty, span: Span) -> LowerResult<RValue> {
        if let TypeLayout::Scalar(scalar) = self.layout(ty) {
            return Ok(RValue::Scalar(self.builder.lookahead(scalar)));
        }
        let mut leaves = Vec::new();
        self.append_scalar_types(ty, &mut leaves);
        let total_bits = leaves.iter().fold(0u64, |sum, ty| sum + u64::from(ty.width()));
        let has_fixed_width = leaves.iter().all(|ty| matches!(ty, Type::Bit(_) | Type::Int(_) | Type::Bool));
        let Some(total_bits) = u32::try_from(total_bits).ok().filter(|w| has_fixed_width && *w <= ir::MAX_WIDTH) else {
            return self.unsupported(span, "looking ahead at a value of this type");
        };
        let bits = self.builder.lookahead(Type::Bit(total_bits));
        let mut end_bit = total_bits;
        let mut values = Vec::new();
        for leaf in leaves {
            let value = match leaf.width() {
                0 => self.zero_constant(Type::Bit(0)),
                width => self.builder.slice(bits, end_bit - 1, end_bit - width),
            };
            end_bit -= leaf.width();
            values.push(self.builder.cast(leaf, value));
        }
        let ty = self.substitute_scope_params(ty);
        Ok(self.build_from_scalars(ty, &mut values.into_iter()))
    }

    /// Lowers a method of `packet_out`.
    pub(super) fn packet_out(&mut self, method: &str, call: &Call) -> LowerResult<RValue> {
        let (Some(CallArg::Expr(data)), "emit") = (call.args.first(), method) else {
            return self.unsupported(call.span, format_args!("`packet_out.{method}`"));
        };
        let val = self.arg_value(0, data)?;
        self.emit_value(&val, data.ty, data)?;
        Ok(RValue::Void)
    }

    /// Emits the headers in a value of type `ty`, in order; an invalid header emits nothing at run
    /// time. `data` is the argument, for errors. A header that is not in storage is stored first.
    fn emit_value(&mut self, val: &RValue, ty: Ty, data: &Expr) -> LowerResult<()> {
        match val {
            RValue::Ref(storage) => {
                let mut headers: Vec<HeaderId> = Vec::new();
                storage.for_each_leaf(&mut |leaf| {
                    if let StorageLeaf::Header(id) = leaf {
                        headers.push(id);
                    }
                });
                headers.into_iter().for_each(|id| self.builder.emit(id));
            }
            RValue::Struct(parts) | RValue::Stack(parts, _) => {
                for (n, part) in parts.iter().enumerate() {
                    let ty = self.member_type(ty, n);
                    self.emit_value(part, ty, data)?;
                }
            }
            RValue::Header(..) => {
                let storage = self.store_in_temporary(val, ty, data.span)?;
                self.emit_value(&RValue::Ref(storage), ty, data)?;
            }
            RValue::Invalid(_) | RValue::Void => {}
            _ => return self.unsupported(data.span, "emitting something other than a header"),
        }
        Ok(())
    }

    /// Lowers `verify(check, error)`.
    pub(super) fn verify_call(&mut self, call: &Call) -> LowerResult<RValue> {
        let check = self.scalar_arg(call, 0)?;
        let error = self.scalar_arg(call, 1)?;
        self.builder.verify(check, error);
        Ok(RValue::Void)
    }
}
