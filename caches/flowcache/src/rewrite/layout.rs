//! [`FlowLayout`]: shared part of all rewrites of a path, and the offsets of the row's own words.
//!
//! A row consists of 64-bit words:
//!
//! - [`HEADER`] words about the flow,
//! - its key,
//! - the bits set in the new header,
//! - 32-bit numbers, two to a word: output port, length differences, constants of sums, entries,
//! - 64-bit numbers: counter indices, byte differences, keys of lookups.
//!
//! The words that a hit reads come first.

use super::fast_executor::{FastExecutor, SharedHeaderRewrite};
use super::form::WINDOW;
use super::key::KeyExtractor;
use super::path_record::PathRecord;
use super::template::{CountedBytes, CounterRef, RewriteTemplate};
use super::{NotRewritable, form};
use interp::{ByteCount, DeferredCount};

/// Words of a row before its key ([`super::row`]).
pub const HEADER: usize = 6;

/// Maximum number of words of a row.
const MAX_WORDS: usize = 4_096;

/// Shared part of all rewrites of a path.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FlowLayout {
    /// Number of the key mask.
    pub key_mask: u32,
    /// Header rewrite; `None`: packets are dropped.
    pub header_rewrite: Option<Box<SharedHeaderRewrite>>,
    /// Checksum checks, with constants of 0.
    pub checks: Vec<form::ChecksumCheck>,
    /// Counters that packets update: per row, and common to all rows.
    pub counter_updates: Vec<(CounterRef, CountedBytes)>,
    pub tallies: Vec<(CounterRef, CountedBytes)>,
    /// Table and number of key words of each lookup.
    pub lookups: Vec<(u32, u32)>,
    /// Offset of the first word after the key, and after the set bits.
    pub set_bits: usize,
    pub small_numbers: usize,
    /// Index of the first 32-bit number of each group: constants of sums, constants of checks,
    /// entries, generations.
    pub sum_constants: usize,
    pub check_constants: usize,
    pub entries: usize,
    pub generations: usize,
    /// Offset of the first 64-bit number of each group: counter indices, byte differences, keys.
    pub counter_indices: usize,
    pub byte_differences: usize,
    pub lookup_keys: usize,
    /// Number of words of a row.
    pub words: usize,
    /// Executor for packets that hit.
    pub executor: FastExecutor,
}

