//! Fills rows from a [`RewriteTemplate`] without running the program. Constants of the new header
//! are the bytes of the resulting packet. The constant of a sum is solved from its result. Entries
//! and counters come from the path record ([`super::path_record`]).

use super::NotRewritable;
use super::backing_engine::BackingEngine;
use super::form::{self};
use super::key::KeyExtractor;
use super::layout::{FlowLayout, HEADER};
use super::path_record::PathRecord;
use super::row::{self, FlowRow};
use super::symbolic_value::{ActionDataWord, PathConstraints};
use super::template::{CountedBytes, CounterRef, RewriteTemplate};
use super::window::{self, BLOCK, BLOCKS};
use ir::TableId;
use packet::Verdict;

/// Resulting packet.
#[derive(Clone, Copy, Debug)]
pub struct ResultingPacket<'p> {
    pub verdict: Verdict,
    /// Bytes of the resulting packet.
    pub bytes: &'p [u8],
}

/// Received packet.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedPacket<'p> {
    pub bytes: &'p [u8],
    pub port: u32,
}

impl RewriteTemplate {
    /// Fills `row` with the rewrite of a packet of the path and its result. `is_own`: the template
    /// was built from this packet. `reason`: number of the drop reason.
    ///
    /// # Errors
    /// The packet does not match the template.
    pub fn fill_row<R: BackingEngine>(
        &self,
        (layout, key): (&FlowLayout, &KeyExtractor),
        (received, resulting, is_own): (ReceivedPacket<'_>, ResultingPacket<'_>, bool),
        (path_record, backing): (&PathRecord, &R),
        reason: u32,
        row: &mut Vec<u64>,
    ) -> Result<(), NotRewritable> {
        row.clear();
        row.resize(layout.words, 0);
        let action_data = |word: ActionDataWord| {
            let application = path_record.application(word.application as usize)?;
            backing.action_data_word(TableId(application.table as u32), application.found, word.word as usize)
        };
        let mut constraints = PathConstraints::new(received.bytes);
        constraints.resume_path(&self.key_mask.mask, &self.bounds, action_data).ok_or(NotRewritable::Aborted)?;
        let filled = RowFiller { layout, constraints: &mut constraints, row }.fill_all(
            self,
            (received, resulting, is_own),
            (path_record, backing),
            key,
            reason,
        );
        filled.ok_or(NotRewritable::Aborted)
    }
}

/// Row that is being filled.
struct RowFiller<'f> {
    layout: &'f FlowLayout,
    constraints: &'f mut PathConstraints,
    row: &'f mut [u64],
}

