//! Splits one line into preprocessing tokens.

use super::token::PpTokenKind;

/// Result of [`scan_token`]: the kind, and the offset after the token.
pub(super) struct ScannedPpToken {
    pub kind: PpTokenKind,
    pub end: usize,
}

/// Scans the token at `at` of `bytes`, a text with a final newline. `at` is not at white space, a
/// comment or a newline.
///
/// With `angled`, `<` begins the name of a header if a `>` closes it on the line.
pub(super) fn scan_token(bytes: &[u8], at: usize, angled: bool) -> ScannedPpToken {
    let byte = |offset: usize| bytes.get(at + offset).copied().unwrap_or(b'\n');
    match byte(0) {
        b'0'..=b'9' => scan_number(bytes, at),
        b'.' if byte(1).is_ascii_digit() => scan_number(bytes, at),
        b'L' if byte(1) == b'\'' => scan_quoted(bytes, at, 1, PpTokenKind::WideChar),
        b'L' if byte(1) == b'"' => scan_quoted(bytes, at, 1, PpTokenKind::WideStr),
        b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
            ScannedPpToken { kind: PpTokenKind::Name, end: at + word_len(&bytes[at..]) }
        }
        b'\'' => scan_quoted(bytes, at, 0, PpTokenKind::Char),
        b'"' => scan_quoted(bytes, at, 0, PpTokenKind::Str),
        b'<' if angled => scan_header(bytes, at).unwrap_or_else(|| scan_punctuation(bytes, at)),
        _ => scan_punctuation(bytes, at),
    }
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

fn word_len(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_word(**byte)).count()
}

fn scan_number(bytes: &[u8], at: usize) -> ScannedPpToken {
    let mut end = at + 1;
    while let Some(&byte) = bytes.get(end) {
        let sign = matches!(byte, b'+' | b'-') && matches!(bytes[end - 1], b'e' | b'E' | b'p' | b'P');
        if !(is_word(byte) || byte == b'.' || sign) {
            break;
        }
        end += 1;
    }
    ScannedPpToken { kind: PpTokenKind::Number, end }
}

/// Scans a string or character constant. The opening quote is `prefix` bytes after `at`. An
/// unclosed one extends to the end of the line.
fn scan_quoted(bytes: &[u8], at: usize, prefix: usize, kind: PpTokenKind) -> ScannedPpToken {
    let quote = bytes[at + prefix];
    let mut end = at + prefix + 1;
    loop {
        match bytes.get(end) {
            None | Some(b'\n') => return ScannedPpToken { kind: PpTokenKind::Other, end },
            Some(b'\\') if bytes.get(end + 1).is_some_and(|next| *next != b'\n') => end += 2,
            Some(&byte) => {
                end += 1;
                if byte == quote {
                    return ScannedPpToken { kind, end };
                }
            }
        }
    }
}

fn scan_header(bytes: &[u8], at: usize) -> Option<ScannedPpToken> {
    let len = bytes[at..].iter().position(|byte| matches!(byte, b'>' | b'\n'))?;
    (bytes[at + len] == b'>').then_some(ScannedPpToken { kind: PpTokenKind::Header, end: at + len + 1 })
}

/// Scans the punctuation at byte `start`: the longest operator that begins there. Any other
/// character has the kind `Other`.
fn scan_punctuation(bytes: &[u8], start: usize) -> ScannedPpToken {
    let [first, second, third] = [0, 1, 2].map(|offset| bytes.get(start + offset).copied().unwrap_or(b'\n'));
    let (kind, len) = match (first, second, third) {
        (b'<', b'<', b'=') => (PpTokenKind::ShiftLeftAssign, 3),
        (b'>', b'>', b'=') => (PpTokenKind::ShiftRightAssign, 3),
        (b'.', b'.', b'.') => (PpTokenKind::Ellipsis, 3),
        _ => match (first, second) {
            (b'<', b'<') => (PpTokenKind::ShiftLeft, 2),
            (b'>', b'>') => (PpTokenKind::ShiftRight, 2),
            (b'<', b'=') => (PpTokenKind::LessEqual, 2),
            (b'>', b'=') => (PpTokenKind::GreaterEqual, 2),
            (b'=', b'=') => (PpTokenKind::Equal, 2),
            (b'!', b'=') => (PpTokenKind::NotEqual, 2),
            (b'+', b'=') => (PpTokenKind::PlusAssign, 2),
            (b'-', b'=') => (PpTokenKind::MinusAssign, 2),
            (b'*', b'=') => (PpTokenKind::MultAssign, 2),
            (b'/', b'=') => (PpTokenKind::DivAssign, 2),
            (b'%', b'=') => (PpTokenKind::ModAssign, 2),
            (b'&', b'=') => (PpTokenKind::AndAssign, 2),
            (b'|', b'=') => (PpTokenKind::OrAssign, 2),
            (b'^', b'=') => (PpTokenKind::XorAssign, 2),
            (b'&', b'&') => (PpTokenKind::AndAnd, 2),
            (b'|', b'|') => (PpTokenKind::OrOr, 2),
            (b'+', b'+') => (PpTokenKind::Increment, 2),
            (b'-', b'-') => (PpTokenKind::Decrement, 2),
            (b'-', b'>') => (PpTokenKind::Arrow, 2),
            (b'#', b'#') => (PpTokenKind::Paste, 2),
            _ => match single_char_kind(first) {
                Some(kind) => (kind, 1),
                None => (PpTokenKind::Other, character_len(&bytes[start..])),
            },
        },
    };
    ScannedPpToken { kind, end: start + len }
}

/// Returns the kind of a token of one punctuation character; `None` if the byte is none.
fn single_char_kind(byte: u8) -> Option<PpTokenKind> {
    Some(match byte {
        b'=' => PpTokenKind::Assign,
        b'!' => PpTokenKind::Not,
        b'>' => PpTokenKind::Greater,
        b'<' => PpTokenKind::Less,
        b'+' => PpTokenKind::Plus,
        b'-' => PpTokenKind::Minus,
        b'*' => PpTokenKind::Mult,
        b'/' => PpTokenKind::Div,
        b'%' => PpTokenKind::Mod,
        b'&' => PpTokenKind::And,
        b'|' => PpTokenKind::Or,
        b'^' => PpTokenKind::Xor,
        b'~' => PpTokenKind::Complement,
        b'?' => PpTokenKind::Query,
        b':' => PpTokenKind::Colon,
        b',' => PpTokenKind::Comma,
        b'(' => PpTokenKind::OpenParen,
        b')' => PpTokenKind::CloseParen,
        b'#' => PpTokenKind::Hash,
        b'[' => PpTokenKind::OpenSquare,
        b']' => PpTokenKind::CloseSquare,
        b'{' => PpTokenKind::OpenBrace,
        b'}' => PpTokenKind::CloseBrace,
        b';' => PpTokenKind::Semicolon,
        b'.' => PpTokenKind::Dot,
        b'@' => PpTokenKind::At,
        _ => return None,
    })
}

/// Returns the length of the first character in bytes; 1 if it is not UTF-8.
fn character_len(bytes: &[u8]) -> usize {
    let len = match bytes.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let whole = bytes.get(..len).is_some_and(|character| std::str::from_utf8(character).is_ok());
    if whole { len } else { 1 }
}
