//! Checks explicit casts (specification, "Casts").

use super::{Checker, unknown_expr};
use crate::ast;
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, Ty, TyKind, Types};
use crate::span::Span;
use num_bigint::BigInt;
use num_traits::{One, Zero};

impl Checker<'_> {
    /// Checks `(ty) operand`.
    pub(super) fn check_cast(&mut self, ty: &ast::Type, operand: &ast::Expr, span: Span) -> Expr {
        let to = self.resolve_type(ty);
        if to == Types::UNKNOWN {
            self.check_expr(operand, None);
            return unknown_expr(span);
        }
        let value = self.check_expr(operand, Some(to));
        self.cast_value(value, to, span)
    }

    /// Converts a value to the type `to` by an explicit cast: an implicit conversion where one
    /// exists, because it covers lists and structs, otherwise a cast of scalars. `span` is the
    /// whole cast.
    pub(super) fn cast_value(&mut self, value: Expr, to: Ty, span: Span) -> Expr {
        if value.ty == Types::UNKNOWN {
            return Expr { ty: to, ..value };
        }
        if matches!(self.type_kind(to), TyKind::Void | TyKind::Extern(..) | TyKind::Object(..) | TyKind::Varbit(_))
            && value.ty != to
        {
            return self.report_bad_cast(&value, to, span, None);
        }
        let value = match value.ty == Types::INT || value.ty == to {
            true => value,
            false => match self.implicit_quietly(value, to) {
                Ok(value) => return Expr { span, ..value },
                Err(value) => value,
            },
        };
        if !self.can_cast(value.ty, to) {
            return self.report_bad_cast(&value, to, span, None);
        }
        self.apply_cast(value, to, span)
    }

    /// Applies [`Checker::convert_implicitly`] to lists, structs and `{#}` only, because casts
    /// convert them like assignments.
    fn implicit_quietly(&mut self, value: Expr, to: Ty) -> Result<Expr, Expr> {
        match self.type_kind(value.ty) {
            TyKind::Tuple(_) | TyKind::InvalidHeader | TyKind::Struct(..) => self.convert_implicitly(value, to),
            _ => Err(value),
        }
    }

    fn report_bad_cast(&mut self, value: &Expr, to: Ty, span: Span, help: Option<&str>) -> Expr {
        let (from, shown) = (self.type_text(value.ty), self.type_text(to));
        let mut diagnostic = Diagnostic::error("cast", span, format!("`{from}` cannot be cast to `{shown}`"));
        if let Some(help) = help {
            diagnostic = diagnostic.help(help);
        } else if let (Some(_), TyKind::NewType(id)) = (self.width_bits(value.ty), self.type_kind(to)) {
            let of = self.type_text(self.prog.newtypes[id.index()].of);
            diagnostic = diagnostic.help(format!("a `{shown}` is made of a `{of}`: cast to that first"));
        } else if self.width_bits(value.ty).is_some() && self.width_bits(to).is_some() {
            diagnostic = diagnostic.help("change width and signedness in two casts, as in `(int<8>)(bit<8>)x`");
        }
        self.error(diagnostic);
        unknown_expr(span)
    }

    /// Applies a cast of scalars that [`Checker::can_cast`] allows. A constant is folded.
    fn apply_cast(&mut self, value: Expr, to: Ty, span: Span) -> Expr {
        let kind = match value.kind {
            ExprKind::Int(number) if to == Types::BOOL => {
                if value.ty == Types::INT && !number.is_zero() && !number.is_one() {
                    let value = Expr { kind: ExprKind::Int(number), ..value };
                    return self.report_bad_cast(&value, to, span, Some("only 0 and 1 can be cast to `bool`"));
                }
                ExprKind::Bool(number.is_one())
            }
            ExprKind::Bool(truth) if self.width_bits(to).is_some() => {
                ExprKind::Int(self.truncate_to_type(&BigInt::from(u8::from(truth)), to))
            }
            ExprKind::Int(number) => {
                match value.ty == Types::INT && matches!(self.type_kind(to), TyKind::Bit(_) | TyKind::Int(_)) {
                    true => ExprKind::Int(self.truncate_or_warn(&number, to, span)),
                    false => ExprKind::Int(self.truncate_to_type(&number, to)),
                }
            }
            kind if value.ty == to => kind,
            kind => ExprKind::Cast(Box::new(Expr { kind, ..value })),
        };
        Expr { kind, ty: to, span }
    }

    /// Returns whether a scalar of type `from` can be cast to `to`. Enums and new types are cast
    /// through their underlying types.
    pub(super) fn can_cast(&self, from: Ty, to: Ty) -> bool {
        if from == to {
            return true;
        }
        match (self.type_kind(from), self.type_kind(to)) {
            (TyKind::Enum(id), _) => match self.prog.enums[id.index()].underlying {
                Some(underlying) => underlying == to || self.can_cast(underlying, to),
                None => false,
            },
            (_, TyKind::Enum(id)) => match self.prog.enums[id.index()].underlying {
                Some(underlying) => underlying == from || self.can_cast(from, underlying),
                None => false,
            },
            // A new type can only be cast from and to its underlying type.
            (TyKind::NewType(id), _) if self.prog.newtypes[id.index()].of == to => true,
            (_, TyKind::NewType(id)) => {
                let underlying = self.prog.newtypes[id.index()].of;
                underlying == from
                    || (matches!(self.type_kind(from), TyKind::InfInt) && self.can_cast(from, underlying))
            }
            (TyKind::Bool, TyKind::Bit(width)) | (TyKind::Bit(width), TyKind::Bool) => *width == 1,
            (TyKind::InfInt, TyKind::Bit(_) | TyKind::Int(_) | TyKind::Bool) => true,
            (TyKind::Bit(_) | TyKind::Int(_), TyKind::InfInt) => true,
            (TyKind::Bit(_), TyKind::Bit(_)) | (TyKind::Int(_), TyKind::Int(_)) => true,
            (TyKind::Bit(from_bits), TyKind::Int(to_bits)) | (TyKind::Int(from_bits), TyKind::Bit(to_bits)) => {
                from_bits == to_bits
            }
            _ => false,
        }
    }
}
