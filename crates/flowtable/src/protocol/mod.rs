//! The protocol of an index that workers share: which words are read and written in which order.
//!
//! It is generic over the memory, so that model checkers run this code, not a copy of it. The
//! memory of tables is `index.rs`.
//!
//! - A hit reads a slot and the record that it names. It checks no version, because a slot holds
//!   a record exactly while the record's key is in the table, and no record is written before
//!   all members have forgotten it.
//! - A change of a bucket, or of the overflow buckets behind it, needs the lock of the bucket.
//! - A miss is believed if the bucket's head was unlocked and the same before and after.
//! - Bucket `i` of depth `d` has the keys whose hash ends in the `d` low bits of `i`. The index
//!   grows because one bucket after the other is divided.
//!
//! | content | file |
//! |---|---|
//! | buckets and their memory; the steps that tests leave out | `memory.rs` |
//! | finding a key, locking its bucket | `search.rs` |
//! | adding to and clearing slots, overflow buckets | `change.rs` |
//! | dividing a bucket | `divide.rs` |
//! | grace periods | `grace.rs` |
//! | the two entries of a pair | `pair.rs` |

pub(crate) mod change;
pub(crate) mod divide;
pub(crate) mod grace;
pub(crate) mod memory;
pub(crate) mod pair;
pub(crate) mod search;
#[cfg(test)]
mod tests;
