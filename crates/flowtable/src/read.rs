//! Reading all entries, and removing those that a filter accepts.

use crate::member::Member;
use crate::{EntryRef, RecordId};

impl Member {
    /// Shows at most `budget` records from record `cursor` on (1: the first) to `visit`, if they
    /// are entries. Returns where to go on, or `None` behind the last.
    ///
    /// Each entry is as of one moment, not all of the same moment. An entry that is in the table
    /// all the time is shown once, unless [`Member::modify`] gives it another record.
    pub fn read(&mut self, cursor: u32, budget: u32, mut visit: impl FnMut(EntryRef<'_>)) -> Option<u32> {
        let next = self.table.free.end();
        let end = next.min(cursor.saturating_add(budget));
        (cursor.max(1)..end).filter_map(|id| self.entry(RecordId(id))).for_each(&mut visit);
        (end < next).then_some(end)
    }

    /// Removes the entries among `budget` records from `cursor` on that `matches` accepts.
    /// Returns where to go on, as [`Member::read`], and how many were removed.
    pub fn delete_where(
        &mut self,
        cursor: u32,
        budget: u32,
        mut matches: impl FnMut(EntryRef<'_>) -> bool,
    ) -> (Option<u32>, u32) {
        let mut matching = Vec::new();
        let next = self.read(cursor, budget, |entry| {
            if matches(entry) {
                matching.push(entry.id);
            }
        });
        let removed = matching.into_iter().filter(|id| self.remove_record(*id).is_some()).count();
        (next, removed as u32)
    }
}
