//! Names of records, and results of operations.

/// Number of a record: of an entry while it lives. 0 is no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct RecordId(pub u32);

impl RecordId {
    /// No record: the key is not in the table.
    pub const NONE: RecordId = RecordId(0);

    /// Returns whether this names a record.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// Result of an addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addition {
    /// The entry has been added.
    Added(RecordId),
    /// The key was there, with this record; nothing has changed but its timer, as by a hit.
    Found(RecordId),
    /// Nothing has been added.
    Refused(Refusal),
}

/// Reason why an entry was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Refusal {
    /// The table has as many entries as its size allows.
    #[error("the table is full")]
    Full,
    /// The owner has as many entries as its limit allows.
    #[error("the owner's limit is reached")]
    OwnerLimit,
    /// The key's bucket has as many overflow buckets as are allowed.
    #[error("the key's bucket is full: too many keys have the same hash")]
    Chain,
    /// The key's bucket was locked by another member for too long.
    #[error("the key's bucket is locked by another worker")]
    Busy,
    /// The function that fills the value refused, for example because a pool is empty.
    #[error("no value for the entry: a pool is empty")]
    Value,
    /// The key is of another length than the table's, or the owner does not exist.
    #[error("key, value or owner do not fit the table")]
    Malformed,
    /// Records of removed entries are not free yet: a member has not begun another batch.
    #[error("removed records are not free yet: a worker neither begins batches nor parks")]
    Grace,
    /// The first key of a pair is there: another member has added it at the same time.
    #[error("another worker has added the key at the same time")]
    KeyTaken,
    /// Another entry has the twin's key of a pair.
    #[error("another entry has the twin's key")]
    TwinTaken,
}

impl Refusal {
    /// Returns the name in statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::Full => "full",
            Refusal::OwnerLimit => "owner_limit",
            Refusal::Chain => "chain",
            Refusal::Busy => "busy",
            Refusal::Value => "no_value",
            Refusal::Malformed => "malformed",
            Refusal::Grace => "grace",
            Refusal::KeyTaken => "key_taken",
            Refusal::TwinTaken => "twin_taken",
        }
    }

    /// All reasons, by rising number.
    pub const ALL: [Refusal; 9] = [
        Refusal::Full,
        Refusal::OwnerLimit,
        Refusal::Chain,
        Refusal::Busy,
        Refusal::Value,
        Refusal::Malformed,
        Refusal::Grace,
        Refusal::KeyTaken,
        Refusal::TwinTaken,
    ];
}

/// A live entry. It is good until its member begins another batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryRef<'m> {
    /// The record.
    pub id: RecordId,
    /// The record's generation: with the number, the entry's name forever.
    pub generation: u32,
    /// The key.
    pub key: &'m [u8],
    /// The value; the first byte is the action.
    pub value: &'m [u8],
    /// The number of the idle time.
    pub profile: u8,
    /// The owner; 0: none.
    pub owner: u32,
    /// The twin's record; [`RecordId::NONE`]: there is none.
    pub twin: RecordId,
    /// The lease; 0: none.
    pub lease: u32,
    /// Ticks since the idle time began; negative while hits need not be written.
    pub idle_ticks: i32,
    /// Ticks until the idle time is over, 0 if it is; `None`: the entry never expires.
    pub left_ticks: Option<u32>,
}

/// Work of one call of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SweepReport {
    /// Records whose turn it was.
    pub examined: u32,
    /// Entries that came into doubt.
    pub doubted: u32,
    /// Entries that were removed because their idle time was over.
    pub removed: u32,
    /// Entries whose idle time was over and that were reported and stay.
    pub notified: u32,
    /// Whether the pass has reached the end of the table.
    pub is_pass_complete: bool,
    /// Whether the pass has reached the end of the table, and no entry is in doubt.
    pub is_complete: bool,
}
