//! [`SegmentTable`]: a bounded table of segments, matched by tag and masked state. It evicts
//! segments by CLOCK: the next one without a hit since the clock hand passed.

use crate::effects::SlotLayout;
use crate::segment::{Segment, SegmentEnd, StateMask, masked_state};
use interp::block_hook::{FrameView, InstIndex};
use std::cmp::Reverse;
use std::collections::HashMap;

type HashState = foldhash::fast::RandomState;

/// Stored segment.
#[derive(Clone, Debug)]
pub struct StoredSegment {
    /// The segment.
    pub segment: Segment,
    /// Time of the last hit, in nanoseconds.
    pub last_hit_ns: u64,
    /// First node in the [`crate::invalidation::InvalidationIndex`].
    pub nodes: u32,
    /// The segment was hit since the clock hand passed.
    is_referenced: bool,
}

/// Segments with one tag and one mask.
#[derive(Clone, Debug)]
struct MaskSubtable {
    mask: StateMask,
    /// Maximum number of tables that one of its segments covers or covered.
    tables: usize,
    by_values: HashMap<Box<[u64]>, u32, HashState>,
}

/// Result of an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InsertResult {
    /// The segment was inserted at this index.
    Inserted(u32),
    /// An equal or longer segment with this match existed at this index.
    Existing(u32),
    /// The table has its maximum number of masks.
    TooManyMasks,
}

/// Bounded table of segments.
#[derive(Clone, Debug)]
pub struct SegmentTable {
    capacity: usize,
    max_masks: usize,
    /// Segments by index.
    slots: Vec<Option<StoredSegment>>,
    free: Vec<u32>,
    /// Subtables by tag, ordered by decreasing number of covered tables. No subtable is empty.
    subtables: HashMap<InstIndex, Vec<MaskSubtable>, HashState>,
    clock_hand: usize,
    segment_count: usize,
    memory: usize,
}

impl SegmentTable {
    /// Creates an empty table for `capacity` segments, and `max_masks` masks for each tag.
    pub fn new(capacity: usize, max_masks: usize) -> SegmentTable {
        SegmentTable {
            capacity: capacity.max(1),
            max_masks,
            slots: Vec::new(),
            free: Vec::new(),
            subtables: HashMap::default(),
            clock_hand: 0,
            segment_count: 0,
            memory: 0,
        }
    }

    /// Returns the number of segments.
    pub fn len(&self) -> usize {
        self.segment_count
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.segment_count == 0
    }

    /// Returns the number of masks in use.
    pub fn mask_count(&self) -> usize {
        self.subtables.values().map(Vec::len).sum()
    }

    /// Returns the approximate memory use in bytes.
    pub fn memory(&self) -> usize {
        self.memory + self.segment_count * (size_of::<Option<StoredSegment>>() - size_of::<Segment>())
    }

    /// Returns the segment at an index.
    pub fn get(&self, place: u32) -> Option<&StoredSegment> {
        self.slots.get(place as usize)?.as_ref()
    }

