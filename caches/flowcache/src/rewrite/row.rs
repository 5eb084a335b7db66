//! [`Row`]: a rewrite as it is kept: what it shares with others ([`Layout`]), and its own words.

use super::form::{Check, Fate, Head, Rewrite, Shape, WINDOW, fold};
use super::key::KeyForm;
use super::layout::{HEADER, Layout};
use super::template::Counted;
use super::window::Window;
use crate::segment::Asked;
use interp::{ByteForm, Credit};
use packet::{DropReason, PortId, Verdict};

/// Packets that were not credited yet, their bytes, and when the last of them came.
pub const PACKETS: usize = 0;
pub const BYTES: usize = 1;
pub const LAST: usize = 2;
/// The number of its layout, and in the high half its place.
const LAYOUT: usize = 3;
/// The first of its nodes in the lists of who asked what, and in the high half whether it had packets since the clock's hand passed.
const NODES: usize = 4;
/// The first and the last length for which it holds.
pub const LENGTHS: usize = 5;

const REFERENCED: u64 = 1 << 32;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Row<'r> {
    pub layout: &'r Layout,
    pub words: &'r [u64],
}

fn halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The number of the layout that a row has, and its place.
pub fn of(words: &[u64]) -> (u32, u32) {
    (words[LAYOUT] as u32, (words[LAYOUT] >> 32) as u32)
}

/// What was known where it is kept: these, and the first of its nodes.
pub fn set_of(words: &mut [u64], (layout, place): (u32, u32), nodes: u32) {
    words[LAYOUT] = halves(layout, place);
    words[NODES] = u64::from(nodes);
}

pub fn nodes(words: &[u64]) -> u32 {
    words[NODES] as u32
}

pub fn set_lengths(words: &mut [u64], (first, last): (u32, u32)) {
    words[LENGTHS] = halves(first, last);
}

/// So many packets were rewritten; whether they are the first that are not credited.
#[inline]
pub fn add(words: &mut [u64], packets: u64, bytes: u64, last: u64) -> bool {
    let first = words[PACKETS] == 0;
    words[PACKETS] += packets;
    words[BYTES] += bytes;
    words[LAST] = words[LAST].max(last);
    words[NODES] |= REFERENCED;
    first
}

/// Whether two rows of one layout do the same to packets with the same key.
pub fn says_same(one: &[u64], other: &[u64]) -> bool {
    one[LENGTHS..] == other[LENGTHS..]
}

/// The clock's hand passes: whether there were packets since it did last.
pub fn pass(words: &mut [u64]) -> bool {
    let referenced = words[NODES] & REFERENCED != 0;
    words[NODES] &= !REFERENCED;
    referenced
}

/// Puts a number of 32 bits in its place.
#[inline]
pub fn put(smalls: &mut [u64], at: usize, number: u32) {
    smalls[at / 2] |= u64::from(number) << (32 * (at % 2));
}

/// The number that was put there.
#[inline]
fn small(smalls: &[u64], at: usize) -> u32 {
    smalls.get(at / 2).map_or(0, |two| (two >> (32 * (at % 2))) as u32)
}

impl<'r> Row<'r> {
    #[inline]
    fn small(&self, at: usize) -> u32 {
        small(&self.words[self.layout.smalls..], at)
    }

