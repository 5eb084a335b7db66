//! The properties of a table that are fixed when it is created.

/// Number of idle-time profiles of a table: the profile is 8 bits of an entry's life word.
pub const PROFILES: usize = 256;
/// Longest idle time in ticks: half of the range of a life word's `due`, less the longest slack.
pub const MAX_IDLE_TICKS: u32 = (1 << 20) - (1 << 16);

/// Properties of a table: sizes in bytes, limits in entries, times in ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Length of a key in bytes, at least 1.
    pub key_bytes: usize,
    /// Length of a value in bytes, at least 1. The first byte is the action.
    pub value_bytes: usize,
    /// Maximum number of entries.
    pub size: u32,
    /// Number of owners (tenants) with a limit of their own: 0, or up to 2^32 - 1. Entries of
    /// owner 0 belong to no owner and are limited by `size` alone.
    pub owners: u32,
    /// Whether each hit restarts the entry's idle time; else only [`Member::restart_timer`]
    /// and [`Member::set_profile`] do.
    ///
    /// [`Member::restart_timer`]: crate::Member::restart_timer
    /// [`Member::set_profile`]: crate::Member::set_profile
    pub hits_restart: bool,
    /// Whether an entry whose idle time is over is reported and stays; else it is removed.
    pub notify: bool,
    /// Length of a tick in nanoseconds.
    pub tick_ns: u64,
    /// Idle time of each profile in ticks, at most [`PROFILES`]; 0: entries never expire.
    pub idle_ticks: Vec<u32>,
    /// Whether each entry has a 32-bit word of state that packets change ([`Member::state`]).
    ///
    /// [`Member::state`]: crate::Member::state
    pub has_state: bool,
    /// Whether entries can be added in pairs ([`Member::add_pair`]).
    ///
    /// [`Member::add_pair`]: crate::Member::add_pair
    pub has_pairs: bool,
    /// Whether an entry can hold a lease: a 32-bit number of something that is released when the
    /// entry ends ([`Member::take_released`]).
    ///
    /// [`Member::take_released`]: crate::Member::take_released
    pub has_leases: bool,
    /// Whether each entry counts packets and bytes.
    pub has_counters: bool,
    /// Whether records are packed closely; else each begins with a cache line, which makes lookups
    /// faster. `None` packs tables of 16 million entries and more.
    pub is_dense: Option<bool>,
    /// Maximum number of members (workers, sweeper, controller) at one time.
    pub members: usize,
}

/// A [`Shape`] that no table can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A key or value of 0 bytes, or too long for a record.
    #[error("{what} of {bytes} bytes: a table needs between 1 and {max}")]
    Width {
        /// "key" or "value".
        what: &'static str,
        /// The length.
        bytes: usize,
        /// The longest possible length.
        max: usize,
    },
    /// A size of 0, or more entries than record numbers.
    #[error("size of {0} entries: a table needs between 1 and {max}", max = Shape::MAX_SIZE)]
    Size(u32),
    /// More profiles than a life word can name.
    #[error("{0} idle-time profiles: a table has at most {PROFILES}")]
    Profiles(usize),
    /// An idle time beyond the range of a life word.
    #[error("idle time of {ticks} ticks: at most {MAX_IDLE_TICKS} are possible; use a longer tick")]
    Idle {
        /// The idle time in ticks.
        ticks: u32,
    },
    /// A table without members, or with more than 1,024.
    #[error("{0} members: a table has between 1 and 1024")]
    Members(usize),
    /// The kernel refused to reserve address space.
    #[error(
        "cannot reserve {bytes} bytes of address space: raise the limit of virtual memory or lower the table's size"
    )]
    AddressSpace {
        /// The number of bytes asked for.
        bytes: usize,
    },
}

impl Shape {
    /// Largest possible `size`.
    pub const MAX_SIZE: u32 = 1 << 30;
    /// Longest possible key in bytes.
    pub const MAX_KEY_BYTES: usize = 256;
    /// Longest possible value in bytes.
    pub const MAX_VALUE_BYTES: usize = 1024;

    /// Returns a shape without owners, state, pairs, leases and counters: one profile that never expires, hits
    /// that restart timers, ticks of 1/8 s, 64 members.
    pub fn new(key_bytes: usize, value_bytes: usize, size: u32) -> Self {
        Shape {
            key_bytes,
            value_bytes,
            size,
            owners: 0,
            hits_restart: true,
            notify: false,
            tick_ns: 125_000_000,
            idle_ticks: vec![0],
            has_state: false,
            has_pairs: false,
            has_leases: false,
            has_counters: false,
            is_dense: None,
            members: 64,
        }
    }

    /// Returns an error if no table can have this shape.
    pub fn check(&self) -> Result<(), ShapeError> {
        let widths = [("key", self.key_bytes, Self::MAX_KEY_BYTES), ("value", self.value_bytes, Self::MAX_VALUE_BYTES)];
        if let Some((what, bytes, max)) = widths.into_iter().find(|(_, bytes, max)| *bytes == 0 || bytes > max) {
            return Err(ShapeError::Width { what, bytes, max });
        }
        if self.size == 0 || self.size > Self::MAX_SIZE {
            return Err(ShapeError::Size(self.size));
        }
        if self.idle_ticks.is_empty() || self.idle_ticks.len() > PROFILES {
            return Err(ShapeError::Profiles(self.idle_ticks.len()));
        }
        if let Some(ticks) = self.idle_ticks.iter().copied().find(|ticks| *ticks > MAX_IDLE_TICKS) {
            return Err(ShapeError::Idle { ticks });
        }
        if self.members == 0 || self.members > 1024 {
            return Err(ShapeError::Members(self.members));
        }
        Ok(())
    }
}
