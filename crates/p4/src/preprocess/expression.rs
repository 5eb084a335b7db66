//! Evaluates expressions of `#if`: C operators on signed and unsigned 64-bit numbers.
//!
//! The operator-precedence parser has its own stack, because then nesting cannot overflow the call
//! stack. It consumes exactly the same tokens as cpp.

use super::number::ConditionInt;
use super::preprocessor::Preprocessor;
use super::token::{PpToken, PpTokenKind, Symbol};
use crate::diag::Diagnostic;
use crate::span::Span;

/// An operator on the stack with its right operand.
struct OperatorFrame {
    operator: ConditionOperator,
    span: Span,
    value: ConditionInt,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ConditionOperator {
    /// The bottom of the stack, and the end of the expression.
    End,
    Open,
    Close,
    Plus,
    Minus,
    Binary(PpTokenKind),
    Unary(PpTokenKind),
}

impl ConditionOperator {
    /// Returns the precedence, and whether the operator is left-associative. A larger precedence
    /// binds tighter.
    fn priority(self) -> (u8, bool) {
        match self {
            ConditionOperator::End | ConditionOperator::Close => (0, false),
            ConditionOperator::Open => (1, false),
            ConditionOperator::Plus | ConditionOperator::Minus | ConditionOperator::Unary(_) => (16, false),
            ConditionOperator::Binary(kind) => match kind {
                PpTokenKind::Query => (4, false),
                PpTokenKind::Colon | PpTokenKind::Comma => (4, true),
                PpTokenKind::OrOr => (5, true),
                PpTokenKind::AndAnd => (6, true),
                PpTokenKind::Or => (7, true),
                PpTokenKind::Xor => (8, true),
                PpTokenKind::And => (9, true),
                PpTokenKind::Equal | PpTokenKind::NotEqual => (11, true),
                PpTokenKind::Greater | PpTokenKind::Less | PpTokenKind::GreaterEqual | PpTokenKind::LessEqual => {
                    (12, true)
                }
                PpTokenKind::ShiftLeft | PpTokenKind::ShiftRight => (13, true),
                PpTokenKind::Plus | PpTokenKind::Minus => (14, true),
                _ => (15, true),
            },
        }
    }

    fn is_prefix(self) -> bool {
        matches!(
            self,
            ConditionOperator::Open | ConditionOperator::Plus | ConditionOperator::Minus | ConditionOperator::Unary(_)
        )
    }
}

/// Position and text of the error in an expression without a value.
struct ConditionError(Span, String);

impl Preprocessor<'_> {
    /// Evaluates the expression of a conditional. Reports an invalid expression and returns false.
    pub(super) fn condition_holds(&mut self, directive: &str) -> bool {
        self.skip_eval = 0;
        match self.eval_condition(directive) {
            Ok(value) => value.bits != 0,
            Err(ConditionError(span, message)) => {
                if !self.is_stopped {
                    self.report(Diagnostic::error("bad-condition", span, message));
                }
                false
            }
        }
    }

