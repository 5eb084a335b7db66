//! One line's characters to preprocessing tokens.

use super::token::Kind;

/// What [`scan`] found: the kind and the offset behind it.
pub(super) struct Scanned {
    pub kind: Kind,
    pub end: usize,
}

/// The token at `at` of `bytes`, in which a newline follows. No white space and no comment is
/// there, and no newline.
///
/// With `angled`, `<` begins the name of a header if a `>` closes it on the line.
pub(super) fn scan(bytes: &[u8], at: usize, angled: bool) -> Scanned {
    let byte = |offset: usize| bytes.get(at + offset).copied().unwrap_or(b'\n');
    match byte(0) {
        b'0'..=b'9' => number(bytes, at),
        b'.' if byte(1).is_ascii_digit() => number(bytes, at),
        b'L' if byte(1) == b'\'' => quoted(bytes, at, 1, Kind::WideChar),
        b'L' if byte(1) == b'"' => quoted(bytes, at, 1, Kind::WideStr),
        b'_' | b'a'..=b'z' | b'A'..=b'Z' => Scanned { kind: Kind::Name, end: at + word_len(&bytes[at..]) },
        b'\'' => quoted(bytes, at, 0, Kind::Char),
        b'"' => quoted(bytes, at, 0, Kind::Str),
        b'<' if angled => header(bytes, at).unwrap_or_else(|| punctuation(bytes, at)),
        _ => punctuation(bytes, at),
    }
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

fn word_len(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| is_word(**byte)).count()
}

fn number(bytes: &[u8], at: usize) -> Scanned {
    let mut end = at + 1;
    while let Some(&byte) = bytes.get(end) {
        let sign = matches!(byte, b'+' | b'-') && matches!(bytes[end - 1], b'e' | b'E' | b'p' | b'P');
        if !(is_word(byte) || byte == b'.' || sign) {
            break;
        }
        end += 1;
    }
    Scanned { kind: Kind::Number, end }
}

/// A string or a character constant whose quote is `prefix` bytes behind `at`. Without a second
/// quote it is the rest of the line.
fn quoted(bytes: &[u8], at: usize, prefix: usize, kind: Kind) -> Scanned {
    let quote = bytes[at + prefix];
    let mut end = at + prefix + 1;
    loop {
        match bytes.get(end) {
            None | Some(b'\n') => return Scanned { kind: Kind::Other, end },
            Some(b'\\') if bytes.get(end + 1).is_some_and(|next| *next != b'\n') => end += 2,
            Some(&byte) => {
                end += 1;
                if byte == quote {
                    return Scanned { kind, end };
                }
            }
        }
    }
}

fn header(bytes: &[u8], at: usize) -> Option<Scanned> {
    let len = bytes[at..].iter().position(|byte| matches!(byte, b'>' | b'\n'))?;
    (bytes[at + len] == b'>').then_some(Scanned { kind: Kind::Header, end: at + len + 1 })
}

fn punctuation(bytes: &[u8], at: usize) -> Scanned {
    let [first, second, third] = [0, 1, 2].map(|offset| bytes.get(at + offset).copied().unwrap_or(b'\n'));
    let (kind, len) = match (first, second, third) {
        (b'<', b'<', b'=') => (Kind::ShiftLeftAssign, 3),
        (b'>', b'>', b'=') => (Kind::ShiftRightAssign, 3),
        (b'.', b'.', b'.') => (Kind::Ellipsis, 3),
        _ => match (first, second) {
            (b'<', b'<') => (Kind::ShiftLeft, 2),
            (b'>', b'>') => (Kind::ShiftRight, 2),
            (b'<', b'=') => (Kind::LessEqual, 2),
            (b'>', b'=') => (Kind::GreaterEqual, 2),
            (b'=', b'=') => (Kind::Equal, 2),
            (b'!', b'=') => (Kind::NotEqual, 2),
            (b'+', b'=') => (Kind::PlusAssign, 2),
            (b'-', b'=') => (Kind::MinusAssign, 2),
            (b'*', b'=') => (Kind::MultAssign, 2),
            (b'/', b'=') => (Kind::DivAssign, 2),
            (b'%', b'=') => (Kind::ModAssign, 2),
            (b'&', b'=') => (Kind::AndAssign, 2),
            (b'|', b'=') => (Kind::OrAssign, 2),
            (b'^', b'=') => (Kind::XorAssign, 2),
            (b'&', b'&') => (Kind::AndAnd, 2),
            (b'|', b'|') => (Kind::OrOr, 2),
            (b'+', b'+') => (Kind::Increment, 2),
            (b'-', b'-') => (Kind::Decrement, 2),
            (b'-', b'>') => (Kind::Arrow, 2),
            (b'#', b'#') => (Kind::Paste, 2),
            _ => match single(first) {
                Some(kind) => (kind, 1),
                None => (Kind::Other, character_len(&bytes[at..])),
            },
        },
    };
    Scanned { kind, end: at + len }
}

fn single(byte: u8) -> Option<Kind> {
    Some(match byte {
        b'=' => Kind::Assign,
        b'!' => Kind::Not,
        b'>' => Kind::Greater,
        b'<' => Kind::Less,
        b'+' => Kind::Plus,
        b'-' => Kind::Minus,
        b'*' => Kind::Mult,
        b'/' => Kind::Div,
        b'%' => Kind::Mod,
        b'&' => Kind::And,
        b'|' => Kind::Or,
        b'^' => Kind::Xor,
        b'~' => Kind::Complement,
        b'?' => Kind::Query,
        b':' => Kind::Colon,
        b',' => Kind::Comma,
        b'(' => Kind::OpenParen,
        b')' => Kind::CloseParen,
        b'#' => Kind::Hash,
        b'[' => Kind::OpenSquare,
        b']' => Kind::CloseSquare,
        b'{' => Kind::OpenBrace,
        b'}' => Kind::CloseBrace,
        b';' => Kind::Semicolon,
        b'.' => Kind::Dot,
        b'@' => Kind::At,
        _ => return None,
    })
}

/// Length of the character at the front: of all its bytes, where they are UTF-8.
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
