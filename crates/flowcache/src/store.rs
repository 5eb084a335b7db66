//! [`Store`]: segments by tag and masked state, bounded, with the least recently used going first (CLOCK).

use crate::effects::Slots;
use crate::record::read;
use crate::segment::{End, Play, Segment};
use hashbrown::HashTable;
use interp::walk::{Pc, Slot, Walker};
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;

type Fast = foldhash::fast::RandomState;
/// A tag, and the bits that are asked for.
type Ask = (Pc, Arc<[(Slot, u64)]>);

/// A segment that is kept.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What it is.
    pub segment: Segment,
    /// Packets that hit it.
    pub hits: u64,
    /// When it was hit last, in nanoseconds.
    pub used: u64,
    /// It was used since the hand of the clock passed.
    referenced: bool,
    /// Index of its group of segments with one tag and one mask.
    group: u32,
    hash: u64,
    /// Tells it from segments that had the place before.
    pub generation: u32,
}

/// Segments with one tag and one mask.
#[derive(Clone, Debug)]
struct Group {
    tag: Pc,
    mask: Arc<[(Slot, u64)]>,
    /// The most tables that one of them stands for.
    tables: u32,
    map: HashTable<u32>,
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
    kept: Vec<Option<Kept>>,
    free: Vec<u32>,
    groups: Vec<Group>,
    /// Groups by tag, those that stand for the most tables first.
    by_tag: HashMap<Pc, Vec<u32>, Fast>,
    by_mask: HashMap<Ask, u32, Fast>,
    /// What segments do, each once.
    plays: HashSet<Arc<[Play]>, Fast>,
    free_groups: Vec<u32>,
    hasher: Fast,
    hand: usize,
    live: usize,
    memory: usize,
    generation: u32,
    scratch: Vec<u64>,
}

