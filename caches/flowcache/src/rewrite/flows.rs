//! [`Flows`]: rewrites that are kept, where the packet finds them, and which ones a change of a table makes stale.

use super::Unrewritable;
use super::code::{self, Native};
use super::form::{Rewrite, Shape, WINDOW};
use super::key::{KeyForm, Secrets, begins};
use super::layout::{HEADER, Layout};
use super::row::{self, Row};
use super::rows::{LINE, NONE, Rows};
use super::runs::Runs;
use super::shadow::Known;
use super::window::Window;
use crate::fresh::{Fresh, Lists, may_match};
use crate::heads::Heads;
use crate::segment::Asked;
use crate::witness::Witness;
use entries::{Change, Entry};
use ir::{Entity, Pipeline, TableId};
use jit::rewrite::{HashCode, RowCode};
use packet::DropReason;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The most sets of bits that keys can ask for: each packet that none fits tries all.
pub const MAX_SHAPES: usize = 32;

/// From so many on, flows go under a shape that asks for more than they need, rather than under one of their own; and flows of packets that are dropped have
/// none of their own.
const PLENTY: usize = 12;

/// First of the bytes by which a shape is ruled out before its key is made, and how many.
pub const GATE: (usize, usize) = (8, 16);

/// Places in front of the clock's hand whose rows are asked for.
const AHEAD: usize = 8;

type Fast = foldhash::fast::RandomState;

/// A row that goes.
#[derive(Clone, Debug, Default)]
pub struct Leaving {
    pub(super) row: u32,
    /// Of its key.
    pub(super) hash: u64,
    pub(super) lists: Lists,
}

/// A rewrite that is kept, as it is told.
#[derive(Clone, Debug)]
pub struct Flow {
    /// What it is.
    pub rewrite: Rewrite,
    /// Number of its shape.
    pub shape: u32,
    /// Of one that was taken out: packets that were not credited yet, their bytes, and when the last of them came.
    pub uncredited: (u64, u64, u64),
}

/// A shape in use.
#[derive(Debug)]
pub struct Used {
    /// Which bits.
    pub shape: Shape,
    /// Bits in which all its flows agree, from byte [`GATE`]`.0` on: a packet that has others has none of these flows.
    pub gate: ([u8; GATE.1], [u8; GATE.1]),
    key: KeyForm,
    code: Native<HashCode>,
}

impl Used {
    /// The gate as it is asked.
    fn words(&self) -> [u128; 2] {
        [self.gate.0, self.gate.1].map(u128::from_ne_bytes)
    }

    /// Native code that hashes its keys.
    #[inline]
    pub(super) fn code(&self) -> Option<&HashCode> {
        self.code.get()
    }

    /// Its first flow has these first bytes.
    fn begin(&mut self, window: &[u8; WINDOW]) {
        let (mask, value) = &mut self.gate;
        for at in 0..GATE.1 {
            mask[at] = self.shape.mask[GATE.0 + at];
            // A field that is near the length is no constant.
            value[at] = window[GATE.0 + at] & mask[at];
        }
    }

