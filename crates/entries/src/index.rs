//! [`Index`]: the entries of a table by key and priority, in pieces that snapshots share.
//!
//! A snapshot of millions of entries must cost little, and so must the writes after it: what a write finds shared it copies, so that is one small
//! piece. A table that has outgrown one piece has all of them at once.

use crate::kept::Entry;
use crate::prefetch::prefetch;
use hashbrown::{DefaultHashBuilder, HashTable, hash_table};
use std::hash::BuildHasher;
use triomphe::Arc;

/// Pieces of a large table.
const PIECES: usize = 1024;
/// Entries up to which a table is one piece.
const SMALL: usize = 8 * PIECES;

#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// One, or [`PIECES`].
    pieces: Vec<Arc<HashTable<Entry>>>,
    len: usize,
    hasher: DefaultHashBuilder,
}

/// Places of a table that mostly lie in one cache line.
const NEAR: usize = 4;

/// Where an entry would be.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    hash: u64,
}

fn hash_of(hasher: &DefaultHashBuilder, entry: &Entry) -> u64 {
    hasher.hash_one((entry.key(), entry.priority()))
}

fn is(key: &[u64], priority: i32) -> impl Fn(&Entry) -> bool + '_ {
    move |entry| entry.key() == key && entry.priority() == priority
}

impl Index {
    pub fn new() -> Index {
        Index { pieces: vec![Arc::default()], len: 0, hasher: DefaultHashBuilder::default() }
    }

    pub fn place(&self, key: &[u64], priority: i32) -> Place {
        Place { hash: self.hasher.hash_one((key, priority)) }
    }

