//! [`EntrySlot`]: an entry with the state that packets change.

use crate::idle_clock::IdleClock;
use crate::meter::{Meter, MeterFill};
use crate::sessions::SessionPart;
use entries::{Counter, StoredEntry};

/// Target of a hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HitTarget {
    /// Action at this position in the table's list, with the action data of the entry.
    Arm(u32),
    /// Member of the table's profile.
    Member(u32),
    /// Group of the table's selector.
    Group(u32),
}

/// Dynamic state of an entry, which a take-over transfers to the next engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EntryRuntimeState {
    /// Fill of its direct meter; `None` if the meter is full or not configured.
    pub meter: Option<MeterFill>,
    /// Start of its idle timer, in nanoseconds of the engine's clock.
    pub idle_since_ns: u64,
    /// Its idle timeout in nanoseconds, which packets can set; 0: none.
    pub idle_timeout_ns: u64,
}

/// Entry with its counter, meter and idle timer.
#[derive(Clone, Debug)]
pub struct EntrySlot {
    /// The entry; `None` for a free slot.
    pub entry: Option<StoredEntry>,
    /// Target of a hit.
    pub target: HitTarget,
    /// Direct counter.
    pub counter: Counter,
    /// Direct meter, if configured.
    pub meter: Option<Box<Meter>>,
    /// Start of the idle timer, in nanoseconds.
    pub idle_since_ns: u64,
    /// Idle timeout in nanoseconds; 0: none.
    pub idle_timeout_ns: u64,
    /// PNA: the expire time profile that `idle_timeout_ns` comes from; `None`: the control plane's
    /// own number, or none. A change of the profile's time reaches the entry.
    pub expire_profile: Option<u8>,
    /// Scheduled deadline, in nanoseconds, at which the engine checks the idle timer.
    pub deadline_ns: Option<u64>,
    /// PNA: twin and ports of an entry that a packet added.
    pub session: Option<Box<SessionPart>>,
    /// Generation, which distinguishes the entry from earlier ones in this slot.
    pub generation: u32,
}

impl EntrySlot {
    /// Creates a free slot.
    pub fn free() -> EntrySlot {
        EntrySlot {
            entry: None,
            target: HitTarget::Arm(0),
            counter: Counter::default(),
            meter: None,
            idle_since_ns: 0,
            idle_timeout_ns: 0,
            expire_profile: None,
            deadline_ns: None,
            session: None,
            generation: 0,
        }
    }

    /// Installs an entry. Its idle timer starts at `now`.
    pub fn install(&mut self, entry: &StoredEntry, counter: Counter, (clock, now): (IdleClock, u64)) {
        self.entry = Some(entry.clone());
        (self.counter, self.idle_timeout_ns) = (counter, entry.idle_timeout_ns());
        self.idle_since_ns = clock.start(now, self.idle_timeout_ns);
        self.meter = entry.meter().map(|config| Box::new(Meter::new(*config, now)));
        self.generation = self.generation.wrapping_add(1);
        (self.deadline_ns, self.expire_profile) = (None, None);
    }

    /// Replaces the entry by one with the same key. The counter is kept unless given. The meter is
    /// kept if its configuration is equal.
    pub fn replace(
        &mut self,
        old: &StoredEntry,
        new: &StoredEntry,
        counter: Option<Counter>,
        (clock, now): (IdleClock, u64),
    ) {
        self.entry = Some(new.clone());
        self.counter = counter.unwrap_or(self.counter);
        if old.idle_timeout_ns() != new.idle_timeout_ns() {
            self.set_idle_timeout(new.idle_timeout_ns(), None);
            self.idle_since_ns = clock.start(now, self.idle_timeout_ns);
        }
        if old.meter() != new.meter() {
            self.meter = new.meter().map(|config| Box::new(Meter::new(*config, now)));
        }
    }

    /// Sets the idle timeout in nanoseconds, and the expire time profile that it comes from.
    pub fn set_idle_timeout(&mut self, timeout_ns: u64, profile: Option<u8>) {
        (self.idle_timeout_ns, self.expire_profile) = (timeout_ns, profile);
    }

    /// Restarts the idle timer by a hit at `now`.
    pub fn restart_timer(&mut self, (clock, now): (IdleClock, u64)) {
        self.idle_since_ns = clock.restart(self.idle_since_ns, now, self.idle_timeout_ns);
    }

    /// Removes the entry and frees the slot.
    pub fn remove(&mut self) {
        (self.entry, self.meter, self.idle_timeout_ns, self.expire_profile) = (None, None, 0, None);
        self.generation = self.generation.wrapping_add(1);
    }

    /// Returns the dynamic state of the entry.
    pub fn runtime_state(&self) -> EntryRuntimeState {
        let meter = self.meter.as_ref().and_then(|meter| meter.level());
        EntryRuntimeState { meter, idle_since_ns: self.idle_since_ns, idle_timeout_ns: self.idle_timeout_ns }
    }

    /// Sets the dynamic state of the entry.
    pub fn set_runtime_state(&mut self, level: EntryRuntimeState) {
        if let (Some(meter), Some(level)) = (&mut self.meter, level.meter) {
            meter.set_level(level);
        }
        (self.idle_since_ns, self.idle_timeout_ns) = (level.idle_since_ns, level.idle_timeout_ns);
    }
}
