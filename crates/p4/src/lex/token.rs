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

/// The tokens with one blank between each two, which is how p4c writes the body of an annotation that it does not
/// interpret: `x==1` becomes `x == 1`, and `p::q` becomes `p : : q`. A string keeps its escapes and newlines.
pub fn separated(tokens: &[Token]) -> String {
    let mut words: Vec<&str> = Vec::with_capacity(tokens.len());
    for token in tokens {
        match token.kind {
            // The language has no such token; elsewhere than at the start of a line p4c reads each `#` by itself.
            Tok::HashHash => words.extend(["#", "#"]),
            Tok::Int => number_words(&token.text, &mut words),
            _ => words.push(&token.text),
        }
    }
    words.join(" ")
}

/// Cuts what begins with a digit where p4c's scanner cuts it: `3com` is the number `3` and the name `com`.
fn number_words<'t>(text: &'t str, words: &mut Vec<&'t str>) {
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

/// Length of the longest integer literal that `text`, which begins with a digit, begins with.
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

/// Length of the digits that `text` begins with, with their base prefix if there is one and a digit behind it.
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
    use super::number_words;

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
            number_words(text, &mut found);
            assert_eq!(found.join(" "), words, "of {text}");
        }
    }
}
