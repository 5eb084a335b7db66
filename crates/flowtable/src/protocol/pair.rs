//! The words that join the two entries of a pair.
//!
//! An addition makes the twin visible first, then the entry that names it, then the twin's name for
//! the entry. A removal kills an entry first and reads its name for its twin afterwards. Both have
//! a full fence between the two steps. So either the removal reads the name, or the addition sees
//! that the twin is dead, and ends its own entry: no half of a pair stays.

use crate::life;
use crate::word::Word;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

/// Lets a twin name `record`, which names the twin already. `twin` is the twin's word for the name,
/// `twin_life` its life word. Returns false if the twin may have been removed without `record`.
pub(crate) fn name_entry<W: Word<u32>>(twin: &W, record: u32, twin_life: &W) -> bool {
    twin.store(record, Release);
    W::fence(SeqCst);
    W::gap();
    life::is_live(twin_life.load(Acquire))
}

/// Returns the record that an entry names which the caller has just killed.
pub(crate) fn name_of_killed<W: Word<u32>>(twin: &W) -> u32 {
    W::gap();
    W::fence(SeqCst);
    twin.load(Acquire)
}
