//! Extraction, hashing and comparison of flow keys.

use super::form::{self, KeyMask, WINDOW};
use super::window::{self, BLOCK, BLOCKS, PacketWindow};
use jit::rewrite;
use std::hash::BuildHasher;

/// Maximum number of words of a key: one for port and length, and the words of the window.
pub const MAX_KEY_WORDS: usize = WINDOW / 8 + 1;

/// Extracts keys under a key mask: masked words of a packet's first bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KeyExtractor {
    /// Index of the first word, and number of words.
    first: usize,
    count: usize,
    /// Mask of each word, without the end-relative fields; padding is 0.
    masks: Vec<[u64; BLOCK]>,
    near: Vec<EndRelativeField>,
    length: bool,
}

/// Two key bytes that hold the distance of a field from the packet's end.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct EndRelativeField {
    /// Offset of the first byte in the window.
    at: u8,
    /// Index of the key word with the first byte, and its byte offset there.
    slot: u8,
    places: u32,
    /// Masks of the two bytes in that word, and in the next one.
    bits: u64,
    over: u64,
}

impl EndRelativeField {
    fn new(at: u16, first: usize) -> EndRelativeField {
        let place = usize::from(at) % 8;
        let bits = |from: usize| {
            std::array::from_fn(|byte| if (place..place + 2).contains(&(from + byte)) { 0xff } else { 0 })
        };
        let [bits, over] = [bits(0), bits(8)].map(u64::from_ne_bytes);
        EndRelativeField { at: at as u8, slot: (usize::from(at) / 8 - first) as u8, places: place as u32, bits, over }
    }
}

impl KeyExtractor {
    /// Creates the extractor of a key mask. Its words are the window's from the first to the last
    /// one with a bit of the key.
    pub fn new(key_mask: &KeyMask) -> KeyExtractor {
        let mut mask = key_mask.mask;
        key_mask.end_relative_fields.iter().for_each(|at| mask[usize::from(*at)..usize::from(*at) + 2].fill(0xff));
        let is_used = |word: &u64| *word != 0;
        let first = form::words(&mask).position(|word| is_used(&word)).unwrap_or(0);
        let count =
            form::words(&mask).skip(first).collect::<Vec<_>>().iter().rposition(is_used).map_or(0, |last| last + 1);
        let near = key_mask.end_relative_fields.iter().map(|at| EndRelativeField::new(*at, first)).collect();
        key_mask.end_relative_fields.iter().for_each(|at| mask[usize::from(*at)..usize::from(*at) + 2].fill(0));
        let mut words = form::words(&mask).skip(first);
        let masks = (0..count.div_ceil(BLOCK)).map(|_| std::array::from_fn(|_| words.next().unwrap_or(0))).collect();
        KeyExtractor { first, count, masks, near, length: key_mask.length }
    }

    /// Returns how many of a packet's first bytes the key reads: a multiple of 8.
    pub fn depth(&self) -> usize {
        8 * (self.first + self.count)
    }

    /// Returns the description for native code.
    pub fn to_native_key(&self) -> rewrite::FlowKeySpec {
        let masks = self.masks.as_flattened()[..self.count].to_vec();
        let near = self.near.iter().map(|near| usize::from(near.at)).collect();
        rewrite::FlowKeySpec { first: 8 * self.first, masks, near, length: self.length }
    }

    /// Returns the number of words of a key.
    pub fn len(&self) -> usize {
        self.count + 1
    }

    /// Extracts the key of a packet, given its first bytes, length and port. Returns the first word
    /// and stores the others in `words`. Later elements of `words` are unspecified. The first word
    /// has the port in its lower half and the length, or 0, in its upper half.
    #[inline]
    pub fn extract_key(
        &self,
        window: &PacketWindow,
        (length, port): (usize, u32),
        words: &mut [[u64; BLOCK]; BLOCKS],
    ) -> u64 {
        let blocks = window[8 * self.first..].as_chunks::<{ 8 * BLOCK }>().0;
        for ((to, block), masks) in words.iter_mut().zip(blocks).zip(&self.masks) {
            let block = block.as_chunks::<8>().0;
            *to = std::array::from_fn(|at| u64::from_ne_bytes(block[at]) & masks[at]);
        }
        let words = words.as_flattened_mut();
        for EndRelativeField { at, slot, places, bits, over } in &self.near {
            // The difference can extend over two words: `bits` are in the first one, and `over` in
            // the next.
            let distance = window::rotate_bytes(
                window::leading_word(window::word(window, *at).wrapping_sub(length as u16)),
                *places,
            );
            words[usize::from(*slot)] |= distance & bits;
            if *over != 0 {
                words[usize::from(*slot) + 1] |= distance & over;
            }
        }
        let key_length = if self.length { length as u64 } else { 0 };
        u64::from(port) | key_length << 32
    }

    /// Decodes a stored key.
    pub fn decode_key(&self, key: &[u64]) -> form::FlowKey {
        let mut bytes = [0; WINDOW];
        bytes.as_chunks_mut::<8>().0[self.first..]
            .iter_mut()
            .zip(&key[1..])
            .for_each(|(to, word)| *to = word.to_ne_bytes());
        form::FlowKey { port: key[0] as u32, length: (key[0] >> 32) as u16, bytes }
    }
}

