//! [`Address`]: what prefixes are compared with, its first bit at the top of an integer.

/// An address or what is left of it below some depth: the next bit to look at is the most significant one, and bits that don't
/// exist are 0.
pub(super) trait Address: Copy + Eq + Ord + Send + Sync + std::fmt::Debug + 'static {
    /// Words of a lookup key that hold it.
    const WORDS: usize;

    /// From [`Address::WORDS`] words, least significant first, of which the low `bits` count; missing words are 0.
    fn from_words(words: &[u64], bits: u32) -> Self;
    /// The first `count` bits, as a number. 1 to 64.
    fn top(self, count: u32) -> u64;
    /// Without the first `count` bits; any count.
    fn skip(self, count: u32) -> Self;
    /// Without the first `count` bits, at most 63.
    fn step(self, count: u32) -> Self;
    /// The first `count` bits, then zeros; any count.
    fn keep(self, count: u32) -> Self;
    /// `self` for the first `depth` bits, which are all it has, then `rest`.
    fn append(self, depth: u32, rest: Self) -> Self;
    /// At the top of 128 bits.
    fn wide(self) -> u128;
    /// The first bits of 128.
    fn from_wide(wide: u128) -> Self;

    /// Bit `index`, counted from the first.
    fn bit(self, index: u32) -> bool {
        self.skip(index).top(1) == 1
    }

    /// Whether the first `count` bits are those of `other`.
    fn shares(self, other: Self, count: u32) -> bool {
        self.keep(count) == other.keep(count)
    }

    /// A number of `count` bits, 1 to 64, as the first bits.
    fn from_top(number: u64, count: u32) -> Self {
        Self::from_wide(u128::from(number) << (128 - count))
    }
}

impl Address for u64 {
    const WORDS: usize = 1;

    #[inline(always)]
    fn from_words(words: &[u64], bits: u32) -> u64 {
        words.first().copied().unwrap_or(0) << (64 - bits)
    }

    #[inline(always)]
    fn top(self, count: u32) -> u64 {
        self >> (64 - count)
    }

    #[inline(always)]
    fn skip(self, count: u32) -> u64 {
        self.checked_shl(count).unwrap_or(0)
    }

    #[inline(always)]
    fn step(self, count: u32) -> u64 {
        self << (count & 63)
    }

    #[inline(always)]
    fn keep(self, count: u32) -> u64 {
        self & !u64::MAX.checked_shr(count).unwrap_or(0)
    }

    #[inline(always)]
    fn append(self, depth: u32, rest: u64) -> u64 {
        self | rest.checked_shr(depth).unwrap_or(0)
    }

    #[inline(always)]
    fn wide(self) -> u128 {
        u128::from(self) << 64
    }

    #[inline(always)]
    fn from_wide(wide: u128) -> u64 {
        (wide >> 64) as u64
    }
}

impl Address for u128 {
    const WORDS: usize = 2;

    #[inline(always)]
    fn from_words(words: &[u64], bits: u32) -> u128 {
        let word = |index: usize| u128::from(words.get(index).copied().unwrap_or(0));
        (word(1) << 64 | word(0)) << (128 - bits)
    }

    #[inline(always)]
    fn top(self, count: u32) -> u64 {
        (self >> 64) as u64 >> (64 - count)
    }

    #[inline(always)]
    fn skip(self, count: u32) -> u128 {
        self.checked_shl(count).unwrap_or(0)
    }

    #[inline(always)]
    fn step(self, count: u32) -> u128 {
        self << (count & 63)
    }

    #[inline(always)]
    fn keep(self, count: u32) -> u128 {
        self & !u128::MAX.checked_shr(count).unwrap_or(0)
    }

    #[inline(always)]
    fn append(self, depth: u32, rest: u128) -> u128 {
        self | rest.checked_shr(depth).unwrap_or(0)
    }

    #[inline(always)]
    fn wide(self) -> u128 {
        self
    }

    #[inline(always)]
    fn from_wide(wide: u128) -> u128 {
        wide
    }
}
