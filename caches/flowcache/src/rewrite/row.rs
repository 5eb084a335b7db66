//! [`FlowRow`]: a stored rewrite: the shared [`FlowLayout`] and its own words.

use super::form::{ChecksumCheck, FlowAction, FlowRewrite, KeyMask, NewHeader, WINDOW, fold_sum};
use super::key::KeyExtractor;
use super::layout::{FlowLayout, HEADER};
use super::template::CounterRef;
use super::window::PacketWindow;
use crate::segment::LookupDependency;
use interp::{ByteCount, DeferredCount};
use packet::{DropReason, PortId, Verdict};

/// Offsets of the deferred counts: packets, bytes, and receive time of the last packet (ns).
pub const PACKETS: usize = 0;
pub const BYTES: usize = 1;
pub const LAST: usize = 2;
/// Number of the layout; high half: place.
const LAYOUT: usize = 3;
/// First node in the invalidation index; high half: whether packets hit since the clock hand
/// passed.
const NODES: usize = 4;
/// First and last packet length that the rewrite applies to.
pub const LENGTHS: usize = 5;

const REFERENCED: u64 = 1 << 32;

/// Stored rewrite.
#[derive(Clone, Copy, Debug)]
pub struct FlowRow<'r> {
    pub layout: &'r FlowLayout,
    pub words: &'r [u64],
}

fn pack_halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Returns the layout number and the place of a row.
pub fn layout_and_place(words: &[u64]) -> (u32, u32) {
    (words[LAYOUT] as u32, (words[LAYOUT] >> 32) as u32)
}

/// Sets layout number, place and first node.
pub fn set_layout_and_place(words: &mut [u64], (layout, place): (u32, u32), nodes: u32) {
    words[LAYOUT] = pack_halves(layout, place);
    words[NODES] = u64::from(nodes);
}

pub fn nodes(words: &[u64]) -> u32 {
    words[NODES] as u32
}

pub fn set_lengths(words: &mut [u64], (first, last): (u32, u32)) {
    words[LENGTHS] = pack_halves(first, last);
}

/// Adds the counts of packets. Returns whether the row had no deferred counts before.
#[inline]
pub fn add_counts(words: &mut [u64], packets: u64, bytes: u64, last: u64) -> bool {
    let first = words[PACKETS] == 0;
    words[PACKETS] += packets;
    words[BYTES] += bytes;
    words[LAST] = words[LAST].max(last);
    words[NODES] |= REFERENCED;
    first
}

/// Returns whether two rows of one layout are the same rewrite.
pub fn is_same_rewrite(a: &[u64], b: &[u64]) -> bool {
    a[LENGTHS..] == b[LENGTHS..]
}

/// Clears the reference bit as the clock hand passes. Returns its previous value.
pub fn clear_referenced(words: &mut [u64]) -> bool {
    let referenced = words[NODES] & REFERENCED != 0;
    words[NODES] &= !REFERENCED;
    referenced
}

/// Stores a 32-bit number. Two share a word, which must be 0 at first.
#[inline]
pub fn put_small_number(small_numbers: &mut [u64], at: usize, number: u32) {
    small_numbers[at / 2] |= u64::from(number) << (32 * (at % 2));
}

/// Loads a 32-bit number.
#[inline]
fn load_small_number(small_numbers: &[u64], at: usize) -> u32 {
    small_numbers.get(at / 2).map_or(0, |two| (two >> (32 * (at % 2))) as u32)
}

impl<'r> FlowRow<'r> {
    #[inline]
    fn load_small_number(&self, at: usize) -> u32 {
        load_small_number(&self.words[self.layout.small_numbers..], at)
    }

