//! A region file without most of its plain items, for the YAML reader, which takes long for each.
//!
//! Plain items (`plain`) are read on the way. Of those that follow each other, a *run*, the first
//! stays in the text:
//!
//! ```text
//! vms:                                  vms:
//! - {name: a, vpc: v, ...}   run 0      - {name: a, vpc: v, ...}
//! - {name: b, vpc: v, ...}   run 0
//! - &c {name: c, ...}                   - &c {name: c, ...}
//! - {name: d, vpc: v, ...}   run 1      - {name: d, vpc: v, ...}
//! - {name: e, vpc: v, ...}   run 1
//! ```
//!
//! If the YAML reader gives that first item for its place, it has looked at a list of such items
//! there, and each item leaves it in the state in which the one before did: so it would have
//! given the others, too. In every other case, and if anything is wrong, the text is read as a
//! whole.

use crate::item_list::ItemList;
use crate::model::{Name, RegionFile, Server, Vm, Vpc};
use crate::plain::{Cursor, read_item};
use crate::position::Position;
use crate::sections::{Section, Sections, line_count, next_item};
use crate::shift::Shift;
use crate::yaml;
use serde::de::DeserializeOwned;
use std::ops::Range;

/// Of a text larger than this, no abridged one is made that has more than half of it: there would
/// be two of them.
const SMALL_BYTES: usize = 1 << 20;

/// Plain items of a list of the file.
#[derive(Debug)]
struct Plain<T> {
    items: Vec<T>,
    /// The indices of those that follow each other in the text.
    runs: Vec<Range<usize>>,
}

impl<T> Default for Plain<T> {
    fn default() -> Plain<T> {
        Plain { items: Vec::new(), runs: Vec::new() }
    }
}

/// The text without the items that were read, and these.
struct Abridged {
    text: String,
    /// From which line of the abridged text on how many lines are missing in front of it.
    missing: Vec<(u32, u32)>,
    servers: Plain<Server>,
    vpcs: Plain<Vpc>,
    vms: Plain<Vm>,
}

/// Reads a text by way of an abridged one. None if nothing can be left out of it, or anything is
/// wrong with it.
pub(crate) fn read(text: &str, sections: &Sections) -> Option<RegionFile> {
    let abridged = Abridged::of(text, sections)?;
    let Abridged { text: short, missing, servers, vpcs, vms } = abridged;
    let mut file: RegionFile = yaml::read(&short, text.len()).ok()?;
    drop(short);
    file.relocate(&|at| in_whole(&missing, at));
    file.servers = merged(file.servers, servers, |server| &server.name)?;
    file.vpcs = merged(file.vpcs, vpcs, |vpc| &vpc.name)?;
    file.vms = ItemList::from(merged(file.vms.into(), vms, |vm| &vm.name)?);
    Some(file)
}

/// Where in the whole text something of the abridged one is.
fn in_whole(missing: &[(u32, u32)], at: Position) -> Position {
    let next = missing.partition_point(|(from, _)| *from <= at.line);
    at.shifted(next.checked_sub(1).map_or(0, |last| i64::from(missing[last].1)))
}

/// What was read of the abridged text, with all items of each run for the first one; none if one
/// of these is not there.
fn merged<T>(read: Vec<T>, plain: Plain<T>, name: impl Fn(&T) -> &Name) -> Option<Vec<T>> {
    let is_same = |a: &T, b: &T| name(a).at == name(b).at && name(a) == name(b);
    if let ([first], [run]) = (&*read, &*plain.runs)
        && run.len() == plain.items.len()
    {
        return is_same(first, &plain.items[0]).then_some(plain.items);
    }
    let mut merged = Vec::with_capacity(read.len() + plain.items.len());
    let mut items = plain.items.into_iter();
    let mut runs = plain.runs.into_iter().peekable();
    for item in read {
        match runs.next_if(|_| items.as_slice().first().is_some_and(|first| is_same(&item, first))) {
            Some(run) => merged.extend(items.by_ref().take(run.len())),
            None => merged.push(item),
        }
    }
    runs.next().is_none().then_some(merged)
}

