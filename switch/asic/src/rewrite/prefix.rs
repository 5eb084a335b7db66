//! Prefixes of keys of up to 256 bits: several keys in a row, the last of which is the prefix key.

use std::cmp::Ordering;

/// Widest key in bits.
pub const WIDTH: u32 = 256;

/// The first `len` bits of a key. They stand at the top; what is below is 0.
///
/// The order is that of a walk through the trie: a prefix comes before those that it covers, and these come in a row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Prefix {
    top: u128,
    low: u128,
    len: u16,
}

impl PartialOrd for Prefix {
    fn partial_cmp(&self, other: &Prefix) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Prefix {
    fn cmp(&self, other: &Prefix) -> Ordering {
        (self.top, self.low, self.len).cmp(&(other.top, other.low, other.len))
    }
}

/// The highest `len` of 128 bits.
fn mask(len: u32) -> u128 {
    if len == 0 { 0 } else { u128::MAX << (128 - len.min(128)) }
}

impl Prefix {
    /// The prefix of no bits, which covers all.
    pub const ALL: Prefix = Prefix { top: 0, low: 0, len: 0 };

    /// The first `len` bits of a key whose first 128 bits are `top` and whose next ones are `low`. A `len` beyond [`WIDTH`] is cut to it.
    pub fn new(top: u128, low: u128, len: u32) -> Prefix {
        let len = len.min(WIDTH);
        Prefix { top: top & mask(len), low: low & mask(len.saturating_sub(128)), len: len as u16 }
    }

    /// The prefix and then the low `width` bits of a number (at most 128), of which the first `len` count.
    #[must_use]
    pub fn and(self, value: u128, width: u32, len: u32) -> Prefix {
        let at = u32::from(self.len);
        let value = if width == 0 { 0 } else { value << (128 - width.min(128)) } & mask(len);
        let (top, low) = match at {
            0 => (value, 0),
            1..128 => (self.top | value >> at, value << (128 - at)),
            128 => (self.top, value),
            _ => (self.top, self.low | value.checked_shr(at - 128).unwrap_or(0)),
        };
        Prefix::new(top, low, at + len)
    }

    /// Number of bits.
    pub fn len(&self) -> u32 {
        u32::from(self.len)
    }

    /// Whether it is the prefix of no bits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its first bits.
    #[must_use]
    pub fn cut(&self, len: u32) -> Prefix {
        Prefix::new(self.top, self.low, len.min(self.len()))
    }

    /// Whether all that begins with `other` begins with this.
    pub fn covers(&self, other: &Prefix) -> bool {
        self.len <= other.len && other.cut(self.len()) == *self
    }

    /// The greatest key that begins with it, as the last one in order.
    #[must_use]
    pub fn last(&self) -> Prefix {
        let (top, low) = (self.top | !mask(self.len()), self.low | !mask(self.len().saturating_sub(128)));
        Prefix { top, low, len: WIDTH as u16 }
    }

    /// The longest prefix that covers both.
    #[must_use]
    pub fn common(&self, other: &Prefix) -> Prefix {
        let equal = match (self.top ^ other.top).leading_zeros() {
            128 => 128 + (self.low ^ other.low).leading_zeros(),
            bits => bits,
        };
        self.cut(equal.min(other.len()))
    }

    /// Bit number `at`, from 0 at the front.
    pub fn bit(&self, at: u32) -> bool {
        match at {
            0..128 => self.top >> (127 - at) & 1 == 1,
            _ => self.low >> (255 - at.min(255)) & 1 == 1,
        }
    }

    /// One bit longer.
    #[must_use]
    pub fn child(&self, bit: bool) -> Prefix {
        self.and(u128::from(bit), 1, 1)
    }

    /// As the words of a key of `width` bits, least significant word first, what is behind the prefix 0.
    pub fn words(&self, width: u32) -> Vec<u64> {
        let shift = WIDTH - width.min(WIDTH);
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

    /// Against strings of bits.
    #[test]
    fn as_strings() {
        let mut rng = fastrand::Rng::with_seed(7);
        let text = |p: &Prefix| (0..p.len()).map(|at| if p.bit(at) { '1' } else { '0' }).collect::<String>();
        for _ in 0..20_000 {
            let mut parts = String::new();
            let mut prefix = Prefix::ALL;
            for _ in 0..rng.u32(0..3) {
                let width = rng.u32(0..=85);
                let len = if rng.bool() { width } else { rng.u32(0..=width) };
                let value = rng.u128(..) & (u128::MAX >> (128 - width.max(1))) & if width == 0 { 0 } else { u128::MAX };
                prefix = prefix.and(value, width, len);
                let bits: String = (0..width).rev().map(|at| if value >> at & 1 == 1 { '1' } else { '0' }).collect();
                parts += &bits[..len as usize];
            }
            assert_eq!(text(&prefix), parts);
            let other = prefix.cut(rng.u32(0..=prefix.len())).child(rng.bool()).child(rng.bool());
            let common = text(&prefix).bytes().zip(text(&other).bytes()).take_while(|(a, b)| a == b).count();
            assert_eq!(prefix.common(&other).len() as usize, common);
            assert_eq!(prefix.covers(&other), text(&other).starts_with(&parts));
            assert_eq!(prefix.covers(&other), prefix <= other && other <= prefix.last());
        }
    }

    #[test]
    fn as_words() {
        let prefix = Prefix::ALL.and(0xabcdef, 24, 24).and(0x0a000000, 32, 8);
        assert_eq!(prefix.words(56), [0xabcdef0a000000]);
        let wide = Prefix::ALL.and(0xabcdef, 24, 24).and(0x2001_0db8 << 96, 128, 32);
        assert_eq!(wide.words(152), [0, 0x2001_0db8 << 32, 0xabcdef]);
        let widest = Prefix::ALL.and(1, 128, 128).and(2, 128, 128);
        assert_eq!(widest.words(256), [2, 0, 1, 0]);
    }
}
