//! Where two texts differ, and which items of which list that is.

use crate::sections::{Section, Sections, is_item, is_key, line_count, next_item};
use std::ops::Range;

/// Items that differ between two texts: whole items, in both.
pub(super) struct Hunk<'a> {
    pub section: Section,
    /// Their bytes in the old text.
    pub bytes: Range<usize>,
    /// Their text in the new one.
    pub new: &'a str,
    /// The line in which they begin, from 1, in both.
    pub line: u32,
    /// How many more lines the new ones have.
    pub lines: i64,
    /// The columns in front of each.
    pub indent: usize,
}

impl<'a> Hunk<'a> {
    /// The items in which two texts differ; none if they differ elsewhere, too, or nowhere.
    pub fn find(sections: &Sections, old: &str, new: &'a str) -> Option<Hunk<'a>> {
        let differing = differing(old.as_bytes(), new.as_bytes())?;
        let begin = line_start(old, differing.start);
        let (key, Range { start: header, end }) = sections.at(begin, old.len())?;
        let section = Section::of(key).filter(|section| matches!(section, Section::Vpcs | Section::Vms))?;
        let indent = sections.indent(section)?;
        // In front of the first item is something else.
        let first = first_item(&old[header..begin], &old[begin..end], indent)?;
        let start = header + first;
        let old_end = item_end(old, differing.end, end, indent)?;
        let new_end = (old_end + new.len()).checked_sub(old.len())?;
        let (before, after) = (&old[start..old_end], new.get(start..new_end)?);
        // The list ends where it did, in a line of its own.
        let ends_line = new_end == line_start(new, new_end) || new_end == new.len();
        ends_line.then_some(())?;
        // Anchors and merges join items to others; a key or a marker begins something else.
        let is_apart = |text: &str| !text.contains(['&', '*', '\t']) && !text.contains("<<") && !text.contains('!');
        let has_key = |text: &str| text.split_inclusive('\n').any(is_key);
        if !is_apart(before) || !is_apart(after) || has_key(after) || !is_item(after, indent) && !after.is_empty() {
            return None;
        }
        let line = u32::try_from(1 + line_count(&old[..start])).ok()?;
        let lines = line_count(after) as i64 - line_count(before) as i64;
        Some(Hunk { section, bytes: start..old_end, new: after, line, lines, indent })
    }
}

/// The bytes of the old text that the new one does not have, without what both have in front and behind; none if they are the same.
fn differing(old: &[u8], new: &[u8]) -> Option<Range<usize>> {
    let front = common(old.chunks(4096), new.chunks(4096), |a, b| a.iter().zip(b).take_while(|(x, y)| x == y).count());
    if front == old.len() && front == new.len() {
        return None;
    }
    let most = old.len().min(new.len()) - front;
    let behind = common(old[old.len() - most..].rchunks(4096), new[new.len() - most..].rchunks(4096), |a, b| {
        a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count()
    });
    Some(front..old.len() - behind)
}

/// How many bytes are the same, chunk by chunk.
fn common<'a>(
    old: impl Iterator<Item = &'a [u8]>,
    new: impl Iterator<Item = &'a [u8]>,
    in_part: impl Fn(&[u8], &[u8]) -> usize,
) -> usize {
    let mut all = 0;
    for (a, b) in old.zip(new) {
        if a != b {
            return all + in_part(a, b);
        }
        all += a.len();
    }
    all
}

fn line_start(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1)
}

/// Where the item begins to which a line belongs, from the beginning of its list; none if that is in front of all items.
/// `before` is the list up to that line, `from` what begins with it.
fn first_item(before: &str, from: &str, indent: usize) -> Option<usize> {
    if is_item(from, indent) {
        return Some(before.len());
    }
    let mut end = before.len();
    while end > 0 {
        let start = line_start(before, end - 1);
        if is_item(&before[start..], indent) {
            return Some(start);
        }
        end = start;
    }
    None
}

/// The end of the item in which what differs ends, or of the list.
fn item_end(text: &str, at: usize, end: usize, indent: usize) -> Option<usize> {
    if at > end {
        return None;
    }
    // What differs may end with a line, or within one.
    let line = if at == line_start(text, at) { at } else { at + text[at..end].find('\n').map_or(end - at, |n| n + 1) };
    Some(next_item(text, line, end, indent))
}
