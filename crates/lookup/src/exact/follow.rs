//! Following: one of two equal tables takes over what has changed in the other.
//!
//! A table notes the buckets that its writer changes. To copy those is a few times as fast as to do the same changes again: no key is packed, hashed or
//! compared, and no entry looks for a place. It takes two tables that are alike bucket by bucket. They are if one is a clone of the other, and each has
//! followed all that the other has noted since. Where values are spilled to cells, or were more than a few entries to go to the stash, nothing is noted, and changes
//! are done to each.

use super::ExactTable;
use super::bucket::Touched;
use entries::prefetch;

/// How many buckets ahead of its turn one is asked for, in both tables.
const AHEAD: usize = 12;
/// The most entries of a stash that is copied as a whole: a small table may have some for a time.
const STASHED: usize = 32;
/// So much room for notes is kept.
const KEPT: usize = 1 << 16;

impl ExactTable {
    /// Begins to note what changes, so that a clone can [follow](Self::follow).
    pub(crate) fn note_changes(&mut self) {
        self.buckets.touched = (!self.buckets.geometry.spills).then(Touched::default);
    }

    /// Forgets what it has noted: whoever follows has followed.
    pub(crate) fn forget_changes(&mut self) {
        // Nothing is written of a table that has not changed: readers have its head in their caches.
        if let Some(touched) = self.buckets.touched.as_mut().filter(|touched| !touched.is_empty()) {
            touched.all = false;
            touched.buckets.clear();
            touched.buckets.shrink_to(KEPT);
        }
    }

    /// Becomes equal to `other` again, which it was when `other` began to note or last forgot its changes. Whether there were any; `None` if `other` has not
    /// noted them: then they are to be done to this table as they were to the other.
    #[must_use]
    pub(crate) fn follow(&mut self, other: &ExactTable) -> Option<bool> {
        let (Some(touched), Some(_)) = (&other.buckets.touched, &self.buckets.touched) else {
            self.buckets.touched = None;
            return None;
        };
        let stashed = !(self.stash.is_empty() && other.stash.is_empty());
        if !stashed && touched.is_empty() && (self.split, self.wanted) == (other.split, other.wanted) {
            return Some(false);
        }
        self.buckets.grow(other.split.buckets());
        match touched.all {
            true => self.buckets.lines.copy_from_slice(&other.buckets.lines),
            false => self.copy_buckets(other, &touched.buckets),
        }
        if stashed {
            self.stash.clone_from(&other.stash);
        }
        (self.split, self.len, self.wanted) = (other.split, other.len, other.wanted);
        Some(stashed || !touched.is_empty())
    }

    fn copy_buckets(&mut self, other: &ExactTable, buckets: &[u32]) {
        let lines = self.buckets.geometry.lines;
        let ask = |bucket: u32, table: &ExactTable| {
            let first = &raw const table.buckets.lines[bucket as usize * lines];
            prefetch(first.cast(), lines);
        };
        for (index, bucket) in buckets.iter().enumerate() {
            if let Some(&soon) = buckets.get(index + AHEAD) {
                ask(soon, self);
                ask(soon, other);
            }
            let bucket = *bucket as usize * lines..(*bucket as usize + 1) * lines;
            self.buckets.lines[bucket.clone()].copy_from_slice(&other.buckets.lines[bucket]);
        }
    }

    /// The stash has got an entry.
    pub(super) fn note_stashed(&mut self) {
        if self.stash.len() > STASHED {
            self.buckets.touched = None;
        }
    }
}
