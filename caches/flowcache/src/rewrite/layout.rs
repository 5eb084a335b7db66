//! [`Layout`]: what all rewrites of a way share, and where in a row of words each one's own part lies.
//!
//! A row is, in words of 64 bits: [`HEADER`] words about the flow; its key; the bits that its packets' new beginning gets; numbers of 32 bits, two to a word (where its packets
//! go, what is added to lengths, constants of sums, entries); and numbers of 64 bits (elements of counters, keys that tables were asked). What a packet
//! that hits needs comes first.

use super::form::WINDOW;
use super::hot::{Front, Hot};
use super::key::KeyForm;
use super::noted::Noted;
use super::template::{Bytes, Counted, Template};
use super::{Unrewritable, form};
use interp::{ByteForm, Credit};

/// Words of a row before its key: [`super::row`].
pub const HEADER: usize = 6;

/// The most words of a row.
const MOST: usize = 4_096;

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
