//! [`Store`]: a bounded table of segments, found by tag and masked state. Of segments that no
//! packet hit since the hand of a clock passed, the next one is evicted (CLOCK).

use crate::effects::Slots;
use crate::segment::{End, Segment, StateMask, masked_state};
use interp::walk::{Pc, State};
use std::cmp::Reverse;
use std::collections::HashMap;

type Fast = foldhash::fast::RandomState;

/// A segment that is kept.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What it is.
    pub segment: Segment,
    /// When it was hit last, in nanoseconds.
    pub used: u64,
    /// Its first node in [`crate::fresh::Fresh`].
    pub nodes: u32,
    /// It was used since the hand of the clock passed.
    referenced: bool,
}

/// Segments with one tag and one mask.
#[derive(Clone, Debug)]
struct Group {
    mask: StateMask,
    /// The most tables that one of them stands for, or stood for.
    tables: usize,
    by_values: HashMap<Box<[u64]>, u32, Fast>,
}

/// What happened when a segment was put in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// It is new, at that place.
    New(u32),
    /// The same one was there.
    Shared(u32),
    /// The table has as many masks as it may.
    TooManyMasks,
}

/// A table of segments.
#[derive(Clone, Debug)]
pub struct Store {
    capacity: usize,
    max_masks: usize,
    /// Segments by place.
    kept: Vec<Option<Kept>>,
    free: Vec<u32>,
    /// By tag, those groups first that stand for the most tables. No group is empty.
    groups: HashMap<Pc, Vec<Group>, Fast>,
    hand: usize,
    live: usize,
    memory: usize,
}

impl Store {
    /// An empty table for that many segments, under that many masks for each tag.
    pub fn new(capacity: usize, max_masks: usize) -> Store {
        Store {
            capacity: capacity.max(1),
            max_masks,
            kept: Vec::new(),
            free: Vec::new(),
            groups: HashMap::default(),
            hand: 0,
            live: 0,
            memory: 0,
        }
    }

    /// How many segments there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// How many masks are in use.
    pub fn masks(&self) -> usize {
        self.groups.values().map(Vec::len).sum()
    }

    /// Bytes in use, about.
    pub fn memory(&self) -> usize {
        self.memory + self.live * (size_of::<Option<Kept>>() - size_of::<Segment>())
    }

    /// The segment at a place.
    pub fn get(&self, place: u32) -> Option<&Kept> {
        self.kept.get(place as usize)?.as_ref()
    }

    /// All segments with their places.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Kept)> {
        self.kept.iter().enumerate().filter_map(|(at, kept)| Some((at as u32, kept.as_ref()?)))
    }

    /// The segment that begins at `tag` and matches the packet: of several one that stands for the
    /// most tables.
    pub fn find(&self, slots: &Slots, state: State<'_>, tag: Pc) -> Option<u32> {
        let groups = self.groups.get(&tag)?;
        groups.iter().find_map(|group| group.by_values.get(&masked_state(slots, &group.mask, state)).copied())
    }

    /// A packet has hit it.
    pub fn touch(&mut self, place: u32, now: u64) {
        if let Some(kept) = self.kept[place as usize].as_mut() {
            (kept.used, kept.referenced) = (now, true);
        }
    }

    /// The place of the segment with this one's tag, mask and state, if there is one.
    pub fn place_of(&self, segment: &Segment) -> Option<u32> {
        let group = self.groups.get(&segment.tag)?.iter().find(|group| group.mask == segment.mask)?;
        group.by_values.get(&segment.values).copied()
    }

    /// Puts a segment in; segments that are evicted for it are given to `gone`.
    pub fn put(&mut self, segment: Segment, now: u64, mut gone: impl FnMut(&Kept)) -> Put {
        if let Some(place) = self.place_of(&segment) {
            let kept = self.kept[place as usize].as_mut().expect("what is found is there");
            // The same; or the same state, but another length: the longer one stays.
            let same = kept.segment == segment;
            if same {
                (kept.used, kept.referenced) = (now, true);
            }
            if same || kept.segment.tables() >= segment.tables() {
                return Put::Shared(place);
            }
            self.remove(place).iter().for_each(&mut gone);
        }
        while self.live >= self.capacity {
            let place = self.oldest();
            self.remove(place).iter().for_each(&mut gone);
        }
        self.insert(segment, now).map_or(Put::TooManyMasks, Put::New)
    }

    fn insert(&mut self, segment: Segment, now: u64) -> Option<u32> {
        let groups = self.groups.entry(segment.tag).or_default();
        let at = match groups.iter().position(|group| group.mask == segment.mask) {
            Some(at) => at,
            None if groups.len() >= self.max_masks => return None,
            None => {
                groups.push(Group { mask: segment.mask.clone(), tables: 0, by_values: HashMap::default() });
                groups.len() - 1
            }
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.kept.push(None);
            self.kept.len() as u32 - 1
        });
        groups[at].by_values.insert(segment.values.clone(), place);
        if segment.tables() > groups[at].tables || groups[at].tables == 0 {
            groups[at].tables = segment.tables();
            groups.sort_by_key(|group| Reverse(group.tables));
        }
        self.memory += segment.memory();
        self.live += 1;
        self.kept[place as usize] = Some(Kept { segment, used: now, referenced: true, nodes: 0 });
        Some(place)
    }

    /// Says where its nodes are.
    pub fn set_nodes(&mut self, place: u32, nodes: u32) {
        if let Some(kept) = &mut self.kept[place as usize] {
            kept.nodes = nodes;
        }
    }

    /// Takes a segment out.
    pub fn remove(&mut self, place: u32) -> Option<Kept> {
        let kept = self.kept.get_mut(place as usize)?.take()?;
        let segment = &kept.segment;
        if let Some(groups) = self.groups.get_mut(&segment.tag)
            && let Some(at) = groups.iter().position(|group| group.mask == segment.mask)
        {
            groups[at].by_values.remove(&segment.values);
            // A mask without segments costs no lookups.
            if groups[at].by_values.is_empty() {
                groups.remove(at);
            }
        }
        self.memory -= segment.memory();
        self.live -= 1;
        self.free.push(place);
        Some(kept)
    }

    /// The next one that was not used since the hand passed.
    fn oldest(&mut self) -> u32 {
        loop {
            self.hand = (self.hand + 1) % self.kept.len();
            match &mut self.kept[self.hand] {
                Some(kept) if kept.referenced => kept.referenced = false,
                Some(_) => return self.hand as u32,
                None => {}
            }
        }
    }

    /// Takes out what was not hit since `before`, in nanoseconds.
    pub fn expire(&mut self, before: u64, gone: impl FnMut(&Kept)) -> usize {
        let old: Vec<u32> = self.iter().filter(|(_, kept)| kept.used < before).map(|(place, _)| place).collect();
        old.iter().filter_map(|place| self.remove(*place)).collect::<Vec<Kept>>().iter().for_each(gone);
        old.len()
    }

    /// Everything goes.
    pub fn clear(&mut self) {
        *self = Store::new(self.capacity, self.max_masks);
    }

    /// For each segment its tag, and the tag that it leads to, if it does not lead to the end: what
    /// an estimate of the covered rules needs.
    pub fn links(&self) -> impl Iterator<Item = (Pc, Option<Pc>)> + '_ {
        self.iter().map(|(_, kept)| {
            let next = match kept.segment.end {
                End::At(pc) => Some(pc),
                End::Done { .. } => None,
            };
            (kept.segment.tag, next)
        })
    }
}
