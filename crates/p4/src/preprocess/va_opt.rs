//! Tracks `__VA_OPT__(...)`. Its content is kept only if the call has variable arguments.

use super::token::{PpToken, PpTokenKind, Symbol, flag};

/// Treatment of a body token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VaOptTreatment {
    /// Kept.
    Include,
    /// Dropped.
    Drop,
    /// The word `__VA_OPT__`.
    Begin,
    /// The closing parenthesis of `__VA_OPT__(`.
    End,
}

/// Error of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VaOptMisuse {
    Nested,
    NoParenthesis,
    PasteAtEdge,
}

impl VaOptMisuse {
    pub fn message(self) -> &'static str {
        match self {
            VaOptMisuse::Nested => "`__VA_OPT__` cannot be within `__VA_OPT__`",
            VaOptMisuse::NoParenthesis => "`(` is missing after `__VA_OPT__`",
            VaOptMisuse::PasteAtEdge => "`##` cannot be at the edge of `__VA_OPT__`",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum VaOptState {
    Outside,
    /// After the name.
    Named,
    /// After the opening parenthesis.
    Opened,
    /// Within the content, at this additional parenthesis depth.
    Within(usize),
}

/// State machine over the tokens of a body.
#[derive(Debug)]
pub(super) struct VaOptTracker {
    is_variadic: bool,
    state: VaOptState,
    last_was_paste: bool,
    stringify: bool,
    /// Whether the content is kept, once known.
    keeps: Option<bool>,
}

impl VaOptTracker {
    pub fn new(is_variadic: bool) -> Self {
        VaOptTracker { is_variadic, state: VaOptState::Outside, last_was_paste: false, stringify: false, keeps: None }
    }

    /// Returns whether the current one is `#__VA_OPT__`.
    pub fn stringify(&self) -> bool {
        self.stringify
    }

    /// Returns whether each `__VA_OPT__` was closed.
    pub fn is_complete(&self) -> bool {
        self.state == VaOptState::Outside
    }

    /// Advances to the body token `token` and returns its treatment, or the error that it makes.
    /// `va_opt` is the symbol of `__VA_OPT__`. Calls `has_arguments` at most once, to ask whether
    /// the macro use has variable arguments.
    pub fn update(
        &mut self,
        token: &PpToken,
        va_opt: Symbol,
        has_arguments: impl FnOnce(&PpToken) -> bool,
    ) -> Result<VaOptTreatment, VaOptMisuse> {
        if !self.is_variadic {
            return Ok(VaOptTreatment::Include);
        }
        let depth = match self.state {
            _ if token.kind == PpTokenKind::Name && token.value == va_opt => {
                if self.state != VaOptState::Outside {
                    return Err(VaOptMisuse::Nested);
                }
                self.state = VaOptState::Named;
                self.stringify = token.has(flag::STRINGIFY);
                return Ok(VaOptTreatment::Begin);
            }
            VaOptState::Outside => return Ok(VaOptTreatment::Include),
            VaOptState::Named if token.kind != PpTokenKind::OpenParen => return Err(VaOptMisuse::NoParenthesis),
            VaOptState::Named => {
                self.state = VaOptState::Opened;
                if self.keeps.is_none() {
                    self.keeps = Some(has_arguments(token));
                }
                return Ok(VaOptTreatment::Drop);
            }
            VaOptState::Opened if token.kind == PpTokenKind::Paste => return Err(VaOptMisuse::PasteAtEdge),
            VaOptState::Opened => 0,
            VaOptState::Within(depth) => depth,
        };
        self.state = VaOptState::Within(depth);
        let was_paste = std::mem::replace(&mut self.last_was_paste, token.kind == PpTokenKind::Paste);
        match token.kind {
            PpTokenKind::OpenParen => self.state = VaOptState::Within(depth + 1),
            PpTokenKind::CloseParen if depth > 0 => self.state = VaOptState::Within(depth - 1),
            PpTokenKind::CloseParen => {
                self.state = VaOptState::Outside;
                return if was_paste { Err(VaOptMisuse::PasteAtEdge) } else { Ok(VaOptTreatment::End) };
            }
            _ => {}
        }
        Ok(if self.keeps == Some(true) { VaOptTreatment::Include } else { VaOptTreatment::Drop })
    }
}
