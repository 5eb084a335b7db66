//! Errors of rejected writes. Each message names the object, the error, and a correction.

#![allow(missing_docs)] // the fields are what the messages say

use num_bigint::BigUint;
use thiserror::Error;

/// Error of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum EntryError {
    /// No table of this number.
    #[error("there is no table number {index}; the program has {count} tables")]
    UnknownTable { index: u32, count: usize },
    /// Wrong number of keys.
    #[error("table {table}: {got} keys given, but it has {expected} ({names}); give one match for each")]
    KeyCount { table: String, expected: usize, got: usize, names: String },
    /// Another match kind than the table declares.
    #[error(
        "table {table}, key {key}: a match of kind {got} was given; the key is {expected}, so write it as {example}"
    )]
    WrongMatchKind { table: String, key: String, expected: &'static str, got: &'static str, example: &'static str },
    /// A value that does not fit.
    #[error("table {table}, key {key}: {value:#x} does not fit in {width} bits; the largest value is {largest:#x}")]
    ValueTooWide { table: String, key: String, value: BigUint, width: u32, largest: BigUint },
    /// Bits of a ternary value where the mask is 0.
    #[error("table {table}, key {key}: value {value:#x} has bits where mask {mask:#x} has none; write {corrected:#x}")]
    BitsOutsideMask { table: String, key: String, value: BigUint, mask: BigUint, corrected: BigUint },
    /// A prefix longer than the key.
    #[error("table {table}, key {key}: prefix length {prefix_len} exceeds the key's {width} bits; use at most {width}")]
    PrefixTooLong { table: String, key: String, prefix_len: u32, width: u32 },
    /// Host bits in a prefix.
    #[error(
        "table {table}, key {key}: {value:#x}/{prefix_len} has bits set after the prefix; write {corrected:#x}/{prefix_len}"
    )]
    HostBits { table: String, key: String, value: BigUint, prefix_len: u32, corrected: BigUint },
    /// A range that ends before it starts.
    #[error("table {table}, key {key}: the range {lo:#x}..{hi:#x} is empty; the lower bound comes first")]
    EmptyRange { table: String, key: String, lo: BigUint, hi: BigUint },
    /// A packed key without the value of an exact key.
    #[error("table {table}, key {key}: it is exact and has no value; give one")]
    KeyMissing { table: String, key: String },
    /// A packed key of another length than the table's keys have.
    #[error(
        "table {table}: the packed key has {got} words, the table's keys take {expected}; lay it out for this table"
    )]
    KeyWords { table: String, expected: usize, got: usize },
    /// Packed as absent, but with a value, or neither present nor absent.
    #[error(
        "table {table}, key {key}: packed as {presence} with value {value:#x}; presence is 0 with value 0, or 1 with any value"
    )]
    Presence { table: String, key: String, presence: u64, value: BigUint },
    /// Packed arguments of another length than the action's parameters have.
    #[error(
        "table {table}, action {action}: the packed arguments have {got} words, its parameters take {expected}; lay them out for this action"
    )]
    ArgWords { table: String, action: String, expected: usize, got: usize },
    /// No priority where one is needed.
    #[error(
        "table {table}: priority {got} given; it has ternary, range or optional keys, so give a priority from 1 up, the greatest wins"
    )]
    PriorityMissing { table: String, got: i32 },
    /// A priority where none is allowed.
    #[error(
        "table {table}: priority {got} given; its keys are exact and lpm, so entries have no priority: leave it out"
    )]
    PriorityNotAllowed { table: String, got: i32 },
    /// An action that the table does not have.
    #[error("table {table}: it has no action {action}; its actions are {known}")]
    UnknownAction { table: String, action: String, known: String },
    /// Wrong number of arguments.
    #[error("table {table}, action {action}: {got} arguments given, {expected} needed ({names})")]
    Arity { table: String, action: String, expected: usize, got: usize, names: String },
    /// An argument that does not fit.
    #[error(
        "table {table}, action {action}, parameter {param}: {value:#x} does not fit in {width} bits; the largest value is {largest:#x}"
    )]
    ArgTooWide { table: String, action: String, param: String, value: BigUint, width: u32, largest: BigUint },
    /// `@defaultonly` action in an entry.
    #[error("table {table}: action {action} is @defaultonly; an entry needs another action")]
    DefaultOnly { table: String, action: String },
    /// `@tableonly` action as the default.
    #[error("table {table}: action {action} is @tableonly; the default needs another action")]
    TableOnly { table: String, action: String },
    /// The entry already exists.
    #[error("table {table}: there is already an entry {entry}; modify it, or delete it first")]
    Duplicate { table: String, entry: String },
    /// The entry does not exist.
    #[error("table {table}: there is no entry {entry}; insert it first")]
    NotFound { table: String, entry: String },
    /// `const entries`.
    #[error("table {table}: its entries are const, they can only be changed in the program")]
    ConstTable { table: String },
    /// A `const` entry.
    #[error("table {table}: entry {entry} is const, it can only be changed in the program")]
    ConstEntry { table: String, entry: String },
    /// `const default_action`.
    #[error("table {table}: its default action is const, it can only be changed in the program")]
    ConstDefault { table: String },
    /// The table is full.
    #[error("table {table}: it is full ({size} entries); delete some, or give it a greater size in the program")]
    Full { table: String, size: u64 },
    /// The chip cannot hold more entries of the table.
    #[error("table {table}: the chip can hold {capacity} entries ({parts}); delete some, or plan for more of them")]
    ChipFull { table: String, capacity: u64, parts: String },
    /// The program was transformed for a chip, and the tables that replace the table cannot hold
    /// the entry.
    #[error("table {table}: the chip cannot hold the entry: {reason}")]
    ChipRejected { table: String, reason: String },
    /// An action where a member or group is needed.
    #[error("table {table}: its actions are in {profile}; give a member or group of it instead of an action")]
    NeedsMember { table: String, profile: String },
    /// A member or group where an action is needed.
    #[error("table {table}: it has no action profile; give an action instead of a member or group")]
    NoProfile { table: String },
    /// A group in an action profile.
    #[error("table {table}: {profile} is an action profile and has no groups; give a member")]
    NoGroups { table: String, profile: String },
    /// A member that does not exist.
    #[error("table {table}: {profile} has no member {member}; insert it first")]
    UnknownMember { table: String, profile: String, member: u32 },
    /// A group that does not exist.
    #[error("table {table}: {profile} has no group {group}; insert it first")]
    UnknownGroup { table: String, profile: String, group: u32 },
    /// An idle timeout in a table that has none.
    #[error("table {table}: entries have no idle timeout; leave it out, or declare support for it in the program")]
    NoIdleTimeout { table: String },
    /// Counter data without a counter.
    #[error("table {table}: it has no direct counter; leave the counter data out")]
    NoDirectCounter { table: String },
    /// A meter configuration without a meter.
    #[error("table {table}: it has no direct meter; leave the meter configuration out")]
    NoDirectMeter { table: String },
    /// An invalid meter configuration.
    #[error("table {table}: {source}")]
    Meter { table: String, source: MeterError },
}

