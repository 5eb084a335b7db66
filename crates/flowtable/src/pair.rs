//! Pairs: two entries ("twins") that have one idle time and end together, such as the two
//! directions of a session.
//!
//! Each record of a pair names the other. A hit restarts the idle time of its own entry only; the
//! sweep takes the later of both. Either twin can be removed: the removal ends the other one too.
//! `protocol/pair.rs` says why no half of a pair stays.

use crate::add::NewEntry;
use crate::inner::Inner;
use crate::local::Local;
use crate::member::Member;
use crate::protocol::pair::{name_entry, name_of_killed};
use crate::remove::kill;
use crate::stream::ChangeKind;
use crate::{Addition, RecordId, Refusal};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

impl Member {
    /// Adds two entries that become twins, or none. `fill` writes the value of entry 0 or 1, as in
    /// [`Member::find_or_add_with`]. The second is there before the first, so that a packet that
    /// finds the first is answered by one that finds the second. Returns both records.
    ///
    /// # Errors
    /// [`Refusal::KeyTaken`] or [`Refusal::TwinTaken`]: an entry has one of the keys. Any other
    /// refusal of one of the two.
    ///
    /// # Panics
    /// Panics if the table has no pairs.
    pub fn add_pair(
        &mut self,
        [first, second]: [&NewEntry<'_>; 2],
        mut fill: impl FnMut(usize, &mut [u8]),
    ) -> Result<[RecordId; 2], Refusal> {
        let (table, local) = (&*self.table, &mut self.local);
        assert!(table.shape.has_pairs, "a table without pairs");
        let taken = [Refusal::KeyTaken, Refusal::TwinTaken];
        let mut add = |local: &mut Local, number: usize, new: &NewEntry<'_>| {
            let added = local.add(table, new, |value| {
                fill(number, value);
                Ok(())
            });
            match added {
                Addition::Added(record) => Ok(record),
                Addition::Found(_) => Err(table.counters.count_refusal(taken[number])),
                Addition::Refused(refusal) => Err(refusal),
            }
        };
        if first.key() == second.key() {
            return Err(table.counters.count_refusal(Refusal::TwinTaken));
        }
        let twin = add(local, 1, second)?;
        match add(local, 0, &first.with_twin(twin)) {
            Ok(record) => local.link(table, record, twin),
            Err(refusal) => {
                local.take_back(table, twin);
                Err(refusal)
            }
        }
    }

    /// Makes two entries without twins a pair, for a table that is filled before packets use it.
    /// Returns whether they are one, which they may have been before.
    pub fn join_pair(&mut self, record: RecordId, twin: RecordId) -> bool {
        let (table, local) = (&*self.table, &mut self.local);
        let names = [record, twin].map(|record| table.records.twin(record.0));
        let [Some(name), Some(twin_name)] = names else { return false };
        if record == twin || !record.is_some() || !twin.is_some() {
            return false;
        }
        match [name, twin_name].map(|name| name.load(Acquire)) {
            [0, 0] => {}
            [known, back] => return [known, back] == [twin.0, record.0],
        }
        name.store(twin.0, Release);
        local.link(table, record, twin).is_ok()
    }

    /// Gives an entry without a lease one. Returns false if it has one, or the table has none.
    pub fn set_lease(&mut self, record: RecordId, lease: u32) -> bool {
        let word = self.table.records.lease(record.0).filter(|_| record.is_some());
        word.is_some_and(|word| word.compare_exchange(0, lease, AcqRel, Acquire).is_ok())
    }
}

impl Local {
    /// Lets the twin of a new entry name it. If the twin has been removed meanwhile, the entry ends
    /// as well.
    fn link(&mut self, table: &Inner, record: RecordId, twin: RecordId) -> Result<[RecordId; 2], Refusal> {
        let name = table.records.twin(twin.0);
        let is_pair = name.is_some_and(|name| name_entry(name, record.0, table.records.life(twin.0)));
        // If the removal has seen the name, it has ended the entry and released its lease.
        if is_pair || !self.take_back(table, record) {
            return Ok([record, twin]);
        }
        Err(table.counters.count_refusal(Refusal::Busy))
    }

    /// Removes an entry of an addition that is refused, unless it was removed meanwhile. Its lease
    /// stays with the caller. Returns whether it was there.
    fn take_back(&mut self, table: &Inner, record: RecordId) -> bool {
        let released = self.released.len();
        let removed = self.remove_one(table, record.0, ChangeKind::Removed, kill);
        self.released.truncate(released);
        removed.is_some()
    }
}

impl Inner {
    /// Returns the record of an entry's twin; `None`: it has none. The entry was one during the
    /// caller's batch.
    pub fn twin_of(&self, record: u32) -> Option<u32> {
        self.if_mutual(record, self.records.twin(record)?.load(Acquire))
    }

    /// Returns a record that `record` names, if it names `record` as well.
    fn if_mutual(&self, record: u32, twin: u32) -> Option<u32> {
        let is_mutual = twin != 0 && self.records.twin(twin)?.load(Acquire) == record;
        is_mutual.then_some(twin)
    }

    /// Returns the record of the twin of an entry that the caller has just killed.
    pub fn twin_of_killed(&self, record: u32) -> Option<u32> {
        self.if_mutual(record, name_of_killed(self.records.twin(record)?))
    }
}
