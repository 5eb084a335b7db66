//! [`Flows`]: rewrites that are kept, where the packet finds them, and which ones a change of a table makes stale.

use super::Unrewritable;
use super::form::{Fate, Key, Rewrite, Shape, WINDOW};
use super::shadow::Known;
use crate::fresh::{Fresh, Lists, may_match};
use crate::segment::Asked;
use crate::witness::Witness;
use interp::Interp;
use ir::{Entity, Pipeline, TableId};
use std::collections::{BTreeSet, HashMap};
use tables::{Change, Entry};

/// The most sets of bits that keys can ask for: each packet that none fits tries all.
pub const MAX_SHAPES: usize = 32;

/// From so many on, flows go under a shape that asks for more than they need, rather than under one of their own; and flows of packets that are dropped have
/// none of their own.
const PLENTY: usize = 12;

/// First of the bytes by which a shape is ruled out before its key is made, and how many.
pub const GATE: (usize, usize) = (8, 16);

type Fast = foldhash::fast::RandomState;

/// A rewrite that is kept.
#[derive(Clone, Debug)]
pub struct Flow {
    /// What it is.
    pub rewrite: Rewrite,
    /// What it was made from.
    pub asked: Box<[Asked]>,
    /// The first of its nodes in the lists of who asked what.
    nodes: u32,
    /// Number of its shape.
    pub shape: u32,
    /// Packets that were credited to it; and as of when the clock's hand passed last.
    pub packets: u64,
    passed: u64,
}

/// A shape in use.
#[derive(Clone, Debug)]
pub struct Used {
    /// Which bits.
    pub shape: Shape,
    /// Bits in which all its flows agree, from byte [`GATE`]`.0` on: a packet that has others has none of these flows.
    pub gate: ([u8; GATE.1], [u8; GATE.1]),
}

impl Used {
    /// Whether a packet may be one of its flows.
    pub fn may_have(&self, window: &[u8; WINDOW]) -> bool {
        let (mask, value) = &self.gate;
        (0..GATE.1).all(|at| window[GATE.0 + at] & mask[at] == value[at])
    }
}

/// Where a rewrite went.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Its place.
    pub place: u32,
    /// Its shape is new, or rules out less than it did.
    pub shape_changed: bool,
    /// It took the place, under its key, of one for other lengths: that is gone, and its place not used again until [`Flows::release`].
    pub replaced: Option<(u32, Box<Flow>)>,
}

/// See the module.
#[derive(Debug)]
pub struct Flows {
    places: Vec<Option<Flow>>,
    free: Vec<u32>,
    by_key: HashMap<(u32, Key), u32, Fast>,
    shapes: Vec<Used>,
    fresh: Fresh,
    lists: Lists,
    hand: usize,
    len: usize,
}

