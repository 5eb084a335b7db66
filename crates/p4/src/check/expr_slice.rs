//! Checks `x[hi:lo]`, `x[lo+:width]` and `x[i]`.

use super::fold::wrap_unsigned;
use super::{Checker, unknown_expr};
use crate::ast;
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, TyKind, Types};
use crate::span::Span;
use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive};

impl Checker<'_> {
    /// Checks the base of a slice and returns it with its width in bits; `None` after an error. A
    /// constant of type `int` counts as wide as the limit.
    fn check_slice_base(&mut self, base: &ast::Expr, span: Span) -> Option<(Expr, u32)> {
        let value = self.check_expr(base, None);
        if value.ty == Types::UNKNOWN {
            return None;
        }
        let value = self.without_enum(value);
        match self.type_kind(value.ty) {
            TyKind::Bit(w) | TyKind::Int(w) => {
                let width = *w;
                Some((value, width))
            }
            TyKind::InfInt => {
                if let ExprKind::Int(v) = &value.kind
                    && !v.is_negative()
                {
                    return Some((value, super::types::MAX_WIDTH));
                }
                self.fail("slice", span, "bits are cut from values with a width, and this is an `int`");
                None
            }
            _ => {
                let type_text = self.type_text(value.ty);
                self.fail(
                    "slice",
                    span,
                    format!("bits are cut from `bit` and `int` values, and this is of type `{type_text}`"),
                );
                None
            }
        }
    }

    /// Checks `base[hi:lo]`.
    pub(super) fn check_slice(&mut self, base: &ast::Expr, hi: &ast::Expr, lo: &ast::Expr, span: Span) -> Expr {
        let base = self.check_slice_base(base, span);
        let (hi_at, lo_at) = (hi.span, lo.span);
        let hi = self.eval_const_int(hi, "the highest bit of a slice");
        let lo = self.eval_const_int(lo, "the lowest bit of a slice");
        let (Some((base, width)), Some(hi), Some(lo)) = (base, hi, lo) else { return unknown_expr(span) };
        let Some(hi) = self.bit_number(&hi, width, hi_at) else { return unknown_expr(span) };
        let Some(lo) = self.bit_number(&lo, width, lo_at) else { return unknown_expr(span) };
        if lo > hi {
            self.error(
                Diagnostic::error("slice", span, format!("the lowest bit {lo} is above the highest bit {hi}"))
                    .help(format!("the highest bit comes first: `[{lo}:{hi}]`")),
            );
            return unknown_expr(span);
        }
        self.slice_bits(base, hi, lo, span)
    }

    fn bit_number(&mut self, bit: &BigInt, width: u32, span: Span) -> Option<u32> {
        match bit.to_u32() {
            Some(bit) if bit < width => Some(bit),
            _ => {
                let message = format!("there is no bit {bit} in a value of {width} bits");
                self.error(
                    Diagnostic::error("slice", span, message)
                        .help(format!("bits are numbered from 0 to {}", i64::from(width) - 1)),
                );
                None
            }
        }
    }

    /// Returns bits `hi..=lo` of a value; a literal if the value is one.
    fn slice_bits(&mut self, base: Expr, hi: u32, lo: u32, span: Span) -> Expr {
        let width = hi - lo + 1;
        let ty = self.intern(TyKind::Bit(width));
        let kind = match base.kind {
            ExprKind::Int(v) => ExprKind::Int(wrap_unsigned(&(v >> lo), width)),
            _ => ExprKind::Slice { base: Box::new(base), hi, lo },
        };
        Expr { kind, ty, span }
    }

    /// Checks `base[lo+:width]`: `width` bits from bit `lo` on. `width` is known at compile time;
    /// `lo` can be a run-time value.
    pub(super) fn check_plus_slice(&mut self, base: &ast::Expr, lo: &ast::Expr, width: &ast::Expr, span: Span) -> Expr {
        let base = self.check_slice_base(base, span);
        let lo_value = self.check_expr(lo, None);
        let width_span = width.span;
        let width = self.eval_const_int(width, "the width of a slice");
        let (Some((base, base_bits)), Some(width)) = (base, width) else { return unknown_expr(span) };
        let Some(bits) = width.to_u32().filter(|w| (1..=base_bits).contains(w)) else {
            self.fail(
                "slice",
                width_span,
                format!("a slice of {width} bits from a value of {base_bits} bits is not possible"),
            );
            return unknown_expr(span);
        };
        if lo_value.ty == Types::UNKNOWN {
            return unknown_expr(span);
        }
        if let ExprKind::Int(value) = &lo_value.kind {
            let Some(lowest) = self.bit_number(value, base_bits, lo.span) else { return unknown_expr(span) };
            let highest = BigInt::from(lowest) + BigInt::from(bits) - 1;
            let Some(highest) = self.bit_number(&highest, base_bits, span) else { return unknown_expr(span) };
            return self.slice_bits(base, highest, lowest, span);
        }
        if !matches!(self.type_kind(lo_value.ty), TyKind::Bit(_)) {
            let type_text = self.type_text(lo_value.ty);
            self.fail("slice", lo.span, format!("the lowest bit of a slice is of an unsigned type, not `{type_text}`"));
            return unknown_expr(span);
        }
        let ty = self.intern(TyKind::Bit(bits));
        Expr { kind: ExprKind::DynSlice { base: Box::new(base), lo: Box::new(lo_value), width: bits }, ty, span }
    }

    /// Checks `base[index]` for a stack or a tuple. An element of a constant list is returned as it
    /// is.
    pub(super) fn check_index(&mut self, base: &ast::Expr, index: &ast::Expr, span: Span) -> Expr {
        let base = self.check_expr(base, None);
        let index_span = index.span;
        let index = self.check_expr(index, None);
        if base.ty == Types::UNKNOWN || index.ty == Types::UNKNOWN {
            return unknown_expr(span);
        }
        match self.type_kind(base.ty).clone() {
            TyKind::Stack(element, size) => {
                let Some(index) = self.check_element_index(index, size, index_span) else { return unknown_expr(span) };
                match (base.kind, &index.kind) {
                    (ExprKind::Aggregate(mut elements, _), ExprKind::Int(i))
                        if elements.iter().all(|e| self.is_known(e)) =>
                    {
                        let i = i.to_usize().unwrap_or(usize::MAX);
                        if i < elements.len() { elements.swap_remove(i) } else { unknown_expr(span) }
                    }
                    (kind, _) => {
                        let base = Expr { kind, ..base };
                        Expr { kind: ExprKind::Index(Box::new(base), Box::new(index)), ty: element, span }
                    }
                }
            }
            TyKind::Tuple(types) => self.tuple_element(base, &types, index, index_span, span),
            _ => {
                let type_text = self.type_text(base.ty);
                self.fail("index", span, format!("`{type_text}` has no elements; stacks and tuples have"));
                unknown_expr(span)
            }
        }
    }

    /// Checks the index of an element in a stack of `size` elements; a constant must be in range.
    /// Returns the index as a number; reports an error at `index_span` and returns `None`.
    fn check_element_index(&mut self, index: Expr, size: u32, index_span: Span) -> Option<Expr> {
        let index = self.without_enum(index);
        match (&index.kind, self.type_kind(index.ty)) {
            (ExprKind::Int(i), _) => {
                if i.is_negative() || *i >= BigInt::from(size) {
                    let message = format!("there is no element {i} in a stack of {size}");
                    self.error(
                        Diagnostic::error("index", index_span, message)
                            .help(format!("elements are numbered from 0 to {}", i64::from(size) - 1)),
                    );
                    return None;
                }
                Some(index)
            }
            (_, TyKind::Bit(_) | TyKind::Int(_) | TyKind::InfInt) => Some(index),
            _ => {
                let type_text = self.type_text(index.ty);
                self.fail("index", index_span, format!("an index is an integer, not `{type_text}`"));
                None
            }
        }
    }

    fn tuple_element(&mut self, base: Expr, types: &[crate::hir::Ty], index: Expr, at: Span, span: Span) -> Expr {
        let ExprKind::Int(i) = &index.kind else {
            self.fail("index", at, "the index of a tuple must be a constant");
            return unknown_expr(span);
        };
        match i.to_usize().filter(|i| *i < types.len()) {
            Some(i) => match base.kind {
                ExprKind::Aggregate(mut elements, _) if elements.iter().all(|e| self.is_known(e)) => {
                    elements.swap_remove(i)
                }
                _ => Expr { kind: ExprKind::Field(Box::new(base), i), ty: types[i], span },
            },
            None => {
                self.fail("index", at, format!("there is no element {i} in a tuple of {}", types.len()));
                unknown_expr(span)
            }
        }
    }
}