    /// Returns the key.
    #[inline]
    pub fn key(&self) -> &'r [u64] {
        &self.words[HEADER..self.layout.set_bits]
    }

    /// Returns the set bits of the new header, and the 32-bit numbers.
    #[inline]
    fn header_words(&self) -> (&'r [u64], &'r [u64]) {
        self.words[self.layout.set_bits..].split_at(self.layout.small_numbers - self.layout.set_bits)
    }

    /// Returns the first and last packet length that the rewrite applies to, in bytes.
    #[inline]
    pub fn lengths(&self) -> (u32, u32) {
        (self.words[LENGTHS] as u32, (self.words[LENGTHS] >> 32) as u32)
    }

    /// Returns whether the rewrite applies to a packet with its key: length and checksums.
    #[inline]
    pub fn can_apply(&self, window: &PacketWindow, length: usize) -> bool {
        let (first, last) = self.lengths();
        let (_, small_numbers) = self.header_words();
        (first as usize..=last as usize).contains(&length)
            && self.layout.executor.checks_hold(
                |at| load_small_number(small_numbers, self.layout.check_constants + at),
                window,
                length,
            )
    }

    /// Returns the egress port, or the number of the drop reason.
    #[inline]
    pub fn port_or_reason(&self) -> u32 {
        self.load_small_number(0)
    }

    /// Writes the new header of a packet with this window and length to `head`. Returns the
    /// header's length, and that of the bytes that it replaces.
    #[inline]
    pub fn write_header(&self, window: &PacketWindow, length: usize, head: &mut PacketWindow) -> (usize, usize) {
        let (set, small_numbers) = self.header_words();
        self.layout.executor.write_header(
            set,
            (|at| load_small_number(small_numbers, at), self.layout.sum_constants),
            (window, length),
            head,
        )
    }

    /// Rewrites a packet in place. Returns false if the header's length changes or the packet is
    /// too short.
    #[inline]
    pub fn rewrite_in_place(&self, window: &PacketWindow, bytes: &mut [u8]) -> bool {
        let (set, small_numbers) = self.header_words();
        self.layout.executor.rewrite_in_place(
            set,
            (|at| load_small_number(small_numbers, at), self.layout.sum_constants),
            window,
            bytes,
        )
    }

    /// Returns the verdict.
    pub fn verdict(&self, reasons: &[DropReason]) -> Verdict {
        match self.layout.header_rewrite {
            Some(_) => Verdict::Forward { port: PortId(self.port_or_reason()) },
            None => Verdict::Drop(reasons[self.port_or_reason() as usize]),
        }
    }

    /// Returns the number of the entry that a lookup found; `None` for a miss. `lookup`: index of
    /// the lookup in the layout. Numbers are stored plus one, so that 0 is a miss.
    pub fn found_entry(&self, lookup: usize) -> Option<u32> {
        self.load_small_number(self.layout.entries + lookup).checked_sub(1)
    }

    /// Returns the lookups that the rewrite depends on: table, found entry, and key words.
    pub fn lookups(&self) -> impl Iterator<Item = (u32, Option<u32>, &'r [u64])> + '_ {
        let mut remaining = &self.words[self.layout.lookup_keys..self.layout.words];
        self.layout.lookups.iter().enumerate().map(move |(lookup, (table, words))| {
            let (key, later_keys) = remaining.split_at(*words as usize);
            remaining = later_keys;
            (*table, self.found_entry(lookup), key)
        })
    }

    /// Returns the lookups in one table.
    pub fn lookups_in_table(&self, table: u32) -> impl Iterator<Item = LookupDependency> + '_ {
        self.lookups().filter(move |(of, ..)| *of == table).map(|(table, found, key)| {
            let mask = vec![u64::MAX; key.len()].into();
            LookupDependency { table, key: key.into(), mask, found_entry: found }
        })
    }

    /// Returns the counters that each packet updates, without those common to all rows of the
    /// layout.
    pub fn counter_updates(&self) -> impl Iterator<Item = (DeferredCount, ByteCount)> + '_ {
        // Numbers of each group that are used so far. Each group is in the order of the updates.
        let (mut generations, mut indices, mut differences) = (0, 0, 0);
        self.layout.counter_updates.iter().map(move |(counter_ref, bytes)| {
            let mut entry_of = |application: usize| {
                generations += 1;
                let number = self.found_entry(application).unwrap_or(u32::MAX);
                (
                    ir::TableId(self.layout.lookups[application].0),
                    number,
                    self.load_small_number(self.layout.generations + generations - 1),
                )
            };
            let update = match *counter_ref {
                CounterRef::Applied(table, arm, hit) => DeferredCount::Applied { table, arm, hit },
                CounterRef::Hit(at) => {
                    let (table, number, generation) = entry_of(at);
                    DeferredCount::Hit { table, number, generation }
                }
                CounterRef::Direct(at) => {
                    let (table, number, generation) = entry_of(at);
                    DeferredCount::Direct { table, number, generation }
                }
                CounterRef::Restart(at) => {
                    let (table, number, generation) = entry_of(at);
                    DeferredCount::Restart { table, number, generation }
                }
                CounterRef::Counter(counter, _) => {
                    indices += 1;
                    DeferredCount::Counter { counter, index: self.words[self.layout.counter_indices + indices - 1] }
                }
            };
            let own_difference = || {
                differences += 1;
                self.words[self.layout.byte_differences + differences - 1]
            };
            (update, bytes.byte_formula(own_difference))
        })
    }

    /// Returns the rewrite in exchange form, which is complete without the layout, given its key
    /// mask and key extractor.
    pub fn flow_rewrite(&self, (key_mask, key): (&KeyMask, &KeyExtractor), reasons: &[DropReason]) -> FlowRewrite {
        let layout = self.layout;
        let constant = |at: usize| u64::from(self.load_small_number(at));
        let check = |(at, check): (usize, &ChecksumCheck)| {
            let mut check = check.clone();
            check.sum.constant = constant(layout.check_constants + at);
            check
        };
        let action = match (&layout.header_rewrite, self.verdict(reasons)) {
            (Some(header_rewrite), _) => {
                let mut set = [0; WINDOW];
                let words = &self.words[layout.set_bits..layout.small_numbers];
                set.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_ne_bytes());
                let lengths = header_rewrite
                    .lengths
                    .iter()
                    .enumerate()
                    .map(|(at, to)| (*to, self.load_small_number(1 + at) as i32));
                let sums = header_rewrite.sums.iter().enumerate().map(|(at, (to, sum, complement))| {
                    let mut sum = sum.clone();
                    sum.constant = constant(layout.sum_constants + at);
                    (*to, sum, *complement)
                });
                let (lengths, sums) = (lengths.collect(), sums.collect());
                let header = NewHeader {
                    len_delta: header_rewrite.len_delta,
                    len: header_rewrite.len,
                    keep_mask: header_rewrite.keep,
                    set_bytes: set,
                    lengths,
                    sums,
                };
                FlowAction::Forward { port: self.port_or_reason(), head: Box::new(header) }
            }
            (None, Verdict::Drop(reason)) => FlowAction::Drop(reason),
            (None, _) => unreachable!("a rewrite without a header drops"),
        };
        let checks = layout.checks.iter().enumerate().map(check).collect();
        let counter_updates = self.counter_updates().chain(layout.common_counters()).collect();
        FlowRewrite {
            key_mask: key_mask.clone(),
            key: key.decode_key(self.key()),
            lengths: self.lengths(),
            checks,
            action,
            counter_updates,
        }
    }
}

/// Folds the constant of a sum to 16 bits. The result is equivalent, because sums are folded.
pub fn folded_constant(sum: u64) -> u32 {
    u32::from(fold_sum(sum))
}
