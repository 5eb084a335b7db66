//! [`Live`]: the control plane's words for a running engine. One writer, any number of readers on other threads.
//!
//! A write batch goes to the [`State`], which checks it, and from there to the copy of all tables that no reader sees; then that
//! copy is published. So a reader sees all of a batch, over all tables, or none of it. What was changed is done to the other
//! copy when its last reader has gone on, at the next publication or by [`Live::settle`].
//!
//! Readers never wait. The writer does, until the readers that hold the other copy have come to the end of a batch. To write more
//! often than that, batches are published together: [`Live::write_many`], [`Live::write_soon`], [`Live::group`].

use super::copies::{Copies, Reader};
use super::encode::LookupError;
use super::lookups::{Lookups, NumberedChanges};
use super::numbers::Numbers;
use entries::Entry;
use entries::WriteError;
use entries::{Action, PackedKey};
use entries::{Change, WriteBatch};
use entries::{State, StateError};
use ir::{Entity, Pipeline, TableId};
use packet::Counter;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Why there are no lookups for a pipeline.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LiveError {
    /// The pipeline contradicts itself: a bug of what made it.
    #[error(transparent)]
    State(#[from] StateError),
    /// A table is beyond what lookups can hold.
    #[error(transparent)]
    Lookup(#[from] LookupError),
}

/// What a write did.
#[derive(Clone, Debug)]
pub struct Written {
    version: u64,
    batch: Arc<NumberedChanges>,
}

impl Written {
    /// Readers whose [`Lookups::version`] is at least this see the write.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What has changed, in order.
    pub fn changes(&self) -> &[Change] {
        &self.batch.changes
    }

    /// The same, each change of an entry with the entry's number, if its table's entries have numbers: an inserted entry's was
    /// given to it, a deleted one's will be given to another when no reader can meet the entry any more.
    pub fn numbered(&self) -> impl Iterator<Item = (&Change, Option<u32>)> {
        self.batch.changes.iter().enumerate().map(|(index, change)| (change, self.batch.number(index)))
    }
}

/// How many batches' memory is asked for before they are applied: what the nearest cache has room for.
const EXPECTED: usize = 32;

/// The state of a pipeline and its published lookups.
pub struct Live {
    state: State,
    copies: Copies<Lookups>,
    /// Changes in the current copy that the standby copy lacks.
    behind: Vec<Arc<NumberedChanges>>,
    /// Changes in the state that no copy has yet.
    staged: Vec<Arc<NumberedChanges>>,
    /// Since when they wait for a reader.
    staged_since: Option<Instant>,
    /// By table; `None` for tables whose entries have no numbers.
    numbers: Vec<Option<Numbers>>,
    /// Numbers of deleted entries: those that a staged change takes out, and those of each publication that did.
    freed: Vec<(TableId, u32)>,
    retired: VecDeque<(u64, Vec<(TableId, u32)>)>,
    patience: Duration,
    /// The version at the last call of [`Live::tidy`].
    quiet_since: u64,
    /// Room for the changes of the next batch: that of an earlier one, which has memory already.
    spare: Vec<Change>,
}

/// So much room for changes is kept: some megabytes.
const SPARE: usize = 1 << 16;

/// How many entries of a state are brought into lookups at a time.
const LOADED: usize = 1 << 12;

/// Keeps the room of changes that nobody needs any more.
fn keep(spare: &mut Vec<Change>, batch: Arc<NumberedChanges>) {
    if let Some(NumberedChanges { mut changes, .. }) = Arc::into_inner(batch)
        && (spare.capacity() + 1..=SPARE).contains(&changes.capacity())
    {
        changes.clear();
        *spare = changes;
    }
}

impl Live {
    /// How long the writer waits for a reader unless [`Live::set_patience`] says otherwise: far longer than any batch takes, and
    /// as long as making a copy of tables with millions of entries.
    pub const PATIENCE: Duration = Duration::from_secs(1);

    /// The state of a pipeline that nobody has written to, published. `entry_ids` says for which tables values carry the number
    /// of their entry ([`super::ValueLayout::entry_id`]).
    pub fn new(pipeline: Arc<Pipeline>, entry_ids: impl Fn(TableId) -> bool) -> Result<Live, LiveError> {
        Live::with_state(State::new(pipeline)?, entry_ids)
    }

    /// As [`Live::new`], with what was written to the state before. That takes half as long as to write it here, and less memory meanwhile.
    pub fn with_state(state: State, entry_ids: impl Fn(TableId) -> bool) -> Result<Live, LiveError> {
        let mut lookups = Lookups::new(&state, &entry_ids)?;
        lookups.make_room(&state);
        let tables = || state.pipeline().tables.keys();
        let mut numbers: Vec<_> = tables().map(|table| entry_ids(table).then(Numbers::default)).collect();
        let entries = tables().flat_map(|table| state.entries(table).map(move |e| (table, e.clone())));
        let entries = entries.map(|(table, entry)| Change::Inserted(table, entry, Counter::default()));
        let mut changes = objects(&state).chain(entries);
        loop {
            let some: Vec<Change> = changes.by_ref().take(LOADED).collect();
            if some.is_empty() {
                break;
            }
            let batch = number(&mut numbers, &mut Vec::new(), some);
            lookups.apply(&state, &batch);
        }
        drop(changes);
        lookups.note_changes();
        Ok(Live {
            state,
            copies: Copies::new(lookups),
            behind: Vec::new(),
            staged: Vec::new(),
            staged_since: None,
            numbers,
            freed: Vec::new(),
            retired: VecDeque::new(),
            patience: Live::PATIENCE,
            quiet_since: 0,
            spare: Vec::new(),
        })
    }

    /// How long the writer waits for a reader to come to the end of its batch. After that it leaves the reader its copy of all
    /// tables and makes itself another: that takes memory and time, but one lost reader doesn't stop the control plane.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// A reader for another thread.
    ///
    /// A thread that both reads and writes [parks](Reader::park) its reader before it writes; else each second write waits for
    /// it in vain.
    pub fn reader(&self) -> Reader {
        self.copies.reader()
    }

    /// What the control plane has said, with what is staged. A clone of it makes the next write to a table copy that table's index.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Applies a batch and publishes it. If it is refused, nothing has changed.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<Written, WriteError> {
        self.group().write(batch)
    }

    /// Applies batches one by one, each as a whole or not at all, and publishes all of them together. Faster than one by one
    /// when there are many readers or many batches: the writer waits for the readers once.
    pub fn write_many<'a>(
        &mut self,
        batches: impl IntoIterator<Item = &'a WriteBatch>,
    ) -> Vec<Result<Written, WriteError>> {
        let mut group = self.group();
        batches.into_iter().map(|batch| group.write(batch)).collect()
    }

    /// Applies a batch, and publishes it if that can be done without waiting for a reader. Otherwise it is published with the next
    /// write, by [`Live::publish`], or when readers have been waited for long enough: [`Written::version`] tells when it is
    /// there. For writers that have more to say and need no answer at once.
    pub fn write_soon(&mut self, batch: &WriteBatch) -> Result<Written, WriteError> {
        let written = self.stage(batch)?;
        if !self.publish_now() && self.staged_since.get_or_insert_with(Instant::now).elapsed() >= self.patience {
            self.publish();
        }
        Ok(written)
    }

    /// Begins writes that are published together when the group is dropped.
    pub fn group(&mut self) -> Group<'_> {
        Group(self)
    }

    /// As [`State::add_from_data_plane`], and publishes it: one change, [`Change::Inserted`].
    pub fn add_from_data_plane(
        &mut self,
        table: TableId,
        key: PackedKey,
        action: Action,
        idle_timeout_ns: u64,
    ) -> Option<Written> {
        self.group().add_from_data_plane(table, key, action, idle_timeout_ns)
    }

    /// As [`State::remove_idle`], and publishes it: one change, [`Change::Deleted`]. `None` if the entry isn't there any more.
    pub fn remove_idle(&mut self, table: TableId, entry: &Entry) -> Option<Written> {
        self.group().remove_idle(table, entry)
    }

    /// Publishes what is staged. Waits until the readers that hold the other copy have come to the end of a batch, at most as
    /// long as [`Live::set_patience`] says.
    pub fn publish(&mut self) {
        if self.staged.is_empty() || self.publish_now() {
            return;
        }
        if !self.copies.wait(self.patience) {
            self.copies.renew_standby();
            // The new copy is equal to the current one.
            self.behind.clear();
        }
        let published = self.publish_now();
        debug_assert!(published, "nobody else can have taken the standby copy");
    }

    /// Publishes what is staged if no reader holds the other copy. Returns whether nothing is staged any more.
    pub fn publish_now(&mut self) -> bool {
        if self.staged.is_empty() {
            return true;
        }
        if !self.catch_up() {
            return false;
        }
        let Some(standby) = self.copies.standby() else { return false };
        standby.forget_changes();
        self.staged.iter().for_each(|batch| standby.apply(&self.state, batch));
        self.copies.publish();
        std::mem::swap(&mut self.behind, &mut self.staged);
        self.staged_since = None;
        if !self.freed.is_empty() {
            self.retired.push_back((self.copies.published(), std::mem::take(&mut self.freed)));
        }
        true
    }

    /// Does to the standby copy what was done to the current one. False if a reader holds it.
    fn catch_up(&mut self) -> bool {
        let Some((standby, current)) = self.copies.both() else { return false };
        self.staged.iter().take(EXPECTED).for_each(|batch| standby.expect(batch));
        if !self.behind.is_empty() {
            standby.follow(current, &self.state, &self.behind);
            self.behind.drain(..).for_each(|batch| keep(&mut self.spare, batch));
        }
        true
    }

    /// Does to the other copy what was done to the current one, if no reader holds it, so that the memory of what is gone is
    /// freed. Publishes nothing. Returns whether there is nothing left to do: no reader holds anything old.
    pub fn settle(&mut self) -> bool {
        // The state is ahead by what is staged. What the standby copy takes from it too early is brought in line with it
        // again before the copy is published.
        self.catch_up();
        self.copies.oldest_seen();
        self.release_numbers();
        self.behind.is_empty() && self.retired.is_empty() && self.copies.all().count() == 2
    }

    /// For a writer that has nothing to write: does what [`Live::settle`] does, and a bounded part of the rearranging that is due, which else later changes
    /// do bit by bit: at most so many pieces of some microseconds. If something was written since the last call, nothing is done yet: the
    /// writer may have more to say. It happens in the copy that no reader sees, which is published when all is done. Readers find the same
    /// as before, but faster: a classifier that was written rule by rule may take several times as long for a packet until then. Returns
    /// whether there is more to do.
    pub fn tidy(&mut self, pieces: usize) -> bool {
        let version = self.state.version();
        let quiet = std::mem::replace(&mut self.quiet_since, version) == version;
        if !quiet || !self.staged.is_empty() {
            return true;
        }
        self.settle();
        if !self.behind.is_empty() {
            return true;
        }
        let Some((standby, current)) = self.copies.both() else { return true };
        if standby.tidy(pieces) {
            return true;
        }
        if current.is_tidy() {
            return false;
        }
        self.copies.publish();
        true
    }

    /// The number of an entry, if entries of its table have numbers.
    pub fn entry_id(&self, table: TableId, entry: &Entry) -> Option<u32> {
        self.numbers.get(table.index())?.as_ref()?.get(entry.sequence())
    }

    /// Bytes of memory that the lookups take: all copies and the entries' numbers, without the state.
    pub fn memory_bytes(&self) -> usize {
        let copies = self.copies.all().map(|copy| copy.memory_bytes()).sum::<usize>();
        copies + self.numbers.iter().flatten().map(Numbers::memory_bytes).sum::<usize>()
    }

    /// Bytes of memory of the lookups of one table: all copies, and the entries' numbers.
    pub fn table_memory(&self, table: TableId) -> usize {
        let numbers = self.numbers.get(table.index()).and_then(Option::as_ref).map_or(0, Numbers::memory_bytes);
        self.copies.all().map(|copy| copy.table_memory(table)).sum::<usize>() + numbers
    }

    /// Applies a batch to the state; [`Live::publish`] shows it.
    fn stage(&mut self, batch: &WriteBatch) -> Result<Written, WriteError> {
        if self.staged.is_empty() {
            // While the state does its part, memory comes for what the standby copy has to catch up with.
            let standby = self.copies.standby_as_it_is();
            self.behind.iter().take(EXPECTED).for_each(|batch| standby.expect(batch));
        }
        let changes = self.state.apply_into(std::mem::take(&mut self.spare), batch)?;
        Ok(self.stage_changes(changes))
    }

    fn stage_changes(&mut self, changes: Vec<Change>) -> Written {
        self.release_numbers();
        let batch = Arc::new(number(&mut self.numbers, &mut self.freed, changes));
        self.staged.push(batch.clone());
        Written { version: self.state.version(), batch }
    }

    /// Makes numbers free that no reader can meet any more.
    fn release_numbers(&mut self) {
        if self.retired.is_empty() {
            return;
        }
        let oldest = self.copies.oldest_seen();
        while let Some((publication, _)) = self.retired.front()
            && *publication <= oldest
            && let Some((_, freed)) = self.retired.pop_front()
        {
            for (table, number) in freed {
                if let Some(Some(numbers)) = self.numbers.get_mut(table.index()) {
                    numbers.release(number);
                }
            }
        }
    }
}

