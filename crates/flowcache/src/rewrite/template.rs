//! [`Template`]: what all rewrites of a way have in common.
//!
//! Which bits make the key, which bits of the new head are the packet's own, which lengths and sums are written and checked: that is the same for all packets
//! that decide alike, unless a value says it ([`super::sym::Pins::by_value`]). The rest is found without the program: constants of the new head are what the packet left with,
//! a sum's constant is what makes it come out, entries and counters were noted ([`super::noted`]). A rewrite that does not do to the packet itself what was done
//! is not made.

use super::Unrewritable;
use super::form::{self, Check, Shape, Sum, WINDOW};
use super::hot;
use super::key::{BLOCK, BLOCKS, KeyForm};
use super::layout::{HEADER, Layout};
use super::noted::Noted;
use super::row::{self, Row};
use super::runs::Runs;
use super::sym::{Bound, Given, Length, Pins, Words};
use interp::ByteForm;
use ir::{ExternId, TableId};
use packet::Verdict;

/// What a packet of the way adds to. Table applications and counts are numbers of what was noted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Counted {
    /// The tally of an action of a table, with a hit or without.
    Applied(TableId, u32, bool),
    /// The entry that the application found.
    Hit(usize),
    /// Its direct counter.
    Direct(usize),
    /// Its idle time.
    Restart(usize),
    /// An element of a counter.
    Counter(ExternId, usize),
}

impl Counted {
    /// The application whose entry is concerned.
    pub fn application(self) -> Option<usize> {
        match self {
            Counted::Hit(at) | Counted::Direct(at) | Counted::Restart(at) => Some(at),
            Counted::Applied(..) | Counted::Counter(..) => None,
        }
    }
}

/// How many bytes are counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bytes {
    /// A length.
    Length(Length),
    /// So many.
    These(u64),
}

impl Bytes {
    /// The packet's length.
    pub const LENGTH: Bytes = Bytes::Length(Length::of_packet(0));

    /// Whether each flow has a number of its own.
    pub fn is_own(self) -> bool {
        matches!(self, Bytes::Length(Length { of: Some(_), .. }))
    }

    /// For a flow, which may have that one.
    pub fn of(self, own: impl FnOnce() -> u64) -> ByteForm {
        match self {
            Bytes::Length(Length { of: Some(_), .. }) => ByteForm { length: true, add: own() },
            Bytes::Length(Length { more, .. }) => ByteForm { length: true, add: more as u64 },
            Bytes::These(bytes) => ByteForm { length: false, add: bytes },
        }
    }
}

/// The new beginning of a packet. See [`form::Head`].
#[derive(Clone, Debug)]
pub struct NewHead {
    pub grow: i16,
    pub len: u16,
    pub keep: [u8; WINDOW],
    pub lengths: Vec<(u16, Length)>,
    pub sums: Vec<(u16, Words, bool)>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Template {
    pub shape: Shape,
    pub bounds: Vec<Bound>,
    pub checks: Vec<(Words, Check)>,
    /// `None`: it is dropped.
    pub head: Option<Box<NewHead>>,
    pub credits: Vec<(Counted, Bytes)>,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Left<'p> {
    pub verdict: Verdict,
    /// As it left.
    pub bytes: &'p [u8],
}

/// A packet as it came.
#[derive(Clone, Copy, Debug)]
pub struct Came<'p> {
    pub bytes: &'p [u8],
    pub port: u32,
}

impl Template {
    /// What of a sum is the same for all flows.
    pub fn terms(&self, words: &Words) -> Sum {
        Pins::terms(&self.shape.mask, words)
    }

    /// Puts into `row` the rewrite of a packet of the way, and what became of it; `own`: of the one that this was made from. `reason`: the number of the reason for a drop.
    ///
    /// # Errors
    /// It is not as the template says.
    pub fn fill<R: Runs>(
        &self,
        (layout, key): (&Layout, &KeyForm),
        (came, left, own): (Came<'_>, Left<'_>, bool),
        (noted, runs): (&Noted, &R),
        reason: u32,
        row: &mut Vec<u64>,
    ) -> Result<(), Unrewritable> {
        row.clear();
        row.resize(layout.words, 0);
        let given = |given: Given| {
            let application = noted.application(given.application as usize)?;
            runs.arg(TableId(application.table as u32), application.found, given.word as usize)
        };
        let mut pins = Pins::new(came.bytes);
        pins.again(&self.shape.mask, &self.bounds, given).ok_or(Unrewritable::Aborted)?;
        let filled = Filling { layout, pins: &mut pins, row }.fill(self, (came, left, own), (noted, runs), key, reason);
        filled.ok_or(Unrewritable::Aborted)
    }
}

/// A row that is being filled.
struct Filling<'f> {
    layout: &'f Layout,
    pins: &'f mut Pins,
    row: &'f mut [u64],
}

