//! `#if` and its kin: which lines are read, and the value of their expressions.

use super::Preprocessor;
use crate::diag::Diagnostic;
use crate::lex::{Tok, Token, parse_integer};
use crate::span::Span;
use num_traits::ToPrimitive;

/// The conditionals that are open in a file.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    open: Vec<Condition>,
}

#[derive(Debug)]
struct Condition {
    /// The `#if`.
    span: Span,
    /// The lines around the conditional are read.
    outer: bool,
    /// The lines here are read.
    active: bool,
    /// A branch has been read.
    taken: bool,
    /// `#else` has been seen.
    otherwise: bool,
}

/// Conditionals nest no deeper.
const MAX_NESTING: usize = 1000;

impl Conditions {
    /// Whether the lines here are read.
    pub fn active(&self) -> bool {
        self.open.last().is_none_or(|c| c.active)
    }

    /// The innermost conditional that is open.
    pub fn open_at(&self) -> Option<Span> {
        self.open.last().map(|c| c.span)
    }

    /// `#if`; false if too many are open.
    pub fn begin(&mut self, span: Span, holds: bool) -> bool {
        let outer = self.active();
        let active = outer && holds;
        self.open.push(Condition { span, outer, active, taken: active, otherwise: false });
        self.open.len() <= MAX_NESTING
    }

    /// Whether the expression of an `#elif` here matters.
    pub fn elif_matters(&self) -> bool {
        self.open.last().is_some_and(|c| c.outer && !c.taken)
    }

    /// `#elif`.
    pub fn elif(&mut self, holds: bool) -> Result<(), Unbalanced> {
        let condition = self.open.last_mut().ok_or(Unbalanced::NotOpen)?;
        if condition.otherwise {
            return Err(Unbalanced::AfterElse);
        }
        condition.active = condition.outer && !condition.taken && holds;
        condition.taken |= condition.active;
        Ok(())
    }

    /// `#else`.
    pub fn otherwise(&mut self) -> Result<(), Unbalanced> {
        self.elif(true)?;
        if let Some(condition) = self.open.last_mut() {
            condition.otherwise = true;
        }
        Ok(())
    }

    /// `#endif`.
    pub fn end(&mut self) -> Result<(), Unbalanced> {
        self.open.pop().map(|_| ()).ok_or(Unbalanced::NotOpen)
    }
}

/// An `#elif`, `#else` or `#endif` out of place.
#[derive(Debug)]
pub(super) enum Unbalanced {
    NotOpen,
    AfterElse,
}

impl Preprocessor<'_> {
    /// The value of an `#if` expression; false if it cannot be evaluated, which is reported.
    pub(super) fn condition_holds(&mut self, line: &[Token], at: Span) -> bool {
        let with_defined = self.replace_defined(line);
        let tokens = self.expand_all(with_defined);
        let mut eval = Eval { tokens: &tokens, at: 0, depth: 0, end: at };
        let result = eval.ternary().and_then(|value| match eval.peek() {
            None => Ok(value),
            Some(extra) => Err((extra.span, format!("{} does not belong in the condition", extra.describe()))),
        });
        match result {
            Ok(value) => value != 0,
            Err((span, message)) => {
                self.report(Diagnostic::error("bad-condition", span, message));
                false
            }
        }
    }

    /// Replaces `defined X` and `defined(X)` by 1 or 0, which must happen before macros are expanded.
    fn replace_defined(&mut self, line: &[Token]) -> Vec<Token> {
        let mut out = Vec::with_capacity(line.len());
        let mut at = 0;
        while let Some(token) = line.get(at) {
            let parenthesised = line.get(at + 1).is_some_and(|t| t.kind == Tok::LParen);
            let name = line.get(at + if parenthesised { 2 } else { 1 });
            let closed = !parenthesised || line.get(at + 3).is_some_and(|t| t.kind == Tok::RParen);
            match name {
                Some(name) if &*token.text == "defined" && closed => {
                    let value = if self.names_macro(name.kind, &name.text) { "1" } else { "0" };
                    out.push(Token { kind: Tok::Int, text: self.interner.intern(value), ..token.clone() });
                    at += if parenthesised { 4 } else { 2 };
                }
                _ => {
                    out.push(token.clone());
                    at += 1;
                }
            }
        }
        out
    }
}

type Value = Result<i64, (Span, String)>;

/// Evaluates with C's rules in 64 bits; arithmetic wraps around.
struct Eval<'t> {
    tokens: &'t [Token],
    at: usize,
    depth: usize,
    /// Where a missing operand is reported.
    end: Span,
}

/// Parentheses and prefix operators nest no deeper.
const MAX_DEPTH: usize = 100;