impl RowFiller<'_> {
    fn put_small_number(&mut self, at: usize, number: u32) {
        row::put_small_number(&mut self.row[self.layout.small_numbers..], at, number);
    }

    /// Fills all parts of the row. Returns `None` if the packet does not match the template, or if
    /// the rewrite would not reproduce the result.
    fn fill_all<R: BackingEngine>(
        mut self,
        template: &RewriteTemplate,
        (received, resulting, is_own): (ReceivedPacket<'_>, ResultingPacket<'_>, bool),
        (path_record, backing): (&PathRecord, &R),
        extractor: &KeyExtractor,
        reason: u32,
    ) -> Option<()> {
        // Number 0 is the output port or the drop reason.
        match (resulting.verdict, &template.header) {
            (Verdict::Forward { port }, Some(head)) => {
                self.put_small_number(0, port.0);
                self.fill_header(head, resulting.bytes, is_own)?;
            }
            (Verdict::Drop(_), None) => self.put_small_number(0, reason),
            _ => return None,
        }
        for (at, (sum, _)) in template.checks.iter().enumerate() {
            let constant = row::folded_constant(self.constraints.sum_constant(sum));
            self.put_small_number(self.layout.check_constants + at, constant);
        }
        self.fill_record(path_record, backing)?;
        let (first, last) = self.constraints.lengths;
        row::set_lengths(self.row, (first.max(0) as u32, last.clamp(0, i64::from(u32::MAX)) as u32));
        let mut key_words = [[0; BLOCK]; BLOCKS];
        let first_word = extractor.extract_key(
            &window::window(&self.constraints.window),
            (received.bytes.len(), received.port),
            &mut key_words,
        );
        self.row[HEADER] = first_word;
        self.row[HEADER + 1..self.layout.set_bits].copy_from_slice(&key_words.as_flattened()[..extractor.len() - 1]);
        self.reproduces_result(received.bytes, resulting).then_some(())
    }

    /// Fills the new header: its constant bits from the resulting packet, the differences of
    /// lengths, and the constants of sums. `is_own`: the template was built from this packet, so
    /// the constants of its sums are known. Otherwise they are solved from the resulting checksums.
    fn fill_header(&mut self, head: &super::template::HeaderTemplate, resulting: &[u8], is_own: bool) -> Option<()> {
        let resulting = resulting.get(..usize::from(head.len))?;
        let mut set = form::window(resulting);
        set.iter_mut().zip(&head.keep).take(resulting.len()).for_each(|(byte, keep)| *byte &= !keep);
        // The rewrite overwrites lengths and sums.
        let written = head.lengths.iter().map(|(at, _)| *at).chain(head.sums.iter().map(|(at, ..)| *at));
        written.for_each(|at| set[usize::from(at)..usize::from(at) + 2].fill(0));
        let destination = &mut self.row[self.layout.set_bits..self.layout.small_numbers];
        destination.iter_mut().zip(form::words(&set)).for_each(|(to, word)| *to = word);
        for (at, (_, length)) in head.lengths.iter().enumerate() {
            // The differences of lengths follow number 0.
            let add = self.constraints.length_offset(*length) as i32;
            self.put_small_number(1 + at, add as u32);
        }
        let layout = self.layout;
        let shared_sums = &layout.header_rewrite.as_ref()?.sums;
        for (number, ((at, sum, complement), (_, terms, _))) in head.sums.iter().zip(shared_sums).enumerate() {
            let at = usize::from(*at);
            let value = u16::from_be_bytes([*resulting.get(at)?, *resulting.get(at + 1)?]);
            let constant = match sum.varies && !is_own {
                true => self.constraints.solve_constant(sum, terms, if *complement { !value } else { value })?,
                false => self.constraints.sum_constant(sum),
            };
            self.put_small_number(layout.sum_constants + number, row::folded_constant(constant));
        }
        Some(())
    }

    /// Fills keys, entries and counters from the path record. Returns `None` if its lookups are not
    /// those of the layout.
    fn fill_record<R: BackingEngine>(&mut self, path_record: &PathRecord, backing: &R) -> Option<()> {
        let layout = self.layout;
        let mut keys = layout.lookup_keys;
        let has_all_lookups = path_record.application_count() == layout.lookups.len();
        for (at, (table, key)) in path_record.lookups().enumerate().take(layout.lookups.len()) {
            if layout.lookups[at] != (table as u32, key.len() as u32) {
                return None;
            }
            self.row[keys..keys + key.len()].copy_from_slice(key);
            keys += key.len();
            if let Some(number) = path_record.application(at)?.found {
                self.put_small_number(layout.entries + at, number.checked_add(1)?);
            }
        }
        let (mut generation, mut index, mut add) =
            (layout.generations, layout.counter_indices, layout.byte_differences);
        for (counter_ref, bytes) in &layout.counter_updates {
            if let Some(at) = counter_ref.application() {
                let application = path_record.application(at)?;
                self.put_small_number(
                    generation,
                    backing.generation(TableId(application.table as u32), application.found?),
                );
                generation += 1;
            }
            if let CounterRef::Counter(_, count) = counter_ref {
                self.row[index] = path_record.counter_index(*count)?;
                index += 1;
            }
            if let (true, CountedBytes::Length(length)) = (bytes.is_per_flow(), bytes) {
                self.row[add] = self.constraints.length_offset(*length) as u64;
                add += 1;
            }
        }
        has_all_lookups.then_some(())
    }

    /// Returns whether the rewrite reproduces the result.
    fn reproduces_result(&self, received: &[u8], resulting: ResultingPacket<'_>) -> bool {
        let row = FlowRow { layout: self.layout, words: self.row };
        let window = window::window(&self.constraints.window);
        if !row.can_apply(&window, received.len()) {
            return false;
        }
        if !matches!(resulting.verdict, Verdict::Forward { .. }) {
            return true;
        }
        let mut head = window::EMPTY;
        let (len, replaced_bytes) = row.write_header(&window, received.len(), &mut head);
        let payload = received.get(replaced_bytes..).unwrap_or_default();
        resulting.bytes.len() == len + payload.len()
            && resulting.bytes[..len] == head[..len]
            && &resulting.bytes[len..] == payload
    }
}