impl Filling<'_> {
    fn put(&mut self, at: usize, number: u32) {
        row::put(&mut self.row[self.layout.smalls..], at, number);
    }

    fn fill<R: Runs>(
        mut self,
        template: &Template,
        (came, left, own): (Came<'_>, Left<'_>, bool),
        (noted, runs): (&Noted, &R),
        form: &KeyForm,
        reason: u32,
    ) -> Option<()> {
        match (left.verdict, &template.head) {
            (Verdict::Forward { port }, Some(head)) => {
                self.put(0, port.0);
                self.head(head, left.bytes, own)?;
            }
            (Verdict::Drop(_), None) => self.put(0, reason),
            _ => return None,
        }
        for (at, (words, _)) in template.checks.iter().enumerate() {
            let constant = row::constant(self.pins.closed(words));
            self.put(self.layout.checked + at, constant);
        }
        self.noted(noted, runs)?;
        let (first, last) = self.pins.lengths;
        row::set_lengths(self.row, (first.max(0) as u32, last.clamp(0, i64::from(u32::MAX)) as u32));
        let mut words = [[0; BLOCK]; BLOCKS];
        let lead = form.key(&hot::window(&self.pins.window), (came.bytes.len(), came.port), &mut words);
        self.row[HEADER] = lead;
        self.row[HEADER + 1..self.layout.set].copy_from_slice(&words.as_flattened()[..form.len() - 1]);
        self.does(came.bytes, left).then_some(())
    }

    fn head(&mut self, head: &super::template::NewHead, left: &[u8], own: bool) -> Option<()> {
        let left = left.get(..usize::from(head.len))?;
        let mut set = form::window(left);
        set.iter_mut().zip(&head.keep).take(left.len()).for_each(|(byte, keep)| *byte &= !keep);
        // Lengths and sums are written over it.
        let written = head.lengths.iter().map(|(at, _)| *at).chain(head.sums.iter().map(|(at, ..)| *at));
        written.for_each(|at| set[usize::from(at)..usize::from(at) + 2].fill(0));
        let room = &mut self.row[self.layout.set..self.layout.smalls];
        room.iter_mut().zip(form::words(&set)).for_each(|(to, word)| *to = word);
        for (at, (_, length)) in head.lengths.iter().enumerate() {
            let add = self.pins.more(*length) as i32;
            self.put(1 + at, add as u32);
        }
        let layout = self.layout;
        let sums = &layout.front.as_ref()?.sums;
        for (number, ((at, words, complement), (_, terms, _))) in head.sums.iter().zip(sums).enumerate() {
            let at = usize::from(*at);
            let value = u16::from_be_bytes([*left.get(at)?, *left.get(at + 1)?]);
            let constant = match words.open && !own {
                true => self.pins.solve(words, terms, if *complement { !value } else { value })?,
                false => self.pins.closed(words),
            };
            self.put(layout.sums + number, row::constant(constant));
        }
        Some(())
    }

    /// What was noted.
    fn noted<R: Runs>(&mut self, noted: &Noted, runs: &R) -> Option<()> {
        let layout = self.layout;
        let mut keys = layout.keys;
        let same = noted.applications() == layout.asked.len();
        for (at, (table, key)) in noted.tables().enumerate().take(layout.asked.len()) {
            if layout.asked[at] != (table as u32, key.len() as u32) {
                return None;
            }
            self.row[keys..keys + key.len()].copy_from_slice(key);
            keys += key.len();
            if let Some(number) = noted.application(at)?.found {
                self.put(layout.found + at, number.checked_add(1)?);
            }
        }
        let (mut generation, mut index, mut add) = (layout.generations, layout.indices, layout.adds);
        for (counted, bytes) in &layout.credits {
            if let Some(at) = counted.application() {
                let application = noted.application(at)?;
                self.put(generation, runs.generation(TableId(application.table as u32), application.found?));
                generation += 1;
            }
            if let Counted::Counter(_, count) = counted {
                self.row[index] = noted.index(*count)?;
                index += 1;
            }
            if let (true, Bytes::Length(length)) = (bytes.is_own(), bytes) {
                self.row[add] = self.pins.more(*length) as u64;
                add += 1;
            }
        }
        same.then_some(())
    }

    /// Whether it does to the packet what was done to it.
    fn does(&self, came: &[u8], left: Left<'_>) -> bool {
        let row = Row { layout: self.layout, words: self.row };
        let window = hot::window(&self.pins.window);
        if !row.fits(&window, came.len()) {
            return false;
        }
        if !matches!(left.verdict, Verdict::Forward { .. }) {
            return true;
        }
        let mut head = hot::EMPTY;
        let (len, taken) = row.write(&window, came.len(), &mut head);
        let behind = came.get(taken..).unwrap_or_default();
        left.bytes.len() == len + behind.len() && left.bytes[..len] == head[..len] && &left.bytes[len..] == behind
    }
}