    /// A flow with these first bytes is one of its: whether it rules out less now.
    fn admit(&mut self, window: &[u8; WINDOW]) -> bool {
        let (mask, value) = &mut self.gate;
        let mut changed = false;
        for at in 0..GATE.1 {
            let differs = (value[at] ^ window[GATE.0 + at]) & mask[at];
            changed |= differs != 0;
            mask[at] &= !differs;
            value[at] &= mask[at];
        }
        changed
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

/// A rewrite that is going to be kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Ready {
    words: Vec<u64>,
    hash: u64,
    lists: Lists,
}

/// What rewrites share, and how many have it.
#[derive(Debug)]
pub(super) struct Shared {
    pub layout: Arc<Layout>,
    /// The layout's.
    pub layout_shape: u32,
    rows: usize,
    pub code: Native<RowCode>,
}

/// See the module.
#[derive(Debug)]
pub struct Flows {
    pub(super) rows: Rows,
    /// By place: its row.
    pub(super) places: Vec<u32>,
    free: Vec<u32>,
    /// Rows by a hash of shape and key: the later of two that share one takes it.
    pub(super) by_key: Heads,
    secrets: Secrets,
    shapes: Vec<Used>,
    /// Of each of them, the gate.
    gates: Vec<[u128; 2]>,
    layouts: Vec<Shared>,
    by_layout: HashMap<Arc<Layout>, u32, Fast>,
    free_layouts: Vec<u32>,
    reasons: Vec<DropReason>,
    depth: usize,
    hot_lines: usize,
    pub(super) fresh: Fresh,
    pub(super) leaving: Vec<Leaving>,
    hand: usize,
    idle_hand: usize,
    pub(super) len: usize,
}

impl Flows {
    /// Room for so many of a program.
    pub fn new(pipeline: &Pipeline, witnesses: &[Witness], room: usize) -> Flows {
        Flows {
            rows: Rows::default(),
            places: vec![NONE; room],
            free: (0..room as u32).rev().collect(),
            by_key: Heads::default(),
            secrets: Secrets::new(),
            shapes: Vec::new(),
            gates: Vec::new(),
            layouts: Vec::new(),
            by_layout: HashMap::default(),
            free_layouts: Vec::new(),
            reasons: Vec::new(),
            // What gates look at, in any case.
            depth: GATE.0 + GATE.1,
            hot_lines: 1,
            fresh: Fresh::new(pipeline, witnesses),
            leaving: Vec::new(),
            hand: 0,
            idle_hand: 0,
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

    /// Bytes in use, about.
    pub fn memory(&self) -> usize {
        self.rows.memory() + self.by_key.memory() + self.fresh.memory() + 4 * (self.places.len() + self.free.capacity())
    }

    /// The shapes, in the order in which they are tried.
    pub fn shapes(&self) -> &[Used] {
        &self.shapes
    }

    /// The first shape, from that one on, that a packet with these bytes at [`GATE`] may have.
    #[inline(always)]
    pub(super) fn shape_from(&self, first: usize, gate: u128) -> Option<(usize, &Used)> {
        let gates = self.gates.get(first..)?;
        let next = gates.iter().position(|[mask, value]| gate & mask == *value)?;
        Some((first + next, &self.shapes[first + next]))
    }

    /// Why packets are dropped, by the numbers that rows have.
    pub fn reasons(&self) -> &[DropReason] {
        &self.reasons
    }

    /// The number of a reason.
    pub fn reason(&mut self, reason: DropReason) -> u32 {
        let found = self.reasons.iter().position(|known| *known == reason);
        found.unwrap_or_else(|| {
            self.reasons.push(reason);
            self.reasons.len() - 1
        }) as u32
    }

    /// The row of a number.
    #[inline]
    pub fn row(&self, row: u32) -> Row<'_> {
        let words = self.rows.at(row);
        Row { layout: &self.layouts[row::of(words).0 as usize].layout, words }
    }

    /// The same, with native code if there is some.
    #[inline]
    pub(super) fn shared(&self, row: u32) -> (&[u64], &Shared) {
        let words = self.rows.at(row);
        (words, &self.layouts[row::of(words).0 as usize])
    }

    /// A packet with that row was rewritten without native code, of which there is some after so many of them.
    pub(super) fn went_without(&mut self, row: u32, often: u32) {
        let shared = &mut self.layouts[row::of(self.rows.at(row)).0 as usize];
        let number = shared.layout.shape;
        let used = &mut self.shapes[number as usize];
        used.code.went_without(often, || code::hash_code(number, &used.key, &self.secrets));
        shared.code.went_without(often, || code::row_code(&shared.layout, &used.key));
    }

    /// The row at a place.
    pub fn row_of(&self, place: u32) -> Option<u32> {
        self.places.get(place as usize).copied().filter(|row| *row != NONE)
    }

    /// The one at a place.
    pub fn get(&self, place: u32) -> Option<Flow> {
        self.row_of(place).map(|row| self.told(row))
    }

    fn told(&self, row: u32) -> Flow {
        let row = self.row(row);
        let used = &self.shapes[row.layout.shape as usize];
        let rewrite = row.rewrite((&used.shape, &used.key), &self.reasons);
        let [packets, bytes, last] = [row::PACKETS, row::BYTES, row::LAST].map(|at| row.words[at]);
        Flow { rewrite, shape: row.layout.shape, uncredited: (packets, bytes, last) }
    }

    /// The places that are taken.
    pub fn places(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().enumerate().filter(|(_, row)| **row != NONE).map(|(place, _)| place as u32)
    }

    #[inline]
    pub(super) fn hash(&self, shape: u32, lead: u64, words: &[u64]) -> u64 {
        self.secrets.hash(shape, lead, words)
    }

    /// The row that may be that of a key with this hash, or [`NONE`].
    #[inline]
    pub(super) fn candidate(&self, hash: u64) -> u32 {
        self.by_key.get(hash)
    }

    /// It will be asked for soon.
    #[inline]
    pub(super) fn candidate_soon(&self, hash: u64) {
        self.by_key.soon(hash);
    }

    /// The first lines of a row will be read soon.
    #[inline]
    pub(super) fn row_soon(&self, row: u32, lines: usize) {
        self.rows.soon(row, lines);
    }

    /// Whether the row is that of a key, and right for the packet.
    #[inline]
    pub(super) fn is_for(
        &self,
        row: u32,
        (shape, (lead, words)): (u32, (u64, &[u64])),
        (window, length): (&Window, usize),
    ) -> bool {
        let row = self.row(row);
        let same = row.key().split_first().is_some_and(|(first, rest)| *first == lead && begins(rest, words));
        row.layout.shape == shape && same && row.fits(window, length)
    }

    /// [`Flows::hash`] of a key that is kept.
    pub(super) fn hash_of(&self, shape: u32, key: &[u64]) -> u64 {
        key.split_first().map_or(0, |(lead, words)| self.hash(shape, *lead, words))
    }

    /// The number of a shape for rewrites that ask for these bits, of packets that leave or not.
    ///
    /// # Errors
    /// None is free.
    pub fn shape(&mut self, shape: &Shape, leaves: bool) -> Result<u32, Unrewritable> {
        let mut number = self.shapes.iter().position(|used| used.shape == *shape);
        if number.is_none() && self.shapes.len() >= PLENTY {
            // More of the key is constant then, which is as right.
            number = self.shapes.iter().position(|used| used.shape.says_more_than(shape));
            if number.is_none() && (self.shapes.len() >= MAX_SHAPES || !leaves) {
                return Err(Unrewritable::Shapes);
            }
        }
        Ok(number.unwrap_or_else(|| {
            // Until its first flow comes nothing is known of the bits in which they agree.
            let gate = ([0; GATE.1], [0xff; GATE.1]);
            let key = KeyForm::new(shape);
            self.depth = self.depth.max(key.depth());
            self.gates.push([0, u128::MAX]);
            self.shapes.push(Used { shape: shape.clone(), gate, key, code: Native::default() });
            self.shapes.len() - 1
        }) as u32)
    }

    /// How many of a packet's first bytes its key, and what is made of them, depend on, for all rewrites that there were: a multiple of 8, at most [`WINDOW`].
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// How many lines of a row a packet that hits reads, at most, of all rewrites that there were.
    pub(super) fn hot_lines(&self) -> usize {
        self.hot_lines
    }

    /// How packets of a shape give their keys.
    pub fn key_form(&self, shape: u32) -> &KeyForm {
        &self.shapes[shape as usize].key
    }

    /// Somebody has this in common with others: its number, until [`Flows::drop_layout`].
    pub fn share(&mut self, layout: Layout) -> u32 {
        if let Some(number) = self.by_layout.get(&layout) {
            self.layouts[*number as usize].rows += 1;
            return *number;
        }
        self.depth = self.depth.max(layout.depth());
        self.hot_lines = self.hot_lines.max(layout.hot_words().div_ceil(LINE));
        let layout_shape = layout.shape;
        let shared = Shared { layout: Arc::new(layout), layout_shape, rows: 1, code: Native::default() };
        let number = self.free_layouts.pop().unwrap_or(self.layouts.len() as u32);
        self.by_layout.insert(shared.layout.clone(), number);
        match self.layouts.get_mut(number as usize) {
            Some(free) => *free = shared,
            None => self.layouts.push(shared),
        }
        number
    }

    /// What has that number.
    pub fn layout(&self, number: u32) -> &Arc<Layout> {
        &self.layouts[number as usize].layout
    }

    /// One less has it.
    pub fn drop_layout(&mut self, number: u32) {
        let shared = &mut self.layouts[number as usize];
        shared.rows -= 1;
        if shared.rows == 0 {
            self.by_layout.remove(&shared.layout);
            self.free_layouts.push(number);
        }
    }

    /// A row is filled, and will be kept soon: what that touches is asked for. The row's words are left to somebody else's.
    pub(super) fn ready(&self, known: &Known, (layout, row): (u32, &mut Vec<u64>), ready: &mut Ready) {
        std::mem::swap(row, &mut ready.words);
        let layout = &self.layouts[layout as usize].layout;
        ready.hash = self.hash_of(layout.shape, &ready.words[HEADER..layout.set]);
        self.by_key.soon(ready.hash);
        let asked = Row { layout, words: &ready.words };
        self.fresh.lists_of(&known.witnesses, asked.questions(), &mut ready.lists);
        self.fresh.lists_soon(&ready.lists);
    }

    /// The same, of what that leads to, and of the memory that it will have, after `before` others.
    pub(super) fn ready_soon(&self, ready: &Ready, before: usize) {
        self.fresh.first_soon(&ready.lists);
        self.fresh.link_soon(&ready.lists, before);
        self.rows.take_soon(ready.words.len(), before);
    }

    /// Whether one that does the same to the same packets is kept already.
    pub(super) fn is_kept(&self, layout: u32, ready: &Ready) -> bool {
        let old = self.by_key.get(ready.hash);
        old != NONE && {
            let words = self.rows.at(old);
            row::of(words).0 == layout && row::says_same(&words[..ready.words.len()], &ready.words)
        }
    }

    /// Keeps a row, filled for a packet with these first bytes, which came then.
    ///
    /// # Errors
    /// There is no place.
    pub(super) fn insert(
        &mut self,
        known: &Known,
        layout: u32,
        ready: &Ready,
        (window, now): (&[u8; WINDOW], u64),
    ) -> Result<Placed, Unrewritable> {
        let Some(place) = self.free.pop() else { return Err(Unrewritable::NoRoom) };
        let shared = &mut self.layouts[layout as usize];
        shared.rows += 1;
        let used = &mut self.shapes[shared.layout.shape as usize];
        let shape_changed = match used.gate {
            ([0, ..], [0xff, ..]) => {
                used.begin(window);
                true
            }
            _ => used.admit(window),
        };
        self.gates[shared.layout.shape as usize] = used.words();
        let row = self.rows.take(ready.words.len());
        self.len += 1;
        let old = self.by_key.set(ready.hash, row);
        let replaced = (old != NONE).then(|| {
            let gone = (row::of(self.rows.at(old)).1, Box::new(self.told(old)));
            self.take_alone(known, old, false);
            gone
        });
        let nodes = self.fresh.link((0, place), &ready.lists);
        let to = &mut self.rows.at_mut(row)[..ready.words.len()];
        to.copy_from_slice(&ready.words);
        row::set_of(to, (layout, place), nodes);
        to[row::LAST] = now;
        self.places[place as usize] = row;
        Ok(Placed { place, shape_changed, replaced })
    }

    /// Takes one out. Its place stays taken until [`Flows::release`].
    pub fn remove(&mut self, known: &Known, place: u32) -> Option<Flow> {
        let number = self.row_of(place)?;
        let flow = self.told(number);
        self.take_alone(known, number, true);
        Some(flow)
    }

    /// The place may be used again.
    pub fn release(&mut self, place: u32) {
        if self.places.get(place as usize).is_some_and(|row| *row == NONE) {
            self.free.push(place);
        }
    }

    /// Rows that are gone have left too much memory that others cannot use: all should go.
    pub fn are_scattered(&self) -> bool {
        self.rows.are_scattered(self.places.len())
    }

    /// All memory of rows is as if none had been, if there are none. Their numbers mean nothing any more.
    pub(super) fn renew(&mut self) -> bool {
        let empty = self.is_empty();
        if empty {
            self.rows.clear();
            self.fresh.forget_nodes();
        }
        empty
    }

    /// Free places.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// The words of a row, to count in.
    #[inline]
    pub fn words_mut(&mut self, row: u32) -> &mut [u64] {
        self.rows.at_mut(row)
    }

    /// Up to `count` that had no packet since the clock's hand passed last, in at most two rounds; they stay until they are removed.
    pub fn oldest(&mut self, count: usize) -> Vec<u32> {
        let mut found = Vec::new();
        for step in 0..2 * self.places.len() {
            if found.len() >= count.min(self.len) {
                break;
            }
            let place = self.hand as u32;
            self.hand = (self.hand + 1) % self.places.len().max(1);
            if let Some(ahead) = self.row_of((self.hand + AHEAD) as u32) {
                self.rows.soon(ahead, 1);
            }
            let Some(row) = self.row_of(place) else { continue };
            // None comes twice in one round.
            let again = step >= self.places.len() && found.contains(&place);
            if !row::pass(self.rows.at_mut(row)) && !again {
                found.push(place);
            }
        }
        found
    }

    /// Of the next `count` places those that had no packet since then; they stay until they are removed.
    pub fn unused_since(&mut self, then: u64, count: usize) -> Vec<u32> {
        let mut found = Vec::new();
        for _ in 0..count.min(self.places.len()) {
            let place = self.idle_hand as u32;
            self.idle_hand = (self.idle_hand + 1) % self.places.len();
            if let Some(ahead) = self.row_of((self.idle_hand + AHEAD) as u32) {
                self.rows.soon(ahead, 1);
            }
            if self.row_of(place).is_some_and(|row| self.rows.at(row)[row::LAST] < then) {
                found.push(place);
            }
        }
        found
    }

    /// What a change makes stale. `number` is that of the entry that is changed or deleted.
    pub fn stale<R: Runs>(
        &self,
        known: &Known,
        runs: &R,
        (change, number): (&Change, Option<u32>),
        stale: &mut BTreeSet<u32>,
    ) {
        match change {
            Change::Inserted(table, entry, _) => {
                let witness = &known.witnesses[table.index()];
                self.who_asked(known, *table, (entry, None), stale, |asked| {
                    let found = asked.found.and_then(|number| runs.entry_of(*table, number));
                    found.is_none_or(|found| witness.is_stronger(entry, &found)) && may_match(witness, asked, entry)
                });
            }
            Change::Modified(table, entry, ..) | Change::Deleted(table, entry) => {
                self.gone(known, *table, entry, number, stale);
            }
            Change::DefaultAction(table) => stale.extend(self.fresh.missed(table.0).map(|(_, place)| place)),
            // What a value set has was asked without a note.
            Change::ValueSet(_) => stale.extend(self.places()),
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
            let row = self.row_of(*place).map(|row| self.row(row));
            row.is_some_and(|row| row.asked(table.0).any(|asked| concerns(&asked)))
        }));
    }
}
