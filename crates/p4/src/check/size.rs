//! Sizes of types in bits.

use super::Checker;
use crate::ast::StructKind;
use crate::hir::{Ty, TyKind};

impl Checker<'_> {
    /// Returns the minimum and maximum size of a value in a packet, in bits; `None` for types that
    /// cannot be in a packet. A union is as large as its smallest or largest member.
    pub(super) fn bit_range(&mut self, ty: Ty) -> Option<(u64, u64)> {
        match self.type_kind(ty).clone() {
            TyKind::Bool => Some((1, 1)),
            TyKind::Bit(width) | TyKind::Int(width) => Some((u64::from(width), u64::from(width))),
            TyKind::Varbit(width) => Some((0, u64::from(width))),
            TyKind::Enum(id) => {
                let underlying = self.prog.enums[id.index()].underlying?;
                self.bit_range(underlying)
            }
            TyKind::NewType(id) => {
                let underlying = self.prog.newtypes[id.index()].of;
                self.bit_range(underlying)
            }
            TyKind::Struct(id, args) => {
                let is_union = self.prog.structs[id.index()].kind == StructKind::HeaderUnion;
                let fields = self.field_types(id, &args);
                let sizes = fields.into_iter().map(|f| self.bit_range(f)).collect::<Option<Vec<_>>>()?;
                Some(match is_union {
                    true => {
                        (sizes.iter().map(|s| s.0).min().unwrap_or(0), sizes.iter().map(|s| s.1).max().unwrap_or(0))
                    }
                    false => sizes.iter().fold((0, 0), |sum, s| (sum.0.saturating_add(s.0), sum.1.saturating_add(s.1))),
                })
            }
            TyKind::Tuple(types) => {
                let sizes = types.into_iter().map(|t| self.bit_range(t)).collect::<Option<Vec<_>>>()?;
                Some(sizes.iter().fold((0, 0), |sum, s| (sum.0.saturating_add(s.0), sum.1.saturating_add(s.1))))
            }
            TyKind::Stack(element, count) => {
                let (lo, hi) = self.bit_range(element)?;
                Some((lo.saturating_mul(u64::from(count)), hi.saturating_mul(u64::from(count))))
            }
            _ => None,
        }
    }

    /// Returns whether the type contains a `varbit`.
    pub(super) fn has_varbit(&mut self, ty: Ty) -> bool {
        match self.type_kind(ty).clone() {
            TyKind::Varbit(_) => true,
            TyKind::Struct(id, args) => self.field_types(id, &args).into_iter().any(|f| self.has_varbit(f)),
            TyKind::Tuple(types) => types.into_iter().any(|t| self.has_varbit(t)),
            TyKind::Stack(element, _) => self.has_varbit(element),
            _ => false,
        }
    }
}
