//! Values as 64-bit words, least significant first: the form in which entries are kept.

use num_bigint::BigUint;

/// How many words hold a value of `width` bits; at least one.
pub fn words_for(width: u32) -> usize {
    (width.div_ceil(64) as usize).max(1)
}

/// Appends `value` as `count` words. Words beyond `count` are cut off: the caller has checked the width.
pub fn push_words(value: &BigUint, count: usize, out: &mut impl Extend<u64>) {
    let digits = value.iter_u64_digits();
    out.extend(digits.chain(std::iter::repeat(0)).take(count));
}

/// The value of words written by [`push_words`].
pub fn big_from_words(words: &[u64]) -> BigUint {
    match words {
        [] => BigUint::ZERO,
        [one] => BigUint::from(*one),
        [low, high] => BigUint::from(u128::from(*low) | u128::from(*high) << 64),
        _ => {
            let halves = words.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]).collect();
            BigUint::new(halves)
        }
    }
}
