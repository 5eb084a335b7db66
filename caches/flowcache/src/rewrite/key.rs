//! How packets give keys, and how keys are hashed and compared.

use super::form::{self, Shape, WINDOW};
use super::window::{self, BLOCK, BLOCKS, Window};
use jit::rewrite;
use std::hash::BuildHasher;

/// Words that a key has at most: one for port and length, and those of the window.
pub const KEY: usize = WINDOW / 8 + 1;

/// How the packets of a shape give their keys: words of their first bytes, with what counts of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KeyForm {
    /// The first of those words, and how many they are.
    first: usize,
    count: usize,
    /// The bits that count of each but those of `near`; of words behind them, none.
    masks: Vec<[u64; BLOCK]>,
    near: Vec<Near>,
    length: bool,
}

/// Two bytes of a key that are a field's distance from the packet's length.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Near {
    /// First byte in the window.
    at: u8,
    /// Which of the words has the first byte, and where.
    slot: u8,
    places: u32,
    /// Their bits there, and in the word behind it.
    bits: u64,
    over: u64,
}

impl Near {
    fn new(at: u16, first: usize) -> Near {
        let place = usize::from(at) % 8;
        let bits = |from: usize| {
            std::array::from_fn(|byte| if (place..place + 2).contains(&(from + byte)) { 0xff } else { 0 })
        };
        let [bits, over] = [bits(0), bits(8)].map(u64::from_ne_bytes);
        Near { at: at as u8, slot: (usize::from(at) / 8 - first) as u8, places: place as u32, bits, over }
    }
}

impl KeyForm {
    pub fn new(shape: &Shape) -> KeyForm {
        let mut mask = shape.mask;
        shape.near.iter().for_each(|at| mask[usize::from(*at)..usize::from(*at) + 2].fill(0xff));
        let asked = |word: &u64| *word != 0;
        let first = form::words(&mask).position(|word| asked(&word)).unwrap_or(0);
        let count =
            form::words(&mask).skip(first).collect::<Vec<_>>().iter().rposition(asked).map_or(0, |last| last + 1);
        let near = shape.near.iter().map(|at| Near::new(*at, first)).collect();
        shape.near.iter().for_each(|at| mask[usize::from(*at)..usize::from(*at) + 2].fill(0));
        let mut words = form::words(&mask).skip(first);
        let masks = (0..count.div_ceil(BLOCK)).map(|_| std::array::from_fn(|_| words.next().unwrap_or(0))).collect();
        KeyForm { first, count, masks, near, length: shape.length }
    }

    /// How many of a packet's first bytes it looks at: a multiple of 8.
    pub fn depth(&self) -> usize {
        8 * (self.first + self.count)
    }

    /// The same, as native code has it.
    pub fn plan(&self) -> rewrite::Key {
        let masks = self.masks.as_flattened()[..self.count].to_vec();
        let near = self.near.iter().map(|near| usize::from(near.at)).collect();
        rewrite::Key { first: 8 * self.first, masks, near, length: self.length }
    }

    /// How many words a key has.
    pub fn len(&self) -> usize {
        self.count + 1
    }

    /// The key of a packet with these first bytes, and its length: the first word, and as many others as it has. What is behind them in `words` is anybody's.
    #[inline]
    pub fn key(&self, window: &Window, (length, port): (usize, u32), words: &mut [[u64; BLOCK]; BLOCKS]) -> u64 {
        let blocks = window[8 * self.first..].as_chunks::<{ 8 * BLOCK }>().0;
        for ((to, block), masks) in words.iter_mut().zip(blocks).zip(&self.masks) {
            let block = block.as_chunks::<8>().0;
            *to = std::array::from_fn(|at| u64::from_ne_bytes(block[at]) & masks[at]);
        }
        let words = words.as_flattened_mut();
        for Near { at, slot, places, bits, over } in &self.near {
            let distance = window::moved(window::two(window::word(window, *at).wrapping_sub(length as u16)), *places);
            words[usize::from(*slot)] |= distance & bits;
            if *over != 0 {
                words[usize::from(*slot) + 1] |= distance & over;
            }
        }
        let all = if self.length { length as u64 } else { 0 };
        u64::from(port) | all << 32
    }

    /// What a kept key says.
    pub fn told(&self, key: &[u64]) -> form::Key {
        let mut bytes = [0; WINDOW];
        bytes.as_chunks_mut::<8>().0[self.first..]
            .iter_mut()
            .zip(&key[1..])
            .for_each(|(to, word)| *to = word.to_ne_bytes());
        form::Key { port: key[0] as u32, length: (key[0] >> 32) as u16, bytes }
    }
}

