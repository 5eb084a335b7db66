//! [`Store`]: segments by tag and masked state, bounded, with the least recently used going first (CLOCK).

use crate::asks::Asks;
use crate::effects::Slots;
use crate::segment::{End, Segment};
use crate::way::Way;
use hashbrown::HashTable;
use interp::walk::{Pc, State};
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;

type Fast = foldhash::fast::RandomState;
/// A tag, and the bits that are asked for.
type Ask = (Pc, Arc<Asks>);

/// A segment that is kept.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What it is.
    pub segment: Segment,
    /// Packets that hit it.
    pub hits: u64,
    /// When it was hit last, in nanoseconds.
    pub used: u64,
    hash: u64,
    /// Index of its group of segments with one tag and one mask.
    group: u32,
    /// Tells it from segments that had the place before.
    pub generation: u32,
    /// Its first node in [`crate::fresh::Fresh`].
    pub nodes: u32,
    /// It was used since the hand of the clock passed.
    referenced: bool,
}

/// Segments with one tag and one mask.
#[derive(Clone, Debug)]
struct Group {
    tag: Pc,
    asks: Arc<Asks>,
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
    /// The ways of segments, each once.
    ways: HashSet<Arc<Way>, Fast>,
    /// By address of a way: its group, and how many segments have it.
    known: HashMap<usize, (u32, u32), Fast>,
    free_groups: Vec<u32>,
    hasher: Fast,
    hand: usize,
    live: usize,
    memory: usize,
    generation: u32,
    scratch: Vec<u64>,
    hashes: Vec<u64>,
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
            ways: HashSet::default(),
            known: HashMap::default(),
            free_groups: Vec::new(),
            hasher: Fast::default(),
            hand: 0,
            live: 0,
            memory: 0,
            generation: 0,
            scratch: Vec::new(),
            hashes: Vec::new(),
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
        let ways: usize = self.ways.iter().map(|way| way.memory()).sum();
        let masks: usize = self.groups.iter().map(|group| size_of_val(group.asks.bits())).sum();
        // A place in the table of places, one in that of its group, and what is kept about each.
        let each = size_of::<Option<Kept>>() - size_of::<Segment>() + 8;
        self.memory + ways + masks + self.live * each
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
    pub fn find(&mut self, slots: &Slots, state: State<'_>, tag: Pc) -> Option<u32> {
        let groups = self.by_tag.get(&tag)?;
        for group in groups {
            let group = &self.groups[*group as usize];
            self.scratch.resize(group.asks.words(), 0);
            group.asks.gather(slots, state, 0, &mut self.scratch);
            let hash = self.hasher.hash_one(&self.scratch[..]);
            if let Some(place) = group.map.find(hash, |place| is(&self.kept, *place, hash, &self.scratch)) {
                return Some(*place);
            }
        }
        None
    }

