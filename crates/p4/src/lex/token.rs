//! Tokens: kinds, spellings, and what the parser must know about the white space in front of them.

use crate::span::Span;
use std::fmt;
use std::sync::Arc;

macro_rules! token_kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What a token is. Kinds with a fixed spelling are keywords and punctuation.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Tok {
            /// An identifier; whether it names a type is the parser's knowledge.
            Ident,
            /// An integer literal, with its width prefix if any.
            Int,
            /// A string literal with its quotes.
            Str,
            /// A string literal or comment that the file's end (or the line's) cuts off.
            Unterminated,
            /// A character that no token of P4 begins with.
            Unknown,
            /// The end of the program.
            Eof,
            $($(#[$doc])* #[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Tok {
            /// The spelling, for keywords and punctuation; empty for the other kinds.
            pub fn text(self) -> &'static str {
                match self {
                    $(Tok::$name => $text,)*
                    _ => "",
                }
            }

            /// All kinds with a fixed spelling.
            pub const FIXED: &'static [Tok] = &[$(Tok::$name,)*];
        }
    };
}

token_kinds! {
    Abstract = "abstract",
    Action = "action",
    Actions = "actions",
    Apply = "apply",
    Bit = "bit",
    Bool = "bool",
    Break = "break",
    Const = "const",
    Continue = "continue",
    Control = "control",
    Default = "default",
    Else = "else",
    Entries = "entries",
    Enum = "enum",
    Error = "error",
    Exit = "exit",
    Extern = "extern",
    False = "false",
    For = "for",
    Header = "header",
    HeaderUnion = "header_union",
    If = "if",
    In = "in",
    InOut = "inout",
    IntType = "int",
    Key = "key",
    List = "list",
    MatchKind = "match_kind",
    Out = "out",
    Package = "package",
    Parser = "parser",
    Priority = "priority",
    Return = "return",
    Select = "select",
    State = "state",
    String = "string",
    Struct = "struct",
    Switch = "switch",
    Table = "table",
    This = "this",
    Transition = "transition",
    True = "true",
    Tuple = "tuple",
    Type = "type",
    Typedef = "typedef",
    Underscore = "_",
    ValueSet = "value_set",
    Varbit = "varbit",
    Void = "void",

    LParen = "(",
    RParen = ")",
    LBrace = "{",
    RBrace = "}",
    LBracket = "[",
    RBracket = "]",
    InvalidHeader = "{#}",
    Comma = ",",
    Semi = ";",
    Colon = ":",
    Question = "?",
    Dot = ".",
    DotDot = "..",
    Dots = "...",
    At = "@",
    Assign = "=",
    Lt = "<",
    Le = "<=",
    /// Two in a row without space between are `>>` to the expression parser and two closing brackets to the type parser.
    Gt = ">",
    /// After a `>` without space between it is `>>=`.
    Ge = ">=",
    EqEq = "==",
    Ne = "!=",
    Not = "!",
    Tilde = "~",
    Plus = "+",
    Minus = "-",
    Star = "*",
    Slash = "/",
    Percent = "%",
    PlusPlus = "++",
    PlusSat = "|+|",
    MinusSat = "|-|",
    PlusColon = "+:",
    Amp = "&",
    AmpAmp = "&&",
    Mask = "&&&",
    Caret = "^",
    Bar = "|",
    BarBar = "||",
    Shl = "<<",
    PlusAssign = "+=",
    MinusAssign = "-=",
    StarAssign = "*=",
    SlashAssign = "/=",
    PercentAssign = "%=",
    PlusSatAssign = "|+|=",
    MinusSatAssign = "|-|=",
    AmpAssign = "&=",
    BarAssign = "|=",
    CaretAssign = "^=",
    ShlAssign = "<<=",
    Hash = "#",
    HashHash = "##",
}

impl Tok {
    /// Whether this is a keyword (a fixed spelling made of letters).
    pub fn is_keyword(self) -> bool {
        self.text().bytes().next().is_some_and(|b| b == b'_' || b.is_ascii_lowercase())
    }
}

impl fmt::Display for Tok {
    /// For "expected ..." in diagnostics.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tok::Ident => f.write_str("a name"),
            Tok::Int => f.write_str("an integer"),
            Tok::Str => f.write_str("a string"),
            Tok::Unterminated => f.write_str("an unterminated literal"),
            Tok::Unknown => f.write_str("an unknown character"),
            Tok::Eof => f.write_str("the end of the program"),
            fixed => write!(f, "`{}`", fixed.text()),
        }
    }
}

/// A token, as spelled, and where it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// What it is.
    pub kind: Tok,
    /// The spelling. For a token that a macro made, not the text at `span`.
    pub text: Arc<str>,
    /// Where it was written; for a token that a macro made, where the macro was used.
    pub span: Span,
    /// Whether white space or a comment stands in front of it.
    pub spaced: bool,
    /// Whether it is the first token of its line.
    pub line_start: bool,
}

impl Token {
    /// The token as a diagnostic names it ("found ...").
    pub fn describe(&self) -> String {
        match self.kind {
            Tok::Eof => "the end of the program".to_owned(),
            Tok::Str => format!("the string {}", self.text),
            Tok::Int => format!("the number `{}`", self.text),
            _ => format!("`{}`", self.text),
        }
    }
}

/// The source text of a run of tokens: spellings with one space where there was white space.
pub fn spell(tokens: &[Token]) -> String {
    let mut text = String::new();
    for token in tokens {
        if token.spaced && !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&token.text);
    }
    text
}
