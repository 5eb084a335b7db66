//! Operators: which types they take, and what they give.

use super::types::MAX_WIDTH;
use super::{Checker, unknown};
use crate::ast::{self, BinaryOp, StructKind, UnaryOp};
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, Ty, TyKind, Types};
use crate::span::Span;
use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive, Zero};

impl Checker<'_> {
    /// A prefix operator.
    pub(super) fn unary(&mut self, op: UnaryOp, operand: &ast::Expr, span: Span) -> Expr {
        let value = self.expr(operand, None);
        if value.ty == Types::UNKNOWN {
            return unknown(span);
        }
        let value = self.without_enum(value);
        let fits = match op {
            UnaryOp::Not => value.ty == Types::BOOL,
            UnaryOp::BitNot => matches!(self.kind(value.ty), TyKind::Bit(_) | TyKind::Int(_)),
            UnaryOp::Neg | UnaryOp::Plus => self.is_numeric(value.ty),
        };
        if !fits {
            let shown = self.show(value.ty);
            let mut diagnostic =
                Diagnostic::error("operand", span, format!("`{}` does not apply to `{shown}`", op.as_str()));
            diagnostic = match (op, self.kind(value.ty)) {
                (UnaryOp::BitNot, TyKind::InfInt) => diagnostic.help("give the number a width, as in `8w0xF`"),
                (UnaryOp::BitNot, TyKind::Bool) => diagnostic.help("`!` is the negation of a `bool`"),
                (UnaryOp::Not, TyKind::Bit(_) | TyKind::Int(_)) => {
                    diagnostic.help("`~` inverts bits; `== 0` tests for zero")
                }
                _ => diagnostic,
            };
            self.error(diagnostic);
            return unknown(span);
        }
        match op {
            UnaryOp::Plus => Expr { span, ..value },
            _ => self.fold_unary(op, value, span),
        }
    }

    /// Whether the type is `int`, `int<W>` or `bit<W>`.
    pub(super) fn is_numeric(&self, ty: Ty) -> bool {
        matches!(self.kind(ty), TyKind::Bit(_) | TyKind::Int(_) | TyKind::InfInt)
    }

    /// A serialisable enum's value as one of its underlying type.
    pub(super) fn without_enum(&self, value: Expr) -> Expr {
        match self.kind(value.ty) {
            TyKind::Enum(id) => match self.prog.enums[id.index()].underlying {
                Some(under) => self.retype(value, under),
                None => value,
            },
            _ => value,
        }
    }

    /// An infix operator.
    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        op_span: Span,
        left: &ast::Expr,
        right: &ast::Expr,
        span: Span,
    ) -> Expr {
        if matches!(op, BinaryOp::Mask | BinaryOp::Range) {
            self.fail("misplaced", op_span, format!("`{}` can stand only in a key set", op.as_str()));
            return unknown(span);
        }
        // A list takes its type from the other side, whichever that is.
        let (left, right) = if matches!(left.kind, ast::ExprKind::List(_) | ast::ExprKind::Struct { .. }) {
            let right = self.expr(right, None);
            (self.expr(left, Some(right.ty)), right)
        } else {
            let left = self.expr(left, None);
            let hint = matches!(op, BinaryOp::Eq | BinaryOp::Ne).then_some(left.ty);
            let right = self.expr(right, hint);
            (left, right)
        };
        self.binary_values(op, left, right, span)
    }

    /// An infix operator on values.
    pub(super) fn binary_values(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        if left.ty == Types::UNKNOWN || right.ty == Types::UNKNOWN {
            return unknown(span);
        }
        match op {
            BinaryOp::Eq | BinaryOp::Ne => self.equality(op, left, right, span),
            BinaryOp::And | BinaryOp::Or => {
                if left.ty != Types::BOOL || right.ty != Types::BOOL {
                    return self.bad_operands(op, &left, &right, span, Some("both sides must be `bool`"));
                }
                self.fold_binary(op, left, right, Types::BOOL, span)
            }
            BinaryOp::Shl | BinaryOp::Shr => self.shift_values(op, left, right, span),
            BinaryOp::Concat => self.concat(op, left, right, span),
            _ => self.arithmetic(op, left, right, span),
        }
    }

    fn bad_operands(&mut self, op: BinaryOp, left: &Expr, right: &Expr, span: Span, help: Option<&str>) -> Expr {
        let (l, r) = (self.show(left.ty), self.show(right.ty));
        let message = format!("`{}` does not apply to `{l}` and `{r}`", op.as_str());
        let mut diagnostic = Diagnostic::error("operand", span, message);
        if let Some(help) = help {
            diagnostic = diagnostic.help(help);
        } else if l != r && self.width(left.ty).is_some() && self.can_cast(right.ty, left.ty) {
            diagnostic = diagnostic.help(format!("cast one side, as in `... {} ({l})...`", op.as_str()));
        }
        self.error(diagnostic);
        unknown(span)
    }

    /// `+ - * / % & | ^ |+| |-| < <= > >=`
    fn arithmetic(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        use BinaryOp::*;
        let (left, right) = (self.without_enum(left), self.without_enum(right));
        if !self.is_numeric(left.ty) || !self.is_numeric(right.ty) {
            let help = (left.ty == Types::STR && op == Add).then_some("strings are joined with `++`");
            return self.bad_operands(op, &left, &right, span, help);
        }
        if matches!(op, Div | Mod) && !self.divides(op, &left, &right, span) {
            return unknown(span);
        }
        let (left, right) = self.same_width(left, right);
        if left.ty != right.ty {
            return self.bad_operands(op, &left, &right, span, None);
        }
        if left.ty == Types::INT && matches!(op, AddSat | SubSat) {
            return self.bad_operands(
                op,
                &left,
                &right,
                span,
                Some("saturation needs a width: write one, as in `8w1`"),
            );
        }
        let ty = if matches!(op, Lt | Le | Gt | Ge) { Types::BOOL } else { left.ty };
        self.fold_binary(op, left, right, ty, span)
    }

    /// Gives an `int` the width of the other side.
    pub(super) fn same_width(&mut self, left: Expr, right: Expr) -> (Expr, Expr) {
        let (lt, rt) = (left.ty, right.ty);
        match (lt == Types::INT, rt == Types::INT) {
            (true, false) if self.is_numeric(rt) => (self.coerce(left, rt), right),
            (false, true) if self.is_numeric(lt) => (left, self.coerce(right, lt)),
            _ => (left, right),
        }
    }

    /// The rules of `/` and `%`: unsigned, or positive and known at compile time.
    fn divides(&mut self, op: BinaryOp, left: &Expr, right: &Expr, span: Span) -> bool {
        let signed = |c: &Self, ty| matches!(c.kind(ty), TyKind::Int(_));
        let negative = |e: &Expr| matches!(&e.kind, ExprKind::Int(v) if v.is_negative());
        let zero = matches!(&right.kind, ExprKind::Int(v) if v.is_zero());
        let message = if zero {
            "this divides by zero".to_owned()
        } else if negative(left) || negative(right) {
            format!("`{}` is not defined on negative numbers", op.as_str())
        } else if signed(self, left.ty) || signed(self, right.ty) {
            format!("`{}` is not defined on signed values", op.as_str())
        } else {
            return true;
        };
        self.fail("division", span, message);
        false
    }

    fn equality(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        let (left, right) = match left.ty == right.ty {
            true => (left, right),
            false => (self.without_enum(left), self.without_enum(right)),
        };
        let (mut left, mut right) = self.same_width(left, right);
        self.settle(&mut left);
        self.settle(&mut right);
        if left.ty != right.ty && !self.comparable_lists(&left, &right) {
            let (lt, rt) = (left.ty, right.ty);
            let tried = match self.implicit(right, lt) {
                Ok(right) => Ok((left, right)),
                Err(right) => match self.implicit(left, rt) {
                    Ok(left) => Ok((left, right)),
                    Err(left) => Err((left, right)),
                },
            };
            (left, right) = match tried {
                Ok(both) => both,
                Err((left, right)) => {
                    let (l, r) = (self.show(left.ty), self.show(right.ty));
                    let mut diagnostic =
                        Diagnostic::error("compare", span, format!("`{l}` cannot be compared to `{r}`"));
                    if self.can_cast(right.ty, left.ty) {
                        diagnostic = diagnostic.help(format!("cast the right side: `({l})...`"));
                    }
                    self.error(diagnostic);
                    return unknown(span);
                }
            };
        }
        if !self.has_equality(left.ty) {
            let shown = self.show(left.ty);
            self.fail("compare", span, format!("values of type `{shown}` cannot be compared"));
            return unknown(span);
        }
        self.fold_binary(op, left, right, Types::BOOL, span)
    }

    /// Two lists that differ in type only by literals without a width.
    fn comparable_lists(&mut self, left: &Expr, right: &Expr) -> bool {
        matches!((&left.kind, &right.kind), (ExprKind::Aggregate(_, _), ExprKind::Aggregate(_, _)))
            && self.unify(left.ty, right.ty)
    }

    /// Whether `==` is defined on the type.
    pub(super) fn has_equality(&self, ty: Ty) -> bool {
        match self.kind(ty) {
            TyKind::Void
            | TyKind::Extern(..)
            | TyKind::Object(..)
            | TyKind::Param(_)
            | TyKind::Set(_)
            | TyKind::ApplyResult(_)
            | TyKind::ActionRun(_)
            | TyKind::InvalidHeader
            | TyKind::Infer(_) => false,
            TyKind::Struct(id, _) if self.prog.structs[id.index()].kind == StructKind::Struct => self.prog.structs
                [id.index()]
            .fields
            .iter()
            .all(|f| matches!(self.kind(f.ty), TyKind::Param(_)) || self.has_equality(f.ty)),
            TyKind::Tuple(elements) => elements.iter().all(|t| self.has_equality(*t)),
            TyKind::List(t) | TyKind::Stack(t, _) => self.has_equality(*t),
            _ => true,
        }
    }

    fn shift_values(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        let (left, right) = (self.without_enum(left), self.without_enum(right));
        if !self.is_numeric(left.ty) || !self.is_numeric(right.ty) {
            return self.bad_operands(op, &left, &right, span, None);
        }
        let right = match &right.kind {
            ExprKind::Int(amount) if amount.is_negative() => {
                self.fail("shift", span, format!("a shift by the negative amount {amount}"));
                return unknown(span);
            }
            // A literal shift amount has 32 bits; larger ones shift everything out just as well.
            ExprKind::Int(amount) => {
                let amount = BigInt::from(amount.to_u32().unwrap_or(u32::MAX));
                Expr { kind: ExprKind::Int(amount), ty: Types::BIT32, span: right.span }
            }
            _ => right,
        };
        let known = self.is_known(&right);
        if matches!(self.kind(right.ty), TyKind::Int(_)) || (right.ty == Types::INT && !known) {
            let help = Some("the shift amount is of an unsigned type, or a constant that is not negative");
            return self.bad_operands(op, &left, &right, span, help);
        }
        if left.ty == Types::INT && !known {
            let help = Some("give the left side a width, as in `32w1 << x`");
            return self.bad_operands(op, &left, &right, span, help);
        }
        let ty = left.ty;
        self.fold_binary(op, left, right, ty, span)
    }

    fn concat(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        if left.ty == Types::STR && right.ty == Types::STR {
            return self.fold_binary(op, left, right, Types::STR, span);
        }
        let (left, right) = (self.without_enum(left), self.without_enum(right));
        let (Some(a), Some(b)) = (self.width(left.ty), self.width(right.ty)) else {
            let unsized_int = left.ty == Types::INT || right.ty == Types::INT;
            let help = unsized_int.then_some("give the number a width, as in `8w1`");
            return self.bad_operands(op, &left, &right, span, help);
        };
        let width = a.saturating_add(b);
        if width > MAX_WIDTH {
            self.fail("width", span, format!("this is {width} bits wide, and the limit is {MAX_WIDTH} bits"));
            return unknown(span);
        }
        let ty = match self.kind(left.ty) {
            TyKind::Bit(_) => TyKind::Bit(width),
            TyKind::Int(_) => TyKind::Int(width),
            _ => return self.bad_operands(op, &left, &right, span, None),
        };
        let ty = self.intern(ty);
        self.fold_binary(op, left, right, ty, span)
    }

    /// `c ? a : b`
    pub(super) fn mux(
        &mut self,
        condition: &ast::Expr,
        yes: &ast::Expr,
        no: &ast::Expr,
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        let condition = self.condition(condition, "`?:`");
        let yes = self.expr(yes, hint);
        let no = self.expr(no, hint.or(Some(yes.ty)));
        let (mut yes, mut no) = self.same_width(yes, no);
        if yes.ty == Types::INT && no.ty == Types::INT && !self.is_known(&condition) {
            let Some(width) = hint.map(|ty| self.resolve(ty)).filter(|ty| self.width(*ty).is_some()) else {
                self.error(
                    Diagnostic::error("infer-width", span, "the width of these numbers is not known")
                        .help("give one of them a width, as in `8w1`"),
                );
                return unknown(span);
            };
            (yes, no) = (self.coerce(yes, width), self.coerce(no, width));
        }
        let origin = yes.span;
        let ty = yes.ty;
        let no = self.coerce_for(no, ty, origin, "because of the value here");
        if matches!(self.kind(ty), TyKind::Extern(..) | TyKind::Object(..) | TyKind::Void) {
            let shown = self.show(ty);
            self.fail("operand", span, format!("`?:` does not choose between values of type `{shown}`"));
            return unknown(span);
        }
        match condition.kind {
            ExprKind::Bool(true) if condition.ty == Types::BOOL => Expr { span, ..yes },
            ExprKind::Bool(false) if condition.ty == Types::BOOL => Expr { span, ..no },
            _ => Expr { kind: ExprKind::Mux(Box::new(condition), Box::new(yes), Box::new(no)), ty, span },
        }
    }
}
