//! Reads a region file with most of its plain items removed, because the YAML reader is slow.
//!
//! The plain reader (`plain`) reads items of simple form first. Of a *run* of consecutive plain
//! items, only the first stays in the text:
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
//! If the YAML reader returns that first item at its position, it was inside a list of such items
//! there. Each plain item leaves it in the same state as the item before, so it would have returned
//! the others, too. In every other case, and on any error, the whole text is read by the YAML
//! reader.

use crate::item_list::ItemList;
use crate::model::{Name, RegionFile, Server, Vm, Vpc};
use crate::plain::{PlainCursor, read_item};
use crate::sections::{Section, Sections, line_count, next_item};
use crate::shift::Shift;
use crate::spanned::SourcePos;
use crate::yaml;
use serde::de::DeserializeOwned;
use std::ops::Range;

/// For larger texts, the abridged text can have at most half of their size, because both are in
/// memory at the same time.
const SMALL_BYTES: usize = 1 << 20;

/// Plain items of one list of the file.
#[derive(Debug)]
struct PlainItems<T> {
    items: Vec<T>,
    /// Index ranges of items that are consecutive in the text.
    runs: Vec<Range<usize>>,
}

impl<T> Default for PlainItems<T> {
    fn default() -> PlainItems<T> {
        PlainItems { items: Vec::new(), runs: Vec::new() }
    }
}

/// A text without the plain items that were read, and these items.
struct AbridgedText {
    text: String,
    /// Pairs of a line of the abridged text and the number of lines that were removed before it.
    missing: Vec<(u32, u32)>,
    servers: PlainItems<Server>,
    vpcs: PlainItems<Vpc>,
    vms: PlainItems<Vm>,
}

/// Reads a text through an abridged one. `None` if too little can be removed, or on any error.
pub(crate) fn read_abridged(text: &str, sections: &Sections) -> Option<RegionFile> {
    let abridged = AbridgedText::of(text, sections)?;
    let AbridgedText { text: short, missing, servers, vpcs, vms } = abridged;
    let mut file: RegionFile = yaml::read(&short, text.len()).ok()?;
    drop(short);
    file.relocate(&|at| to_whole_position(&missing, at));
    file.servers = merge_runs(file.servers, servers, |server| &server.name)?;
    file.vpcs = merge_runs(file.vpcs, vpcs, |vpc| &vpc.name)?;
    file.vms = ItemList::from(merge_runs(file.vms.into(), vms, |vm| &vm.name)?);
    Some(file)
}

/// Converts a position in the abridged text to one in the whole text.
fn to_whole_position(missing: &[(u32, u32)], at: SourcePos) -> SourcePos {
    let next = missing.partition_point(|(from, _)| *from <= at.line);
    at.shifted(next.checked_sub(1).map_or(0, |last| i64::from(missing[last].1)))
}

/// Replaces the first item of each run by all items of the run. `None` if the first item of a run
/// is missing in `read`.
fn merge_runs<T>(read: Vec<T>, plain: PlainItems<T>, name: impl Fn(&T) -> &Name) -> Option<Vec<T>> {
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

impl AbridgedText {
    /// Reads the plain items and builds the abridged text. `None` if too little can be removed.
    fn of(text: &str, sections: &Sections) -> Option<AbridgedText> {
        let mut abridging = Abridger { text, done: 0, at: 0, line: 1, short: String::new(), missing: Vec::new() };
        let (mut servers, mut vpcs, mut vms) = (PlainItems::default(), PlainItems::default(), PlainItems::default());
        for (section, bytes, indent) in sections.item_lists(text.len()) {
            match section {
                Section::Servers => abridging.read_list(bytes, indent, &mut servers)?,
                Section::Vpcs => abridging.read_list(bytes, indent, &mut vpcs)?,
                Section::Vms => abridging.read_list(bytes, indent, &mut vms)?,
            }
        }
        abridging.copy_up_to(text.len())?;
        (!abridging.missing.is_empty()).then_some(AbridgedText {
            text: abridging.short,
            missing: abridging.missing,
            servers,
            vpcs,
            vms,
        })
    }
}

/// Builder of an abridged text.
struct Abridger<'a> {
    text: &'a str,
    /// Offset up to which the text was copied or removed.
    done: usize,
    /// Offset up to which lines were counted, and the line there.
    at: usize,
    line: u32,
    short: String,
    missing: Vec<(u32, u32)>,
}

impl Abridger<'_> {
    /// Reads the plain items of a list. `None` if the abridged text becomes too large.
    fn read_list<T: DeserializeOwned>(
        &mut self,
        list: Range<usize>,
        indent: usize,
        plain: &mut PlainItems<T>,
    ) -> Option<()> {
        let text = &self.text[..list.end];
        self.advance_to(next_item(text, list.start, list.end, indent));
        // With an anchor before the first item, an alias could repeat the list with fewer items.
        if text[list.start..self.at].contains('&') {
            return Some(());
        }
        // Offset and line after the first item of the current run.
        let mut behind_first = None;
        while self.at < list.end {
            let mut cursor = PlainCursor::new(text, self.at, self.line);
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
                self.advance_to(next_item(text, line_end, list.end, indent));
            }
        }
        self.end_run(behind_first)
    }

    /// Advances to the start of a line.
    fn advance_to(&mut self, to: usize) {
        self.line = self.line.saturating_add(u32::try_from(line_count(&self.text[self.at..to])).unwrap_or(u32::MAX));
        self.at = to;
    }

    /// Removes all items of a run after its first, up to the current offset.
    fn end_run(&mut self, behind_first: Option<(usize, u32)>) -> Option<()> {
        let Some((start, line)) = behind_first.filter(|(start, _)| *start < self.at) else { return Some(()) };
        self.copy_up_to(start)?;
        self.done = self.at;
        let before = self.missing.last().map_or(0, |(_, lines)| *lines);
        let lines = before + (self.line - line);
        self.missing.push((self.line - lines, lines));
        Some(())
    }

    /// Copies the text before `end` to the abridged text. `None` if that becomes too large.
    fn copy_up_to(&mut self, end: usize) -> Option<()> {
        let bytes = self.short.len() + (end - self.done);
        (self.text.len() <= SMALL_BYTES || bytes <= self.text.len() / 2).then_some(())?;
        self.short.push_str(&self.text[self.done..end]);
        self.done = end;
        Some(())
    }
}

#[cfg(test)]
mod tests;