/// Numbers that nobody else knows, by which keys are hashed.
#[derive(Debug)]
pub struct Secrets([[u64; 2]; KEY / 2 + 2]);

impl Secrets {
    pub fn new() -> Secrets {
        let state = foldhash::fast::RandomState::default();
        Secrets(std::array::from_fn(|pair| [2 * pair, 2 * pair + 1].map(|number| state.hash_one(number))))
    }

    /// All of them.
    pub fn pairs(&self) -> &[[u64; 2]] {
        &self.0
    }

    /// Of a shape's number, and a key's first word and its others: products of pairs of words, each with a secret number added (NH, as in UMAC: Black et al., 1999), so that none
    /// waits for another.
    #[inline]
    pub fn hash(&self, shape: u32, lead: u64, words: &[u64]) -> u64 {
        let product = |one: u64, other: u64, [secret, another]: &[u64; 2]| {
            u128::from(one.wrapping_add(*secret)) * u128::from(other.wrapping_add(*another))
        };
        let ([first, second, secrets @ ..], (pairs, rest)) = (&self.0, words.as_chunks::<2>());
        let last = rest.first().copied().unwrap_or_default();
        let begin = product(lead, u64::from(shape), first).wrapping_add(product(last, 0, second));
        let pairs = pairs.iter().zip(secrets).map(|([one, other], secrets)| product(*one, *other, secrets));
        let sum = pairs.fold(begin, u128::wrapping_add);
        let folded = sum as u64 ^ (sum >> 64) as u64;
        let mixed = u128::from(folded) * u128::from(first[0] | 1);
        mixed as u64 ^ (mixed >> 64) as u64
    }
}

/// Whether these are the first of the others.
#[inline]
pub fn begins(words: &[u64], others: &[u64]) -> bool {
    let (pairs, rest) = words.as_chunks::<2>();
    let behind = others.get(2 * pairs.len()..).unwrap_or_default();
    let differ =
        |all: [u64; 2], (one, other): (&[u64; 2], &[u64; 2])| [all[0] | one[0] ^ other[0], all[1] | one[1] ^ other[1]];
    let [even, odd] = pairs.iter().zip(others.as_chunks::<2>().0).fold([0; 2], differ);
    let last = rest.iter().zip(behind).fold(0, |all, (one, other)| all | one ^ other);
    even | odd | last == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys say what [`Shape::key`] says, wherever fields near the length lie, and differ where it differs.
    #[test]
    fn keys_are_those_of_their_shape() {
        let mut rng = fastrand::Rng::with_seed(13);
        let (mut astride, mut same, mut different) = (0, 0, 0);
        for _ in 0..5_000 {
            let mut shape = Shape { mask: [0; WINDOW], near: Vec::new(), length: rng.bool() };
            let (first, end) = (rng.usize(..100), rng.usize(100..=WINDOW));
            shape.mask[first..end].iter_mut().for_each(|byte| *byte = [0, 0xff, rng.u8(..)][rng.usize(..3)]);
            let mut at = rng.u16(..60);
            for _ in 0..rng.usize(..form::MAX_NEAR) {
                shape.near.push(at);
                shape.mask[usize::from(at)..usize::from(at) + 2].fill(0);
                astride += u32::from(at % 8 == 7);
                at += rng.u16(2..30);
            }
            let (key_form, secrets) = (KeyForm::new(&shape), Secrets::new());
            let all = |bytes: &[u8]| {
                let mut words = [[0xee; BLOCK]; BLOCKS];
                let lead = key_form.key(&window::window(&form::window(bytes)), (bytes.len(), 7), &mut words);
                let mut key = vec![lead];
                key.extend(&words.as_flattened()[..key_form.len() - 1]);
                assert_eq!(key_form.told(&key), shape.key(bytes, 7), "{shape:?}");
                let hash = secrets.hash(1, lead, &key[1..]);
                (key, hash)
            };
            let bytes: Vec<u8> = (0..rng.usize(100..300)).map(|_| rng.u8(..)).collect();
            let mut other = bytes.clone();
            other[rng.usize(..100)] ^= 1 << rng.u8(..8);
            let ((one, one_hash), (two, two_hash)) = (all(&bytes), all(&other));
            assert_eq!(one == two, shape.key(&bytes, 7) == shape.key(&other, 7));
            assert_eq!((one == two, one == two), (begins(&one, &two), one_hash == two_hash));
            // A longer one begins as it does.
            let longer: Vec<u64> = two.iter().copied().chain([5, 6]).collect();
            assert_eq!(one == two, begins(&one, &longer));
            (same, different) = (same + u32::from(one == two), different + u32::from(one != two));
        }
        assert!(astride > 500 && same > 500 && different > 500, "{astride} {same} {different}");
    }
}