impl Abridged {
    /// None if too little can be left out.
    fn of(text: &str, sections: &Sections) -> Option<Abridged> {
        let mut abridging = Abridging { text, done: 0, at: 0, line: 1, short: String::new(), missing: Vec::new() };
        let (mut servers, mut vpcs, mut vms) = (Plain::default(), Plain::default(), Plain::default());
        for (section, bytes, indent) in sections.lists(text.len()) {
            match section {
                Section::Servers => abridging.read_list(bytes, indent, &mut servers)?,
                Section::Vpcs => abridging.read_list(bytes, indent, &mut vpcs)?,
                Section::Vms => abridging.read_list(bytes, indent, &mut vms)?,
            }
        }
        abridging.keep(text.len())?;
        (!abridging.missing.is_empty()).then_some(Abridged {
            text: abridging.short,
            missing: abridging.missing,
            servers,
            vpcs,
            vms,
        })
    }
}

/// An abridged text in the making.
struct Abridging<'a> {
    text: &'a str,
    /// What is before this offset is in the abridged text, or left out.
    done: usize,
    /// An offset up to which lines were counted, and the line there.
    at: usize,
    line: u32,
    short: String,
    missing: Vec<(u32, u32)>,
}

impl Abridging<'_> {
    /// Reads the items of a list.
    fn read_list<T: DeserializeOwned>(
        &mut self,
        list: Range<usize>,
        indent: usize,
        plain: &mut Plain<T>,
    ) -> Option<()> {
        let text = &self.text[..list.end];
        self.advance(next_item(text, list.start, list.end, indent));
        // An alias of the list would mean fewer items.
        if text[list.start..self.at].contains('&') {
            return Some(());
        }
        // The end of a run's first item.
        let mut behind_first = None;
        while self.at < list.end {
            let mut cursor = Cursor::new(text, self.at, self.line);
            if let Some(item) = read_item(&mut cursor, indent) {
                (self.at, self.line) = (cursor.line_start(), cursor.line());
                if behind_first.is_none() {
                    behind_first = Some((self.at, self.line));
                    plain.runs.push(plain.items.len()..plain.items.len());
                }
                plain.items.push(item);
                plain.runs.last_mut()?.end += 1;
            } else {
                self.end_run(behind_first.take())?;
                let line_end = text[self.at..].find('\n').map_or(text.len(), |newline| self.at + newline + 1);
                self.advance(next_item(text, line_end, list.end, indent));
            }
        }
        self.end_run(behind_first)
    }

    /// Goes on to the beginning of a line.
    fn advance(&mut self, to: usize) {
        self.line = self.line.saturating_add(u32::try_from(line_count(&self.text[self.at..to])).unwrap_or(u32::MAX));
        self.at = to;
    }

    /// Leaves out what follows a run's first item, up to here.
    fn end_run(&mut self, behind_first: Option<(usize, u32)>) -> Option<()> {
        let Some((start, line)) = behind_first.filter(|(start, _)| *start < self.at) else { return Some(()) };
        self.keep(start)?;
        self.done = self.at;
        let before = self.missing.last().map_or(0, |(_, lines)| *lines);
        let lines = before + (self.line - line);
        self.missing.push((self.line - lines, lines));
        Some(())
    }

    /// Takes what is in front of an offset into the abridged text; none if that becomes too large.
    fn keep(&mut self, end: usize) -> Option<()> {
        let bytes = self.short.len() + (end - self.done);
        (self.text.len() <= SMALL_BYTES || bytes <= self.text.len() / 2).then_some(())?;
        self.short.push_str(&self.text[self.done..end]);
        self.done = end;
        Some(())
    }
}

#[cfg(test)]
mod tests;