/// Secret random numbers for hashing keys.
#[derive(Debug)]
pub struct HashSecrets([[u64; 2]; MAX_KEY_WORDS / 2 + 2]);

impl HashSecrets {
    pub fn new() -> HashSecrets {
        let state = foldhash::fast::RandomState::default();
        HashSecrets(std::array::from_fn(|pair| [2 * pair, 2 * pair + 1].map(|number| state.hash_one(number))))
    }

    /// Returns all pairs of numbers.
    pub fn pairs(&self) -> &[[u64; 2]] {
        &self.0
    }

    /// Hashes a key mask's number and a key (first word, others). The hash multiplies pairs of
    /// words, each with a secret added (NH of UMAC: Black et al., 1999), because these products are
    /// independent.
    #[inline]
    pub fn hash_key(&self, key_mask: u32, lead: u64, words: &[u64]) -> u64 {
        let product = |one: u64, other: u64, [secret, another]: &[u64; 2]| {
            u128::from(one.wrapping_add(*secret)) * u128::from(other.wrapping_add(*another))
        };
        let ([first, second, secrets @ ..], (pairs, odd_word)) = (&self.0, words.as_chunks::<2>());
        let last_word = odd_word.first().copied().unwrap_or_default();
        let start = product(lead, u64::from(key_mask), first).wrapping_add(product(last_word, 0, second));
        let pairs = pairs.iter().zip(secrets).map(|([one, other], secrets)| product(*one, *other, secrets));
        let sum = pairs.fold(start, u128::wrapping_add);
        let folded = sum as u64 ^ (sum >> 64) as u64;
        let mixed = u128::from(folded) * u128::from(first[0] | 1);
        mixed as u64 ^ (mixed >> 64) as u64
    }
}

/// Returns whether `others` starts with `words`. Collects all differences first, so that one branch
/// decides.
#[inline]
pub fn has_prefix(words: &[u64], others: &[u64]) -> bool {
    let (pairs, odd_word) = words.as_chunks::<2>();
    let remaining = others.get(2 * pairs.len()..).unwrap_or_default();
    let differences = |all: [u64; 2], (a, b): (&[u64; 2], &[u64; 2])| [all[0] | a[0] ^ b[0], all[1] | a[1] ^ b[1]];
    let [even, odd] = pairs.iter().zip(others.as_chunks::<2>().0).fold([0; 2], differences);
    let last_difference = odd_word.iter().zip(remaining).fold(0, |all, (a, b)| all | a ^ b);
    even | odd | last_difference == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Extracted keys equal those of [`KeyMask::key`], for end-relative fields at any offset.
    #[test]
    fn keys_are_those_of_their_shape() {
        let mut rng = fastrand::Rng::with_seed(13);
        let (mut astride, mut same, mut different) = (0, 0, 0);
        for _ in 0..5_000 {
            let mut key_mask = KeyMask { mask: [0; WINDOW], end_relative_fields: Vec::new(), length: rng.bool() };
            let (first, end) = (rng.usize(..100), rng.usize(100..=WINDOW));
            key_mask.mask[first..end].iter_mut().for_each(|byte| *byte = [0, 0xff, rng.u8(..)][rng.usize(..3)]);
            let mut at = rng.u16(..60);
            for _ in 0..rng.usize(..form::MAX_END_RELATIVE_FIELDS) {
                key_mask.end_relative_fields.push(at);
                key_mask.mask[usize::from(at)..usize::from(at) + 2].fill(0);
                astride += u32::from(at % 8 == 7);
                at += rng.u16(2..30);
            }
            let (key_form, secrets) = (KeyExtractor::new(&key_mask), HashSecrets::new());
            let all = |bytes: &[u8]| {
                let mut words = [[0xee; BLOCK]; BLOCKS];
                let lead = key_form.extract_key(&window::window(&form::window(bytes)), (bytes.len(), 7), &mut words);
                let mut key = vec![lead];
                key.extend(&words.as_flattened()[..key_form.len() - 1]);
                assert_eq!(key_form.decode_key(&key), key_mask.key(bytes, 7), "{key_mask:?}");
                let hash = secrets.hash_key(1, lead, &key[1..]);
                (key, hash)
            };
            let bytes: Vec<u8> = (0..rng.usize(100..300)).map(|_| rng.u8(..)).collect();
            let mut other = bytes.clone();
            other[rng.usize(..100)] ^= 1 << rng.u8(..8);
            let ((one, one_hash), (two, two_hash)) = (all(&bytes), all(&other));
            assert_eq!(one == two, key_mask.key(&bytes, 7) == key_mask.key(&other, 7));
            assert_eq!((one == two, one == two), (has_prefix(&one, &two), one_hash == two_hash));
            // A longer slice with this key as its prefix.
            let longer: Vec<u64> = two.iter().copied().chain([5, 6]).collect();
            assert_eq!(one == two, has_prefix(&one, &longer));
            (same, different) = (same + u32::from(one == two), different + u32::from(one != two));
        }
        assert!(astride > 500 && same > 500 && different > 500, "{astride} {same} {different}");
    }
}