impl Eval<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn eat(&mut self, kind: Tok) -> bool {
        let found = self.peek().is_some_and(|t| t.kind == kind);
        self.at += usize::from(found);
        found
    }

    fn nested(&mut self, parse: impl FnOnce(&mut Self) -> Value) -> Value {
        if self.depth >= MAX_DEPTH {
            return Err((self.end, format!("the condition nests deeper than {MAX_DEPTH}")));
        }
        self.depth += 1;
        let value = parse(self);
        self.depth -= 1;
        value
    }

    fn ternary(&mut self) -> Value {
        let condition = self.binary(0)?;
        if !self.eat(Tok::Question) {
            return Ok(condition);
        }
        let yes = self.nested(Self::ternary)?;
        if !self.eat(Tok::Colon) {
            let span = self.peek().map_or(self.end, |t| t.span);
            return Err((span, "expected `:`".to_owned()));
        }
        let no = self.nested(Self::ternary)?;
        Ok(if condition != 0 { yes } else { no })
    }

    /// Operators that bind at least as tight as `min`. What `&&` or `||` does not need is evaluated but cannot fail by
    /// a division, as in C.
    fn binary(&mut self, min: u8) -> Value {
        let mut left = self.unary()?;
        while let Some((op, level, width)) = self.operator().filter(|(_, level, _)| *level >= min) {
            let span = self.peek().map_or(self.end, |t| t.span);
            self.at += width;
            let right = self.nested(|eval| eval.binary(level + 1));
            left = match (op, left, right) {
                (Op::And, 0, Err(e)) | (Op::Or, 1.., Err(e)) if e.1 == DIVISION => i64::from(op == Op::Or),
                (_, _, Err(e)) => return Err(e),
                (_, left, Ok(right)) => apply(op, left, right).ok_or((span, DIVISION.to_owned()))?,
            };
        }
        Ok(left)
    }

    /// The infix operator here, how tight it binds, and how many tokens it is.
    fn operator(&self) -> Option<(Op, u8, usize)> {
        let token = self.peek()?;
        let next = self.tokens.get(self.at + 1);
        let doubled = next.is_some_and(|n| n.kind == Tok::Gt && !n.spaced);
        Some(match token.kind {
            Tok::BarBar => (Op::Or, 0, 1),
            Tok::AmpAmp => (Op::And, 1, 1),
            Tok::Bar => (Op::BitOr, 2, 1),
            Tok::Caret => (Op::BitXor, 3, 1),
            Tok::Amp => (Op::BitAnd, 4, 1),
            Tok::EqEq => (Op::Eq, 5, 1),
            Tok::Ne => (Op::Ne, 5, 1),
            Tok::Gt if doubled => (Op::Shr, 7, 2),
            Tok::Lt => (Op::Lt, 6, 1),
            Tok::Le => (Op::Le, 6, 1),
            Tok::Gt => (Op::Gt, 6, 1),
            Tok::Ge => (Op::Ge, 6, 1),
            Tok::Shl => (Op::Shl, 7, 1),
            Tok::Plus => (Op::Add, 8, 1),
            Tok::Minus => (Op::Sub, 8, 1),
            Tok::Star => (Op::Mul, 9, 1),
            Tok::Slash => (Op::Div, 9, 1),
            Tok::Percent => (Op::Rem, 9, 1),
            _ => return None,
        })
    }

    fn unary(&mut self) -> Value {
        let Some(token) = self.peek() else {
            return Err((self.end, "the condition is not complete".to_owned()));
        };
        let (kind, span, text) = (token.kind, token.span, token.text.clone());
        self.at += 1;
        match kind {
            Tok::Not => Ok(i64::from(self.nested(Self::unary)? == 0)),
            Tok::Tilde => Ok(!self.nested(Self::unary)?),
            Tok::Minus => Ok(self.nested(Self::unary)?.wrapping_neg()),
            Tok::Plus => self.nested(Self::unary),
            Tok::LParen => {
                let value = self.nested(Self::ternary)?;
                if self.eat(Tok::RParen) { Ok(value) } else { Err((span, "this `(` is never closed".to_owned())) }
            }
            Tok::Int => parse_integer(text.trim_end_matches(['u', 'U', 'l', 'L']))
                .ok()
                .and_then(|literal| literal.value.to_i64())
                .ok_or_else(|| (span, format!("`{text}` is no number of 64 bits"))),
            // A name that is no macro is 0.
            kind if kind == Tok::Ident || kind.is_keyword() => Ok(0),
            _ => Err((span, format!("`{text}` does not belong in the condition"))),
        }
    }
}

const DIVISION: &str = "division by zero";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Shl,
    Shr,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

/// `None` for a division by zero.
fn apply(op: Op, a: i64, b: i64) -> Option<i64> {
    Some(match op {
        Op::Or => i64::from(a != 0 || b != 0),
        Op::And => i64::from(a != 0 && b != 0),
        Op::BitOr => a | b,
        Op::BitXor => a ^ b,
        Op::BitAnd => a & b,
        Op::Eq => i64::from(a == b),
        Op::Ne => i64::from(a != b),
        Op::Lt => i64::from(a < b),
        Op::Le => i64::from(a <= b),
        Op::Gt => i64::from(a > b),
        Op::Ge => i64::from(a >= b),
        Op::Shl => u32::try_from(b).ok().and_then(|b| a.checked_shl(b)).unwrap_or(0),
        Op::Shr => u32::try_from(b).ok().and_then(|b| a.checked_shr(b)).unwrap_or(0),
        Op::Add => a.wrapping_add(b),
        Op::Sub => a.wrapping_sub(b),
        Op::Mul => a.wrapping_mul(b),
        Op::Div if b == 0 => return None,
        Op::Rem if b == 0 => return None,
        Op::Div => a.wrapping_div(b),
        Op::Rem => a.wrapping_rem(b),
    })
}
