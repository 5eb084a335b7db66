//! Blocks that got an owner or lost it, until a log takes them.

use std::collections::VecDeque;

/// Maximum number of changes that wait for a reader: 1.5 MiB.
const MAX_WAITING: usize = 1 << 16;

/// A block that was given to a subscriber, or given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockChange {
    /// Time of the packet, or of the end of the last session, in nanoseconds.
    pub at_ns: u64,
    /// Number of the block among those of all addresses.
    pub block: u32,
    /// The subscriber.
    pub subscriber: u32,
    /// Whether the subscriber got the block; otherwise it gave it back.
    pub is_given: bool,
}

/// Changes that were lost, because too many waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostChanges {
    /// Their number.
    pub count: u64,
    /// Time of the first one in nanoseconds.
    pub first_ns: u64,
    /// Time of the last one in nanoseconds.
    pub last_ns: u64,
}

/// Changes in their order. Packets that find it full lose a change and go on.
#[derive(Default)]
pub(super) struct ChangeList {
    waiting: VecDeque<BlockChange>,
    lost: LostChanges,
}

impl ChangeList {
    pub fn push(&mut self, change: BlockChange) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back(change);
            return;
        }
        let first_ns = if self.lost.count == 0 { change.at_ns } else { self.lost.first_ns };
        self.lost = LostChanges { count: self.lost.count + 1, first_ns, last_ns: change.at_ns };
    }

    /// Takes the oldest changes, at most `limit`, and what was lost behind the last one that waits.
    pub fn take(&mut self, limit: usize) -> (Vec<BlockChange>, LostChanges) {
        let count = limit.min(self.waiting.len());
        let taken = self.waiting.drain(..count).collect();
        let lost = if self.waiting.is_empty() { std::mem::take(&mut self.lost) } else { LostChanges::default() };
        (taken, lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_list_counts_what_it_loses_and_tells_it_behind_what_it_has() {
        let mut list = ChangeList::default();
        let change = |at_ns: u64| BlockChange { at_ns, block: 7, subscriber: 9, is_given: true };
        let all = MAX_WAITING as u64 + 5;
        (0..all).for_each(|at_ns| list.push(change(at_ns)));
        let (first, lost) = list.take(2);
        assert_eq!((first, lost), (vec![change(0), change(1)], LostChanges::default()));
        let (rest, lost) = list.take(usize::MAX);
        assert_eq!((rest.len(), rest.last()), (MAX_WAITING - 2, Some(&change(MAX_WAITING as u64 - 1))));
        assert_eq!(lost, LostChanges { count: 5, first_ns: MAX_WAITING as u64, last_ns: all - 1 });
        assert_eq!(list.take(1), (Vec::new(), LostChanges::default()));
    }
}
