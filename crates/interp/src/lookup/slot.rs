//! [`EntrySlot`]: an entry with what changes as packets hit it.

use crate::meter::{Meter, MeterLevel};
use entries::{Counter, Entry};

/// What is done on a hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The action at this position in the table's list, with the arguments of the entry.
    Arm(u32),
    /// A member of the table's profile.
    Member(u32),
    /// A group of the table's selector.
    Group(u32),
}

/// What an entry has besides what was written to it, for an engine that goes on where another one
/// stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryLevel {
    /// Of its direct meter, if that is configured and was asked.
    pub meter: Option<MeterLevel>,
    /// When its idle time began, in nanoseconds on the clock that the engine is given.
    pub active: u64,
    /// Its idle time in nanoseconds, which packets may have set; 0: none.
    pub timeout: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct EntrySlot {
    /// The entry; `None` for a slot that is free.
    pub entry: Option<Entry>,
    /// What it does.
    pub target: Target,
    /// Its direct counter.
    pub counter: Counter,
    /// Its direct meter, if configured.
    pub meter: Option<Box<Meter>>,
    /// When its idle time began, in nanoseconds.
    pub active: u64,
    /// Its idle time in nanoseconds; 0 is none.
    pub timeout: u64,
    /// When the engine will look at the idle time next.
    pub queued: Option<u64>,
    /// Tells it from entries that had the slot before.
    pub generation: u32,
}

impl EntrySlot {
    /// A slot that is free.
    pub fn free() -> EntrySlot {
        EntrySlot {
            entry: None,
            target: Target::Arm(0),
            counter: Counter::default(),
            meter: None,
            active: 0,
            timeout: 0,
            queued: None,
            generation: 0,
        }
    }

    /// An entry moves in. `now` begins its idle time.
    pub fn begin(&mut self, entry: &Entry, counter: Counter, now: u64) {
        self.entry = Some(entry.clone());
        (self.counter, self.active, self.timeout) = (counter, now, entry.idle_timeout_ns());
        self.meter = entry.meter().map(|config| Box::new(Meter::new(*config, now)));
        self.generation = self.generation.wrapping_add(1);
        self.queued = None;
    }

    /// The entry is replaced by one with the same key. Its counter goes on unless it is given; its
    /// meter does if the configuration is the same.
    pub fn replace(&mut self, old: &Entry, new: &Entry, counter: Option<Counter>, now: u64) {
        self.entry = Some(new.clone());
        self.counter = counter.unwrap_or(self.counter);
        if old.idle_timeout_ns() != new.idle_timeout_ns() {
            (self.timeout, self.active) = (new.idle_timeout_ns(), now);
        }
        if old.meter() != new.meter() {
            self.meter = new.meter().map(|config| Box::new(Meter::new(*config, now)));
        }
    }

    /// The entry moves out.
    pub fn end(&mut self) {
        (self.entry, self.meter, self.timeout) = (None, None, 0);
        self.generation = self.generation.wrapping_add(1);
    }

    /// What it has besides what was written to it.
    pub fn level(&self) -> EntryLevel {
        let meter = self.meter.as_ref().and_then(|meter| meter.level());
        EntryLevel { meter, active: self.active, timeout: self.timeout }
    }

    /// Sets that.
    pub fn set_level(&mut self, level: EntryLevel) {
        if let (Some(meter), Some(level)) = (&mut self.meter, level.meter) {
            meter.set_level(level);
        }
        (self.active, self.timeout) = (level.active, level.timeout);
    }
}
