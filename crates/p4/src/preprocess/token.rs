//! Preprocessing tokens, as defined by cpp: `->` is one token, `8w1` is a number, `don't` extends
//! to the end of its line.

use crate::span::Span;
use std::rc::Rc;

/// Index of an interned name.
pub(super) type Symbol = u32;

macro_rules! kinds {
    ($($name:ident = $text:literal,)*) => {
        /// Kind of a preprocessing token.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(super) enum PpTokenKind {
            $($name,)*
            /// A name; the token's `value` is its symbol.
            Name,
            /// A preprocessing number: a digit, and the letters, digits, dots and exponent signs
            /// after it.
            Number,
            /// `'c'`
            Char,
            /// `L'c'`
            WideChar,
            /// `"..."`
            Str,
            /// `L"..."`
            WideStr,
            /// `<...>` where a header name is expected.
            Header,
            /// A character that begins no token, or an unmatched quote with the remaining line.
            Other,
            /// A comment, which is kept in the output.
            Comment,
            /// A parameter in the body of a macro; the token's `value` is its index.
            Param,
            /// Not a token of the text: marks where a blank can be needed.
            Padding,
            /// The end of a directive, of a file within arguments, of an argument, or of all text.
            End,
        }

        impl PpTokenKind {
            /// Returns the spelling of punctuation; empty for the other kinds.
            pub fn text(self) -> &'static str {
                match self {
                    $(PpTokenKind::$name => $text,)*
                    _ => "",
                }
            }
        }
    };
}

// In the order of cpp, because ranges are compared: the first fourteen can precede `=`, and the
// first 26 include all operators of `#if`.
kinds! {
    Assign = "=",
    Not = "!",
    Greater = ">",
    Less = "<",
    Plus = "+",
    Minus = "-",
    Mult = "*",
    Div = "/",
    Mod = "%",
    And = "&",
    Or = "|",
    Xor = "^",
    ShiftRight = ">>",
    ShiftLeft = "<<",
    Complement = "~",
    AndAnd = "&&",
    OrOr = "||",
    Query = "?",
    Colon = ":",
    Comma = ",",
    OpenParen = "(",
    CloseParen = ")",
    Equal = "==",
    NotEqual = "!=",
    GreaterEqual = ">=",
    LessEqual = "<=",
    PlusAssign = "+=",
    MinusAssign = "-=",
    MultAssign = "*=",
    DivAssign = "/=",
    ModAssign = "%=",
    AndAssign = "&=",
    OrAssign = "|=",
    XorAssign = "^=",
    ShiftRightAssign = ">>=",
    ShiftLeftAssign = "<<=",
    Hash = "#",
    Paste = "##",
    OpenSquare = "[",
    CloseSquare = "]",
    OpenBrace = "{",
    CloseBrace = "}",
    Semicolon = ";",
    Ellipsis = "...",
    Increment = "++",
    Decrement = "--",
    Arrow = "->",
    Dot = ".",
    At = "@",
}

impl PpTokenKind {
    /// Returns whether this is a string or character constant with both quotes.
    pub fn is_quoted(self) -> bool {
        matches!(self, PpTokenKind::Char | PpTokenKind::WideChar | PpTokenKind::Str | PpTokenKind::WideStr)
    }
}

/// Bits of [`PpToken::flags`].
pub(super) mod flag {
    /// White space precedes the token.
    pub const WHITE: u16 = 1;
    /// The token is the left side of `##`.
    pub const PASTE_LEFT: u16 = 2;
    /// The parameter is converted to a string (`#`).
    pub const STRINGIFY: u16 = 4;
    /// The name was read while its macro was being expanded, and is never expanded later.
    pub const NO_EXPAND: u16 = 8;
    /// The token is the first of its line.
    pub const LINE_START: u16 = 16;
    /// White space precedes the `##` after the token, or follows the `#` before it. Only used to
    /// compare macros.
    pub const INNER_WHITE: u16 = 32;
    /// For padding: it copies the white space of a token, see [`WHITE`].
    pub const SOURCE: u16 = 64;
    /// For [`super::PpTokenKind::End`]: the end of an argument being expanded.
    pub const ARGUMENT: u16 = 128;
}

/// A preprocessing token.
#[derive(Clone, Debug)]
pub(super) struct PpToken {
    pub kind: PpTokenKind,
    /// Bits of [`flag`].
    pub flags: u16,
    /// Symbol of a name, or index of a parameter.
    pub value: u32,
    /// The line for `__LINE__` at the token.
    pub line: u32,
    /// The spelling; `None` for punctuation.
    pub text: Option<Rc<str>>,
    /// Source span; for a token of a macro body, the span of the macro use.
    pub span: Span,
}

impl PpToken {
    pub fn new(kind: PpTokenKind, flags: u16, span: Span) -> Self {
        PpToken { kind, flags, value: 0, line: 0, text: None, span }
    }

    /// Creates padding with the white space of `source`.
    pub fn padding(source: &PpToken) -> Self {
        let flags = flag::SOURCE | source.flags & flag::WHITE;
        PpToken { line: source.line, ..PpToken::new(PpTokenKind::Padding, flags, source.span) }
    }

    /// Creates padding without a source, which only prevents that the tokens around it merge.
    pub fn avoid_paste() -> Self {
        PpToken::new(PpTokenKind::Padding, 0, Span::default())
    }

    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub fn is_white(&self) -> bool {
        self.has(flag::WHITE)
    }

    pub fn spelling(&self) -> &str {
        self.text.as_deref().unwrap_or(self.kind.text())
    }

    /// Sets or clears a flag.
    pub fn set(&mut self, flag: u16, on: bool) {
        if on { self.flags |= flag } else { self.flags &= !flag }
    }

    /// Returns whether the tokens are equal in macro definitions.
    pub fn same_as(&self, other: &PpToken) -> bool {
        self.kind == other.kind && self.flags == other.flags && self.value == other.value && self.text == other.text
    }
}

/// White space of a sequence of padding: that of the first source with white space, else of the
/// last.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct PaddingGap(Option<bool>);

impl PaddingGap {
    /// Adds a padding token.
    pub fn add(&mut self, padding: &PpToken) {
        let source = padding.has(flag::SOURCE);
        if self.0.is_none() || (self.0 == Some(false) && !source) {
            self.0 = source.then_some(padding.is_white());
        }
    }

    /// Returns whether white space precedes `token`, the first token after the padding.
    pub fn is_white(self, token: &PpToken) -> bool {
        self.0.unwrap_or(token.is_white())
    }
}

/// Appends `text` with a backslash before each backslash and double quote. Writes a newline as
/// `\n`.
pub(super) fn push_quoted(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\\' | '"' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            _ => out.push(character),
        }
    }
}
