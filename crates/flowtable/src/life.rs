//! The life word of a record: until when hits need not write, profile, doubt and state.
//!
//! ```text
//! bits 31..11  due: the first tick at which a hit has to be written, modulo 2^21
//! bits 10..3   profile: the number of the entry's idle time
//! bit  2       in doubt: the idle time is over, and the entry ends unless a hit comes first
//! bits 1..0    state: free, live, dead
//! ```
//!
//! A hit at tick `now < due` writes nothing. Any other hit sets `due = now + slack`. So an entry
//! that is hit all the time is written once per slack, and an entry may end from
//! `due + idle` on: between `idle` and `idle + slack` after its last hit, never earlier.

use crate::word::Word;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The record belongs to no entry.
pub const FREE: u32 = 0;
/// The record is an entry.
pub const LIVE: u32 = 1;
/// The entry has been removed; the record is not free yet.
pub const DEAD: u32 = 2;
/// Mask of the state.
pub const STATE: u32 = 3;
/// The entry ends unless a hit comes first.
pub const DOUBT: u32 = 4;

/// Longest slack in nanoseconds: hits of an entry are written at least once a minute.
const MAX_SLACK_NS: u64 = 60_000_000_000;
/// Slack in ticks of entries that never expire: `due` has to move before its range wraps.
const NEVER_SLACK_TICKS: u32 = 1 << 19;

/// Returns the word of a live entry.
pub const fn live(due: u32, profile: u8) -> u32 {
    due << 11 | (profile as u32) << 3 | LIVE
}

/// Returns the profile.
pub const fn profile(word: u32) -> u8 {
    (word >> 3) as u8
}

/// Returns the tick from which on hits have to be written, modulo 2^21.
pub const fn due(word: u32) -> u32 {
    word >> 11
}

/// Returns whether the word is of a live entry, in doubt or not.
pub const fn is_live(word: u32) -> bool {
    word & STATE == LIVE
}

/// Returns the word with the state dead, without doubt.
pub const fn dead(word: u32) -> u32 {
    (word & !(STATE | DOUBT)) | DEAD
}

/// Returns the ticks since the word was due; negative before.
pub const fn ticks_since_due(word: u32, now: u32) -> i32 {
    ((now << 11).wrapping_sub(word & !0x7ff) as i32) >> 11
}

/// Returns for how many ticks a hit need not be written, with an idle time of `idle_ticks`
/// (0: never expires): a 32nd of the idle time, at least a tick and at most a minute.
pub const fn slack_ticks(idle_ticks: u32, tick_ns: u64) -> u32 {
    if idle_ticks == 0 {
        return NEVER_SLACK_TICKS;
    }
    let minute = MAX_SLACK_NS / if tick_ns == 0 { 1 } else { tick_ns };
    let max = if minute < 1 << 16 { minute as u32 } else { 1 << 16 };
    let slack = idle_ticks / 32;
    let slack = if slack < max { slack } else { max };
    if slack == 0 { 1 } else { slack }
}

/// Counts a hit of a live entry for its idle time, if it is due at `now`. `renewed` is the word of
/// an entry that is hit now; without it, hits do not restart timers and only end doubt. Returns
/// false if the entry has been removed.
#[inline]
pub(crate) fn touch<W: Word<u32>>(life: &W, now: u32, renewed: impl Fn(u8) -> Option<u32>) -> bool {
    let mut word = life.load(Relaxed);
    loop {
        if !is_live(word) {
            return false;
        }
        if ticks_since_due(word, now) < 0 {
            return true;
        }
        let next = renewed(profile(word)).unwrap_or(word & !DOUBT);
        if next == word {
            return true;
        }
        match life.replace(word, next) {
            Ok(_) => return true,
            Err(now) => word = now,
        }
    }
}

/// Ends the doubt of an entry.
pub(crate) fn end_doubt<W: Word<u32>>(life: &W) {
    change(life, |word| (word & DOUBT != 0).then_some(word & !DOUBT));
}

/// Replaces a life word by what `next` makes of it, unless that is `None`. Returns the word
/// before, if it was replaced.
pub(crate) fn change<W: Word<u32>>(life: &W, next: impl Fn(u32) -> Option<u32>) -> Option<u32> {
    let mut word = life.load(Acquire);
    loop {
        let next = next(word)?;
        match life.replace(word, next) {
            Ok(_) => return Some(word),
            Err(now) => word = now,
        }
    }
}
