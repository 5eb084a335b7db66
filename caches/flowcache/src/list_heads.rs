//! [`ListHeads`]: hash table from the hash of a list's subject to the list's first node.
//!
//! It uses open addressing in one array, so that a head can be prefetched. Growth is incremental,
//! so that no packet waits for it: a full array is replaced by one twice as long, and each change
//! migrates a few heads.

use lookup::{HugeVec, prefetch_element};

/// No node.
pub const NO_NODE: u32 = u32::MAX;

/// Hash of a list, and its first node plus one; 0: free slot.
type ListHead = [u64; 2];

fn list_head(hash: u64, first: u32) -> ListHead {
    [hash, u64::from(first) + 1]
}

/// Returns the first node of a head.
fn first_node(head: ListHead) -> u32 {
    (head[1] as u32).wrapping_sub(1)
}

fn is_free(head: ListHead) -> bool {
    head[1] == 0
}

/// Marks a slot of the old array after its head was migrated or removed. Distinct from all heads,
/// because node numbers have 32 bits.
const MOVED: ListHead = [0, u64::MAX];

/// Old slots migrated by each change. Enough that migration ends before the number of lists
/// doubles.
const SLOTS_MOVED_PER_CHANGE: usize = 8;

/// Returns the slot of a list's head in an array.
#[inline]
fn find_slot(slots: &[ListHead], hash: u64) -> Option<usize> {
    let mask = slots.len().checked_sub(1)?;
    let mut at = hash as usize & mask;
    while !is_free(slots[at]) {
        if slots[at][0] == hash && (hash != MOVED[0] || slots[at] != MOVED) {
            return Some(at);
        }
        at = (at + 1) & mask;
    }
    None
}

/// Hash table of list heads. The hashes come from a seeded hasher and select the slots directly.
#[derive(Clone, Debug, Default)]
pub struct ListHeads {
    /// Current array; its length is a power of two.
    slots: HugeVec<ListHead>,
    /// Previous array, of half the length. Migrated and removed heads are [`MOVED`]. Empty after
    /// the migration.
    old_slots: HugeVec<ListHead>,
    /// First slot of `old_slots` that was not migrated.
    next_old_slot: usize,
    len: usize,
}

