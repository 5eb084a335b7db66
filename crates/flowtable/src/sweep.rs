//! The sweep: removes entries whose idle time is over.
//!
//! Each record has a look byte: the unit of half a second in which its entry may end. A pass of
//! the sweep compares all look bytes with the units since the pass before, and reads only the
//! life words of records whose turn it is. An entry that was hit meanwhile gets a later look
//! byte; hits themselves never write it.
//!
//! An entry ends in two steps. First it comes into doubt. After a grace period, if no hit has
//! ended the doubt, it is removed. Thus no packet is under way that has hit it.

use crate::idle_times::IdleTimes;
use crate::inner::Inner;
use crate::local::Local;
use crate::member::Member;
use crate::stream::ChangeKind;
use crate::sweep_state::{Doubted, SweepState};
use crate::{EntryRef, SweepReport, life};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// Look bytes that are compared together.
const BLOCK: u32 = 64;
/// Times that hits may end the doubt of an entry whose idle time is over. Only in tables whose
/// hits do not restart timers can it happen again and again; then the entry is removed.
const MAX_ATTEMPTS: u8 = 4;
/// Records between the prefetch of a life word and its use.
const AHEAD: usize = 16;

impl Member {
    /// Examines about `budget` records, going on where the last call ended, and removes entries
    /// whose idle time is over; in tables that notify they stay. `on_expired` gets each.
    ///
    /// Entries are removed in two steps with a batch of all members in between, so a call removes
    /// those that an earlier one found. A pass over all records begins at most once per half
    /// second of the table's time. One member sweeps at a time; others get an empty report.
    pub fn sweep(&mut self, budget: u32, mut on_expired: impl FnMut(EntryRef<'_>)) -> SweepReport {
        self.local.assert_in_batch();
        let table = self.table.clone();
        let Some(mut state) = table.sweep.try_lock() else { return SweepReport::default() };
        self.local.sweep(&table, &mut state, budget, &mut on_expired)
    }

    /// Lets the next pass of the sweep examine all records, for example after an idle time has
    /// become shorter.
    pub fn examine_all(&mut self) {
        self.table.sweep.lock().restart();
    }
}

impl Local {
    fn sweep(
        &mut self,
        table: &Inner,
        state: &mut SweepState,
        budget: u32,
        on_expired: &mut impl FnMut(EntryRef<'_>),
    ) -> SweepReport {
        let mut report = SweepReport::default();
        table.note_tick(self.now);
        let mut doubted = self.end_doubted(table, state, on_expired, &mut report);
        let unit = table.idle_times.unit_of(self.now);
        if state.units.is_none() && state.done != Some(unit) {
            // The last unit of the pass before is examined again, because members whose clock is
            // a little late schedule looks in it.
            let first = state.done.unwrap_or(unit.wrapping_sub(255));
            (state.units, state.cursor) = (Some((first, unit)), 0);
        }
        if let Some((first, last)) = state.units {
            let end = table.free.end();
            let stop = end.min(state.cursor.saturating_add(budget.max(BLOCK)));
            let codes = Codes::new(first, last);
            let mut due = Vec::new();
            while state.cursor < stop {
                collect_due(table, state.cursor, &codes, &mut due);
                state.cursor += BLOCK;
            }
            for (n, record) in due.iter().enumerate() {
                table.records.prefetch(due[(n + AHEAD).min(due.len() - 1)]);
                self.examine(table, *record, &mut doubted, on_expired, &mut report);
            }
            if state.cursor >= end {
                (state.units, state.done) = (None, Some(last));
            }
        }
        if !doubted.is_empty() {
            state.doubted.push_back((table.grace.stamp(), doubted));
        }
        report.is_complete = state.units.is_none() && state.doubted.is_empty();
        report
    }

    /// Examines a record whose turn it is.
    fn examine(
        &mut self,
        table: &Inner,
        record: u32,
        doubted: &mut Vec<Doubted>,
        on_expired: &mut impl FnMut(EntryRef<'_>),
        report: &mut SweepReport,
    ) {
        report.examined += 1;
        let look = table.records.look(record);
        let (code, life) = (look.load(Acquire), table.records.life(record));
        let mut word = life.load(Acquire);
        if code == 0 || !life::is_live(word) {
            return;
        }
        let left = table.idle_times.left(word, self.now);
        if left.is_some_and(|left| left <= 0) {
            if table.shape.notify {
                // Reported once each time that the idle time passes without a hit.
                let next = life::live(self.now, life::profile(word));
                if life.compare_exchange(word, next, AcqRel, Relaxed).is_ok() {
                    report.notified += 1;
                    word = next;
                    on_expired(table.swept_entry(record, word, self.now));
                }
            } else if word & life::DOUBT == 0
                && life.compare_exchange(word, word | life::DOUBT, AcqRel, Relaxed).is_ok()
            {
                report.doubted += 1;
                doubted.push(Doubted { record, attempts: 0 });
            }
        } else if left.is_none() && life::ticks_since_due(word, self.now) >= 0 {
            // Entries that never expire are renewed before the range of ticks wraps.
            let renewed = table.idle_times.live_word(self.now, life::profile(word));
            let _ = life.compare_exchange(word, renewed, AcqRel, Relaxed);
        }
        // A change of the profile meanwhile has written another code, and that one stays.
        let next = table.idle_times.look_code(word, self.now);
        let _ = look.compare_exchange(code, next, AcqRel, Relaxed);
    }

    /// Removes the entries that are still in doubt after the grace period. Returns those that
    /// come into doubt again.
    fn end_doubted(
        &mut self,
        table: &Inner,
        state: &mut SweepState,
        on_expired: &mut impl FnMut(EntryRef<'_>),
        report: &mut SweepReport,
    ) -> Vec<Doubted> {
        let mut again = Vec::new();
        while state.doubted.front().is_some_and(|(stamp, _)| table.grace.has_passed(*stamp)) {
            let Some((_, doubted)) = state.doubted.pop_front() else { break };
            for Doubted { record, attempts } in doubted {
                let word = table.records.life(record).load(Acquire);
                if !life::is_live(word) {
                    continue;
                }
                if word & life::DOUBT != 0 {
                    if !self.is_over(table, word) {
                        // The idle time has become longer meanwhile.
                        let certain = |now| (now == word).then_some(word & !life::DOUBT);
                        life::change(table.records.life(record), certain);
                    } else if self.remove_record_if(table, record, ChangeKind::Expired, end_doubt).is_some() {
                        report.removed += 1;
                        on_expired(table.swept_entry(record, word, self.now));
                    }
                } else if !table.shape.hits_restart && self.is_over(table, word) {
                    self.doubt_again(table, record, attempts, &mut again, on_expired, report);
                }
            }
        }
        again
    }

    fn is_over(&self, table: &Inner, word: u32) -> bool {
        table.idle_times.left(word, self.now).is_some_and(|left| left <= 0)
    }

    /// Doubts an entry again that a hit has saved although its idle time is over, or removes it.
    fn doubt_again(
        &mut self,
        table: &Inner,
        record: u32,
        attempts: u8,
        again: &mut Vec<Doubted>,
        on_expired: &mut impl FnMut(EntryRef<'_>),
        report: &mut SweepReport,
    ) {
        let now = self.now;
        let is_over = |word| {
            let left = table.idle_times.left(word, now);
            life::is_live(word) && left.is_some_and(|left| left <= 0)
        };
        if attempts < MAX_ATTEMPTS {
            let doubt = |word| is_over(word).then_some(word | life::DOUBT);
            if life::change(table.records.life(record), doubt).is_some() {
                again.push(Doubted { record, attempts: attempts + 1 });
            }
            return;
        }
        let end = |table: &Inner, record| {
            life::change(table.records.life(record), |word| is_over(word).then(|| life::dead(word))).is_some()
        };
        let word = table.records.life(record).load(Acquire);
        if self.remove_record_if(table, record, ChangeKind::Expired, end).is_some() {
            table.counters.count_forced();
            report.removed += 1;
            on_expired(table.swept_entry(record, word, now));
        }
    }
}

/// Makes an entry in doubt dead.
fn end_doubt(table: &Inner, record: u32) -> bool {
    let dead = |word| (life::is_live(word) && word & life::DOUBT != 0).then(|| life::dead(word));
    life::change(table.records.life(record), dead).is_some()
}

/// The codes of a range of units.
struct Codes {
    first: u8,
    last: u8,
    is_all: bool,
}

impl Codes {
    fn new(first: u32, last: u32) -> Codes {
        let is_all = last.wrapping_sub(first) >= 254;
        Codes { first: IdleTimes::code_of(first), last: IdleTimes::code_of(last), is_all }
    }

    /// Returns whether a look byte is in the range; 0 never is.
    #[inline(always)]
    fn contains(&self, code: u8) -> bool {
        let is_between = if self.first <= self.last {
            (code >= self.first) & (code <= self.last)
        } else {
            (code >= self.first) | (code <= self.last)
        };
        (code != 0) & (is_between | self.is_all)
    }
}

/// Collects the records of a block whose turn it is.
fn collect_due(table: &Inner, first: u32, codes: &Codes, due: &mut Vec<u32>) {
    let mut bytes = [0u8; BLOCK as usize];
    for (n, bytes) in bytes.chunks_exact_mut(8).enumerate() {
        let at = first + n as u32 * 8;
        if at <= table.records.capacity {
            bytes.copy_from_slice(&table.records.look_word(at).load(Relaxed).to_ne_bytes());
        }
    }
    if bytes.iter().fold(false, |any, code| any | codes.contains(*code)) {
        let turns = bytes.iter().zip(first..).filter(|(code, _)| codes.contains(**code));
        due.extend(turns.map(|(_, record)| record).filter(|record| *record <= table.records.capacity));
    }
}