    /// Evaluates the rest of the line as the condition of the directive `directive`, by operator
    /// precedence parsing as in cpp: the stack has pending operators, each with the operand after
    /// it.
    fn eval_condition(&mut self, directive: &str) -> Result<ConditionInt, ConditionError> {
        let mut stack = vec![OperatorFrame {
            operator: ConditionOperator::End,
            span: self.directive_span,
            value: ConditionInt::ZERO,
        }];
        let mut expects_operand = true;
        loop {
            let token = self.get_solid_token();
            if !self.spend_tokens(1, token.span) {
                return Err(ConditionError(token.span, String::new()));
            }
            let Some(operator) = operator_of(&token, expects_operand) else {
                if !is_operand(token.kind) {
                    let message = format!("`{}` does not belong in the condition", token.spelling());
                    return Err(ConditionError(token.span, message));
                }
                if !expects_operand {
                    return Err(missing_operator_error(&token));
                }
                expects_operand = false;
                let value = self.eval_operand(&token)?;
                if let Some(top) = stack.last_mut() {
                    top.value = value;
                }
                continue;
            };
            let error_span =
                if token.kind == PpTokenKind::End { self.directive_span.to(self.last_span) } else { token.span };
            if operator.is_prefix() {
                if !expects_operand {
                    return Err(missing_operator_error(&token));
                }
            } else if expects_operand {
                check_operand_missing(&stack, operator, &token, error_span, directive)?;
            }
            self.reduce_operators(&mut stack, operator, error_span)?;
            match operator {
                ConditionOperator::End => return Ok(stack.pop().map_or(ConditionInt::ZERO, |frame| frame.value)),
                // `(` and its value are reduced to one operand, so an operator follows.
                ConditionOperator::Close => continue,
                ConditionOperator::Binary(kind) => self.begin_lazy(&stack, kind, error_span)?,
                _ => {}
            }
            expects_operand = true;
            stack.push(OperatorFrame { operator, span: token.span, value: ConditionInt::ZERO });
        }
    }

