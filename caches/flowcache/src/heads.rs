//! [`Heads`]: where lists begin, by a hash of what they are about: open addressing in one array, so that where one would be can be asked for before it is read. When it is
//! full there is one twice as long, to which a few go with each change, so that no packet waits for all of them.

use lookup::{HugeVec, soon};

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

/// In an array that goes: whoever was there has another place, or none. No list has it, as nodes have 32 bits.
const MOVED: Head = [0, u64::MAX];

/// Places that are looked through with each change, so that all are before there are twice as many lists.
const AT_ONCE: usize = 8;

/// Where in an array that list's head is.
#[inline]
fn find(places: &[Head], hash: u64) -> Option<usize> {
    let mask = places.len().checked_sub(1)?;
    let mut at = hash as usize & mask;
    while !is_free(places[at]) {
        if places[at][0] == hash && (hash != MOVED[0] || places[at] != MOVED) {
            return Some(at);
        }
        at = (at + 1) & mask;
    }
    None
}

/// See the module. The hashes are a seeded hasher's, so places follow from them.
#[derive(Clone, Debug, Default)]
pub struct Heads {
    /// A power of two of them.
    places: HugeVec<Head>,
    /// Half as many from before, those of which that were moved, or are gone, are [`MOVED`]. None, once all were looked through.
    before: HugeVec<Head>,
    /// The first of these that was not.
    next: usize,
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
        self.places.bytes() + self.before.bytes()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Heads::default();
    }

    /// The list will be looked for soon.
    #[inline]
    pub fn soon(&self, hash: u64) {
        soon(&self.places, hash as usize & self.places.len().wrapping_sub(1));
        if !self.before.is_empty() {
            soon(&self.before, hash as usize & (self.before.len() - 1));
        }
    }

    /// The first node of a list.
    #[inline]
    pub fn get(&self, hash: u64) -> u32 {
        match find(&self.places, hash) {
            Some(at) => first(self.places[at]),
            None => find(&self.before, hash).map_or(NONE, |at| first(self.before[at])),
        }
    }

    /// A list begins with that node, or is no more; what was its first.
    pub fn set(&mut self, hash: u64, node: u32) -> u32 {
        if !self.before.is_empty() {
            self.move_some();
            if let Some(at) = find(&self.before, hash) {
                let head = std::mem::replace(&mut self.before[at], MOVED);
                self.settle(head);
            }
        }
        match (find(&self.places, hash), node) {
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
        while !self.before.is_empty() {
            self.move_some();
        }
        let mut places = HugeVec::new();
        places.grow((2 * self.places.len()).max(8));
        (self.before, self.next) = (std::mem::replace(&mut self.places, places), 0);
    }

    /// A few go to the longer array.
    fn move_some(&mut self) {
        let end = (self.next + AT_ONCE).min(self.before.len());
        let later = (end + AT_ONCE).min(self.before.len());
        for head in self.before[end..later].iter().filter(|head| !is_free(**head)) {
            soon(&self.places, head[0] as usize & self.mask());
        }
        for at in self.next..end {
            let head = self.before[at];
            if !is_free(head) && head != MOVED {
                self.before[at] = MOVED;
                self.settle(head);
            }
        }
        self.next = end;
        if end == self.before.len() {
            self.before = HugeVec::new();
        }
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

    /// It grows from nothing again and again, and whoever is asked for on the way is found.
    #[test]
    fn lists_are_found_while_they_move() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut moving = 0;
        for most in [5, 100, 3_000, 50_000] {
            let (mut heads, mut plain) = (Heads::default(), HashMap::new());
            for number in 0..most {
                let hash = rng.u64(..most) << 3;
                match number % 4 {
                    3 => assert_eq!(heads.set(hash, NONE), plain.remove(&hash).unwrap_or(NONE)),
                    _ => assert_eq!(heads.set(hash, number as u32), plain.insert(hash, number as u32).unwrap_or(NONE)),
                }
                let asked = rng.u64(..most) << 3;
                assert_eq!((heads.get(asked), heads.len()), (plain.get(&asked).copied().unwrap_or(NONE), plain.len()));
                moving += u32::from(!heads.before.is_empty());
            }
            assert!(plain.iter().all(|(hash, first)| heads.get(*hash) == *first));
        }
        assert!(moving > 5_000, "{moving} looked while they moved");
    }
}
