//! The sweep: removes entries whose idle time is over.
//!
//! Each record has a look byte: the unit of half a second in which its entry may end. A pass of
//! the sweep compares all look bytes with the units since the pass before, and reads only the
//! life words of records whose turn it is. An entry that was hit meanwhile gets a later look
//! byte; hits themselves never write it.
//!
//! An entry ends in two steps. First it comes into doubt. After a grace period, if no hit has
//! ended the doubt, it is removed. Thus no packet is under way that has hit it. The twins of a pair
//! come into doubt together, and a hit of either saves both.

use crate::inner::Inner;
use crate::local::Local;
use crate::look_scan::{BLOCK, Codes, collect_due};
use crate::member::Member;
use crate::remove::kill;
use crate::stream::ChangeKind;
use crate::sweep_state::{Doubted, SweepState};
use crate::{EntryRef, SweepReport, life};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

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
        let mut doubted = self.end_doubted(table, state, budget, on_expired, &mut report);
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
                collect_due(&table.records, state.cursor, &codes, &mut due);
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
        report.is_pass_complete = state.units.is_none();
        report.is_complete = report.is_pass_complete && state.doubted.is_empty();
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
        if self.is_over(table, word) {
            match table.twin_of(record).filter(|twin| !self.is_over_or_dead(table, *twin)) {
                // A later hit of the twin counts for both.
                Some(twin) => {
                    let due = life::due(table.records.life(twin).load(Acquire));
                    let next = life::live(due, life::profile(word));
                    if life.compare_exchange(word, next, AcqRel, Relaxed).is_ok() {
                        word = next;
                    }
                }
                None if table.shape.notify => word = self.notify(table, record, word, on_expired, report),
                None => self.doubt(table, record, word, doubted, report),
            }
        } else if table.idle_times.left(word, self.now).is_none() && life::ticks_since_due(word, self.now) >= 0 {
            // Entries that never expire are renewed before the range of ticks wraps.
            let renewed = table.idle_times.live_word(self.now, life::profile(word));
            let _ = life.compare_exchange(word, renewed, AcqRel, Relaxed);
        }
        // A change of the profile meanwhile has written another code, and that one stays.
        let next = table.idle_times.look_code(word, self.now);
        let _ = look.compare_exchange(code, next, AcqRel, Relaxed);
    }

    /// Reports an entry that stays, and its twin: once each time that the idle time passes without
    /// a hit. Returns the entry's life word.
    fn notify(
        &self,
        table: &Inner,
        record: u32,
        word: u32,
        on_expired: &mut impl FnMut(EntryRef<'_>),
        report: &mut SweepReport,
    ) -> u32 {
        let next = life::live(self.now, life::profile(word));
        let renew = |record, word| table.records.life(record).compare_exchange(word, next, AcqRel, Relaxed).is_ok();
        if !renew(record, word) {
            return word;
        }
        let twin = table.twin_of(record);
        let twin = twin.filter(|twin| renew(*twin, table.records.life(*twin).load(Acquire)));
        for record in [Some(record), twin].into_iter().flatten() {
            report.notified += 1;
            on_expired(table.removed_entry(record, next, self.now));
        }
        next
    }

    /// Lets an entry and its twin come into doubt.
    fn doubt(&self, table: &Inner, record: u32, word: u32, doubted: &mut Vec<Doubted>, report: &mut SweepReport) {
        let doubt =
            |record, word| table.records.life(record).compare_exchange(word, word | life::DOUBT, AcqRel, Relaxed);
        if word & life::DOUBT == 0 && doubt(record, word).is_ok() {
            report.doubted += 1;
            doubted.push(Doubted { record, attempts: 0 });
            if let Some(twin) = table.twin_of(record) {
                let word = table.records.life(twin).load(Acquire);
                if self.is_over(table, word) {
                    let _ = doubt(twin, word);
                }
            }
        }
    }

    /// Removes the entries that are still in doubt after the grace period, until about `budget` have
    /// been removed. Returns those that come into doubt again.
    fn end_doubted(
        &mut self,
        table: &Inner,
        state: &mut SweepState,
        budget: u32,
        on_expired: &mut impl FnMut(EntryRef<'_>),
        report: &mut SweepReport,
    ) -> Vec<Doubted> {
        let mut again = Vec::new();
        let is_due = |(stamp, _): &(u64, _)| table.grace.has_passed(*stamp);
        while report.removed < budget && state.doubted.front().is_some_and(is_due) {
            let Some((_, doubted)) = state.doubted.pop_front() else { break };
            for (n, Doubted { record, attempts }) in doubted.iter().enumerate() {
                table.records.prefetch_for_write(doubted[(n + AHEAD).min(doubted.len() - 1)].record);
                let word = table.records.life(*record).load(Acquire);
                if !life::is_live(word) {
                    continue;
                }
                if !self.is_pair_over(table, *record) {
                    // A hit has come, or the idle time has become longer.
                    self.end_doubt(table, *record);
                } else if word & life::DOUBT != 0 && self.is_twin_doubted(table, *record) {
                    self.expire(table, *record, word, kill_in_doubt, on_expired, report);
                } else if !table.shape.hits_restart {
                    self.doubt_again(table, *record, *attempts, &mut again, on_expired, report);
                } else {
                    self.end_doubt(table, *record);
                }
            }
        }
        again
    }

    /// Removes an entry and its twin because their idle time is over, if `accept` makes the entry
    /// dead.
    fn expire(
        &mut self,
        table: &Inner,
        record: u32,
        word: u32,
        accept: impl FnOnce(&Inner, u32) -> bool,
        on_expired: &mut impl FnMut(EntryRef<'_>),
        report: &mut SweepReport,
    ) {
        if self.remove_one(table, record, ChangeKind::Expired, accept).is_none() {
            return;
        }
        let twin = self.remove_twin(table, record, ChangeKind::Expired);
        for record in [Some(record), twin].into_iter().flatten() {
            report.removed += 1;
            on_expired(table.removed_entry(record, word, self.now));
        }
    }

    fn is_over(&self, table: &Inner, word: u32) -> bool {
        table.idle_times.is_over(word, table.idle_times.unit_begin(self.now))
    }

    fn is_over_or_dead(&self, table: &Inner, record: u32) -> bool {
        let word = table.records.life(record).load(Acquire);
        !life::is_live(word) || self.is_over(table, word)
    }

    fn is_pair_over(&self, table: &Inner, record: u32) -> bool {
        let twin = table.twin_of(record);
        self.is_over_or_dead(table, record) && twin.is_none_or(|twin| self.is_over_or_dead(table, twin))
    }

    /// Returns whether no hit has ended the doubt of an entry's twin.
    fn is_twin_doubted(&self, table: &Inner, record: u32) -> bool {
        let Some(twin) = table.twin_of(record) else { return true };
        let word = table.records.life(twin).load(Acquire);
        !life::is_live(word) || word & life::DOUBT != 0
    }

    /// Ends the doubt of an entry and of its twin, so that the next pass can doubt them again.
    fn end_doubt(&self, table: &Inner, record: u32) {
        for record in [Some(record), table.twin_of(record)].into_iter().flatten() {
            life::end_doubt(table.records.life(record));
        }
    }

    /// Doubts an entry and its twin again that a hit has saved although their idle time is over, or
    /// removes them.
    fn doubt_again(
        &mut self,
        table: &Inner,
        record: u32,
        attempts: u8,
        again: &mut Vec<Doubted>,
        on_expired: &mut impl FnMut(EntryRef<'_>),
        report: &mut SweepReport,
    ) {
        if attempts < MAX_ATTEMPTS {
            for record in [Some(record), table.twin_of(record)].into_iter().flatten() {
                let doubt = |word| (life::is_live(word) && self.is_over(table, word)).then_some(word | life::DOUBT);
                life::change(table.records.life(record), doubt);
            }
            again.push(Doubted { record, attempts: attempts + 1 });
            return;
        }
        let word = table.records.life(record).load(Acquire);
        let removed = report.removed;
        self.expire(table, record, word, kill, on_expired, report);
        if report.removed > removed {
            table.counters.count_forced();
        }
    }
}

/// Makes an entry in doubt dead.
fn kill_in_doubt(table: &Inner, record: u32) -> bool {
    let dead = |word| (life::is_live(word) && word & life::DOUBT != 0).then(|| life::dead(word));
    life::change(table.records.life(record), dead).is_some()
}