    /// Its key.
    #[inline]
    pub fn key(&self) -> &'r [u64] {
        &self.words[HEADER..self.layout.set]
    }

    /// The bits that its packets' new beginning gets, and small numbers.
    #[inline]
    fn beginning(&self) -> (&'r [u64], &'r [u64]) {
        self.words[self.layout.set..].split_at(self.layout.smalls - self.layout.set)
    }

    /// Lengths in bytes for which it holds.
    #[inline]
    pub fn lengths(&self) -> (u32, u32) {
        (self.words[LENGTHS] as u32, (self.words[LENGTHS] >> 32) as u32)
    }

    /// Whether a packet that has the key may be rewritten: its length, and its sums.
    #[inline]
    pub fn fits(&self, window: &Window, length: usize) -> bool {
        let (first, last) = self.lengths();
        let (_, smalls) = self.beginning();
        (first as usize..=last as usize).contains(&length)
            && self.layout.hot.passes(|at| small(smalls, self.layout.checked + at), window, length)
    }

    /// The port by which packets leave, or the number of the reason for their drop.
    #[inline]
    pub fn fate(&self) -> u32 {
        self.small(0)
    }

    /// The new beginning of a packet with that window and length: what `head` begins with. How many bytes it has, and how many go for them.
    #[inline]
    pub fn write(&self, window: &Window, length: usize, head: &mut Window) -> (usize, usize) {
        let (set, smalls) = self.beginning();
        self.layout.hot.write(set, (|at| small(smalls, at), self.layout.sums), (window, length), head)
    }

    /// The same where it lies, if the new beginning is as long as the old one and the packet long enough: whether it was.
    #[inline]
    pub fn write_in_place(&self, window: &Window, bytes: &mut [u8]) -> bool {
        let (set, smalls) = self.beginning();
        self.layout.hot.write_in_place(set, (|at| small(smalls, at), self.layout.sums), window, bytes)
    }

    /// What becomes of its packets.
    pub fn verdict(&self, reasons: &[DropReason]) -> Verdict {
        match self.layout.front {
            Some(_) => Verdict::Forward { port: PortId(self.fate()) },
            None => Verdict::Drop(reasons[self.fate() as usize]),
        }
    }

    /// The number of the entry that a question found.
    pub fn found(&self, question: usize) -> Option<u32> {
        self.small(self.layout.found + question).checked_sub(1)
    }

    /// What it was made from: table, the entry that was found, and the words of the key.
    pub fn questions(&self) -> impl Iterator<Item = (u32, Option<u32>, &'r [u64])> + '_ {
        let mut rest = &self.words[self.layout.keys..self.layout.words];
        self.layout.asked.iter().enumerate().map(move |(question, (table, words))| {
            let (key, behind) = rest.split_at(*words as usize);
            rest = behind;
            (*table, self.found(question), key)
        })
    }

    /// The same, of one table.
    pub fn asked(&self, table: u32) -> impl Iterator<Item = Asked> + '_ {
        self.questions().filter(move |(of, ..)| *of == table).map(|(table, found, key)| {
            let mask = vec![u64::MAX; key.len()].into();
            Asked { table, key: key.into(), mask, found }
        })
    }

    /// What each packet adds to, and by how many bytes, besides what is the same for all rows of its layout.
    pub fn credits(&self) -> impl Iterator<Item = (Credit, ByteForm)> + '_ {
        let (mut generations, mut indices, mut adds) = (0, 0, 0);
        self.layout.credits.iter().map(move |(counted, bytes)| {
            let mut entry = |application: usize| {
                generations += 1;
                let number = self.found(application).unwrap_or(u32::MAX);
                (
                    ir::TableId(self.layout.asked[application].0),
                    number,
                    self.small(self.layout.generations + generations - 1),
                )
            };
            let credit = match *counted {
                Counted::Applied(table, arm, hit) => Credit::Applied { table, arm, hit },
                Counted::Hit(at) => {
                    let (table, number, generation) = entry(at);
                    Credit::Hit { table, number, generation }
                }
                Counted::Direct(at) => {
                    let (table, number, generation) = entry(at);
                    Credit::Direct { table, number, generation }
                }
                Counted::Restart(at) => {
                    let (table, number, generation) = entry(at);
                    Credit::Restart { table, number, generation }
                }
                Counted::Counter(counter, _) => {
                    indices += 1;
                    Credit::Counter { counter, index: self.words[self.layout.indices + indices - 1] }
                }
            };
            let own = || {
                adds += 1;
                self.words[self.layout.adds + adds - 1]
            };
            (credit, bytes.of(own))
        })
    }

    /// As whoever cannot look here is told: its flows' `shape`, and how that gives keys.
    pub fn rewrite(&self, (shape, key): (&Shape, &KeyForm), reasons: &[DropReason]) -> Rewrite {
        let layout = self.layout;
        let constant = |at: usize| u64::from(self.small(at));
        let check = |(at, check): (usize, &Check)| {
            let mut check = check.clone();
            check.sum.constant = constant(layout.checked + at);
            check
        };
        let fate = match (&layout.front, self.verdict(reasons)) {
            (Some(front), _) => {
                let mut set = [0; WINDOW];
                let words = &self.words[layout.set..layout.smalls];
                set.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_ne_bytes());
                let lengths = front.lengths.iter().enumerate().map(|(at, to)| (*to, self.small(1 + at) as i32));
                let sums = front.sums.iter().enumerate().map(|(at, (to, sum, complement))| {
                    let mut sum = sum.clone();
                    sum.constant = constant(layout.sums + at);
                    (*to, sum, *complement)
                });
                let (lengths, sums) = (lengths.collect(), sums.collect());
                let head = Head { grow: front.grow, len: front.len, keep: front.keep, set, lengths, sums };
                Fate::Forward { port: self.fate(), head: Box::new(head) }
            }
            (None, Verdict::Drop(reason)) => Fate::Drop(reason),
            (None, _) => unreachable!("what does not leave is dropped"),
        };
        let checks = layout.checks.iter().enumerate().map(check).collect();
        let credits = self.credits().chain(layout.tallies()).collect();
        Rewrite { shape: shape.clone(), key: key.told(self.key()), lengths: self.lengths(), checks, fate, credits }
    }
}

/// A sum's constant in 32 bits: as good as the sum, which is folded whenever it is asked for.
pub fn constant(sum: u64) -> u32 {
    u32::from(fold(sum))
}