impl ListHeads {
    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    /// Returns the number of lists.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no list exists.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        self.slots.memory_bytes() + self.old_slots.memory_bytes()
    }

    /// Removes all lists.
    pub fn clear(&mut self) {
        *self = ListHeads::default();
    }

    /// Prefetches the head of a list.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch_element(&self.slots, hash as usize & self.slots.len().wrapping_sub(1));
        if !self.old_slots.is_empty() {
            prefetch_element(&self.old_slots, hash as usize & (self.old_slots.len() - 1));
        }
    }

    /// Returns the first node of a list; [`NO_NODE`] if it does not exist.
    #[inline]
    pub fn get(&self, hash: u64) -> u32 {
        match find_slot(&self.slots, hash) {
            Some(at) => first_node(self.slots[at]),
            None => find_slot(&self.old_slots, hash).map_or(NO_NODE, |at| first_node(self.old_slots[at])),
        }
    }

    /// Sets the first node of a list, or removes the list ([`NO_NODE`]). Returns the previous first
    /// node.
    pub fn set(&mut self, hash: u64, node: u32) -> u32 {
        if !self.old_slots.is_empty() {
            self.migrate_slots();
            if let Some(at) = find_slot(&self.old_slots, hash) {
                let head = std::mem::replace(&mut self.old_slots[at], MOVED);
                self.insert_head(head);
            }
        }
        match (find_slot(&self.slots, hash), node) {
            (None, NO_NODE) => NO_NODE,
            (Some(at), NO_NODE) => self.remove(at),
            (Some(at), node) => first_node(std::mem::replace(&mut self.slots[at], list_head(hash, node))),
            (None, node) => {
                if (self.len + 1) * 5 > self.slots.len() * 3 {
                    self.grow();
                }
                self.insert_head(list_head(hash, node));
                self.len += 1;
                NO_NODE
            }
        }
    }

    /// Stores a head in the first free slot from the one that its hash selects.
    fn insert_head(&mut self, head: ListHead) {
        let mut at = head[0] as usize & self.mask();
        while !is_free(self.slots[at]) {
            at = (at + 1) & self.mask();
        }
        self.slots[at] = head;
    }

    /// Starts a migration to an array of double length. Finishes an earlier one first.
    fn grow(&mut self) {
        while !self.old_slots.is_empty() {
            self.migrate_slots();
        }
        let mut slots = HugeVec::new();
        slots.grow((2 * self.slots.len()).max(8));
        (self.old_slots, self.next_old_slot) = (std::mem::replace(&mut self.slots, slots), 0);
    }

    /// Migrates [`SLOTS_MOVED_PER_CHANGE`] slots of the old array.
    fn migrate_slots(&mut self) {
        let end = (self.next_old_slot + SLOTS_MOVED_PER_CHANGE).min(self.old_slots.len());
        let later = (end + SLOTS_MOVED_PER_CHANGE).min(self.old_slots.len());
        for head in self.old_slots[end..later].iter().filter(|head| !is_free(**head)) {
            prefetch_element(&self.slots, head[0] as usize & self.mask());
        }
        for at in self.next_old_slot..end {
            let head = self.old_slots[at];
            if !is_free(head) && head != MOVED {
                self.old_slots[at] = MOVED;
                self.insert_head(head);
            }
        }
        self.next_old_slot = end;
        if end == self.old_slots.len() {
            self.old_slots = HugeVec::new();
        }
    }

    /// Removes the head in slot `gap`. Moves later heads back into the gap, so that lookups still
    /// find them. Returns the first node of the removed list.
    fn remove(&mut self, mut gap: usize) -> u32 {
        let (mask, node) = (self.mask(), first_node(self.slots[gap]));
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let head = self.slots[at];
            if is_free(head) {
                break;
            }
            // Moves a head into the gap if its probe sequence passes the gap.
            if (at.wrapping_sub(head[0] as usize) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.slots[gap] = head;
                gap = at;
            }
        }
        self.slots[gap] = [0; 2];
        self.len -= 1;
        node
    }
}

#[cfg(test)]
mod tests {
    use super::{ListHeads, NO_NODE};
    use std::collections::HashMap;

    /// Compares with std's map under insertions and removals.
    #[test]
    fn lists_are_where_they_were_put() {
        let mut rng = fastrand::Rng::with_seed(4);
        let (mut heads, mut plain) = (ListHeads::default(), HashMap::new());
        for step in 0..200_000 {
            // Colliding hashes.
            let hash = rng.u64(..300) | rng.u64(..2) << 40;
            let first = if step / 20_000 % 2 == 0 || rng.bool() { rng.u32(..NO_NODE) } else { NO_NODE };
            let old_slots = match first {
                NO_NODE => plain.remove(&hash),
                first => plain.insert(hash, first),
            };
            assert_eq!(heads.set(hash, first), old_slots.unwrap_or(NO_NODE));
            assert_eq!(heads.len(), plain.len());
            let asked = rng.u64(..300);
            assert_eq!(heads.get(asked), plain.get(&asked).copied().unwrap_or(NO_NODE));
        }
    }

    /// Checks lookups during growth from an empty table.
    #[test]
    fn lists_are_found_while_they_move() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut moving = 0;
        for most in [5, 100, 3_000, 50_000] {
            let (mut heads, mut plain) = (ListHeads::default(), HashMap::new());
            for number in 0..most {
                let hash = rng.u64(..most) << 3;
                match number % 4 {
                    3 => assert_eq!(heads.set(hash, NO_NODE), plain.remove(&hash).unwrap_or(NO_NODE)),
                    _ => {
                        assert_eq!(heads.set(hash, number as u32), plain.insert(hash, number as u32).unwrap_or(NO_NODE))
                    }
                }
                let asked = rng.u64(..most) << 3;
                assert_eq!(
                    (heads.get(asked), heads.len()),
                    (plain.get(&asked).copied().unwrap_or(NO_NODE), plain.len())
                );
                moving += u32::from(!heads.old_slots.is_empty());
            }
            assert!(plain.iter().all(|(hash, first)| heads.get(*hash) == *first));
        }
        assert!(moving > 5_000, "{moving} looked while they moved");
    }
}
