//! Implicit conversions: what may stand where a type is expected (specification "Implicit casts").

use super::{Checker, unknown};
use crate::ast::StructKind;
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, Ty, TyKind, Types};
use crate::span::Span;

impl Checker<'_> {
    /// Converts an expression to the type that is expected, or reports that this is not possible.
    pub(super) fn coerce(&mut self, expr: Expr, to: Ty) -> Expr {
        let span = expr.span;
        match self.implicit(expr, to) {
            Ok(expr) => expr,
            Err(expr) => {
                self.mismatch(&expr, to, None, false);
                unknown(span)
            }
        }
    }

    /// The same, with a note where the type comes from.
    pub(super) fn coerce_for(&mut self, expr: Expr, to: Ty, origin: Span, why: &str) -> Expr {
        let span = expr.span;
        match self.implicit(expr, to) {
            Ok(expr) => expr,
            Err(expr) => {
                self.mismatch(&expr, to, Some((origin, why.to_owned())), false);
                unknown(span)
            }
        }
    }

    /// Reports that an expression does not have the type that is needed. `exact`: a cast would not help.
    pub(super) fn mismatch(&mut self, expr: &Expr, to: Ty, origin: Option<(Span, String)>, exact: bool) {
        let (found, wanted) = (self.show(expr.ty), self.show(to));
        let message = match (self.kind(expr.ty), &expr.kind) {
            (TyKind::Tuple(elements), ExprKind::Aggregate(_, _)) => {
                format!("a list of {} values does not fit `{wanted}`", elements.len())
            }
            (TyKind::InvalidHeader, _) => format!("`{{#}}` is no value of `{wanted}`"),
            _ => format!("`{wanted}` is needed here, and this is of type `{found}`"),
        };
        let mut diagnostic = Diagnostic::error("type-mismatch", expr.span, message);
        if let Some((span, why)) = origin {
            diagnostic = diagnostic.label(span, why);
        }
        if !exact && self.can_cast(expr.ty, to) {
            let text = self.sources.text(expr.span);
            let text = if text.len() <= 40 && !text.contains('\n') { text } else { "..." };
            let simple = text.chars().all(|c| c.is_alphanumeric() || "_.".contains(c)) && !text.is_empty();
            let operand = if simple || text.starts_with('(') { text.to_owned() } else { format!("({text})") };
            diagnostic = diagnostic.help(format!("if the change of type is meant, write `({wanted}){operand}`"));
        }
        self.error(diagnostic);
    }

    /// The expression as a value of type `to`, if that takes at most an implicit cast; else the expression as it was.
    pub(super) fn implicit(&mut self, mut expr: Expr, to: Ty) -> Result<Expr, Expr> {
        let to = self.resolve(to);
        self.settle(&mut expr);
        if expr.ty == to || to == Types::UNKNOWN {
            return Ok(expr);
        }
        if expr.ty == Types::UNKNOWN {
            return Ok(Expr { ty: to, ..expr });
        }
        match (self.kind(expr.ty).clone(), self.kind(to).clone()) {
            (TyKind::InfInt, TyKind::Bit(_) | TyKind::Int(_)) => Ok(self.sized_int(expr, to)),
            (TyKind::InfInt, TyKind::NewType(_)) if self.width(to).is_some() => Ok(self.sized_int(expr, to)),
            (TyKind::Bit(_) | TyKind::Int(_), TyKind::InfInt) => Ok(self.retype(expr, to)),
            (TyKind::Enum(id), TyKind::Bit(_) | TyKind::Int(_))
                if self.prog.enums[id.index()].underlying == Some(to) =>
            {
                Ok(self.retype(expr, to))
            }
            (TyKind::InvalidHeader, TyKind::Struct(id, _))
                if self.prog.structs[id.index()].kind != StructKind::Struct =>
            {
                Ok(Expr { ty: to, ..expr })
            }
            (TyKind::Tuple(_), _) if matches!(expr.kind, ExprKind::Aggregate(_, _)) => self.list_as(expr, to),
            _ => {
                if self.unify(expr.ty, to) {
                    self.settle(&mut expr);
                    Ok(expr)
                } else {
                    Err(expr)
                }
            }
        }
    }

    /// An arbitrary-precision integer as one with a width.
    fn sized_int(&mut self, expr: Expr, to: Ty) -> Expr {
        match &expr.kind {
            ExprKind::Int(value) => {
                let value = self.wrap_or_warn(&value.clone(), to, expr.span);
                Expr { kind: ExprKind::Int(value), ty: to, span: expr.span }
            }
            _ => Expr { span: expr.span, kind: ExprKind::Cast(Box::new(expr)), ty: to },
        }
    }

    /// The same value under another type of the same bits.
    pub(super) fn retype(&self, expr: Expr, to: Ty) -> Expr {
        match expr.kind {
            ExprKind::Int(value) => Expr { kind: ExprKind::Int(self.wrap(&value, to)), ty: to, span: expr.span },
            _ => Expr { span: expr.span, kind: ExprKind::Cast(Box::new(expr)), ty: to },
        }
    }

    /// A list of values as a struct, header, stack, list or tuple.
    fn list_as(&mut self, expr: Expr, to: Ty) -> Result<Expr, Expr> {
        let ExprKind::Aggregate(elements, _) = &expr.kind else { return Err(expr) };
        let types = match self.kind(to).clone() {
            TyKind::Struct(id, args) => {
                if self.prog.structs[id.index()].kind == StructKind::HeaderUnion {
                    return Err(expr);
                }
                self.fields_of(id, &args)
            }
            TyKind::Tuple(types) => types,
            TyKind::Stack(element, n) if elements.len() == n as usize => vec![element; elements.len()],
            TyKind::List(element) => vec![element; elements.len()],
            TyKind::Infer(var) => {
                self.bind(var, expr.ty);
                return Ok(expr);
            }
            _ => return Err(expr),
        };
        if types.len() != elements.len() {
            return Err(expr);
        }
        let ExprKind::Aggregate(elements, order) = expr.kind else { return Err(expr) };
        let elements = elements.into_iter().zip(types).map(|(e, ty)| self.coerce(e, ty)).collect();
        let to = self.resolve(to);
        Ok(Expr { kind: ExprKind::Aggregate(elements, order), ty: to, span: expr.span })
    }

    /// A boolean condition of `what`.
    pub(super) fn condition(&mut self, expr: &crate::ast::Expr, what: &str) -> Expr {
        let value = self.expr(expr, Some(Types::BOOL));
        match self.implicit(value, Types::BOOL) {
            Ok(value) => value,
            Err(value) => {
                let shown = self.show(value.ty);
                let mut diagnostic =
                    Diagnostic::error("condition", expr.span, format!("the condition of {what} is of type `{shown}`"));
                if self.width(value.ty).is_some() {
                    diagnostic = diagnostic.help("a condition is a `bool`: compare it, as in `x != 0`");
                }
                self.error(diagnostic);
                unknown(expr.span)
            }
        }
    }
}
