//! Methods of `packet_in` and `packet_out`, and `verify`.

use super::lowering::{Lower, Res};
use super::place::{Leaf, Place, header_id};
use super::shape::Shape;
use super::value::{Access, Val};
use crate::hir::{Call, CallArg, Expr, Ty};
use crate::span::Span;
use ir::{HeaderId, Type, Value};

impl Lower<'_> {
    /// A method of `packet_in`.
    pub(super) fn packet_in(&mut self, method: &str, call: &Call, ty: Ty) -> Res<Val> {
        match method {
            "extract" => self.extract(call),
            "lookahead" => {
                // Also a call whose result nobody wants may find the packet too short.
                let ty = call.type_args.first().copied().unwrap_or(ty);
                self.lookahead(ty, call.span)
            }
            "advance" => {
                let bits = self.scalar_arg(call, 0)?;
                self.b.advance(bits);
                Ok(Val::Void)
            }
            "length" => Ok(Val::Scalar(self.b.packet_length())),
            _ => self.unsupported(call.span, format_args!("`packet_in.{method}`")),
        }
    }

    fn extract(&mut self, call: &Call) -> Res<Val> {
        let Some(arg) = call.args.first() else { return Ok(Val::Void) };
        let (access, ty) = match arg {
            CallArg::Expr(header) => (self.arg_access(0, header)?, header.ty),
            _ => {
                let ty = call.type_args.first().copied().unwrap_or(crate::hir::Types::VOID);
                let place = self.temporary("skipped", ty, call.span)?;
                (Access::Place(place), ty)
            }
        };
        let bits = self.optional_scalar_arg(call, 1)?;
        match access {
            Access::Place(place) => self.extract_to(&place, bits, call.span)?,
            Access::Dynamic { candidates, index, next } => {
                self.choose(index, candidates.len(), |lower, n| match n {
                    Some(n) => {
                        lower.extract_to(&candidates[n], bits, call.span)?;
                        if let Some(next) = next {
                            let new = lower.b.bits(32, n + 1);
                            lower.b.store(next, new);
                        }
                        Ok(())
                    }
                    None if next.is_some() => {
                        // Out of bounds, which the check of `.next` has rejected already.
                        lower.b.reject();
                        Ok(())
                    }
                    None => {
                        let place = lower.temporary("skipped", ty, call.span)?;
                        lower.extract_to(&place, bits, call.span)
                    }
                })?;
            }
            _ => return self.unsupported(call.span, "extracting to this"),
        }
        Ok(Val::Void)
    }

    fn extract_to(&mut self, place: &Place, bits: Option<Value>, span: Span) -> Res<()> {
        let Some(header) = header_id(place) else {
            return self.unsupported(span, "extracting what is not a header");
        };
        match bits {
            Some(bits) => self.b.extract_varbit(header, bits),
            None => self.b.extract(header),
        }
        Ok(())
    }

    fn lookahead(&mut self, ty: Ty, span: Span) -> Res<Val> {
        if let Shape::Scalar(scalar) = self.shape(ty) {
            return Ok(Val::Scalar(self.b.lookahead(scalar)));
        }
        let mut leaves = Vec::new();
        self.leaves(ty, &mut leaves);
        let total = leaves.iter().fold(0u64, |sum, ty| sum + u64::from(ty.width()));
        let plain = leaves.iter().all(|ty| matches!(ty, Type::Bit(_) | Type::Int(_) | Type::Bool));
        let Some(total) = u32::try_from(total).ok().filter(|w| plain && *w <= ir::MAX_WIDTH) else {
            return self.unsupported(span, "looking ahead at a value of this type");
        };
        let bits = self.b.lookahead(Type::Bit(total));
        let mut at = total;
        let mut values = Vec::new();
        for leaf in leaves {
            let value = match leaf.width() {
                0 => self.zero(Type::Bit(0)),
                width => self.b.slice(bits, at - 1, at - width),
            };
            at -= leaf.width();
            values.push(self.b.cast(leaf, value));
        }
        let ty = self.ty(ty);
        Ok(self.unflatten(ty, &mut values.into_iter()))
    }

    /// A method of `packet_out`.
    pub(super) fn packet_out(&mut self, method: &str, call: &Call) -> Res<Val> {
        let (Some(CallArg::Expr(data)), "emit") = (call.args.first(), method) else {
            return self.unsupported(call.span, format_args!("`packet_out.{method}`"));
        };
        let val = self.arg_value(0, data)?;
        self.emit_value(&val, data.ty, data)?;
        Ok(Val::Void)
    }

    fn emit_value(&mut self, val: &Val, ty: Ty, data: &Expr) -> Res<()> {
        match val {
            Val::Ref(place) => {
                let mut headers: Vec<HeaderId> = Vec::new();
                place.for_each_leaf(&mut |leaf| {
                    if let Leaf::Header(id) = leaf {
                        headers.push(id);
                    }
                });
                headers.into_iter().for_each(|id| self.b.emit(id));
            }
            Val::Struct(parts) | Val::Stack(parts, _) => {
                for (n, part) in parts.iter().enumerate() {
                    let ty = self.member_type(ty, n);
                    self.emit_value(part, ty, data)?;
                }
            }
            Val::Header(..) => {
                let place = self.materialise(val, ty, data.span)?;
                self.emit_value(&Val::Ref(place), ty, data)?;
            }
            Val::Invalid(_) | Val::Void => {}
            _ => return self.unsupported(data.span, "emitting what is not a header"),
        }
        Ok(())
    }

    /// `verify(check, error)`
    pub(super) fn verify_call(&mut self, call: &Call) -> Res<Val> {
        let check = self.scalar_arg(call, 0)?;
        let error = self.scalar_arg(call, 1)?;
        self.b.verify(check, error);
        Ok(Val::Void)
    }
}
