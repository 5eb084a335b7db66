//! Tokens: kinds, spellings, and the white space before them.

use crate::span::Span;
use std::fmt;
use std::sync::Arc;

macro_rules! token_kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Kind of a token. Kinds with a fixed spelling are keywords and punctuation.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Tok {
            /// An identifier. The parser decides whether it names a type.
            Ident,
            /// An integer literal, including its width prefix.
            Int,
            /// A string literal, including its quotes.
            Str,
            /// A string literal or comment that is not closed before the end of the file (or line).
            Unterminated,
            /// A character that begins no token of P4.
            Unknown,
            /// The end of the program.
            Eof,
            $($(#[$doc])* #[doc = concat!("`", $text, "`")] $name,)*
        }

        impl Tok {
            /// Returns the spelling of keywords and punctuation; empty for the other kinds.
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
    /// Two adjacent ones are `>>` in expressions and two closing brackets in types.
    Gt = ">",
    /// Directly after a `>` it forms `>>=`.
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
    /// Returns whether this is a keyword (a fixed spelling of letters).
    pub fn is_keyword(self) -> bool {
        self.text().bytes().next().is_some_and(|b| b == b'_' || b.is_ascii_lowercase())
    }
}

impl fmt::Display for Tok {
    /// Formats the kind for "expected ..." in diagnostics.
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

/// A token with its spelling and origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// The kind.
    pub kind: Tok,
    /// The spelling. It differs from the text at `span` if a macro produced the token.
    pub text: Arc<str>,
    /// Span where the token was written, or of the macro use that produced it.
    pub span: Span,
    /// Whether white space or a comment precedes it.
    pub has_space_before: bool,
    /// Whether it is the first token of its line.
    pub is_line_start: bool,
}

impl Token {
    /// Returns the text by which diagnostics name the token ("found ...").
    pub fn describe(&self) -> String {
        match self.kind {
            Tok::Eof => "the end of the program".to_owned(),
            Tok::Str => format!("the string {}", self.text),
            Tok::Int => format!("the number `{}`", self.text),
            _ => format!("`{}`", self.text),
        }
    }
}

/// Returns the source text of a sequence of tokens, with one space for each stretch of white space.
pub fn spell_tokens(tokens: &[Token]) -> String {
    let mut text = String::new();
    for token in tokens {
        if token.has_space_before && !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&token.text);
    }
    text
}

/// Joins the tokens with single blanks, because p4c writes the bodies of uninterpreted annotations
/// like that: `x==1` becomes `x == 1`, and `p::q` becomes `p : : q`. A string keeps its escapes and
/// newlines.
pub fn join_with_blanks(tokens: &[Token]) -> String {
    let mut words: Vec<&str> = Vec::with_capacity(tokens.len());
    for token in tokens {
        match token.kind {
            // P4 has no such token: p4c reads each `#` by itself except at the start of a line.
            Tok::HashHash => words.extend(["#", "#"]),
            Tok::Int => split_number_words(&token.text, &mut words),
            _ => words.push(&token.text),
        }
    }
    words.join(" ")
}

/// Splits a word that begins with a digit like p4c's scanner: `3com` is the number `3` and the name
/// `com`.
fn split_number_words<'t>(text: &'t str, words: &mut Vec<&'t str>) {
    let mut rest = text;
    while rest.starts_with(|c: char| c.is_ascii_digit()) {
        let (number, behind) = rest.split_at(number_len(rest.as_bytes()));
        words.push(number);
        rest = behind;
    }
    if !rest.is_empty() {
        words.push(rest);
    }
}

/// Returns the length of the longest integer literal at the start of `text`, which begins with a
/// digit.
fn number_len(text: &[u8]) -> usize {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let plain = text.iter().take_while(|b| b.is_ascii_digit() || **b == b'_').count();
    let sized = match text.get(digits) {
        Some(b'w' | b's') => match based_len(&text[digits + 1..]) {
            0 => 0,
            len => digits + 1 + len,
        },
        _ => 0,
    };
    plain.max(sized).max(based_len(text))
}

/// Returns the length of the digits at the start of `text`. Includes a base prefix if a digit
/// follows it.
fn based_len(text: &[u8]) -> usize {
    let is_digit: fn(&u8) -> bool = match text {
        [b'0', b'x' | b'X', ..] => u8::is_ascii_hexdigit,
        [b'0', b'd' | b'D', ..] => u8::is_ascii_digit,
        [b'0', b'o' | b'O', ..] => |b| (b'0'..=b'7').contains(b),
        [b'0', b'b' | b'B', ..] => |b| matches!(b, b'0' | b'1'),
        _ => return text.iter().take_while(|b| b.is_ascii_digit() || **b == b'_').count(),
    };
    match text[2..].iter().take_while(|b| is_digit(b) || **b == b'_').count() {
        // `0x` alone is the number 0 and the name `x`.
        0 => 1,
        len => 2 + len,
    }
}

#[cfg(test)]
mod tests {
    use super::split_number_words;

    #[test]
    fn what_begins_with_a_digit_is_cut_as_p4c_cuts_it() {
        for (text, words) in [
            ("8w0xF", "8w0xF"),
            ("4s0b1012", "4s0b101 2"),
            ("0x1G", "0x1 G"),
            ("0x", "0 x"),
            ("1_000", "1_000"),
            ("3com", "3 com"),
            ("00", "00"),
            ("1b", "1 b"),
            ("0b12", "0b1 2"),
            ("8w", "8 w"),
            ("8wx", "8 wx"),
            ("2w0xg", "2w0 xg"),
            ("12w_", "12w_"),
        ] {
            let mut found = Vec::new();
            split_number_words(text, &mut found);
            assert_eq!(found.join(" "), words, "of {text}");
        }
    }
}