    /// As [`Store::find`], for many packets: first what all of them have is gathered, then all are looked up, so that they wait for memory together. `state`
    /// says what a packet has; those of `open` for which something is found leave it, and `found` is told their number and the place.
    pub fn find_many<'s>(
        &mut self,
        slots: &Slots,
        tag: Pc,
        open: &mut Vec<usize>,
        state: impl Fn(usize) -> State<'s>,
        mut found: impl FnMut(usize, u32),
    ) {
        let Some(groups) = self.by_tag.get(&tag) else { return };
        for group in groups {
            let group = &self.groups[*group as usize];
            let words = group.asks.words();
            self.scratch.resize(words * open.len(), 0);
            self.hashes.clear();
            for (at, packet) in open.iter().enumerate() {
                let key = &mut self.scratch[at * words..(at + 1) * words];
                group.asks.gather(slots, state(*packet), 0, key);
                self.hashes.push(self.hasher.hash_one(&*key));
            }
            let mut at = 0;
            open.retain(|packet| {
                let (hash, key) = (self.hashes[at], &self.scratch[at * words..(at + 1) * words]);
                at += 1;
                match group.map.find(hash, |place| is(&self.kept, *place, hash, key)) {
                    Some(place) => found(*packet, *place),
                    None => return true,
                }
                false
            });
        }
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
        self.place_hashed(segment, self.hasher.hash_one(segment.values()))
    }

    fn place_hashed(&self, segment: &Segment, hash: u64) -> Option<u32> {
        let group = match self.known.get(&address(&segment.way)) {
            Some((group, _)) => *group,
            None => *self.by_mask.get(&(segment.way.tag, segment.way.asks.clone()))?,
        };
        let values = segment.values();
        self.groups[group as usize].map.find(hash, |place| is(&self.kept, *place, hash, values)).copied()
    }

    /// The same way is kept once, however many segments have it.
    fn share(&mut self, segment: &mut Segment) {
        if !self.known.contains_key(&address(&segment.way))
            && let Some(way) = self.ways.get(&segment.way)
        {
            segment.way = way.clone();
        }
    }

    /// Puts a segment in; who had to go for it is given to `gone`.
    pub fn put(&mut self, mut segment: Segment, now: u64, mut gone: impl FnMut(&Kept)) -> Put {
        self.share(&mut segment);
        let hash = self.hasher.hash_one(segment.values());
        if let Some(place) = self.place_hashed(&segment, hash) {
            let kept = self.kept[place as usize].as_mut().expect("what is found is there");
            // The same; or the same state, but another length: the longer one stays.
            let same = kept.segment == segment;
            if same {
                (kept.used, kept.referenced) = (now, true);
            }
            if same || kept.segment.way.tables() >= segment.way.tables() {
                return Put::Shared(place);
            }
            if let Some(old) = self.remove(place) {
                gone(&old);
            }
        }
        while self.live >= self.capacity {
            let place = self.oldest();
            if let Some(old) = self.remove(place) {
                gone(&old);
            }
        }
        let Some(group) = self.group_for(&segment) else { return Put::TooManyMasks };
        Put::New(self.settle(segment, hash, group, now))
    }

    /// The group of a segment that is put in.
    fn group_for(&mut self, segment: &Segment) -> Option<u32> {
        let address = address(&segment.way);
        if let Some((group, users)) = self.known.get_mut(&address) {
            *users += 1;
            return Some(*group);
        }
        let group = match self.by_mask.get(&(segment.way.tag, segment.way.asks.clone())) {
            Some(group) => *group,
            None => self.new_group(&segment.way)?,
        };
        self.ways.insert(segment.way.clone());
        self.known.insert(address, (group, 1));
        Some(group)
    }

    fn new_group(&mut self, way: &Way) -> Option<u32> {
        let masks = self.by_tag.get(&way.tag).map_or(0, Vec::len);
        if masks >= self.max_masks {
            return None;
        }
        let new = Group { tag: way.tag, asks: way.asks.clone(), tables: 0, map: HashTable::new() };
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
        self.by_mask.insert((way.tag, way.asks.clone()), at);
        self.by_tag.entry(way.tag).or_default().push(at);
        Some(at)
    }

    fn settle(&mut self, segment: Segment, hash: u64, group: u32, now: u64) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.kept.push(None);
            self.kept.len() as u32 - 1
        });
        let (tag, tables) = (segment.way.tag, segment.way.tables());
        self.memory += segment.memory();
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        self.kept[place as usize] =
            Some(Kept { segment, hits: 0, used: now, referenced: true, group, hash, generation, nodes: 0 });
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

    /// Says where its nodes are.
    pub fn set_nodes(&mut self, place: u32, nodes: u32) {
        if let Some(kept) = &mut self.kept[place as usize] {
            kept.nodes = nodes;
        }
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
            self.by_mask.remove(&(group.tag, group.asks.clone()));
            self.free_groups.push(kept.group);
        }
        let address = address(&kept.segment.way);
        if let Some((_, users)) = self.known.get_mut(&address) {
            *users -= 1;
            if *users == 0 {
                self.known.remove(&address);
                self.ways.remove(&kept.segment.way);
            }
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
    pub fn expire(&mut self, before: u64, mut gone: impl FnMut(&Kept)) -> usize {
        let old: Vec<u32> = self.iter().filter(|(_, kept)| kept.used < before).map(|(place, _)| place).collect();
        for place in &old {
            if let Some(kept) = self.remove(*place) {
                gone(&kept);
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
            let next = match kept.segment.way.end {
                End::At(pc) => Some(pc),
                End::Done { .. } => None,
            };
            (kept.segment.way.tag, next)
        })
    }
}

/// Tells ways that are kept from each other.
fn address(way: &Arc<Way>) -> usize {
    Arc::as_ptr(way).addr()
}

/// Whether the segment at a place has these values.
#[inline]
fn is(kept: &[Option<Kept>], place: u32, hash: u64, values: &[u64]) -> bool {
    let kept = kept[place as usize].as_ref();
    kept.is_some_and(|kept| kept.hash == hash && kept.segment.body[..values.len()] == *values)
}