/// Error of a meter's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum MeterError {
    /// RFC 2698: the peak rate is at least the committed rate.
    #[error("the peak rate {pir} is below the committed rate {cir}; raise it to at least that")]
    PeakBelowCommitted { cir: u64, pir: u64 },
    /// RFC 2698: bursts are greater than 0.
    #[error("the {which} burst is 0, so nothing would pass; give at least the size of the largest packet")]
    ZeroBurst { which: &'static str },
}

/// Error of one write.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum UpdateError {
    /// Error of an entry, default action, or an entry's counter or meter.
    #[error(transparent)]
    Entry(Box<EntryError>),
    /// No extern object of this number.
    #[error("there is no extern object number {index}; the program has {count}")]
    UnknownExtern { index: u32, count: usize },
    /// An extern object of another type.
    #[error("{name} is a {got}, not a {expected}")]
    WrongExtern { name: String, expected: &'static str, got: &'static str },
    /// An index beyond the end.
    #[error("{name}: index {index} is out of range; the last one is {last}", last = size.saturating_sub(1))]
    Index { name: String, index: u64, size: u64 },
    /// Wrong number of leaves for a register.
    #[error("{name}: {got} values given, its elements have {expected} fields")]
    RegisterArity { name: String, expected: usize, got: usize },
    /// A register value that does not fit.
    #[error("{name}: {value:#x} does not fit in {width} bits")]
    RegisterTooWide { name: String, value: BigUint, width: u32 },
    /// Error of an indexed meter.
    #[error("{name}, index {index}: {source}")]
    Meter { name: String, index: u64, source: MeterError },
    /// The object already exists.
    #[error("{what} {id} of {name} is already there; modify it, or delete it first")]
    Exists { what: &'static str, name: String, id: u32 },
    /// The object does not exist.
    #[error("{name} has no {what} {id}; insert it first")]
    Missing { what: &'static str, name: String, id: u32 },
    /// The object is in use.
    #[error("{what} {id} of {name} is still used by {users} entries or groups; change those first")]
    InUse { what: &'static str, name: String, id: u32, users: u64 },
    /// Too many members.
    #[error("{name} is full ({size} members); delete some, or give it a greater size in the program")]
    ProfileFull { name: String, size: u64 },
    /// A weight of 0, or too many members in one group.
    #[error(
        "{name}, group {group}, member {member}: weight {weight} is not possible; give 1 to {most}, in all at most {most}"
    )]
    Weight { name: String, group: u32, member: u32, weight: u32, most: u32 },
    /// A member is listed twice.
    #[error("{name}, group {group}: member {member} is named twice; name it once and give it a weight")]
    MemberTwice { name: String, group: u32, member: u32 },
    /// No value set of this number.
    #[error("there is no value set number {index}; the program has {count}")]
    UnknownValueSet { index: u32, count: usize },
    /// Too many members.
    #[error("value set {name}: {got} members given, it can hold {size}")]
    ValueSetFull { name: String, got: usize, size: u64 },
    /// Group or session number 0.
    #[error("{what} 0 is not possible, because 0 means none; number them from 1")]
    ZeroId { what: &'static str },
    /// The string has another value, or the value has another string.
    #[error(
        "`{string}` cannot be assigned to {value} of {space}: `{other}` is, or the string has another value; write again"
    )]
    SdnStringConflict { space: String, string: String, value: BigUint, other: String },
    /// Too many copies.
    #[error("{what} {id}: {got} copies are more than possible ({most})")]
    TooManyReplicas { what: &'static str, id: u32, got: usize, most: usize },
}

impl From<EntryError> for UpdateError {
    fn from(error: EntryError) -> UpdateError {
        UpdateError::Entry(Box::new(error))
    }
}

/// Error of a write batch; nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("update {index}: {error}")]
pub struct WriteError {
    /// Position of the rejected update in the batch, from 0.
    pub index: usize,
    /// Error of the update.
    #[source]
    pub error: UpdateError,
}
