//! Values as 64-bit words, least significant first: the stored form of keys and arguments.

use num_bigint::BigUint;

/// Returns the number of words of a value of `width` bits; at least one.
pub fn words_for(width: u32) -> usize {
    (width.div_ceil(64) as usize).max(1)
}

/// Appends `value` as `count` words. Words beyond `count` are truncated, because the caller has
/// checked the width.
pub fn push_words(value: &BigUint, count: usize, out: &mut impl Extend<u64>) {
    let digits = value.iter_u64_digits();
    out.extend(digits.chain(std::iter::repeat(0)).take(count));
}

/// Returns the value of words written by [`push_words`].
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

/// Reports whether the words have no bits beyond `width`.
pub fn fits_width(words: &[u64], width: u32) -> bool {
    let (whole, rest) = ((width / 64) as usize, width % 64);
    let beyond = |(index, word): (usize, &u64)| match index {
        _ if index < whole => 0,
        _ if index == whole && rest != 0 => word >> rest,
        _ => *word,
    };
    match words {
        [one] if width < 64 => one >> width == 0,
        _ => words.iter().enumerate().map(beyond).all(|bits| bits == 0),
    }
}

/// Fills words with a number given as bytes in network order, as P4Runtime writes numbers, with any
/// number of leading zeros. `words` must have [`words_for`] words. Returns `false` if the number
/// has more than `width` bits; the words are then meaningless.
pub fn words_from_bytes(bytes: &[u8], width: u32, words: &mut [u64]) -> bool {
    let mut rest = 0;
    let mut chunks = bytes.rchunks(8).map(|chunk| chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    words.iter_mut().for_each(|word| *word = chunks.next().unwrap_or(0));
    chunks.for_each(|word| rest |= word);
    rest == 0 && fits_width(words, width)
}

/// Appends the number in words as bytes in network order, without leading zeros; 0 is one byte.
/// (P4Runtime specification 1.4, section 8.4: the canonical form of unsigned numbers.)
pub fn push_bytes(words: &[u64], out: &mut Vec<u8>) {
    let start = out.len();
    let mut bytes = words.iter().rev().flat_map(|word| word.to_be_bytes()).skip_while(|byte| *byte == 0);
    out.extend(&mut bytes);
    if out.len() == start {
        out.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Checks that bytes convert to their number, if it fits, and back to the shortest bytes.
        #[test]
        fn bytes(given in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..40), width in 0..300u32) {
            let value = BigUint::from_bytes_be(&given);
            let mut words = vec![u64::MAX; words_for(width)];
            prop_assert_eq!(words_from_bytes(&given, width, &mut words), value.bits() <= u64::from(width));
            if value.bits() <= u64::from(width) {
                prop_assert_eq!(big_from_words(&words), value.clone());
                let mut back = vec![7];
                push_bytes(&words, &mut back);
                prop_assert_eq!(back.split_off(1), value.to_bytes_be());
            }
        }

        #[test]
        fn widths(given in proptest::collection::vec(prop_oneof![Just(0), any::<u64>(), 0..4u64], 0..4), width in 0..300u32) {
            prop_assert_eq!(fits_width(&given, width), big_from_words(&given).bits() <= u64::from(width));
        }
    }
}
