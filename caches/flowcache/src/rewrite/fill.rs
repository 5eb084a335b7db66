//! Rewrites made of a [`Template`] without the program: constants of the new head are what the packet left with, a sum's constant is what
//! makes it come out, entries and counters were noted ([`super::noted`]).

use super::Unrewritable;
use super::form::{self};
use super::key::KeyForm;
use super::layout::{HEADER, Layout};
use super::noted::Noted;
use super::row::{self, Row};
use super::runs::Runs;
use super::sym::{Given, Pins};
use super::template::{Bytes, Counted, Template};
use super::window::{self, BLOCK, BLOCKS};
use ir::TableId;
use packet::Verdict;

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
        let lead = form.key(&window::window(&self.pins.window), (came.bytes.len(), came.port), &mut words);
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
        let window = window::window(&self.pins.window);
        if !row.fits(&window, came.len()) {
            return false;
        }
        if !matches!(left.verdict, Verdict::Forward { .. }) {
            return true;
        }
        let mut head = window::EMPTY;
        let (len, taken) = row.write(&window, came.len(), &mut head);
        let behind = came.get(taken..).unwrap_or_default();
        left.bytes.len() == len + behind.len() && left.bytes[..len] == head[..len] && &left.bytes[len..] == behind
    }
}
