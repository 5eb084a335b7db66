//! Expressions: the dispatch, names and literals.

use super::fold::{bounds, wrap_signed, wrap_unsigned};
use super::scope::Entity;
use super::{Checker, unknown};
use crate::ast::{self, IntLiteral, Path};
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, ExternId, Ty, TyKind, Types};
use crate::span::Span;

impl Checker<'_> {
    /// Checks an expression. `hint` is the type that is expected, if one is: it gives lists, `{#}` and `...` their
    /// type, but is not enforced (see [`Checker::coerce`]).
    pub(super) fn expr(&mut self, expr: &ast::Expr, hint: Option<Ty>) -> Expr {
        self.deeper(expr.span, |c| c.expr_inner(expr, hint)).unwrap_or_else(|| unknown(expr.span))
    }

    fn expr_inner(&mut self, expr: &ast::Expr, hint: Option<Ty>) -> Expr {
        use ast::ExprKind as E;
        let span = expr.span;
        match &expr.kind {
            E::Int(literal) => self.int_literal(literal, span),
            E::Bool(b) => Expr { kind: ExprKind::Bool(*b), ty: Types::BOOL, span },
            E::Str(text) => Expr { kind: ExprKind::Str(text.clone()), ty: Types::STR, span },
            E::Dots => self.dots(span, hint),
            E::DontCare => self.misplaced(span, "`_` can stand only for an `out` argument or in a key set"),
            E::Default => self.misplaced(span, "`default` can stand only in key sets and as a label"),
            E::This => self.misplaced(span, "`this` can only be used to call a method, as in `this.f()`"),
            E::InvalidHeader => self.invalid_header(span, hint),
            E::Name(path) => self.name(path, span),
            E::Type(_) => self.misplaced(span, "a value is needed here, and this is a type"),
            E::Member { base, member } => self.member(base, member, span),
            E::Index { base, index } => self.index(base, index, span),
            E::Slice { base, hi, lo } => self.slice(base, hi, lo, span),
            E::PlusSlice { base, lo, width } => self.plus_slice(base, lo, width, span),
            E::Unary { op, operand } => self.unary(*op, operand, span),
            E::Binary { op, op_span, left, right } => self.binary(*op, *op_span, left, right, span),
            E::Mux { condition, yes, no } => self.mux(condition, yes, no, hint, span),
            E::Cast { ty, operand } => self.cast(ty, operand, span),
            E::Call { callee, type_args, args } => self.call(callee, type_args, args, hint, span),
            E::Construct { ty, args } => self.construct_expr(ty, args, span),
            E::List(elements) => self.list(elements, hint, span),
            E::Struct { fields, rest } => self.struct_literal(fields, *rest, hint, span),
            E::Error => unknown(span),
        }
    }

    fn misplaced(&mut self, span: Span, message: &str) -> Expr {
        self.fail("misplaced", span, message);
        unknown(span)
    }

    fn int_literal(&mut self, literal: &IntLiteral, span: Span) -> Expr {
        let Some(width) = literal.width else {
            return Expr { kind: ExprKind::Int(literal.value.clone()), ty: Types::INT, span };
        };
        let bits = width.bits.min(super::types::MAX_WIDTH);
        if bits == 0 && width.signed {
            return self.misplaced(span, "a signed number has at least 1 bit");
        }
        let kind = if width.signed { TyKind::Int(bits) } else { TyKind::Bit(bits) };
        let ty = self.intern(kind);
        let value = &literal.value;
        let cut = if width.signed { wrap_signed(value, bits) } else { wrap_unsigned(value, bits) };
        let (lo, hi) = bounds(bits, width.signed);
        if *value < lo || *value > hi {
            let shown = self.show(ty);
            let message = format!("value {value} does not fit in `{shown}` and becomes {cut}");
            self.report(Diagnostic::warning("overflow", span, message));
        }
        Expr { kind: ExprKind::Int(cut), ty, span }
    }

    /// `...`
    fn dots(&mut self, span: Span, hint: Option<Ty>) -> Expr {
        let Some(ty) = hint.map(|ty| self.resolve(ty)).filter(|ty| !matches!(self.kind(*ty), TyKind::Infer(_))) else {
            return self.misplaced(span, "`...` stands for a default value, and the type of that is not known here");
        };
        self.default_value(ty, span)
    }

    /// The default value of a type, as a literal where there is one.
    pub(super) fn default_value(&mut self, ty: Ty, span: Span) -> Expr {
        match self.kind(ty) {
            TyKind::Unknown => unknown(span),
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
                let shown = self.show(ty);
                self.misplaced(span, &format!("`{shown}` has no default value"))
            }
            _ => Expr { kind: ExprKind::Default, ty, span },
        }
    }

    /// `{#}`
    fn invalid_header(&mut self, span: Span, hint: Option<Ty>) -> Expr {
        let hinted = hint.map(|ty| self.resolve(ty));
        let header = hinted
            .filter(|ty| matches!(self.struct_kind(*ty), Some(ast::StructKind::Header | ast::StructKind::HeaderUnion)));
        let ty = header.unwrap_or_else(|| self.intern(TyKind::InvalidHeader));
        Expr { kind: ExprKind::InvalidHeader, ty, span }
    }

    /// A name as a value.
    fn name(&mut self, path: &Path, span: Span) -> Expr {
        if self.scopes.lookup(path).is_none()
            && let Some(kind) = self.prog.match_kinds.iter().position(|k| **k == *path.as_str())
        {
            return Expr { kind: ExprKind::MatchKind(kind), ty: Types::MATCH_KIND, span };
        }
        let Some(entity) = self.lookup(path) else { return unknown(span) };
        match entity {
            Entity::Const(value) => match self.may_copy(&value, span) {
                true => Expr { span, ..*value },
                false => unknown(span),
            },
            Entity::Local(id) => Expr { kind: ExprKind::Local(id), ty: self.local(id).ty, span },
            Entity::Instance(id) => Expr { kind: ExprKind::Instance(id), ty: self.prog.instances[id.index()].ty, span },
            Entity::Functions(_) | Entity::Action(_) => {
                let what = entity.what();
                let message = format!("`{path}` is {what}, and a value is needed here");
                self.error(
                    Diagnostic::error("not-a-value", span, message).help(format!("call it, as in `{path}(...)`")),
                );
                unknown(span)
            }
            Entity::Table(_) => {
                let message = format!("`{path}` is a table, and a value is needed here");
                self.error(
                    Diagnostic::error("not-a-value", span, message)
                        .help(format!("apply it, as in `{path}.apply()` or `{path}.apply().hit`")),
                );
                unknown(span)
            }
            other => {
                let message = format!("`{path}` is {}, and a value is needed here", other.what());
                self.fail("not-a-value", span, message);
                unknown(span)
            }
        }
    }

    /// The extern that a type is, with its type arguments.
    pub(super) fn as_extern(&self, ty: Ty) -> Option<(ExternId, Vec<Ty>)> {
        match self.kind(ty) {
            TyKind::Extern(id, args) => Some((*id, args.clone())),
            _ => None,
        }
    }
}