impl FlowLayout {
    /// Creates the layout of a template's rewrites under a key mask, from the record of one packet.
    /// Omits hits of tables for which `counts_hits` is false, because their count is not
    /// observable.
    ///
    /// # Errors
    /// The row or its checks exceed the limits.
    pub fn new(
        template: &RewriteTemplate,
        (key_mask, key): (u32, &KeyExtractor),
        path_record: &PathRecord,
        counts_hits: impl Fn(usize) -> bool,
    ) -> Result<FlowLayout, NotRewritable> {
        let header_rewrite = template.header.as_ref().map(|header| {
            let sums = header.sums.iter().map(|(at, words, complement)| (*at, template.free_terms(words), *complement));
            let lengths = header.lengths.iter().map(|(at, _)| *at).collect();
            Box::new(SharedHeaderRewrite {
                len_delta: header.len_delta,
                len: header.len,
                keep: header.keep,
                lengths,
                sums: sums.collect(),
            })
        });
        let check = |(words, check): &(_, form::ChecksumCheck)| form::ChecksumCheck {
            sum: template.free_terms(words),
            ..check.clone()
        };
        let checks: Vec<form::ChecksumCheck> = template.checks.iter().map(check).collect();
        let written_sums = header_rewrite.iter().flat_map(|header_rewrite| &header_rewrite.sums).map(|(_, sum, _)| sum);
        let has_too_many_terms =
            checks.iter().map(|check| &check.sum).chain(written_sums).any(|sum| sum.terms.len() > form::MAX_TERMS);
        if has_too_many_terms || checks.len() > form::MAX_SUMS {
            return Err(NotRewritable::TooMuch);
        }
        let is_observable = |(counter_ref, _): &&(CounterRef, CountedBytes)| match counter_ref {
            CounterRef::Hit(at) => {
                path_record.application(*at).is_some_and(|application| counts_hits(application.table))
            }
            _ => true,
        };
        let is_tally = |(counter_ref, bytes): &(CounterRef, CountedBytes)| {
            matches!(counter_ref, CounterRef::Applied(..)) && !bytes.is_per_flow()
        };
        let (tallies, counter_updates): (Vec<_>, Vec<_>) =
            template.counter_updates.iter().filter(is_observable).copied().partition(is_tally);
        let lookups: Vec<(u32, u32)> =
            path_record.lookups().map(|(table, key)| (table as u32, key.len() as u32)).collect();
        let entry_updates =
            counter_updates.iter().filter(|(counter_ref, _)| counter_ref.application().is_some()).count();
        let counters =
            counter_updates.iter().filter(|(counter_ref, _)| matches!(counter_ref, CounterRef::Counter(..))).count();
        let per_flow_bytes = counter_updates.iter().filter(|(_, bytes)| bytes.is_per_flow()).count();
        let key_words: usize = lookups.iter().map(|(_, words)| *words as usize).sum();
        let set_bits = HEADER + key.len();
        let small_numbers =
            set_bits + header_rewrite.as_ref().map_or(0, |header_rewrite| header_rewrite.len.div_ceil(8) as usize);
        // Indices of 32-bit numbers. Number 0 is the output port or the drop reason.
        let sum_constants = 1 + header_rewrite.as_ref().map_or(0, |header_rewrite| header_rewrite.lengths.len());
        let check_constants =
            sum_constants + header_rewrite.as_ref().map_or(0, |header_rewrite| header_rewrite.sums.len());
        let entries = check_constants + checks.len();
        let generations = entries + lookups.len();
        // Offsets of 64-bit numbers.
        let counter_indices = small_numbers + (generations + entry_updates).div_ceil(2);
        let (byte_differences, lookup_keys) = (counter_indices + counters, counter_indices + counters + per_flow_bytes);
        let words = lookup_keys + key_words;
        if words > MAX_WORDS {
            return Err(NotRewritable::TooMuch);
        }
        let executor = FastExecutor::new(header_rewrite.as_deref(), &checks);
        #[rustfmt::skip]
        let layout = FlowLayout { executor, key_mask, header_rewrite, checks, counter_updates, tallies, lookups, set_bits, small_numbers, sum_constants, check_constants, entries, generations, counter_indices, byte_differences, lookup_keys, words };
        Ok(layout)
    }

    /// Returns how many first bytes of a packet the header and the sums read: a multiple of 8.
    pub fn depth(&self) -> usize {
        let header = self.header_rewrite.as_deref();
        let written_sums = header.iter().flat_map(|header| &header.sums).map(|(_, sum, _)| sum);
        let read_words = self.checks.iter().map(|check| &check.sum).chain(written_sums).flat_map(|sum| &sum.terms);
        let words = read_words.map(|(at, _)| *at).chain(self.checks.iter().filter_map(|check| check.word));
        let kept = header.map_or(0, |header| i64::from(header.len.next_multiple_of(8)) - i64::from(header.len_delta));
        let depth = words.map(|at| i64::from(at) + 2).chain([kept]).max().unwrap_or(0);
        (depth.max(0) as usize).next_multiple_of(8).min(WINDOW)
    }

    /// Returns the number of words that a hit reads, from the start of the row.
    pub fn hit_words(&self) -> usize {
        self.small_numbers + self.entries.div_ceil(2)
    }

    /// Returns the counters that are common to all rows.
    pub fn common_counters(&self) -> impl Iterator<Item = (DeferredCount, ByteCount)> + '_ {
        self.tallies.iter().filter_map(|(counted, bytes)| match *counted {
            CounterRef::Applied(table, arm, hit) => {
                Some((DeferredCount::Applied { table, arm, hit }, bytes.byte_formula(|| 0)))
            }
            _ => None,
        })
    }
}
