//! Synchronisation of two equal tables: one copies the buckets that have changed in the other.
//!
//! A table tracks the buckets that its writer changes. Copying them is a few times as fast as
//! applying the same changes again, because no key is encoded, hashed or compared and no free slot
//! is searched. Both tables must be equal bucket by bucket. They are if one is a clone of the other
//! and each has caught up with all changes tracked since. Changes are not tracked but applied to
//! each copy if values overflow to cells or if more than a few entries are in the stash.

use super::ExactTable;
use super::bucket::DirtyBuckets;
use entries::prefetch;

/// Number of buckets between prefetching one in both tables and copying it.
const PREFETCH_DISTANCE: usize = 12;
/// Maximum number of stashed entries that are copied. A small table can have some temporarily.
const MAX_COPIED_STASH: usize = 32;
/// Capacity of the dirty list, in buckets, that is kept after clearing.
const MAX_KEPT_CAPACITY: usize = 1 << 16;

impl ExactTable {
    /// Starts tracking changes, so that a clone can [catch up](Self::catch_up_from).
    pub(crate) fn track_changes(&mut self) {
        self.buckets.dirty = (!self.buckets.layout.has_overflow).then(DirtyBuckets::default);
    }

    /// Clears the tracked changes after the other copy has caught up.
    pub(crate) fn clear_tracked_changes(&mut self) {
        // Skip the write if nothing has changed, because readers have the table's header in their
        // caches.
        if let Some(touched) = self.buckets.dirty.as_mut().filter(|touched| !touched.is_empty()) {
            touched.is_all_dirty = false;
            touched.buckets.clear();
            touched.buckets.shrink_to(MAX_KEPT_CAPACITY);
        }
    }

    /// Makes the table equal to `other` again, as it was when `other` started or last cleared its
    /// tracking. Returns whether anything changed, or `None` if `other` has not tracked its
    /// changes. The caller must then apply them to this table too.
    #[must_use]
    pub(crate) fn catch_up_from(&mut self, other: &ExactTable) -> Option<bool> {
        let (Some(dirty), Some(_)) = (&other.buckets.dirty, &self.buckets.dirty) else {
            self.buckets.dirty = None;
            return None;
        };
        let has_stash = !(self.stash.is_empty() && other.stash.is_empty());
        if !has_stash
            && dirty.is_empty()
            && (self.hashing, self.reserve_target) == (other.hashing, other.reserve_target)
        {
            return Some(false);
        }
        self.buckets.grow_buckets(other.hashing.bucket_count());
        match dirty.is_all_dirty {
            true => self.buckets.lines.copy_from_slice(&other.buckets.lines),
            false => self.copy_dirty_buckets(other, &dirty.buckets),
        }
        if has_stash {
            self.stash.clone_from(&other.stash);
        }
        (self.hashing, self.len, self.reserve_target) = (other.hashing, other.len, other.reserve_target);
        Some(has_stash || !dirty.is_empty())
    }

    fn copy_dirty_buckets(&mut self, other: &ExactTable, buckets: &[u32]) {
        let lines = self.buckets.layout.line_count;
        let prefetch_in = |bucket: u32, table: &ExactTable| {
            let first = &raw const table.buckets.lines[bucket as usize * lines];
            prefetch(first.cast(), lines);
        };
        for (index, bucket) in buckets.iter().enumerate() {
            if let Some(&upcoming) = buckets.get(index + PREFETCH_DISTANCE) {
                prefetch_in(upcoming, self);
                prefetch_in(upcoming, other);
            }
            let bucket = *bucket as usize * lines..(*bucket as usize + 1) * lines;
            self.buckets.lines[bucket.clone()].copy_from_slice(&other.buckets.lines[bucket]);
        }
    }

    /// Stops tracking if the stash has grown too large to copy.
    pub(super) fn limit_tracked_stash(&mut self) {
        if self.stash.len() > MAX_COPIED_STASH {
            self.buckets.dirty = None;
        }
    }
}
