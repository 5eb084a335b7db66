//! Encoding of numbers: byte strings in network order (P4Runtime 1.5, section "Bytestrings").
//!
//! Encoded strings are the shortest possible, but have at least one byte. Longer strings are
//! decoded too, if their number fits the width. In memory, numbers are 64-bit words, least
//! significant word first, as in `entries`; bits above the width are 0, also of negative numbers.

use bytes::Bytes;
pub use entries::words_for;

/// Reason why a byte string is not a number of its type. The status is `OUT_OF_RANGE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ValueError {
    /// The string is empty.
    #[error("the value is empty: a number has at least one byte")]
    Empty,
    /// The number needs more bits than its type has.
    #[error("the value needs {needed} bits, more than the {width} of its type")]
    TooWide {
        /// Bits that the number needs.
        needed: usize,
        /// Bits of the type.
        width: u32,
    },
    /// The caller gave fewer words than the type needs.
    #[error("{words} words cannot hold {width} bits: a bug")]
    TooFewWords {
        /// Words of the caller.
        words: usize,
        /// Bits of the type.
        width: u32,
    },
}

/// Decodes an unsigned number of `bit<width>` into `words`, least significant first; excess words
/// become 0.
///
/// # Errors
/// The string is empty or the number needs more than `width` bits.
pub fn decode_into(bytes: &[u8], width: u32, words: &mut [u64]) -> Result<(), ValueError> {
    let bytes = digits(bytes)?;
    let needed = unsigned_bits(bytes);
    if needed > width as usize {
        return Err(ValueError::TooWide { needed, width });
    }
    fill(bytes, 0, width, words)
}

/// Decodes an unsigned number of `bit<width>` into [`words_for`] words.
///
/// # Errors
/// Those of [`decode_into`].
///
/// ```
/// assert_eq!(p4runtime::values::decode(&[0x00, 0x63], 12), Ok(vec![0x63]));
/// assert!(p4runtime::values::decode(&[0x10, 0x63], 12).is_err());
/// ```
pub fn decode(bytes: &[u8], width: u32) -> Result<Vec<u64>, ValueError> {
    let mut words = vec![0; words_for(width)];
    decode_into(bytes, width, &mut words)?;
    Ok(words)
}

/// Decodes an unsigned number of at most 64 bits.
///
/// # Errors
/// Those of [`decode_into`]; a `width` above 64 is taken as 64.
pub fn decode_u64(bytes: &[u8], width: u32) -> Result<u64, ValueError> {
    let mut word = [0];
    decode_into(bytes, width.min(64), &mut word)?;
    Ok(word[0])
}

/// Decodes a number of `int<width>` into `words`: two's complement of `width` bits, least
/// significant word first.
///
/// # Errors
/// The string is empty or the number needs more than `width` bits, including its sign bit.
pub fn decode_signed_into(bytes: &[u8], width: u32, words: &mut [u64]) -> Result<(), ValueError> {
    let first = *bytes.first().ok_or(ValueError::Empty)?;
    let sign = if first & 0x80 == 0 { 0 } else { 0xff };
    let needed = signed_bits(bytes, sign);
    if needed > width as usize {
        return Err(ValueError::TooWide { needed, width });
    }
    fill(bytes, sign, width, words)
}

/// Decodes a number of `int<width>` into [`words_for`] words.
///
/// # Errors
/// Those of [`decode_signed_into`].
pub fn decode_signed(bytes: &[u8], width: u32) -> Result<Vec<u64>, ValueError> {
    let mut words = vec![0; words_for(width)];
    decode_signed_into(bytes, width, &mut words)?;
    Ok(words)
}

/// Encodes an unsigned number as the shortest string.
///
/// ```
/// assert_eq!(&p4runtime::values::encode(&[0x3064])[..], [0x30, 0x64]);
/// assert_eq!(&p4runtime::values::encode(&[0, 1])[..], [1, 0, 0, 0, 0, 0, 0, 0, 0]);
/// assert_eq!(&p4runtime::values::encode(&[0])[..], [0]);
/// ```
pub fn encode(words: &[u64]) -> Bytes {
    let mut bytes = Vec::new();
    entries::push_bytes(words, &mut bytes);
    bytes.into()
}

/// Encodes a number of `int<width>`, given as two's complement of `width` bits, as the shortest
/// string. Bits above `width` are ignored.
///
/// ```
/// assert_eq!(&p4runtime::values::encode_signed(&[0x19d], 9)[..], [0x9d]); // -99
/// ```
pub fn encode_signed(words: &[u64], width: u32) -> Bytes {
    let width = width.max(1);
    let bit = |at: u32| words.get(at as usize / 64).is_some_and(|word| word >> (at % 64) & 1 == 1);
    let negative = bit(width - 1);
    // Bits above the width are copies of the sign bit.
    let extended = |at: u32| if at < width { bit(at) } else { negative };
    let byte = |at: u32| (0..8).fold(0, |byte, i| byte | u8::from(extended(8 * at + i)) << i);
    let bytes: Vec<u8> = (0..width.div_ceil(8)).rev().map(byte).collect();
    let sign = if negative { 0xff } else { 0 };
    // A leading byte is redundant if the next one has the same sign bit.
    let spare = bytes.windows(2).take_while(|pair| pair[0] == sign && (pair[1] ^ sign) & 0x80 == 0).count();
    Bytes::from(bytes).slice(spare..)
}

/// Returns whether this is the shortest string for its unsigned number, which read-write symmetry
/// requires.
pub fn is_canonical(bytes: &[u8]) -> bool {
    !bytes.is_empty() && (bytes.len() == 1 || bytes[0] != 0)
}

/// Returns the string without leading zero bytes.
fn digits(bytes: &[u8]) -> Result<&[u8], ValueError> {
    if bytes.is_empty() {
        return Err(ValueError::Empty);
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Ok(&bytes[zeros..])
}

/// Returns the bits that an unsigned number without leading zero bytes needs; 0 for the number 0,
/// which fits any type.
fn unsigned_bits(digits: &[u8]) -> usize {
    digits.first().map_or(0, |first| 8 * digits.len() - first.leading_zeros() as usize)
}

/// Returns the bits that a signed number needs; 1 for 0 and -1.
fn signed_bits(bytes: &[u8], sign: u8) -> usize {
    let copies = bytes.iter().take_while(|byte| **byte == sign).count();
    let rest = &bytes[copies..];
    1 + rest.first().map_or(0, |first| 8 * rest.len() - (first ^ sign).leading_zeros() as usize)
}

/// Stores bytes into words and extends the sign up to the width.
fn fill(bytes: &[u8], sign: u8, width: u32, words: &mut [u64]) -> Result<(), ValueError> {
    if words.len() < words_for(width) {
        return Err(ValueError::TooFewWords { words: words.len(), width });
    }
    let extension = std::iter::repeat(&sign);
    let mut from_least = bytes.iter().rev().chain(extension);
    for (word, at) in words.iter_mut().zip(0u32..) {
        let low = from_least.by_ref().take(8).zip(0u32..).fold(0, |word, (byte, i)| word | u64::from(*byte) << (8 * i));
        let bits = width.saturating_sub(64 * at).min(64);
        *word = if bits == 64 { low } else { low & ((1 << bits) - 1) };
    }
    Ok(())
}