    /// Tracks unevaluated operands: the right side of `0 &&` and of `1 ||`, and one branch of `?:`.
    fn begin_lazy(&mut self, stack: &[OperatorFrame], kind: PpTokenKind, place: Span) -> Result<(), ConditionError> {
        let Some(top) = stack.last() else { return Ok(()) };
        let holds = top.value.bits != 0;
        match kind {
            PpTokenKind::OrOr if holds => self.skip_eval += 1,
            PpTokenKind::AndAnd | PpTokenKind::Query if !holds => self.skip_eval += 1,
            PpTokenKind::Colon => {
                let condition = stack.len().checked_sub(2).and_then(|at| stack.get(at));
                match condition.filter(|_| top.operator == ConditionOperator::Binary(PpTokenKind::Query)) {
                    Some(condition) if condition.value.bits != 0 => self.skip_eval += 1,
                    Some(_) => self.skip_eval -= 1,
                    None => return Err(ConditionError(place, "`:` without `?`".to_owned())),
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Applies the stacked operators that bind tighter than the next operator, `operator`. A
    /// closing parenthesis stops at its opening one, and `:` at its `?`. `operator_span` is the
    /// operator, for errors.
    fn reduce_operators(
        &mut self,
        stack: &mut Vec<OperatorFrame>,
        operator: ConditionOperator,
        operator_span: Span,
    ) -> Result<(), ConditionError> {
        if operator == ConditionOperator::Open {
            return Ok(());
        }
        let (limit, is_left_associative) = operator.priority();
        // A left-associative operator also applies those of its own precedence.
        let limit = i16::from(limit) - i16::from(is_left_associative);
        while let Some(top) = stack.last().filter(|top| limit < i16::from(top.operator.priority().0)) {
            match top.operator {
                ConditionOperator::Open => {
                    if operator != ConditionOperator::Close {
                        return Err(ConditionError(top.span, "this `(` is never closed".to_owned()));
                    }
                    self.fold_top(stack, |_, _, inner| inner);
                    return Ok(());
                }
                ConditionOperator::Binary(PpTokenKind::Query) => {
                    if matches!(operator, ConditionOperator::Binary(PpTokenKind::Comma | PpTokenKind::Colon)) {
                        return Ok(());
                    }
                    return Err(ConditionError(top.span, "`?` without `:`".to_owned()));
                }
                ConditionOperator::Binary(PpTokenKind::Colon) => self.reduce_mux(stack),
                ConditionOperator::Binary(kind) => self.reduce_binary(stack, kind),
                _ => self.reduce_unary(stack),
            }
        }
        if operator == ConditionOperator::Close {
            return Err(ConditionError(operator_span, "`)` without `(`".to_owned()));
        }
        Ok(())
    }

    /// Replaces the top two values by the result of `apply`.
    fn fold_top(
        &mut self,
        stack: &mut Vec<OperatorFrame>,
        apply: impl FnOnce(&mut Self, ConditionInt, ConditionInt) -> ConditionInt,
    ) {
        let Some(right) = stack.pop() else { return };
        let Some(left) = stack.last_mut() else { return };
        left.value = apply(self, left.value, right.value);
    }

    fn reduce_mux(&mut self, stack: &mut Vec<OperatorFrame>) {
        let (Some(no), Some(yes), Some(condition)) = (stack.pop(), stack.pop(), stack.last_mut()) else { return };
        let is_unsigned = no.value.is_unsigned || yes.value.is_unsigned;
        if condition.value.bits != 0 {
            self.skip_eval -= 1;
            condition.value = yes.value;
        } else {
            condition.value = no.value;
        }
        condition.value.is_unsigned = is_unsigned;
    }

    /// Replaces the two top operands by the result of the binary operator `kind`. The right side of
    /// `||` or `&&` that the left side decides was counted in `skip_eval`, which ends here.
    fn reduce_binary(&mut self, stack: &mut Vec<OperatorFrame>, kind: PpTokenKind) {
        let Some(right) = stack.pop() else { return };
        let is_skipped = self.skip_eval > 0;
        let Some(left) = stack.last_mut() else { return };
        let left_holds = left.value.bits != 0;
        match kind {
            PpTokenKind::OrOr => {
                self.skip_eval -= u32::from(left_holds);
                left.value = ConditionInt::from_bool(left_holds || right.value.bits != 0);
            }
            PpTokenKind::AndAnd => {
                self.skip_eval -= u32::from(!left_holds);
                left.value = ConditionInt::from_bool(left_holds && right.value.bits != 0);
            }
            PpTokenKind::Div | PpTokenKind::Mod if right.value.bits == 0 => {
                // cpp continues with the absolute value of the dividend.
                let is_unsigned = left.value.is_unsigned || right.value.is_unsigned;
                if !is_unsigned && left.value.is_negative() {
                    left.value = left.value.negate();
                }
                let overflow = left.value.overflow;
                if !is_skipped {
                    self.report(Diagnostic::error("bad-condition", right.span, "division by zero"));
                }
                self.check_overflow(overflow, right.span);
            }
            _ => {
                left.value = ConditionInt::binary(kind, left.value, right.value);
                let overflow = left.value.overflow;
                self.check_overflow(overflow, right.span);
            }
        }
    }

    fn reduce_unary(&mut self, stack: &mut Vec<OperatorFrame>) {
        let Some(top) = stack.pop() else { return };
        let value = match top.operator {
            ConditionOperator::Minus => top.value.negate(),
            ConditionOperator::Unary(PpTokenKind::Not) => ConditionInt::from_bool(top.value.bits == 0),
            ConditionOperator::Unary(_) => top.value.with_bits(!top.value.bits),
            _ => top.value.with_bits(top.value.bits),
        };
        if let Some(below) = stack.last_mut() {
            below.value = value;
        }
        self.check_overflow(value.overflow, top.span);
    }

    fn check_overflow(&mut self, overflow: bool, span: Span) {
        if !overflow || self.skip_eval > 0 {
            return;
        }
        let message = "the result does not fit in 64 bits with a sign; it is wrapped around";
        self.report(Diagnostic::warning("overflow", span, message));
    }

    /// Returns the value of a name, a number, a character or an assertion.
    fn eval_operand(&mut self, token: &PpToken) -> Result<ConditionInt, ConditionError> {
        Ok(match token.kind {
            PpTokenKind::Number => self.eval_number(token),
            PpTokenKind::Char | PpTokenKind::WideChar => self.character_constant(token),
            PpTokenKind::Hash => self.eval_assertion(token),
            PpTokenKind::Name if token.value == self.names.defined => self.eval_defined(token),
            // A name that is no macro is 0.
            _ => ConditionInt::ZERO,
        })
    }

    /// Evaluates `defined X` or `defined(X)` after the word `defined`.
    fn eval_defined(&mut self, at: &PpToken) -> ConditionInt {
        self.state.prevent_expansion += 1;
        let symbol = self.read_defined_name(at);
        self.state.prevent_expansion = self.state.prevent_expansion.saturating_sub(1);
        ConditionInt::from_bool(symbol.is_some_and(|symbol| self.names.is_defined(symbol)))
    }

    fn read_defined_name(&mut self, at: &PpToken) -> Option<Symbol> {
        let mut token = self.get_token();
        let parenthesis = token.kind == PpTokenKind::OpenParen;
        if parenthesis {
            token = self.get_token();
        }
        if token.kind != PpTokenKind::Name {
            let diagnostic = Diagnostic::error("bad-condition", at.span, "`defined` needs the name of a macro");
            self.report(diagnostic.help("write `defined X` or `defined(X)`"));
            return None;
        }
        if parenthesis && self.get_token().kind != PpTokenKind::CloseParen {
            let message = "the `)` of `defined` is missing";
            self.report(Diagnostic::error("bad-condition", token.span, message));
            return None;
        }
        Some(token.value)
    }

    /// Evaluates `#predicate(answer)`.
    fn eval_assertion(&mut self, hash: &PpToken) -> ConditionInt {
        if !self.state.is_skipping {
            let message = "assertions are deprecated";
            self.report(Diagnostic::warning("deprecated", hash.span, message));
        }
        let found = self.read_assertion(false);
        ConditionInt::from_bool(found.is_some_and(|(name, answer)| self.has_answer(name, answer.as_deref())))
    }
}

fn is_operand(kind: PpTokenKind) -> bool {
    matches!(
        kind,
        PpTokenKind::Number | PpTokenKind::Char | PpTokenKind::WideChar | PpTokenKind::Name | PpTokenKind::Hash
    )
}

fn operator_of(token: &PpToken, want_value: bool) -> Option<ConditionOperator> {
    Some(match token.kind {
        PpTokenKind::End => ConditionOperator::End,
        PpTokenKind::OpenParen => ConditionOperator::Open,
        PpTokenKind::CloseParen => ConditionOperator::Close,
        PpTokenKind::Plus if want_value => ConditionOperator::Plus,
        PpTokenKind::Minus if want_value => ConditionOperator::Minus,
        PpTokenKind::Not | PpTokenKind::Complement => ConditionOperator::Unary(token.kind),
        kind if kind > PpTokenKind::Assign && kind <= PpTokenKind::LessEqual => ConditionOperator::Binary(kind),
        _ => return None,
    })
}

fn missing_operator_error(token: &PpToken) -> ConditionError {
    ConditionError(token.span, format!("an operator is missing before `{}`", token.spelling()))
}

/// Reports a missing operand before `operator`, unless the error of the unbalanced parenthesis
/// covers it.
fn check_operand_missing(
    stack: &[OperatorFrame],
    operator: ConditionOperator,
    token: &PpToken,
    place: Span,
    directive: &str,
) -> Result<(), ConditionError> {
    let top = stack.last().map_or(ConditionOperator::End, |frame| frame.operator);
    let message = match (operator, top) {
        (ConditionOperator::Close, ConditionOperator::Open) => "nothing is between `(` and `)`".to_owned(),
        (ConditionOperator::End, ConditionOperator::End) => format!("`#{directive}` has no condition"),
        (_, top) if !matches!(top, ConditionOperator::End | ConditionOperator::Open) => {
            "the condition is not complete".to_owned()
        }
        (ConditionOperator::Close | ConditionOperator::End, _) => return Ok(()),
        _ => format!("the operand before `{}` is missing", token.spelling()),
    };
    Err(ConditionError(place, message))
}
