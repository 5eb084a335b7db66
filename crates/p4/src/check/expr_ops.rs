//! Checks operators: operand and result types.

use super::types::MAX_WIDTH;
use super::{Checker, unknown_expr};
use crate::ast::{self, BinaryOp, StructKind, UnaryOp};
use crate::diag::Diagnostic;
use crate::hir::{Expr, ExprKind, Ty, TyKind, Types};
use crate::span::Span;
use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive, Zero};

impl Checker<'_> {
    /// Checks a prefix operator. Evaluates the operator if the operand is a constant.
    pub(super) fn check_unary(&mut self, op: UnaryOp, operand: &ast::Expr, span: Span) -> Expr {
        let value = self.check_expr(operand, None);
        if value.ty == Types::UNKNOWN {
            return unknown_expr(span);
        }
        let value = self.without_enum(value);
        let applies = match op {
            UnaryOp::Not => value.ty == Types::BOOL,
            UnaryOp::BitNot => matches!(self.type_kind(value.ty), TyKind::Bit(_) | TyKind::Int(_)),
            UnaryOp::Neg | UnaryOp::Plus => self.is_numeric(value.ty),
        };
        if !applies {
            let type_text = self.type_text(value.ty);
            let mut diagnostic =
                Diagnostic::error("operand", span, format!("`{}` does not apply to `{type_text}`", op.as_str()));
            diagnostic = match (op, self.type_kind(value.ty)) {
                (UnaryOp::BitNot, TyKind::InfInt) => diagnostic.help("give the number a width, as in `8w0xF`"),
                (UnaryOp::BitNot, TyKind::Bool) => diagnostic.help("`!` is the negation of a `bool`"),
                (UnaryOp::Not, TyKind::Bit(_) | TyKind::Int(_)) => {
                    diagnostic.help("`~` inverts bits; `== 0` tests for zero")
                }
                _ => diagnostic,
            };
            self.error(diagnostic);
            return unknown_expr(span);
        }
        match op {
            UnaryOp::Plus => Expr { span, ..value },
            _ => self.fold_unary(op, value, span),
        }
    }

    /// Returns whether the type is `int`, `int<W>` or `bit<W>`.
    pub(super) fn is_numeric(&self, ty: Ty) -> bool {
        matches!(self.type_kind(ty), TyKind::Bit(_) | TyKind::Int(_) | TyKind::InfInt)
    }

    /// Converts a value of a serialisable enum to its underlying type.
    pub(super) fn without_enum(&self, value: Expr) -> Expr {
        match self.type_kind(value.ty) {
            TyKind::Enum(id) => match self.prog.enums[id.index()].underlying {
                Some(under) => self.retype(value, under),
                None => value,
            },
            _ => value,
        }
    }

    /// Checks an infix operator; `op_span` is the operator alone, `span` the whole expression. The
    /// left operand is checked first, and its type is the expected type of the right one in `==`
    /// and `!=`.
    pub(super) fn check_binary(
        &mut self,
        op: BinaryOp,
        op_span: Span,
        left: &ast::Expr,
        right: &ast::Expr,
        span: Span,
    ) -> Expr {
        if matches!(op, BinaryOp::Mask | BinaryOp::Range) {
            self.fail("misplaced", op_span, format!("`{}` is allowed only in a key set", op.as_str()));
            return unknown_expr(span);
        }
        // A list has no type of its own: it takes the type of the other side.
        let (left, right) = if matches!(left.kind, ast::ExprKind::List(_) | ast::ExprKind::Struct { .. }) {
            let right = self.check_expr(right, None);
            (self.check_expr(left, Some(right.ty)), right)
        } else {
            let left = self.check_expr(left, None);
            let hint = matches!(op, BinaryOp::Eq | BinaryOp::Ne).then_some(left.ty);
            let right = self.check_expr(right, hint);
            (left, right)
        };
        self.check_binary_values(op, left, right, span)
    }

    /// Checks an infix operator on checked operands.
    pub(super) fn check_binary_values(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        if left.ty == Types::UNKNOWN || right.ty == Types::UNKNOWN {
            return unknown_expr(span);
        }
        match op {
            BinaryOp::Eq | BinaryOp::Ne => self.check_equality(op, left, right, span),
            BinaryOp::And | BinaryOp::Or => {
                if left.ty != Types::BOOL || right.ty != Types::BOOL {
                    return self.report_bad_operands(op, &left, &right, span, Some("both sides must be `bool`"));
                }
                self.fold_binary(op, left, right, Types::BOOL, span)
            }
            BinaryOp::Shl | BinaryOp::Shr => self.check_shift(op, left, right, span),
            BinaryOp::Concat => self.check_concat(op, left, right, span),
            _ => self.check_arithmetic(op, left, right, span),
        }
    }

    fn report_bad_operands(&mut self, op: BinaryOp, left: &Expr, right: &Expr, span: Span, help: Option<&str>) -> Expr {
        let (l, r) = (self.type_text(left.ty), self.type_text(right.ty));
        let message = format!("`{}` does not apply to `{l}` and `{r}`", op.as_str());
        let mut diagnostic = Diagnostic::error("operand", span, message);
        if let Some(help) = help {
            diagnostic = diagnostic.help(help);
        } else if l != r && self.width_bits(left.ty).is_some() && self.can_cast(right.ty, left.ty) {
            diagnostic = diagnostic.help(format!("cast one side, as in `... {} ({l})...`", op.as_str()));
        }
        self.error(diagnostic);
        unknown_expr(span)
    }

    /// Checks `+ - * / % & | ^ |+| |-| < <= > >=`. Both operands are numbers of one type; a number
    /// of type `int` takes the width of the other operand. Constants are folded.
    fn check_arithmetic(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        use BinaryOp::*;
        let (left, right) = (self.without_enum(left), self.without_enum(right));
        if !self.is_numeric(left.ty) || !self.is_numeric(right.ty) {
            let help = (left.ty == Types::STR && op == Add).then_some("strings are joined with `++`");
            return self.report_bad_operands(op, &left, &right, span, help);
        }
        if matches!(op, Div | Mod) && !self.check_divisor(op, &left, &right, span) {
            return unknown_expr(span);
        }
        let (left, right) = self.unify_widths(left, right);
        if left.ty != right.ty {
            return self.report_bad_operands(op, &left, &right, span, None);
        }
        if left.ty == Types::INT && matches!(op, AddSat | SubSat) {
            return self.report_bad_operands(
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

    /// Converts an `int` operand to the type of the other side.
    pub(super) fn unify_widths(&mut self, left: Expr, right: Expr) -> (Expr, Expr) {
        let (lt, rt) = (left.ty, right.ty);
        match (lt == Types::INT, rt == Types::INT) {
            (true, false) if self.is_numeric(rt) => (self.coerce(left, rt), right),
            (false, true) if self.is_numeric(lt) => (left, self.coerce(right, lt)),
            _ => (left, right),
        }
    }

    /// Checks the rules of `/` and `%`: operands are unsigned, or positive and known at compile
    /// time.
    fn check_divisor(&mut self, op: BinaryOp, left: &Expr, right: &Expr, span: Span) -> bool {
        let signed = |c: &Self, ty| matches!(c.type_kind(ty), TyKind::Int(_));
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

    /// Checks `==` or `!=`. Operands of different types are compared after an implicit conversion
    /// of one to the type of the other: first the right operand, then the left.
    fn check_equality(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        let (left, right) = match left.ty == right.ty {
            true => (left, right),
            false => (self.without_enum(left), self.without_enum(right)),
        };
        let (mut left, mut right) = self.unify_widths(left, right);
        self.resolve_expr_types(&mut left);
        self.resolve_expr_types(&mut right);
        if left.ty != right.ty && !self.comparable_lists(&left, &right) {
            let (left_ty, right_ty) = (left.ty, right.ty);
            // A failed conversion gives the operand back in `Err`, for the next attempt.
            let converted = match self.convert_implicitly(right, left_ty) {
                Ok(right) => Ok((left, right)),
                Err(right) => match self.convert_implicitly(left, right_ty) {
                    Ok(left) => Ok((left, right)),
                    Err(left) => Err((left, right)),
                },
            };
            (left, right) = match converted {
                Ok(operands) => operands,
                Err((left, right)) => {
                    let (left_text, right_text) = (self.type_text(left.ty), self.type_text(right.ty));
                    let mut diagnostic = Diagnostic::error(
                        "compare",
                        span,
                        format!("`{left_text}` cannot be compared to `{right_text}`"),
                    );
                    if self.can_cast(right.ty, left.ty) {
                        diagnostic = diagnostic.help(format!("cast the right side: `({left_text})...`"));
                    }
                    self.error(diagnostic);
                    return unknown_expr(span);
                }
            };
        }
        if !self.has_equality(left.ty) {
            let type_text = self.type_text(left.ty);
            self.fail("compare", span, format!("values of type `{type_text}` cannot be compared"));
            return unknown_expr(span);
        }
        self.fold_binary(op, left, right, Types::BOOL, span)
    }

    /// Returns whether both are lists and their types differ only by literals without a width.
    fn comparable_lists(&mut self, left: &Expr, right: &Expr) -> bool {
        matches!((&left.kind, &right.kind), (ExprKind::Aggregate(_, _), ExprKind::Aggregate(_, _)))
            && self.unify(left.ty, right.ty)
    }

    /// Returns whether `==` is defined on the type: on values without objects, as far as their
    /// parts have it.
    pub(super) fn has_equality(&self, ty: Ty) -> bool {
        match self.type_kind(ty) {
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
            .all(|f| matches!(self.type_kind(f.ty), TyKind::Param(_)) || self.has_equality(f.ty)),
            TyKind::Tuple(elements) => elements.iter().all(|t| self.has_equality(*t)),
            TyKind::List(t) | TyKind::Stack(t, _) => self.has_equality(*t),
            _ => true,
        }
    }

    /// Checks `<<` or `>>`. The shift amount is unsigned or a constant that is not negative; a left
    /// operand of type `int` needs a constant amount, because its value has no width at run time.
    fn check_shift(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        let (left, right) = (self.without_enum(left), self.without_enum(right));
        if !self.is_numeric(left.ty) || !self.is_numeric(right.ty) {
            return self.report_bad_operands(op, &left, &right, span, None);
        }
        let right = match &right.kind {
            ExprKind::Int(amount) if amount.is_negative() => {
                self.fail("shift", span, format!("a shift by the negative amount {amount}"));
                return unknown_expr(span);
            }
            // A literal shift amount has 32 bits. Larger amounts are clamped, because they shift
            // out all bits as well.
            ExprKind::Int(amount) => {
                let amount = BigInt::from(amount.to_u32().unwrap_or(u32::MAX));
                Expr { kind: ExprKind::Int(amount), ty: Types::BIT32, span: right.span }
            }
            _ => right,
        };
        let is_known_amount = self.is_known(&right);
        if matches!(self.type_kind(right.ty), TyKind::Int(_)) || (right.ty == Types::INT && !is_known_amount) {
            let help = Some("the shift amount is of an unsigned type, or a constant that is not negative");
            return self.report_bad_operands(op, &left, &right, span, help);
        }
        if left.ty == Types::INT && !is_known_amount {
            let help = Some("give the left side a width, as in `32w1 << x`");
            return self.report_bad_operands(op, &left, &right, span, help);
        }
        let ty = left.ty;
        self.fold_binary(op, left, right, ty, span)
    }

    /// Checks `++`: joins two strings, or two values with widths. The result has the sum of the
    /// widths in bits, and the signedness of the left operand.
    fn check_concat(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        if left.ty == Types::STR && right.ty == Types::STR {
            return self.fold_binary(op, left, right, Types::STR, span);
        }
        let (left, right) = (self.without_enum(left), self.without_enum(right));
        let (Some(left_bits), Some(right_bits)) = (self.width_bits(left.ty), self.width_bits(right.ty)) else {
            let unsized_int = left.ty == Types::INT || right.ty == Types::INT;
            let help = unsized_int.then_some("give the number a width, as in `8w1`");
            return self.report_bad_operands(op, &left, &right, span, help);
        };
        let width = left_bits.saturating_add(right_bits);
        if width > MAX_WIDTH {
            self.fail("width", span, format!("this is {width} bits wide, and the limit is {MAX_WIDTH} bits"));
            return unknown_expr(span);
        }
        let ty = match self.type_kind(left.ty) {
            TyKind::Bit(_) => TyKind::Bit(width),
            TyKind::Int(_) => TyKind::Int(width),
            _ => return self.report_bad_operands(op, &left, &right, span, None),
        };
        let ty = self.intern(ty);
        self.fold_binary(op, left, right, ty, span)
    }

    /// Checks `condition ? yes : no`. `hint` is the type that the context expects; two numbers of
    /// type `int` take their width from it. Returns the chosen branch if the condition is a
    /// constant.
    pub(super) fn check_mux(
        &mut self,
        condition: &ast::Expr,
        yes: &ast::Expr,
        no: &ast::Expr,
        hint: Option<Ty>,
        span: Span,
    ) -> Expr {
        let condition = self.check_condition(condition, "`?:`");
        let yes = self.check_expr(yes, hint);
        let no = self.check_expr(no, hint.or(Some(yes.ty)));
        let (mut yes, mut no) = self.unify_widths(yes, no);
        if yes.ty == Types::INT && no.ty == Types::INT && !self.is_known(&condition) {
            let Some(width) = hint.map(|ty| self.resolve(ty)).filter(|ty| self.width_bits(*ty).is_some()) else {
                self.error(
                    Diagnostic::error("infer-width", span, "the width of these numbers is not known")
                        .help("give one of them a width, as in `8w1`"),
                );
                return unknown_expr(span);
            };
            (yes, no) = (self.coerce(yes, width), self.coerce(no, width));
        }
        let yes_span = yes.span;
        let ty = yes.ty;
        let no = self.coerce_for(no, ty, yes_span, "because of the value here");
        if matches!(self.type_kind(ty), TyKind::Extern(..) | TyKind::Object(..) | TyKind::Void) {
            let type_text = self.type_text(ty);
            self.fail("operand", span, format!("`?:` does not choose between values of type `{type_text}`"));
            return unknown_expr(span);
        }
        match condition.kind {
            ExprKind::Bool(true) if condition.ty == Types::BOOL => Expr { span, ..yes },
            ExprKind::Bool(false) if condition.ty == Types::BOOL => Expr { span, ..no },
            _ => Expr { kind: ExprKind::Mux(Box::new(condition), Box::new(yes), Box::new(no)), ty, span },
        }
    }
}
