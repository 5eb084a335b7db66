//! [`AddressBits`]: address bits that prefixes are compared with, left-aligned in an integer.

/// Address, or its remaining bits below some depth. The next bit is the most significant; bits
/// beyond the end are 0.
pub(super) trait AddressBits: Copy + Eq + Ord + Send + Sync + std::fmt::Debug + 'static {
    /// 64-bit words of an address in a lookup key.
    const WORDS: usize;

    /// Converts from [`AddressBits::WORDS`] words, least significant first, of which the low `bits`
    /// count; missing words are 0.
    fn from_words(words: &[u64], bits: u32) -> Self;
    /// Returns the first `count` bits, 1 to 64, as a number.
    fn leading_bits(self, count: u32) -> u64;
    /// Removes the first `count` bits; any count.
    fn skip_bits(self, count: u32) -> Self;
    /// Removes the first `count` bits, at most 63.
    fn skip_bits_short(self, count: u32) -> Self;
    /// Keeps the first `count` bits and clears the others; any count.
    fn keep_leading(self, count: u32) -> Self;
    /// Appends `rest` after the first `depth` bits of `self`; the other bits of `self` must be 0.
    fn append_bits(self, depth: u32, rest: Self) -> Self;
    /// Returns the bits left-aligned in 128.
    fn to_left_u128(self) -> u128;
    /// Converts from bits left-aligned in 128.
    fn from_left_u128(wide: u128) -> Self;

    /// Returns bit `index`, counted from the first.
    fn bit(self, index: u32) -> bool {
        self.skip_bits(index).leading_bits(1) == 1
    }

    /// Returns whether the first `count` bits equal those of `other`.
    fn shares_leading_bits(self, other: Self, count: u32) -> bool {
        self.keep_leading(count) == other.keep_leading(count)
    }

    /// Converts a number of `count` bits, 1 to 64, to leading bits.
    fn from_leading_bits(number: u64, count: u32) -> Self {
        Self::from_left_u128(u128::from(number) << (128 - count))
    }
}

impl AddressBits for u64 {
    const WORDS: usize = 1;

    #[inline(always)]
    fn from_words(words: &[u64], bits: u32) -> u64 {
        words.first().copied().unwrap_or(0) << (64 - bits)
    }

    #[inline(always)]
    fn leading_bits(self, count: u32) -> u64 {
        self >> (64 - count)
    }

    #[inline(always)]
    fn skip_bits(self, count: u32) -> u64 {
        self.checked_shl(count).unwrap_or(0)
    }

    #[inline(always)]
    fn skip_bits_short(self, count: u32) -> u64 {
        self << (count & 63)
    }

    #[inline(always)]
    fn keep_leading(self, count: u32) -> u64 {
        self & !u64::MAX.checked_shr(count).unwrap_or(0)
    }

    #[inline(always)]
    fn append_bits(self, depth: u32, rest: u64) -> u64 {
        self | rest.checked_shr(depth).unwrap_or(0)
    }

    #[inline(always)]
    fn to_left_u128(self) -> u128 {
        u128::from(self) << 64
    }

    #[inline(always)]
    fn from_left_u128(wide: u128) -> u64 {
        (wide >> 64) as u64
    }
}

impl AddressBits for u128 {
    const WORDS: usize = 2;

    #[inline(always)]
    fn from_words(words: &[u64], bits: u32) -> u128 {
        let word = |index: usize| u128::from(words.get(index).copied().unwrap_or(0));
        (word(1) << 64 | word(0)) << (128 - bits)
    }

    #[inline(always)]
    fn leading_bits(self, count: u32) -> u64 {
        (self >> 64) as u64 >> (64 - count)
    }

    #[inline(always)]
    fn skip_bits(self, count: u32) -> u128 {
        self.checked_shl(count).unwrap_or(0)
    }

    #[inline(always)]
    fn skip_bits_short(self, count: u32) -> u128 {
        self << (count & 63)
    }

    #[inline(always)]
    fn keep_leading(self, count: u32) -> u128 {
        self & !u128::MAX.checked_shr(count).unwrap_or(0)
    }

    #[inline(always)]
    fn append_bits(self, depth: u32, rest: u128) -> u128 {
        self | rest.checked_shr(depth).unwrap_or(0)
    }

    #[inline(always)]
    fn to_left_u128(self) -> u128 {
        self
    }

    #[inline(always)]
    fn from_left_u128(wide: u128) -> u128 {
        wide
    }
}
