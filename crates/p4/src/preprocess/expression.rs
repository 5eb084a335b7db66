//! The expressions of `#if`: C's operators over numbers of 64 bits with and without sign.
//!
//! An operator-precedence parser with a stack of its own, so that no nesting is too deep, and so
//! that it reads exactly as far as cpp does.

use super::number::Num;
use super::preprocessor::Preprocessor;
use super::token::{Kind, PpToken, Symbol};
use crate::diag::Diagnostic;
use crate::span::Span;

/// An operator on the stack, with the value right of it.
struct Frame {
    operator: Operator,
    span: Span,
    value: Num,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operator {
    /// The bottom of the stack, and the end of the expression.
    End,
    Open,
    Close,
    Plus,
    Minus,
    Binary(Kind),
    Unary(Kind),
}

impl Operator {
    /// How tight it binds, and whether it does so from the left.
    fn priority(self) -> (u8, bool) {
        match self {
            Operator::End | Operator::Close => (0, false),
            Operator::Open => (1, false),
            Operator::Plus | Operator::Minus | Operator::Unary(_) => (16, false),
            Operator::Binary(kind) => match kind {
                Kind::Query => (4, false),
                Kind::Colon | Kind::Comma => (4, true),
                Kind::OrOr => (5, true),
                Kind::AndAnd => (6, true),
                Kind::Or => (7, true),
                Kind::Xor => (8, true),
                Kind::And => (9, true),
                Kind::Equal | Kind::NotEqual => (11, true),
                Kind::Greater | Kind::Less | Kind::GreaterEqual | Kind::LessEqual => (12, true),
                Kind::ShiftLeft | Kind::ShiftRight => (13, true),
                Kind::Plus | Kind::Minus => (14, true),
                _ => (15, true),
            },
        }
    }

    fn is_prefix(self) -> bool {
        matches!(self, Operator::Open | Operator::Plus | Operator::Minus | Operator::Unary(_))
    }
}

/// Why there is no value.
struct Bad(Span, String);

impl Preprocessor<'_> {
    /// The value of the expression in a conditional; false if there is none, which is reported.
    pub(super) fn condition_holds(&mut self, directive: &str) -> bool {
        self.skip_eval = 0;
        match self.expression(directive) {
            Ok(value) => value.bits != 0,
            Err(Bad(span, message)) => {
                if !self.stopped {
                    self.report(Diagnostic::error("bad-condition", span, message));
                }
                false
            }
        }
    }

    fn expression(&mut self, directive: &str) -> Result<Num, Bad> {
        let mut stack = vec![Frame { operator: Operator::End, span: self.directive_span, value: Num::ZERO }];
        let mut want_value = true;
        loop {
            let token = self.get_solid_token();
            if !self.spend(1, token.span) {
                return Err(Bad(token.span, String::new()));
            }
            let Some(operator) = operator_of(&token, want_value) else {
                if !is_value(token.kind) {
                    let message = format!("`{}` does not belong in the condition", token.spelling());
                    return Err(Bad(token.span, message));
                }
                if !want_value {
                    return Err(no_operator(&token));
                }
                want_value = false;
                let value = self.operand(&token)?;
                if let Some(top) = stack.last_mut() {
                    top.value = value;
                }
                continue;
            };
            let place = if token.kind == Kind::End { self.directive_span.to(self.last_span) } else { token.span };
            if operator.is_prefix() {
                if !want_value {
                    return Err(no_operator(&token));
                }
            } else if want_value {
                check_operand_missing(&stack, operator, &token, place, directive)?;
            }
            self.reduce(&mut stack, operator, place)?;
            match operator {
                Operator::End => return Ok(stack.pop().map_or(Num::ZERO, |frame| frame.value)),
                Operator::Close => continue,
                Operator::Binary(kind) => self.begin_lazy(&stack, kind, place)?,
                _ => {}
            }
            want_value = true;
            stack.push(Frame { operator, span: token.span, value: Num::ZERO });
        }
    }

