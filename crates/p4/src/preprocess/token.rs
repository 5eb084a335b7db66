//! Preprocessing tokens, which are cpp's and not P4's: `->` is one, `8w1` is a number, `don't`
//! ends with its line.

use crate::span::Span;
use std::rc::Rc;

/// A name's number.
pub(super) type Symbol = u32;

macro_rules! kinds {
    ($($name:ident = $text:literal,)*) => {
        /// What a preprocessing token is.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(super) enum Kind {
            $($name,)*
            /// A name; its symbol is the token's value.
            Name,
            /// A preprocessing number: a digit, and all letters, digits, dots and signs of
            /// exponents after it.
            Number,
            /// `'c'`
            Char,
            /// `L'c'`
            WideChar,
            /// `"..."`
            Str,
            /// `L"..."`
            WideStr,
            /// `<...>` where the name of a header is looked for.
            Header,
            /// A character that begins no token, or a quote without its partner and the rest of
            /// its line.
            Other,
            /// A comment, which stays in the output.
            Comment,
            /// A parameter in the body of a macro; its index is the token's value.
            Param,
            /// No token: it says that a blank may be needed here.
            Padding,
            /// The end of a directive, of a file within arguments, of an argument, or of
            /// everything.
            End,
        }

        impl Kind {
            /// The spelling of punctuation; empty for the other kinds.
            pub fn text(self) -> &'static str {
                match self {
                    $(Kind::$name => $text,)*
                    _ => "",
                }
            }
        }
    };
}

// In cpp's order: an `=` can follow the first fourteen, and operators of `#if` end with the 26th.
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

impl Kind {
    /// A string or a character constant, with both of its quotes.
    pub fn is_quoted(self) -> bool {
        matches!(self, Kind::Char | Kind::WideChar | Kind::Str | Kind::WideStr)
    }
}

/// The bits of [`PpToken::flags`].
pub(super) mod flag {
    /// White space is in front of the token.
    pub const WHITE: u16 = 1;
    /// The token is the left side of `##`.
    pub const PASTE_LEFT: u16 = 2;
    /// The parameter is made a string.
    pub const STRINGIFY: u16 = 4;
    /// The name was met while its macro was being expanded, and is never expanded again.
    pub const NO_EXPAND: u16 = 8;
    /// The first token of its line.
    pub const LINE_START: u16 = 16;
    /// White space was in front of the `##` after the token, or behind the `#` before it. Only for
    /// comparing macros.
    pub const INNER_WHITE: u16 = 32;
    /// Of padding: it takes after a token, whose white space [`WHITE`] tells.
    pub const SOURCE: u16 = 64;
    /// Of [`super::Kind::End`]: the end of an argument that is being expanded.
    pub const ARGUMENT: u16 = 128;
}

/// A preprocessing token.
#[derive(Clone, Debug)]
pub(super) struct PpToken {
    pub kind: Kind,
    /// Of [`flag`].
    pub flags: u16,
    /// The symbol of a name, the index of a parameter.
    pub value: u32,
    /// The line that `__LINE__` means by the token.
    pub line: u32,
    /// The spelling, except of punctuation.
    pub text: Option<Rc<str>>,
    /// Where it was written; for a token of a macro's body, where the macro is used.
    pub span: Span,
}

impl PpToken {
    pub fn new(kind: Kind, flags: u16, span: Span) -> Self {
        PpToken { kind, flags, value: 0, line: 0, text: None, span }
    }

    /// Padding that takes after `source`.
    pub fn padding(source: &PpToken) -> Self {
        let flags = flag::SOURCE | source.flags & flag::WHITE;
        PpToken { line: source.line, ..PpToken::new(Kind::Padding, flags, source.span) }
    }

    /// Padding that takes after nothing: the tokens around it must not become one.
    pub fn avoid_paste() -> Self {
        PpToken::new(Kind::Padding, 0, Span::default())
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

    /// Whether a macro with one is the same as a macro with the other.
    pub fn same_as(&self, other: &PpToken) -> bool {
        self.kind == other.kind && self.flags == other.flags && self.value == other.value && self.text == other.text
    }
}

/// White space that padding stands for: of the first source that has any, else of the last.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Gap(Option<bool>);

impl Gap {
    /// Takes in one more padding token.
    pub fn add(&mut self, padding: &PpToken) {
        let source = padding.has(flag::SOURCE);
        if self.0.is_none() || (self.0 == Some(false) && !source) {
            self.0 = source.then_some(padding.is_white());
        }
    }

    /// Whether there is white space in front of `token`, which comes after the padding.
    pub fn is_white(self, token: &PpToken) -> bool {
        self.0.unwrap_or(token.is_white())
    }
}

/// Appends `text` with a backslash before each backslash and each double quote; a newline becomes
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