    fn piece(&self, place: Place) -> usize {
        // Tables take the lowest bits for the place and the highest ones as a tag.
        (place.hash >> 32) as usize & (self.pieces.len() - 1)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory of the index alone.
    pub fn memory_bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.allocation_size() + size_of::<HashTable<Entry>>()).sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.pieces.iter().flat_map(|piece| piece.iter())
    }

    pub fn find(&self, place: Place, key: &[u64], priority: i32) -> Option<&Entry> {
        self.pieces[self.piece(place)].find(place.hash, is(key, priority))
    }

    /// Asks for the memory of an entry that is or will be there.
    pub fn expect(&self, place: Place) {
        let piece = &self.pieces[self.piece(place)];
        // Nothing waits for the first place that could be it, so that many searches are under way at a time.
        match piece.find(place.hash, |_| true) {
            Some(entry) => entry.expect(),
            None => self.expect_new(piece, place),
        }
    }

    /// Asks for the memory of the place that an entry will be given which is not there: one that is taken, as only those tell where they lie, at or right behind the
    /// place where the table begins to look.
    fn expect_new(&self, piece: &HashTable<Entry>, place: Place) {
        let last = piece.num_buckets().wrapping_sub(1);
        let taken = (0..NEAR).find_map(|at| piece.get_bucket((place.hash as usize + at) & last));
        if let Some(taken) = taken {
            prefetch(std::ptr::from_ref(taken).cast(), 1);
        }
    }

    pub fn find_mut(&mut self, place: Place, key: &[u64], priority: i32) -> Option<&mut Entry> {
        let piece = self.piece(place);
        Arc::make_mut(&mut self.pieces[piece]).find_mut(place.hash, is(key, priority))
    }

    /// Adds the entry that `make` makes, if there is none with this key and priority. Whether it did.
    pub fn insert(&mut self, place: Place, key: &[u64], priority: i32, make: impl FnOnce() -> Entry) -> bool {
        if self.len == SMALL && self.pieces.len() == 1 {
            self.part(0);
        }
        let piece = self.piece(place);
        let hasher = &self.hasher;
        let piece = Arc::make_mut(&mut self.pieces[piece]);
        match piece.entry(place.hash, is(key, priority), |entry| hash_of(hasher, entry)) {
            hash_table::Entry::Occupied(_) => false,
            hash_table::Entry::Vacant(vacant) => {
                self.len += 1;
                vacant.insert(make());
                true
            }
        }
    }

    /// Takes out the entry with this key and priority, if `may` allows it.
    pub fn remove_if<E>(
        &mut self,
        place: Place,
        key: &[u64],
        priority: i32,
        may: impl FnOnce(&Entry) -> Result<(), E>,
    ) -> Result<Option<Entry>, E> {
        let piece = self.piece(place);
        let piece = Arc::make_mut(&mut self.pieces[piece]);
        let Ok(found) = piece.find_entry(place.hash, is(key, priority)) else { return Ok(None) };
        may(found.get())?;
        self.len -= 1;
        Ok(Some(found.remove().0))
    }

    /// Makes room for so many more entries.
    pub fn reserve(&mut self, more: usize) {
        let wanted = self.len + more;
        if wanted > SMALL && self.pieces.len() == 1 {
            self.part(wanted);
        }
        let hasher = &self.hasher;
        let count = self.pieces.len();
        // Pieces are not equally full: four deviations more.
        let each = wanted / count;
        let each = if count == 1 { each } else { each + 4 * each.isqrt() };
        for piece in &mut self.pieces {
            let missing = each.saturating_sub(piece.len());
            if piece.len() + missing > piece.capacity() {
                Arc::make_mut(piece).reserve(missing, |entry| hash_of(hasher, entry));
            }
        }
    }

    /// From one piece to many, for `wanted` entries.
    fn part(&mut self, wanted: usize) {
        let each = wanted / PIECES;
        let mut tables: Vec<HashTable<Entry>> = (0..PIECES).map(|_| HashTable::with_capacity(each)).collect();
        let hasher = &self.hasher;
        for entry in self.pieces.iter().flat_map(|piece| piece.iter()) {
            let hash = hash_of(hasher, entry);
            let table = &mut tables[(hash >> 32) as usize & (PIECES - 1)];
            table.insert_unique(hash, entry.clone(), |entry| hash_of(hasher, entry));
        }
        self.pieces = tables.into_iter().map(Arc::new).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::PackedAction;
    use crate::kept::Parts;
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    fn entry(key: u64, sequence: u64) -> Entry {
        Entry::new(Parts {
            key: &[key],
            action: PackedAction::Member(1),
            priority: 0,
            is_const: false,
            sequence,
            idle_timeout_ns: 0,
            rare: None,
        })
    }

    fn all(index: &Index) -> BTreeMap<u64, u64> {
        index.iter().map(|entry| (entry.key()[0], entry.sequence())).collect()
    }

    #[test]
    fn a_snapshot_stays_as_it_was_at_every_size() {
        let (mut index, mut model) = (Index::new(), BTreeMap::new());
        let mut snapshots = Vec::new();
        let mut random = 1u64;
        for step in 0..60_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (random >> 33) % 30_000;
            let place = index.place(&[key], 0);
            if random >> 62 == 0 {
                let removed = index.remove_if(place, &[key], 0, |_| Ok::<(), Infallible>(()));
                assert_eq!(removed.ok().flatten().map(|e| e.sequence()), model.remove(&key));
            } else {
                let added = index.insert(place, &[key], 0, || entry(key, step));
                assert_eq!(added, !model.contains_key(&key));
                model.entry(key).or_insert(step);
            }
            assert_eq!(index.find(place, &[key], 0).map(Entry::sequence), model.get(&key).copied());
            assert_eq!(index.len(), model.len());
            if step % 10_000 == 9_999 {
                snapshots.push((index.clone(), model.clone()));
            }
        }
        index.reserve(100_000);
        assert_eq!(all(&index), model);
        assert!(index.pieces.len() == PIECES && snapshots[0].0.pieces.len() == 1, "both forms were seen");
        for (snapshot, model) in &snapshots {
            assert_eq!(all(snapshot), *model);
        }
    }

    #[test]
    fn a_write_after_a_snapshot_copies_one_piece() {
        let mut index = Index::new();
        index.reserve(20_000);
        for key in 0..20_000 {
            let place = index.place(&[key], 0);
            index.insert(place, &[key], 0, || entry(key, key));
        }
        let snapshot = index.clone();
        let place = index.place(&[5], 0);
        *index.find_mut(place, &[5], 0).expect("it is there") = entry(5, 77);
        let shared = index.pieces.iter().zip(&snapshot.pieces).filter(|(a, b)| Arc::ptr_eq(a, b)).count();
        assert_eq!(shared, PIECES - 1);
        assert_eq!(snapshot.find(place, &[5], 0).map(Entry::sequence), Some(5));
    }
}