    /// Returns all segments with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &StoredSegment)> {
        self.slots.iter().enumerate().filter_map(|(at, kept)| Some((at as u32, kept.as_ref()?)))
    }

    /// Returns the index of a segment that starts at `tag` and matches the packet. Segments that
    /// cover more tables have precedence.
    pub fn find_match(&self, slots: &SlotLayout, state: FrameView<'_>, tag: InstIndex) -> Option<u32> {
        let subtables = self.subtables.get(&tag)?;
        subtables.iter().find_map(|group| group.by_values.get(&masked_state(slots, &group.mask, state)).copied())
    }

    /// Records a hit at `now` (ns).
    pub fn mark_used(&mut self, place: u32, now: u64) {
        if let Some(kept) = self.slots[place as usize].as_mut() {
            (kept.last_hit_ns, kept.is_referenced) = (now, true);
        }
    }

    /// Returns the index of the stored segment with the same tag, mask and values.
    pub fn slot_of_segment(&self, segment: &Segment) -> Option<u32> {
        let group = self.subtables.get(&segment.tag)?.iter().find(|group| group.mask == segment.mask)?;
        group.by_values.get(&segment.values).copied()
    }

    /// Inserts a segment, used at `now` (ns). Calls `on_removed` for each segment that it replaces
    /// or evicts.
    pub fn insert_segment(
        &mut self,
        segment: Segment,
        now: u64,
        mut on_removed: impl FnMut(&StoredSegment),
    ) -> InsertResult {
        if let Some(index) = self.slot_of_segment(&segment) {
            let stored = self.slots[index as usize].as_mut().expect("slots of found segments are in use");
            // An equal segment, or one of the same match that covers more tables, is kept.
            let is_equal = stored.segment == segment;
            if is_equal {
                (stored.last_hit_ns, stored.is_referenced) = (now, true);
            }
            if is_equal || stored.segment.table_count() >= segment.table_count() {
                return InsertResult::Existing(index);
            }
            self.remove(index).iter().for_each(&mut on_removed);
        }
        while self.segment_count >= self.capacity {
            let index = self.next_victim();
            self.remove(index).iter().for_each(&mut on_removed);
        }
        self.insert_new(segment, now).map_or(InsertResult::TooManyMasks, InsertResult::Inserted)
    }

    /// Stores a segment with a new match. Returns its index; `None` if its tag has too many masks.
    /// Subtables stay sorted by their largest number of covered tables, because lookups prefer
    /// segments that cover more.
    fn insert_new(&mut self, segment: Segment, now: u64) -> Option<u32> {
        let subtables = self.subtables.entry(segment.tag).or_default();
        let subtable_index = match subtables.iter().position(|group| group.mask == segment.mask) {
            Some(subtable_index) => subtable_index,
            None if subtables.len() >= self.max_masks => return None,
            None => {
                subtables.push(MaskSubtable { mask: segment.mask.clone(), tables: 0, by_values: HashMap::default() });
                subtables.len() - 1
            }
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        subtables[subtable_index].by_values.insert(segment.values.clone(), index);
        if segment.table_count() > subtables[subtable_index].tables || subtables[subtable_index].tables == 0 {
            subtables[subtable_index].tables = segment.table_count();
            subtables.sort_by_key(|group| Reverse(group.tables));
        }
        self.memory += segment.memory_bytes();
        self.segment_count += 1;
        self.slots[index as usize] = Some(StoredSegment { segment, last_hit_ns: now, is_referenced: true, nodes: 0 });
        Some(index)
    }

    /// Sets the first node of a segment in the invalidation index.
    pub fn set_nodes(&mut self, place: u32, nodes: u32) {
        if let Some(kept) = &mut self.slots[place as usize] {
            kept.nodes = nodes;
        }
    }

    /// Removes a segment.
    pub fn remove(&mut self, index: u32) -> Option<StoredSegment> {
        let stored = self.slots.get_mut(index as usize)?.take()?;
        let segment = &stored.segment;
        if let Some(subtables) = self.subtables.get_mut(&segment.tag)
            && let Some(subtable_index) = subtables.iter().position(|group| group.mask == segment.mask)
        {
            subtables[subtable_index].by_values.remove(&segment.values);
            // Empty subtables are removed, so that lookups do not search them.
            if subtables[subtable_index].by_values.is_empty() {
                subtables.remove(subtable_index);
            }
        }
        self.memory -= segment.memory_bytes();
        self.segment_count -= 1;
        self.free.push(index);
        Some(stored)
    }

    /// Returns the next segment without a hit since the clock hand passed.
    fn next_victim(&mut self) -> u32 {
        loop {
            self.clock_hand = (self.clock_hand + 1) % self.slots.len();
            match &mut self.slots[self.clock_hand] {
                Some(kept) if kept.is_referenced => kept.is_referenced = false,
                Some(_) => return self.clock_hand as u32,
                None => {}
            }
        }
    }

    /// Removes segments without a hit since `before` (ns). Returns their number.
    pub fn expire_idle(&mut self, unused_since: u64, on_removed: impl FnMut(&StoredSegment)) -> usize {
        let old: Vec<u32> =
            self.iter().filter(|(_, stored)| stored.last_hit_ns < unused_since).map(|(index, _)| index).collect();
        old.iter().filter_map(|index| self.remove(*index)).collect::<Vec<StoredSegment>>().iter().for_each(on_removed);
        old.len()
    }

    /// Removes all segments.
    pub fn clear(&mut self) {
        *self = SegmentTable::new(self.capacity, self.max_masks);
    }

    /// Returns, for the rule space estimates, the tag of each segment and the tag of its end
    /// (`None`: end of the control).
    pub fn tag_links(&self) -> impl Iterator<Item = (InstIndex, Option<InstIndex>)> + '_ {
        self.iter().map(|(_, kept)| {
            let next = match kept.segment.end {
                SegmentEnd::AtTable(pc) => Some(pc),
                SegmentEnd::EndOfControl { .. } => None,
            };
            (kept.segment.tag, next)
        })
    }
}
