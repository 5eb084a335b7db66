//! Implicit conversions to an expected type (specification, "Implicit casts").

use super::{Checker, unknown_expr};
use crate::ast::StructKind;
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, Ty, TyKind, Types};
use crate::span::Span;

impl Checker<'_> {
    /// Converts an expression to the expected type, or reports a mismatch.
    pub(super) fn coerce(&mut self, expr: Expr, to: Ty) -> Expr {
        let span = expr.span;
        match self.convert_implicitly(expr, to) {
            Ok(expr) => expr,
            Err(expr) => {
                self.report_mismatch(&expr, to, None, false);
                unknown_expr(span)
            }
        }
    }

    /// Converts an expression to the expected type, or reports a mismatch with a label at the
    /// origin of the type.
    pub(super) fn coerce_for(&mut self, expr: Expr, to: Ty, origin: Span, why: &str) -> Expr {
        let span = expr.span;
        match self.convert_implicitly(expr, to) {
            Ok(expr) => expr,
            Err(expr) => {
                self.report_mismatch(&expr, to, Some((origin, why.to_owned())), false);
                unknown_expr(span)
            }
        }
    }

    /// Reports that an expression has another type than `to`. `expected_because` labels the place
    /// that demands the type. Suggests an explicit cast if there is one, unless `needs_exact_type`:
    /// a cast would then not help, because the place needs a value that already has the type.
    pub(super) fn report_mismatch(
        &mut self,
        expr: &Expr,
        to: Ty,
        expected_because: Option<(Span, String)>,
        needs_exact_type: bool,
    ) {
        let (found, wanted) = (self.type_text(expr.ty), self.type_text(to));
        let message = match (self.type_kind(expr.ty), &expr.kind) {
            (TyKind::Tuple(elements), ExprKind::Aggregate(_, _)) => {
                format!("a list of {} values does not fit `{wanted}`", elements.len())
            }
            (TyKind::InvalidHeader, _) => format!("`{{#}}` is not a value of `{wanted}`"),
            _ => format!("`{wanted}` is needed here, and this is of type `{found}`"),
        };
        let mut diagnostic = Diagnostic::error("type-mismatch", expr.span, message);
        if let Some((span, reason)) = expected_because {
            diagnostic = diagnostic.label(span, reason);
        }
        if !needs_exact_type && self.can_cast(expr.ty, to) {
            let text = self.sources.text(expr.span);
            // A long expression is not repeated in the help.
            let text = if text.len() <= 40 && !text.contains('\n') { text } else { "..." };
            let is_simple = text.chars().all(|c| c.is_alphanumeric() || "_.".contains(c)) && !text.is_empty();
            let operand = if is_simple || is_parenthesized(text) { text.to_owned() } else { format!("({text})") };
            diagnostic = diagnostic.help(format!("to convert explicitly, write `({wanted}){operand}`"));
        }
        self.error(diagnostic);
    }

    /// Converts the expression to type `to` if an implicit cast suffices; inference variables in
    /// both types can be solved by it. Returns the unchanged expression as error otherwise.
    pub(super) fn convert_implicitly(&mut self, mut expr: Expr, to: Ty) -> Result<Expr, Expr> {
        let to = self.resolve(to);
        self.resolve_expr_types(&mut expr);
        if expr.ty == to || to == Types::UNKNOWN {
            return Ok(expr);
        }
        // The error was reported already; the expected type avoids further ones.
        if expr.ty == Types::UNKNOWN {
            return Ok(Expr { ty: to, ..expr });
        }
        match (self.type_kind(expr.ty).clone(), self.type_kind(to).clone()) {
            (TyKind::InfInt, TyKind::Bit(_) | TyKind::Int(_)) => Ok(self.give_int_width(expr, to)),
            (TyKind::InfInt, TyKind::NewType(_)) if self.width_bits(to).is_some() => Ok(self.give_int_width(expr, to)),
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
            (TyKind::Tuple(_), _) if matches!(expr.kind, ExprKind::Aggregate(_, _)) => self.convert_list(expr, to),
            _ => {
                if self.unify(expr.ty, to) {
                    self.resolve_expr_types(&mut expr);
                    Ok(expr)
                } else {
                    Err(expr)
                }
            }
        }
    }

    /// Gives an arbitrary-precision integer a width.
    fn give_int_width(&mut self, expr: Expr, to: Ty) -> Expr {
        match &expr.kind {
            ExprKind::Int(value) => {
                let value = self.truncate_or_warn(&value.clone(), to, expr.span);
                Expr { kind: ExprKind::Int(value), ty: to, span: expr.span }
            }
            _ => Expr { span: expr.span, kind: ExprKind::Cast(Box::new(expr)), ty: to },
        }
    }

    /// Changes the type of a value to another type with the same bits.
    pub(super) fn retype(&self, expr: Expr, to: Ty) -> Expr {
        match expr.kind {
            ExprKind::Int(value) => {
                Expr { kind: ExprKind::Int(self.truncate_to_type(&value, to)), ty: to, span: expr.span }
            }
            _ => Expr { span: expr.span, kind: ExprKind::Cast(Box::new(expr)), ty: to },
        }
    }

    /// Converts a list of values to a struct, header, stack, list or tuple, element by element.
    /// Returns the unchanged list as error if the type has no elements or another number of them.
    fn convert_list(&mut self, expr: Expr, to: Ty) -> Result<Expr, Expr> {
        let ExprKind::Aggregate(elements, _) = &expr.kind else { return Err(expr) };
        let types = match self.type_kind(to).clone() {
            TyKind::Struct(id, args) => {
                if self.prog.structs[id.index()].kind == StructKind::HeaderUnion {
                    return Err(expr);
                }
                self.field_types(id, &args)
            }
            TyKind::Tuple(types) => types,
            TyKind::Stack(element, n) if elements.len() == n as usize => vec![element; elements.len()],
            TyKind::List(element) => vec![element; elements.len()],
            TyKind::Infer(var) => {
                self.solve_var(var, expr.ty);
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

    /// Checks a boolean condition of `what`.
    pub(super) fn check_condition(&mut self, expr: &crate::ast::Expr, what: &str) -> Expr {
        let value = self.check_expr(expr, Some(Types::BOOL));
        match self.convert_implicitly(value, Types::BOOL) {
            Ok(value) => value,
            Err(value) => {
                let shown = self.type_text(value.ty);
                let mut diagnostic =
                    Diagnostic::error("condition", expr.span, format!("the condition of {what} is of type `{shown}`"));
                if self.width_bits(value.ty).is_some() {
                    diagnostic = diagnostic.help("a condition is a `bool`: compare it, as in `x != 0`");
                }
                self.error(diagnostic);
                unknown_expr(expr.span)
            }
        }
    }
}

/// Returns whether one pair of parentheses encloses the whole text.
fn is_parenthesized(text: &str) -> bool {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at > 0 && at + 1 == text.len();
        }
    }
    false
}
