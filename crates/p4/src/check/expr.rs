//! Checks expressions: dispatch, names and literals.

use super::fold::{type_bounds, wrap_signed, wrap_unsigned};
use super::scope::ScopeEntity;
use super::{Checker, unknown_expr};
use crate::ast::{self, IntLiteral, Path};
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, ExternId, Ty, TyKind, Types};
use crate::span::Span;

impl Checker<'_> {
    /// Checks an expression. `hint` is the expected type, if known. It determines the type of
    /// lists, `{#}` and `...`, but is not enforced (see [`Checker::coerce`]).
    pub(super) fn check_expr(&mut self, expr: &ast::Expr, hint: Option<Ty>) -> Expr {
        self.with_depth(expr.span, |c| c.check_expr_kind(expr, hint)).unwrap_or_else(|| unknown_expr(expr.span))
    }

    /// Checks an expression by its kind. `hint` is the type that the context expects, if any; it
    /// gives a type to lists and numbers that have none of their own. Returns an expression of
    /// unknown type after an error.
    fn check_expr_kind(&mut self, expr: &ast::Expr, hint: Option<Ty>) -> Expr {
        use ast::ExprKind as E;
        let span = expr.span;
        match &expr.kind {
            E::Int(literal) => self.int_literal(literal, span),
            E::Bool(b) => Expr { kind: ExprKind::Bool(*b), ty: Types::BOOL, span },
            E::Str(text) => Expr { kind: ExprKind::Str(text.clone()), ty: Types::STR, span },
            E::Dots => self.check_dots(span, hint),
            E::DontCare => self.report_misplaced(span, "`_` is allowed only as an `out` argument or in a key set"),
            E::Default => self.report_misplaced(span, "`default` is allowed only in key sets and as a label"),
            E::This => self.report_misplaced(span, "`this` can only be used to call a method, as in `this.f()`"),
            E::InvalidHeader => self.check_invalid_header(span, hint),
            E::Name(path) => self.check_name(path, span),
            E::Type(_) => self.report_misplaced(span, "a value is needed here, and this is a type"),
            E::Member { base, member } => self.check_member(base, member, span),
            E::Index { base, index } => self.check_index(base, index, span),
            E::Slice { base, hi, lo } => self.check_slice(base, hi, lo, span),
            E::PlusSlice { base, lo, width } => self.check_plus_slice(base, lo, width, span),
            E::Unary { op, operand } => self.check_unary(*op, operand, span),
            E::Binary { op, op_span, left, right } => self.check_binary(*op, *op_span, left, right, span),
            E::Mux { condition, yes, no } => self.check_mux(condition, yes, no, hint, span),
            E::Cast { ty, operand } => self.check_cast(ty, operand, span),
            E::Call { callee, type_args, args } => self.check_call(callee, type_args, args, hint, span),
            E::Construct { ty, args } => self.construct_expr(ty, args, span),
            E::List(elements) => self.check_list(elements, hint, span),
            E::Struct { fields, rest } => self.check_struct_literal(fields, *rest, hint, span),
            E::Error => unknown_expr(span),
        }
    }

    fn report_misplaced(&mut self, span: Span, message: &str) -> Expr {
        self.fail("misplaced", span, message);
        unknown_expr(span)
    }

    /// Checks an integer literal. One without width has the type `int`; one with width is truncated
    /// to it, with a warning.
    fn int_literal(&mut self, literal: &IntLiteral, span: Span) -> Expr {
        let Some(width) = literal.width else {
            return Expr { kind: ExprKind::Int(literal.value.clone()), ty: Types::INT, span };
        };
        let bits = width.bits.min(super::types::MAX_WIDTH);
        if bits == 0 && width.is_signed {
            return self.report_misplaced(span, "a signed number has at least 1 bit");
        }
        let kind = if width.is_signed { TyKind::Int(bits) } else { TyKind::Bit(bits) };
        let ty = self.intern(kind);
        let value = &literal.value;
        let truncated = if width.is_signed { wrap_signed(value, bits) } else { wrap_unsigned(value, bits) };
        let (min, max) = type_bounds(bits, width.is_signed);
        if *value < min || *value > max {
            let type_text = self.type_text(ty);
            let message = format!("value {value} does not fit in `{type_text}` and becomes {truncated}");
            self.report(Diagnostic::warning("overflow", span, message));
        }
        Expr { kind: ExprKind::Int(truncated), ty, span }
    }

    /// Checks `...`.
    fn check_dots(&mut self, span: Span, hint: Option<Ty>) -> Expr {
        let Some(ty) = hint.map(|ty| self.resolve(ty)).filter(|ty| !matches!(self.type_kind(*ty), TyKind::Infer(_)))
        else {
            return self.report_misplaced(span, "`...` is a default value, and its type is not known here");
        };
        self.default_value(ty, span)
    }

    /// Returns the default value of a type, as a literal if possible.
    pub(super) fn default_value(&mut self, ty: Ty, span: Span) -> Expr {
        match self.type_kind(ty) {
            TyKind::Unknown => unknown_expr(span),
            TyKind::Bool => Expr { kind: ExprKind::Bool(false), ty, span },
            TyKind::InfInt | TyKind::Bit(_) | TyKind::Int(_) => Expr { kind: ExprKind::Int(0.into()), ty, span },
            TyKind::Extern(..)
            | TyKind::Object(..)
            | TyKind::Void
            | TyKind::Str
            | TyKind::MatchKind
            | TyKind::List(_)
            | TyKind::ApplyResult(_)
            | TyKind::ActionRun(_) => {
                let shown = self.type_text(ty);
                self.report_misplaced(span, &format!("`{shown}` has no default value"))
            }
            _ => Expr { kind: ExprKind::Default, ty, span },
        }
    }

    /// Checks `{#}`.
    fn check_invalid_header(&mut self, span: Span, hint: Option<Ty>) -> Expr {
        let hinted = hint.map(|ty| self.resolve(ty));
        let header = hinted
            .filter(|ty| matches!(self.struct_kind(*ty), Some(ast::StructKind::Header | ast::StructKind::HeaderUnion)));
        let ty = header.unwrap_or_else(|| self.intern(TyKind::InvalidHeader));
        Expr { kind: ExprKind::InvalidHeader, ty, span }
    }

    /// Checks a name used as a value. A constant is replaced by its value; a table, action or
    /// function is an error.
    fn check_name(&mut self, path: &Path, span: Span) -> Expr {
        if self.scopes.lookup(path).is_none()
            && let Some(kind) = self.prog.match_kinds.iter().position(|k| **k == *path.as_str())
        {
            return Expr { kind: ExprKind::MatchKind(kind), ty: Types::MATCH_KIND, span };
        }
        let Some(entity) = self.lookup(path) else { return unknown_expr(span) };
        match entity {
            ScopeEntity::Const(value) => match self.check_copy_limit(&value, span) {
                true => Expr { span, ..*value },
                false => unknown_expr(span),
            },
            ScopeEntity::Local(id) => Expr { kind: ExprKind::Local(id), ty: self.local_decl(id).ty, span },
            ScopeEntity::Instance(id) => {
                Expr { kind: ExprKind::Instance(id), ty: self.prog.instances[id.index()].ty, span }
            }
            ScopeEntity::Functions(_) | ScopeEntity::Action(_) => {
                let entity_text = entity.what();
                let message = format!("`{path}` is {entity_text}, and a value is needed here");
                self.error(
                    Diagnostic::error("not-a-value", span, message).help(format!("call it, as in `{path}(...)`")),
                );
                unknown_expr(span)
            }
            ScopeEntity::Table(_) => {
                let message = format!("`{path}` is a table, and a value is needed here");
                self.error(
                    Diagnostic::error("not-a-value", span, message)
                        .help(format!("apply it, as in `{path}.apply()` or `{path}.apply().hit`")),
                );
                unknown_expr(span)
            }
            other => {
                let message = format!("`{path}` is {}, and a value is needed here", other.what());
                self.fail("not-a-value", span, message);
                unknown_expr(span)
            }
        }
    }

    /// Returns the extern and type arguments of an extern type.
    pub(super) fn as_extern(&self, ty: Ty) -> Option<(ExternId, Vec<Ty>)> {
        match self.type_kind(ty) {
            TyKind::Extern(id, args) => Some((*id, args.clone())),
            _ => None,
        }
    }
}
