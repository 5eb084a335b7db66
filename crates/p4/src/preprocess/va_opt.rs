//! `__VA_OPT__(...)`: what is kept only if the call has variable arguments.

use super::token::{Kind, PpToken, Symbol, flag};

/// What a token of the body is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Update {
    /// A part of the body.
    Include,
    /// Left out.
    Drop,
    /// `__VA_OPT__`
    Begin,
    /// Its closing parenthesis.
    End,
}

/// Why the body cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Misuse {
    Nested,
    NoParenthesis,
    PasteAtEdge,
}

impl Misuse {
    pub fn message(self) -> &'static str {
        match self {
            Misuse::Nested => "`__VA_OPT__` cannot be within `__VA_OPT__`",
            Misuse::NoParenthesis => "`(` is missing after `__VA_OPT__`",
            Misuse::PasteAtEdge => "`##` cannot be at the edge of `__VA_OPT__`",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Outside,
    /// Behind the name.
    Named,
    /// Behind the parenthesis.
    Opened,
    /// Further on, within so many parentheses more.
    Within(usize),
}

/// Follows the tokens of a body.
#[derive(Debug)]
pub(super) struct Tracker {
    variadic: bool,
    state: State,
    last_was_paste: bool,
    stringify: bool,
    /// Whether what is within is kept, once it is known.
    keeps: Option<bool>,
}

impl Tracker {
    pub fn new(variadic: bool) -> Self {
        Tracker { variadic, state: State::Outside, last_was_paste: false, stringify: false, keeps: None }
    }

    /// Whether it is `#__VA_OPT__`.
    pub fn stringify(&self) -> bool {
        self.stringify
    }

    /// Whether the parenthesis of each `__VA_OPT__` was closed.
    pub fn is_complete(&self) -> bool {
        self.state == State::Outside
    }

    /// What `token` is; `has_arguments` is asked once.
    pub fn update(
        &mut self,
        token: &PpToken,
        va_opt: Symbol,
        has_arguments: impl FnOnce(&PpToken) -> bool,
    ) -> Result<Update, Misuse> {
        if !self.variadic {
            return Ok(Update::Include);
        }
        let depth = match self.state {
            _ if token.kind == Kind::Name && token.value == va_opt => {
                if self.state != State::Outside {
                    return Err(Misuse::Nested);
                }
                self.state = State::Named;
                self.stringify = token.has(flag::STRINGIFY);
                return Ok(Update::Begin);
            }
            State::Outside => return Ok(Update::Include),
            State::Named if token.kind != Kind::OpenParen => return Err(Misuse::NoParenthesis),
            State::Named => {
                self.state = State::Opened;
                if self.keeps.is_none() {
                    self.keeps = Some(has_arguments(token));
                }
                return Ok(Update::Drop);
            }
            State::Opened if token.kind == Kind::Paste => return Err(Misuse::PasteAtEdge),
            State::Opened => 0,
            State::Within(depth) => depth,
        };
        self.state = State::Within(depth);
        let was_paste = std::mem::replace(&mut self.last_was_paste, token.kind == Kind::Paste);
        match token.kind {
            Kind::OpenParen => self.state = State::Within(depth + 1),
            Kind::CloseParen if depth > 0 => self.state = State::Within(depth - 1),
            Kind::CloseParen => {
                self.state = State::Outside;
                return if was_paste { Err(Misuse::PasteAtEdge) } else { Ok(Update::End) };
            }
            _ => {}
        }
        Ok(if self.keeps == Some(true) { Update::Include } else { Update::Drop })
    }
}