impl Store {
    /// An empty table for that many segments, under that many masks for each tag.
    pub fn new(capacity: usize, max_masks: usize) -> Store {
        Store {
            capacity: capacity.max(1),
            max_masks,
            kept: Vec::new(),
            free: Vec::new(),
            groups: Vec::new(),
            by_tag: HashMap::default(),
            by_mask: HashMap::default(),
            plays: HashSet::default(),
            free_groups: Vec::new(),
            hasher: Fast::default(),
            hand: 0,
            live: 0,
            memory: 0,
            generation: 0,
            scratch: Vec::new(),
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
        self.groups.iter().filter(|group| !group.map.is_empty()).count()
    }

    /// Bytes in use, about.
    pub fn memory(&self) -> usize {
        let plays: usize = self.plays.iter().map(|plays| size_of_val(&**plays)).sum();
        let masks: usize = self.groups.iter().map(|group| size_of_val(&*group.mask)).sum();
        // A place in the table of places, one in that of its group, and what is kept about each.
        let each = size_of::<Option<Kept>>() - size_of::<Segment>() + 8;
        self.memory + plays + masks + self.live * each
    }

    /// The segment at a place.
    pub fn get(&self, place: u32) -> Option<&Kept> {
        self.kept.get(place as usize)?.as_ref()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Kept)> {
        self.kept.iter().enumerate().filter_map(|(at, kept)| Some((at as u32, kept.as_ref()?)))
    }

    /// The segment that begins at `tag` and fits the packet: of several one that stands for the most tables.
    pub fn find(&mut self, slots: &Slots, walker: &Walker<'_>, tag: Pc) -> Option<u32> {
        let groups = self.by_tag.get(&tag)?;
        for group in groups {
            let group = &self.groups[*group as usize];
            self.scratch.clear();
            self.scratch.extend(group.mask.iter().map(|(slot, mask)| read(slots, walker, *slot) & mask));
            let hash = self.hasher.hash_one(&self.scratch[..]);
            let same = |place: &u32| {
                self.kept[*place as usize].as_ref().is_some_and(|kept| *kept.segment.values == self.scratch[..])
            };
            if let Some(place) = group.map.find(hash, same) {
                return Some(*place);
            }
        }
        None
    }

    /// A packet has hit it.
    pub fn touch(&mut self, place: u32, now: u64) {
        if let Some(kept) = self.kept[place as usize].as_mut() {
            kept.hits += 1;
            kept.used = now;
            kept.referenced = true;
        }
    }

    /// Whether a segment with this tag, mask and state is there.
    pub fn place_of(&self, segment: &Segment) -> Option<u32> {
        let group = self.group_of(segment)?;
        let hash = self.hasher.hash_one(&*segment.values);
        let same =
            |place: &u32| self.kept[*place as usize].as_ref().is_some_and(|kept| kept.segment.values == segment.values);
        self.groups[group as usize].map.find(hash, same).copied()
    }

    fn group_of(&self, segment: &Segment) -> Option<u32> {
        self.by_mask.get(&(segment.tag, segment.mask.clone())).copied()
    }

    /// Puts a segment in; who had to go for it is given to `gone`.
    pub fn put(&mut self, segment: Segment, now: u64, mut gone: impl FnMut(u32, &Kept)) -> Put {
        if let Some(place) = self.place_of(&segment) {
            let kept = self.kept[place as usize].as_mut().expect("what is found is there");
            if kept.segment.end == segment.end
                && kept.segment.plays == segment.plays
                && kept.segment.asked == segment.asked
            {
                (kept.used, kept.referenced) = (now, true);
                return Put::Shared(place);
            }
            // The same state, but another length: the longer one stays.
            if kept.segment.tables >= segment.tables {
                return Put::Shared(place);
            }
            if let Some(old) = self.remove(place) {
                gone(place, &old);
            }
        }
        while self.live >= self.capacity {
            let place = self.oldest();
            if let Some(old) = self.remove(place) {
                gone(place, &old);
            }
        }
        let Some(group) = self.group_of(&segment).or_else(|| self.new_group(&segment)) else {
            return Put::TooManyMasks;
        };
        Put::New(self.settle(segment, group, now))
    }

    fn new_group(&mut self, segment: &Segment) -> Option<u32> {
        let masks = self.by_tag.get(&segment.tag).map_or(0, Vec::len);
        if masks >= self.max_masks {
            return None;
        }
        let new = Group { tag: segment.tag, mask: segment.mask.clone(), tables: 0, map: HashTable::new() };
        let at = match self.free_groups.pop() {
            Some(at) => {
                self.groups[at as usize] = new;
                at
            }
            None => {
                self.groups.push(new);
                self.groups.len() as u32 - 1
            }
        };
        self.by_mask.insert((segment.tag, segment.mask.clone()), at);
        self.by_tag.entry(segment.tag).or_default().push(at);
        Some(at)
    }

    /// The same instructions and mask are kept once, however many segments have them.
    fn share(&mut self, segment: &mut Segment, group: u32) {
        segment.mask = self.groups[group as usize].mask.clone();
        if let Some(plays) = self.plays.get(&segment.plays) {
            segment.plays = plays.clone();
            return;
        }
        // What nobody has any more goes when there is much of it.
        if self.plays.len() > 64 && self.plays.len() > self.live {
            self.plays.retain(|plays| Arc::strong_count(plays) > 1);
        }
        self.plays.insert(segment.plays.clone());
    }

    fn settle(&mut self, mut segment: Segment, group: u32, now: u64) -> u32 {
        self.share(&mut segment, group);
        let hash = self.hasher.hash_one(&*segment.values);
        let place = self.free.pop().unwrap_or_else(|| {
            self.kept.push(None);
            self.kept.len() as u32 - 1
        });
        let (tag, tables) = (segment.tag, segment.tables);
        self.memory += segment.memory();
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        self.kept[place as usize] =
            Some(Kept { segment, hits: 0, used: now, referenced: true, group, hash, generation });
        self.live += 1;
        let kept = &self.kept;
        let of = |place: &u32| kept[*place as usize].as_ref().map_or(0, |kept| kept.hash);
        let into = &mut self.groups[group as usize];
        into.map.insert_unique(hash, place, of);
        if tables > into.tables || into.tables == 0 {
            into.tables = tables;
            let groups = &self.groups;
            if let Some(order) = self.by_tag.get_mut(&tag) {
                order.sort_by_key(|group| std::cmp::Reverse(groups[*group as usize].tables));
            }
        }
        place
    }

    /// Takes a segment out.
    pub fn remove(&mut self, place: u32) -> Option<Kept> {
        let kept = self.kept.get_mut(place as usize)?.take()?;
        let group = &mut self.groups[kept.group as usize];
        if let Ok(entry) = group.map.find_entry(kept.hash, |other| *other == place) {
            entry.remove();
        }
        if group.map.is_empty() {
            // A mask that nobody has any more costs no lookups.
            if let Some(order) = self.by_tag.get_mut(&group.tag) {
                order.retain(|at| *at != kept.group);
            }
            self.by_mask.remove(&(group.tag, group.mask.clone()));
            self.free_groups.push(kept.group);
        }
        self.memory -= kept.segment.memory();
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
    pub fn expire(&mut self, before: u64, mut gone: impl FnMut(u32, &Kept)) -> usize {
        let old: Vec<u32> = self.iter().filter(|(_, kept)| kept.used < before).map(|(place, _)| place).collect();
        for place in &old {
            if let Some(kept) = self.remove(*place) {
                gone(*place, &kept);
            }
        }
        old.len()
    }

    /// Everything goes.
    pub fn clear(&mut self) {
        *self = Store::new(self.capacity, self.max_masks);
    }

    /// For each place, whether a segment leads to the end, and its tag and where it leads: what an estimate of the covered rules needs.
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