    /// Counts the operands that do not matter from here on: right of `0 &&`, of `1 ||`, and in the
    /// branches of `?:`.
    fn begin_lazy(&mut self, stack: &[Frame], kind: Kind, place: Span) -> Result<(), Bad> {
        let Some(top) = stack.last() else { return Ok(()) };
        let holds = top.value.bits != 0;
        match kind {
            Kind::OrOr if holds => self.skip_eval += 1,
            Kind::AndAnd | Kind::Query if !holds => self.skip_eval += 1,
            Kind::Colon => {
                let condition = stack.len().checked_sub(2).and_then(|at| stack.get(at));
                match condition.filter(|_| top.operator == Operator::Binary(Kind::Query)) {
                    Some(condition) if condition.value.bits != 0 => self.skip_eval += 1,
                    Some(_) => self.skip_eval -= 1,
                    None => return Err(Bad(place, "`:` without `?`".to_owned())),
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Carries out what binds tighter than `operator`, which comes next.
    fn reduce(&mut self, stack: &mut Vec<Frame>, operator: Operator, place: Span) -> Result<(), Bad> {
        if operator == Operator::Open {
            return Ok(());
        }
        let (priority, left) = operator.priority();
        let priority = i16::from(priority) - i16::from(left);
        while let Some(top) = stack.last().filter(|top| priority < i16::from(top.operator.priority().0)) {
            match top.operator {
                Operator::Open => {
                    if operator != Operator::Close {
                        return Err(Bad(top.span, "this `(` is never closed".to_owned()));
                    }
                    self.fold(stack, |_, _, inner| inner);
                    return Ok(());
                }
                Operator::Binary(Kind::Query) => {
                    if matches!(operator, Operator::Binary(Kind::Comma | Kind::Colon)) {
                        return Ok(());
                    }
                    return Err(Bad(top.span, "`?` without `:`".to_owned()));
                }
                Operator::Binary(Kind::Colon) => self.choose(stack),
                Operator::Binary(kind) => self.reduce_binary(stack, kind),
                _ => self.reduce_unary(stack),
            }
        }
        if operator == Operator::Close {
            return Err(Bad(place, "`)` without `(`".to_owned()));
        }
        Ok(())
    }

    /// Replaces the two topmost values by what `apply` makes of them.
    fn fold(&mut self, stack: &mut Vec<Frame>, apply: impl FnOnce(&mut Self, Num, Num) -> Num) {
        let Some(right) = stack.pop() else { return };
        let Some(left) = stack.last_mut() else { return };
        left.value = apply(self, left.value, right.value);
    }

    fn choose(&mut self, stack: &mut Vec<Frame>) {
        let (Some(no), Some(yes), Some(condition)) = (stack.pop(), stack.pop(), stack.last_mut()) else { return };
        let unsigned = no.value.unsigned || yes.value.unsigned;
        if condition.value.bits != 0 {
            self.skip_eval -= 1;
            condition.value = yes.value;
        } else {
            condition.value = no.value;
        }
        condition.value.unsigned = unsigned;
    }

    fn reduce_binary(&mut self, stack: &mut Vec<Frame>, kind: Kind) {
        let Some(right) = stack.pop() else { return };
        let skipped = self.skip_eval > 0;
        let Some(left) = stack.last_mut() else { return };
        let holds = left.value.bits != 0;
        match kind {
            Kind::OrOr => {
                self.skip_eval -= u32::from(holds);
                left.value = Num::truth(holds || right.value.bits != 0);
            }
            Kind::AndAnd => {
                self.skip_eval -= u32::from(!holds);
                left.value = Num::truth(holds && right.value.bits != 0);
            }
            Kind::Div | Kind::Mod if right.value.bits == 0 => {
                // cpp goes on with the dividend without its sign.
                let unsigned = left.value.unsigned || right.value.unsigned;
                if !unsigned && left.value.is_negative() {
                    left.value = left.value.negate();
                }
                let overflow = left.value.overflow;
                if !skipped {
                    self.report(Diagnostic::error("bad-condition", right.span, "division by zero"));
                }
                self.check_overflow(overflow, right.span);
            }
            _ => {
                left.value = Num::binary(kind, left.value, right.value);
                let overflow = left.value.overflow;
                self.check_overflow(overflow, right.span);
            }
        }
    }

    fn reduce_unary(&mut self, stack: &mut Vec<Frame>) {
        let Some(top) = stack.pop() else { return };
        let value = match top.operator {
            Operator::Minus => top.value.negate(),
            Operator::Unary(Kind::Not) => Num::truth(top.value.bits == 0),
            Operator::Unary(_) => top.value.with_bits(!top.value.bits),
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

    /// The value of a name, a number, a character or an assertion.
    fn operand(&mut self, token: &PpToken) -> Result<Num, Bad> {
        Ok(match token.kind {
            Kind::Number => self.number(token),
            Kind::Char | Kind::WideChar => self.character_constant(token),
            Kind::Hash => self.asserted(token),
            Kind::Name if token.value == self.names.defined => self.defined(token),
            // A name that is no macro is 0.
            _ => Num::ZERO,
        })
    }

    /// `defined X` and `defined(X)`, of which the first word has been read.
    fn defined(&mut self, at: &PpToken) -> Num {
        self.state.prevent_expansion += 1;
        let symbol = self.defined_name(at);
        self.state.prevent_expansion = self.state.prevent_expansion.saturating_sub(1);
        Num::truth(symbol.is_some_and(|symbol| self.names.is_defined(symbol)))
    }

    fn defined_name(&mut self, at: &PpToken) -> Option<Symbol> {
        let mut token = self.get_token();
        let parenthesis = token.kind == Kind::OpenParen;
        if parenthesis {
            token = self.get_token();
        }
        if token.kind != Kind::Name {
            let diagnostic = Diagnostic::error("bad-condition", at.span, "`defined` needs the name of a macro");
            self.report(diagnostic.help("write `defined X` or `defined(X)`"));
            return None;
        }
        if parenthesis && self.get_token().kind != Kind::CloseParen {
            let message = "the `)` of `defined` is missing";
            self.report(Diagnostic::error("bad-condition", token.span, message));
            return None;
        }
        Some(token.value)
    }

    /// `#predicate(answer)`
    fn asserted(&mut self, hash: &PpToken) -> Num {
        if !self.state.skipping {
            let message = "assertions are deprecated";
            self.report(Diagnostic::warning("deprecated", hash.span, message));
        }
        let found = self.assertion(false);
        Num::truth(found.is_some_and(|(name, answer)| self.has_answer(name, answer.as_deref())))
    }
}

fn is_value(kind: Kind) -> bool {
    matches!(kind, Kind::Number | Kind::Char | Kind::WideChar | Kind::Name | Kind::Hash)
}

fn operator_of(token: &PpToken, want_value: bool) -> Option<Operator> {
    Some(match token.kind {
        Kind::End => Operator::End,
        Kind::OpenParen => Operator::Open,
        Kind::CloseParen => Operator::Close,
        Kind::Plus if want_value => Operator::Plus,
        Kind::Minus if want_value => Operator::Minus,
        Kind::Not | Kind::Complement => Operator::Unary(token.kind),
        kind if kind > Kind::Assign && kind <= Kind::LessEqual => Operator::Binary(kind),
        _ => return None,
    })
}

fn no_operator(token: &PpToken) -> Bad {
    Bad(token.span, format!("an operator is missing before `{}`", token.spelling()))
}

/// Reports that the operand before `operator` is missing, as far as that is not told when the
/// parenthesis is missed.
fn check_operand_missing(
    stack: &[Frame],
    operator: Operator,
    token: &PpToken,
    place: Span,
    directive: &str,
) -> Result<(), Bad> {
    let top = stack.last().map_or(Operator::End, |frame| frame.operator);
    let message = match (operator, top) {
        (Operator::Close, Operator::Open) => "nothing is between `(` and `)`".to_owned(),
        (Operator::End, Operator::End) => format!("`#{directive}` has no condition"),
        (_, top) if !matches!(top, Operator::End | Operator::Open) => "the condition is not complete".to_owned(),
        (Operator::Close | Operator::End, _) => return Ok(()),
        _ => format!("nothing is left of `{}`", token.spelling()),
    };
    Err(Bad(place, message))
}