/// All that lookups take from a state by its name, as changes.
fn objects(state: &State) -> impl Iterator<Item = Change> {
    let pipeline = state.pipeline();
    let profiles = || pipeline.externs.keys().filter_map(|id| Some((id, state.profile(id)?)));
    let members =
        profiles().flat_map(|(id, profile)| profile.members.keys().map(move |member| Change::Member(id, *member)));
    let groups = profiles().flat_map(|(id, profile)| profile.groups.keys().map(move |group| Change::Group(id, *group)));
    let sets = pipeline.value_sets.keys().map(Change::ValueSet);
    let defaults = pipeline.tables.keys().map(Change::DefaultAction);
    members.chain(groups).chain(sets).chain(defaults).collect::<Vec<_>>().into_iter()
}

/// Gives numbers to the entries of changes. Those of deleted entries go to `freed`.
fn number(numbers: &mut [Option<Numbers>], freed: &mut Vec<(TableId, u32)>, changes: Vec<Change>) -> NumberedChanges {
    let any = numbers.iter().any(Option::is_some);
    let mut one = |change: &Change| {
        let (Change::Inserted(table, entry, _)
        | Change::Modified(table, _, entry, _)
        | Change::Deleted(table, entry)
        | Change::DirectCounter(table, entry, _)) = change
        else {
            return None;
        };
        let numbers = numbers.get_mut(table.index())?.as_mut()?;
        match change {
            Change::Inserted(..) => Some(numbers.give(entry.sequence())),
            Change::Deleted(..) => {
                let number = numbers.take(entry.sequence())?;
                freed.push((*table, number));
                Some(number)
            }
            _ => numbers.get(entry.sequence()),
        }
    };
    let given = if any { changes.iter().map(&mut one).collect() } else { Vec::new() };
    NumberedChanges { changes, numbers: given }
}

/// Writes that are published together when this is dropped.
pub struct Group<'a>(&'a mut Live);

impl Group<'_> {
    /// Applies a batch, as a whole or not at all.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<Written, WriteError> {
        self.0.stage(batch)
    }

    /// As [`Live::add_from_data_plane`].
    pub fn add_from_data_plane(
        &mut self,
        table: TableId,
        key: PackedKey,
        action: Action,
        idle_timeout_ns: u64,
    ) -> Option<Written> {
        let entry = self.0.state.add_from_data_plane(table, key, action, idle_timeout_ns)?;
        Some(self.0.stage_changes(vec![Change::Inserted(table, entry, Counter::default())]))
    }

    /// As [`Live::remove_idle`].
    pub fn remove_idle(&mut self, table: TableId, entry: &Entry) -> Option<Written> {
        let there = self.0.state.find(table, entry.key(), entry.priority());
        let there = there.filter(|there| there.sequence() == entry.sequence())?.clone();
        self.0.state.remove_idle(table, &there);
        Some(self.0.stage_changes(vec![Change::Deleted(table, there)]))
    }

    /// The state with what the group has written.
    pub fn state(&self) -> &State {
        self.0.state()
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        self.0.publish();
    }
}