impl Flows {
    /// Room for so many of a program.
    pub fn new(pipeline: &Pipeline, witnesses: &[Witness], room: usize) -> Flows {
        Flows {
            places: vec![None; room],
            free: (0..room as u32).rev().collect(),
            by_key: HashMap::default(),
            shapes: Vec::new(),
            fresh: Fresh::new(pipeline, witnesses),
            lists: Lists::default(),
            hand: 0,
            len: 0,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Room for so many.
    pub fn room(&self) -> usize {
        self.places.len()
    }

    /// The shapes, in the order in which they are tried.
    pub fn shapes(&self) -> &[Used] {
        &self.shapes
    }

    /// The one at a place.
    pub fn get(&self, place: u32) -> Option<&Flow> {
        self.places.get(place as usize)?.as_ref()
    }

    /// The same, to be credited.
    pub fn get_mut(&mut self, place: u32) -> Option<&mut Flow> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    /// All, with their places.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Flow)> {
        self.places.iter().enumerate().filter_map(|(place, flow)| Some((place as u32, flow.as_ref()?)))
    }

    /// The place of the rewrite for a packet.
    pub fn find(&self, bytes: &[u8], port: u32) -> Option<u32> {
        let window = super::form::window(bytes);
        let tried = self.shapes.iter().enumerate().filter(|(_, used)| used.may_have(&window));
        let found = tried.filter_map(|(number, used)| self.by_key.get(&(number as u32, used.shape.key(bytes, port))));
        found.copied().find(|place| self.get(*place).is_some_and(|flow| flow.rewrite.fits(bytes)))
    }

    /// Keeps a rewrite.
    ///
    /// # Errors
    /// No shape is free, or no place.
    pub fn insert(
        &mut self,
        known: &Known,
        (mut rewrite, bytes): (Rewrite, &[u8]),
        asked: Vec<Asked>,
    ) -> Result<Placed, Unrewritable> {
        let mut number = self.shapes.iter().position(|used| used.shape == rewrite.shape);
        if number.is_none() && self.shapes.len() >= PLENTY {
            // More of the key is constant then, which is as right.
            number = self.shapes.iter().position(|used| used.shape.says_more_than(&rewrite.shape));
            if let Some(number) = number {
                rewrite.shape = self.shapes[number].shape.clone();
                rewrite.key = rewrite.shape.key(bytes, rewrite.key.port);
            } else if self.shapes.len() >= MAX_SHAPES || matches!(rewrite.fate, Fate::Drop(_)) {
                return Err(Unrewritable::Shapes);
            }
        }
        let Some(place) = self.free.pop() else { return Err(Unrewritable::NoRoom) };
        let (number, shape_changed) = self.shape(number, &rewrite);
        let replaced = self.by_key.insert((number, rewrite.key.clone()), place);
        let replaced = replaced.and_then(|old| Some((old, Box::new(self.take(known, old, false)?))));
        let nodes = self.fresh.insert_asked(&known.witnesses, &asked, (0, place), &mut self.lists);
        let flow = Flow { rewrite, asked: asked.into(), nodes, shape: number, packets: 0, passed: 0 };
        self.places[place as usize] = Some(flow);
        self.len += 1;
        Ok(Placed { place, shape_changed, replaced })
    }

    fn shape(&mut self, number: Option<usize>, rewrite: &Rewrite) -> (u32, bool) {
        let gate = |at: usize| (rewrite.shape.mask[GATE.0 + at], rewrite.key.bytes[GATE.0 + at]);
        let number = match number {
            Some(number) => number,
            None => {
                let (mut mask, mut value) = ([0; GATE.1], [0; GATE.1]);
                for at in 0..GATE.1 {
                    mask[at] = gate(at).0;
                    // A field that is near the length is no constant.
                    value[at] = gate(at).1 & mask[at];
                }
                self.shapes.push(Used { shape: rewrite.shape.clone(), gate: (mask, value) });
                return (self.shapes.len() as u32 - 1, true);
            }
        };
        let mut changed = false;
        let (mask, value) = &mut self.shapes[number].gate;
        for at in 0..GATE.1 {
            let differs = (value[at] ^ gate(at).1) & mask[at];
            changed |= differs != 0;
            mask[at] &= !differs;
            value[at] &= mask[at];
        }
        (number as u32, changed)
    }

    /// Takes one out. Its place stays taken until [`Flows::release`].
    pub fn remove(&mut self, known: &Known, place: u32) -> Option<Flow> {
        self.take(known, place, true)
    }

    fn take(&mut self, known: &Known, place: u32, by_key: bool) -> Option<Flow> {
        let flow = self.places.get_mut(place as usize)?.take()?;
        if by_key {
            self.by_key.remove(&(flow.shape, flow.rewrite.key.clone()));
        }
        self.fresh.remove_asked(&known.witnesses, &flow.asked, flow.nodes, &mut self.lists);
        self.len -= 1;
        Some(flow)
    }

    /// The place may be used again.
    pub fn release(&mut self, place: u32) {
        if self.places.get(place as usize).is_some_and(Option::is_none) {
            self.free.push(place);
        }
    }

    /// Free places.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Up to `count` that had no packet since the clock's hand passed last, in at most two rounds; they stay until they are removed.
    pub fn oldest(&mut self, count: usize) -> Vec<u32> {
        let mut found = Vec::new();
        for _ in 0..2 * self.places.len() {
            if found.len() >= count.min(self.len) {
                break;
            }
            let place = self.hand;
            self.hand = (self.hand + 1) % self.places.len().max(1);
            let Some(flow) = &mut self.places[place] else { continue };
            if flow.packets == flow.passed && !found.contains(&(place as u32)) {
                found.push(place as u32);
            }
            flow.passed = flow.packets;
        }
        found
    }

    /// What a change makes stale. `number` is that of the entry that is changed or deleted.
    pub fn stale(
        &self,
        known: &Known,
        interp: &Interp,
        (change, number): (&Change, Option<u32>),
        stale: &mut BTreeSet<u32>,
    ) {
        match change {
            Change::Inserted(table, entry, _) => {
                let witness = &known.witnesses[table.index()];
                self.who_asked(known, *table, (entry, None), stale, |asked| {
                    let found = asked.found.and_then(|number| interp.entry_of(*table, number));
                    found.is_none_or(|found| witness.is_stronger(entry, found)) && may_match(witness, asked, entry)
                });
            }
            Change::Modified(table, entry, ..) | Change::Deleted(table, entry) => {
                self.gone(known, *table, entry, number, stale);
            }
            Change::DefaultAction(table) => stale.extend(self.fresh.missed(table.0).map(|(_, place)| place)),
            // What a value set has was asked without a note.
            Change::ValueSet(_) => stale.extend(self.iter().map(|(place, _)| place)),
            // Rewrites are made from no others.
            _ => {}
        }
    }

    /// Who found that entry.
    pub fn gone(&self, known: &Known, table: TableId, entry: &Entry, number: Option<u32>, stale: &mut BTreeSet<u32>) {
        let witness = &known.witnesses[table.index()];
        self.who_asked(known, table, (entry, number), stale, |asked| match number {
            Some(number) => asked.found == Some(number),
            None => asked.found.is_some() && may_match(witness, asked, entry),
        });
    }

    fn who_asked(
        &self,
        known: &Known,
        table: TableId,
        (entry, number): (&Entry, Option<u32>),
        stale: &mut BTreeSet<u32>,
        concerns: impl Fn(&Asked) -> bool,
    ) {
        let places = self.fresh.under(&known.witnesses[table.index()], table.0, entry, number).map(|(_, place)| place);
        stale.extend(places.filter(|place| {
            let flow = self.get(*place);
            flow.is_some_and(|flow| flow.asked.iter().any(|asked| asked.table == table.0 && concerns(asked)))
        }));
    }
}
