//! Prefixes of keys of up to 256 bits. A key can concatenate several keys, of which the last is the
//! prefix key.

use std::cmp::Ordering;

/// Maximum key width in bits.
pub const MAX_KEY_BITS: u32 = 256;

/// The first `len` bits of a key, left-aligned. The remaining bits are 0.
///
/// The order is that of a preorder walk through the trie: a prefix is directly followed by the
/// prefixes that it covers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyPrefix {
    top: u128,
    low: u128,
    len: u16,
}

impl PartialOrd for KeyPrefix {
    fn partial_cmp(&self, other: &KeyPrefix) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyPrefix {
    fn cmp(&self, other: &KeyPrefix) -> Ordering {
        (self.top, self.low, self.len).cmp(&(other.top, other.low, other.len))
    }
}

/// Returns a mask of the highest `len` of 128 bits.
fn high_mask(len: u32) -> u128 {
    if len == 0 { 0 } else { u128::MAX << (128 - len.min(128)) }
}

impl KeyPrefix {
    /// The empty prefix, which covers everything.
    pub const ALL: KeyPrefix = KeyPrefix { top: 0, low: 0, len: 0 };

    /// Creates the prefix of the first `len` bits of a key with its first 128 bits in `top` and the
    /// next ones in `low`. `len` is limited to [`MAX_KEY_BITS`].
    pub fn new(top: u128, low: u128, len: u32) -> KeyPrefix {
        let len = len.min(MAX_KEY_BITS);
        KeyPrefix { top: top & high_mask(len), low: low & high_mask(len.saturating_sub(128)), len: len as u16 }
    }

    /// Appends the first `len` bits of a number of `width` bits (at most 128).
    #[must_use]
    pub fn append(self, value: u128, width: u32, len: u32) -> KeyPrefix {
        let at = u32::from(self.len);
        let value = if width == 0 { 0 } else { value << (128 - width.min(128)) } & high_mask(len);
        let (top, low) = match at {
            0 => (value, 0),
            1..128 => (self.top | value >> at, value << (128 - at)),
            128 => (self.top, value),
            _ => (self.top, self.low | value.checked_shr(at - 128).unwrap_or(0)),
        };
        KeyPrefix::new(top, low, at + len)
    }

    /// Returns the number of bits.
    pub fn len(&self) -> u32 {
        u32::from(self.len)
    }

    /// Returns whether it is the empty prefix.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns its first `len` bits.
    #[must_use]
    pub fn truncate(&self, len: u32) -> KeyPrefix {
        KeyPrefix::new(self.top, self.low, len.min(self.len()))
    }

    /// Returns whether it is a prefix of `other`, or equal.
    pub fn covers(&self, other: &KeyPrefix) -> bool {
        self.len <= other.len && other.truncate(self.len()) == *self
    }

    /// Returns the largest key with this prefix, which is the last one in order.
    #[must_use]
    pub fn last_key(&self) -> KeyPrefix {
        let (top, low) = (self.top | !high_mask(self.len()), self.low | !high_mask(self.len().saturating_sub(128)));
        KeyPrefix { top, low, len: MAX_KEY_BITS as u16 }
    }

    /// Returns the longest prefix that covers both.
    #[must_use]
    pub fn common_prefix(&self, other: &KeyPrefix) -> KeyPrefix {
        let equal = match (self.top ^ other.top).leading_zeros() {
            128 => 128 + (self.low ^ other.low).leading_zeros(),
            bits => bits,
        };
        self.truncate(equal.min(other.len()))
    }

    /// Returns bit number `at`, from 0 at the front.
    pub fn bit(&self, at: u32) -> bool {
        match at {
            0..128 => self.top >> (127 - at) & 1 == 1,
            _ => self.low >> (255 - at.min(255)) & 1 == 1,
        }
    }

    /// Returns the prefix extended by one bit.
    #[must_use]
    pub fn child(&self, bit: bool) -> KeyPrefix {
        self.append(u128::from(bit), 1, 1)
    }

    /// Returns the words of a key of `width` bits, least significant word first, with zeros after
    /// the prefix.
    pub fn to_words(&self, width: u32) -> Vec<u64> {
        let shift = MAX_KEY_BITS - width.min(MAX_KEY_BITS);
        let (top, low) = match shift {
            0 => (self.top, self.low),
            1..128 => (self.top >> shift, self.low >> shift | self.top << (128 - shift)),
            128 => (0, self.top),
            _ => (0, self.top.checked_shr(shift - 128).unwrap_or(0)),
        };
        let words = [low as u64, (low >> 64) as u64, top as u64, (top >> 64) as u64];
        words[..entries::words_for(width).min(4)].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with strings of bits.
    #[test]
    fn as_strings() {
        let mut rng = fastrand::Rng::with_seed(7);
        let text = |p: &KeyPrefix| (0..p.len()).map(|at| if p.bit(at) { '1' } else { '0' }).collect::<String>();
        for _ in 0..20_000 {
            let mut parts = String::new();
            let mut prefix = KeyPrefix::ALL;
            for _ in 0..rng.u32(0..3) {
                let width = rng.u32(0..=85);
                let len = if rng.bool() { width } else { rng.u32(0..=width) };
                let value = rng.u128(..) & (u128::MAX >> (128 - width.max(1))) & if width == 0 { 0 } else { u128::MAX };
                prefix = prefix.append(value, width, len);
                let bits: String = (0..width).rev().map(|at| if value >> at & 1 == 1 { '1' } else { '0' }).collect();
                parts += &bits[..len as usize];
            }
            assert_eq!(text(&prefix), parts);
            let other = prefix.truncate(rng.u32(0..=prefix.len())).child(rng.bool()).child(rng.bool());
            let common = text(&prefix).bytes().zip(text(&other).bytes()).take_while(|(a, b)| a == b).count();
            assert_eq!(prefix.common_prefix(&other).len() as usize, common);
            assert_eq!(prefix.covers(&other), text(&other).starts_with(&parts));
            assert_eq!(prefix.covers(&other), prefix <= other && other <= prefix.last_key());
        }
    }

    #[test]
    fn as_words() {
        let prefix = KeyPrefix::ALL.append(0xabcdef, 24, 24).append(0x0a000000, 32, 8);
        assert_eq!(prefix.to_words(56), [0xabcdef0a000000]);
        let wide = KeyPrefix::ALL.append(0xabcdef, 24, 24).append(0x2001_0db8 << 96, 128, 32);
        assert_eq!(wide.to_words(152), [0, 0x2001_0db8 << 32, 0xabcdef]);
        let widest = KeyPrefix::ALL.append(1, 128, 128).append(2, 128, 128);
        assert_eq!(widest.to_words(256), [2, 0, 1, 0]);
    }
}
