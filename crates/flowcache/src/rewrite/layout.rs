//! [`Layout`]: what all rewrites of a way share, and where in a row of words each one's own part lies.
//!
//! A row is, in words of 64 bits: [`HEADER`] words about the flow; its key; the bits that its packets' new beginning gets; numbers of 32 bits, two to a word (where its packets
//! go, what is added to lengths, constants of sums, entries); and numbers of 64 bits (elements of counters, keys that tables were asked). What a packet
//! that hits needs comes first.

use super::form::{Shape, Sum, WINDOW};
use super::hot::{self, Hot, Window};
use super::noted::Noted;
use super::template::{Bytes, Counted, Template};
use super::{Unrewritable, form};
use interp::{ByteForm, Credit};

/// Words of a row before its key: [`super::row`].
pub const HEADER: usize = 6;

/// The most words of a row.
const MOST: usize = 4_096;

/// Words that a key has at most: one for port and length, and those of the window.
pub const KEY: usize = WINDOW / 8 + 1;

/// Words of a window that are looked at together.
pub const BLOCK: usize = 4;

/// Room for all words of a window, however they begin.
pub const BLOCKS: usize = WINDOW / 8 / BLOCK + 1;

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
            let distance = hot::moved(hot::two(hot::word(window, *at).wrapping_sub(length as u16)), *places);
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

/// What is shared of a packet's new beginning. See [`form::Head`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Front {
    pub grow: i16,
    pub len: u16,
    pub keep: [u8; WINDOW],
    /// Where lengths are written.
    pub lengths: Vec<u16>,
    /// Where sums are, without their constants; complemented or not.
    pub sums: Vec<(u16, Sum, bool)>,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    /// The number of the shape.
    pub shape: u32,
    /// `None`: packets are dropped.
    pub front: Option<Box<Front>>,
    /// Sums without their constants.
    pub checks: Vec<form::Check>,
    /// What packets add to that is each row's own, and what is the same for all.
    pub credits: Vec<(Counted, Bytes)>,
    pub tallies: Vec<(Counted, Bytes)>,
    /// Tables that were asked, and words of their keys.
    pub asked: Vec<(u32, u32)>,
    /// First word behind the key, and behind the new bits.
    pub set: usize,
    pub smalls: usize,
    /// Numbers of 32 bits: the first constant of a sum, of a check, the first entry, the first generation.
    pub sums: usize,
    pub checked: usize,
    pub found: usize,
    pub generations: usize,
    /// The first word of numbers of 64 bits: elements of counters, bytes that are counted, keys.
    pub indices: usize,
    pub adds: usize,
    pub keys: usize,
    /// Words of a row.
    pub words: usize,
    /// What packets that hit need of all that.
    pub hot: Hot,
}

impl Layout {
    /// Of rewrites of a template under a shape, whose packets are noted as this one. Hits of tables that nobody counts are left out.
    ///
    /// # Errors
    /// It takes too much room.
    pub fn new(
        template: &Template,
        (shape, key): (u32, &KeyForm),
        noted: &Noted,
        counts: impl Fn(usize) -> bool,
    ) -> Result<Layout, Unrewritable> {
        let front = template.head.as_ref().map(|head| {
            let sums = head.sums.iter().map(|(at, words, complement)| (*at, template.terms(words), *complement));
            let lengths = head.lengths.iter().map(|(at, _)| *at).collect();
            Box::new(Front { grow: head.grow, len: head.len, keep: head.keep, lengths, sums: sums.collect() })
        });
        let check = |(words, check): &(_, form::Check)| form::Check { sum: template.terms(words), ..check.clone() };
        let checks: Vec<form::Check> = template.checks.iter().map(check).collect();
        let written = front.iter().flat_map(|front| &front.sums).map(|(_, sum, _)| sum);
        let many = checks.iter().map(|check| &check.sum).chain(written).any(|sum| sum.terms.len() > form::MAX_TERMS);
        if many || checks.len() > form::MAX_SUMS {
            return Err(Unrewritable::TooMuch);
        }
        let counted = |(counted, _): &&(Counted, Bytes)| match counted {
            Counted::Hit(at) => noted.application(*at).is_some_and(|it| counts(it.table)),
            _ => true,
        };
        let is_tally = |(counted, bytes): &(Counted, Bytes)| matches!(counted, Counted::Applied(..)) && !bytes.is_own();
        let (tallies, credits): (Vec<_>, Vec<_>) = template.credits.iter().filter(counted).copied().partition(is_tally);
        let asked: Vec<(u32, u32)> = noted.tables().map(|(table, key)| (table as u32, key.len() as u32)).collect();
        let of_entries = credits.iter().filter(|(counted, _)| counted.application().is_some()).count();
        let counters = credits.iter().filter(|(counted, _)| matches!(counted, Counted::Counter(..))).count();
        let own_bytes = credits.iter().filter(|(_, bytes)| bytes.is_own()).count();
        let key_words: usize = asked.iter().map(|(_, words)| *words as usize).sum();
        let set = HEADER + key.len();
        let smalls = set + front.as_ref().map_or(0, |front| front.len.div_ceil(8) as usize);
        let sums = 1 + front.as_ref().map_or(0, |front| front.lengths.len());
        let checked = sums + front.as_ref().map_or(0, |front| front.sums.len());
        let found = checked + checks.len();
        let generations = found + asked.len();
        let indices = smalls + (generations + of_entries).div_ceil(2);
        let (adds, keys) = (indices + counters, indices + counters + own_bytes);
        let words = keys + key_words;
        if words > MOST {
            return Err(Unrewritable::TooMuch);
        }
        let hot = Hot::new(front.as_deref(), &checks);
        #[rustfmt::skip]
        let layout = Layout { hot, shape, front, checks, credits, tallies, asked, set, smalls, sums, checked, found, generations, indices, adds, keys, words };
        Ok(layout)
    }

    /// How many of a packet's first bytes are in what is made of it, and in its sums: a multiple of 8.
    pub fn depth(&self) -> usize {
        let front = self.front.as_deref();
        let written = front.iter().flat_map(|front| &front.sums).map(|(_, sum, _)| sum);
        let summed = self.checks.iter().map(|check| &check.sum).chain(written).flat_map(|sum| &sum.terms);
        let words = summed.map(|(at, _)| *at).chain(self.checks.iter().filter_map(|check| check.word));
        let kept = front.map_or(0, |front| i64::from(front.len.next_multiple_of(8)) - i64::from(front.grow));
        let depth = words.map(|at| i64::from(at) + 2).chain([kept]).max().unwrap_or(0);
        (depth.max(0) as usize).next_multiple_of(8).min(WINDOW)
    }

    /// How many words of a row a packet that hits reads, from the first on.
    pub fn hot_words(&self) -> usize {
        self.smalls + self.found.div_ceil(2)
    }

    /// What is the same for all rows of what packets add to.
    pub fn tallies(&self) -> impl Iterator<Item = (Credit, ByteForm)> + '_ {
        self.tallies.iter().filter_map(|(counted, bytes)| match *counted {
            Counted::Applied(table, arm, hit) => Some((Credit::Applied { table, arm, hit }, bytes.of(|| 0))),
            _ => None,
        })
    }
}
