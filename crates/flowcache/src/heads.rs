//! [`Heads`]: where lists begin, by a hash of what they are about: open addressing in one array, so that where one would be can be asked for before it is read.

use tables::fast::{HugeVec, soon};

/// No node.
pub const NONE: u32 = u32::MAX;

/// A list's hash, and one more than its first node; 0: the place is free.
type Head = [u64; 2];

fn head(hash: u64, first: u32) -> Head {
    [hash, u64::from(first) + 1]
}

/// The first node.
fn first(head: Head) -> u32 {
    (head[1] as u32).wrapping_sub(1)
}

fn is_free(head: Head) -> bool {
    head[1] == 0
}

/// See the module. The hashes are a seeded hasher's, so places follow from them.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    /// A power of two of them.
    places: HugeVec<Head>,
    len: usize,
}

impl Heads {
    fn mask(&self) -> usize {
        self.places.len() - 1
    }

    /// How many lists there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.places.bytes()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Heads::default();
    }

    /// The list will be looked for soon.
    #[inline]
    pub fn soon(&self, hash: u64) {
        soon(&self.places, hash as usize & self.places.len().wrapping_sub(1));
    }

    fn find(&self, hash: u64) -> Option<usize> {
        let mut at = hash as usize & self.places.len().checked_sub(1)?;
        while !is_free(self.places[at]) {
            if self.places[at][0] == hash {
                return Some(at);
            }
            at = (at + 1) & self.mask();
        }
        None
    }

    /// The first node of a list.
    #[inline]
    pub fn get(&self, hash: u64) -> u32 {
        self.find(hash).map_or(NONE, |at| first(self.places[at]))
    }

    /// A list begins with that node, or is no more; what was its first.
    pub fn set(&mut self, hash: u64, node: u32) -> u32 {
        match (self.find(hash), node) {
            (None, NONE) => NONE,
            (Some(at), NONE) => self.remove(at),
            (Some(at), node) => first(std::mem::replace(&mut self.places[at], head(hash, node))),
            (None, node) => {
                if (self.len + 1) * 5 > self.places.len() * 3 {
                    self.grow();
                }
                self.settle(head(hash, node));
                self.len += 1;
                NONE
            }
        }
    }

    fn settle(&mut self, head: Head) {
        let mut at = head[0] as usize & self.mask();
        while !is_free(self.places[at]) {
            at = (at + 1) & self.mask();
        }
        self.places[at] = head;
    }

    fn grow(&mut self) {
        let mut places = HugeVec::new();
        places.grow((2 * self.places.len()).max(8));
        let old = std::mem::replace(&mut self.places, places);
        old.iter().filter(|head| !is_free(**head)).for_each(|head| self.settle(*head));
    }

    fn remove(&mut self, mut gap: usize) -> u32 {
        let (mask, node) = (self.mask(), first(self.places[gap]));
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let head = self.places[at];
            if is_free(head) {
                break;
            }
            // Whoever would be found before the gap, or at it, moves there.
            if (at.wrapping_sub(head[0] as usize) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.places[gap] = head;
                gap = at;
            }
        }
        self.places[gap] = [0; 2];
        self.len -= 1;
        node
    }
}

#[cfg(test)]
mod tests {
    use super::{Heads, NONE};
    use std::collections::HashMap;

    /// As std's map, while lists come and go.
    #[test]
    fn lists_are_where_they_were_put() {
        let mut rng = fastrand::Rng::with_seed(4);
        let (mut heads, mut plain) = (Heads::default(), HashMap::new());
        for step in 0..200_000 {
            // Many that collide.
            let hash = rng.u64(..300) | rng.u64(..2) << 40;
            let first = if step / 20_000 % 2 == 0 || rng.bool() { rng.u32(..NONE) } else { NONE };
            let before = match first {
                NONE => plain.remove(&hash),
                first => plain.insert(hash, first),
            };
            assert_eq!(heads.set(hash, first), before.unwrap_or(NONE));
            assert_eq!(heads.len(), plain.len());
            let asked = rng.u64(..300);
            assert_eq!(heads.get(asked), plain.get(&asked).copied().unwrap_or(NONE));
        }
    }
}
