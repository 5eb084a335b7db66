//! Where two texts differ, and which items of which list that is.

use super::difference::Difference;
use super::text::Text;
use crate::sections::{Section, Sections, is_item, is_key, line_count, next_item};
use std::ops::Range;

/// Items that differ between two texts: whole items, in both.
pub(super) struct Hunk {
    pub section: Section,
    /// Their bytes in the old text.
    pub bytes: Range<usize>,
    /// Their text in it.
    pub old: String,
    /// Their text in the new one.
    pub new: String,
    /// The line in which they begin, from 1, in both.
    pub line: u32,
    /// How many more lines the new ones have.
    pub lines: i64,
    /// The columns in front of each.
    pub indent: usize,
}

impl Hunk {
    /// The items in which two texts differ; none if they differ elsewhere, too.
    pub fn find(sections: &Sections, old: &Text, difference: &Difference) -> Option<Hunk> {
        let Difference { old: differing, new } = difference;
        let begin = old.line_start(differing.start);
        let (key, Range { start: header, end }) = sections.at(begin, old.len())?;
        let section = Section::of(key).filter(|section| matches!(section, Section::Vpcs | Section::Vms))?;
        let indent = sections.indent(section)?;
        // In front of the first item is something else.
        let start = item_start(old, header, begin, indent)?;
        let old_end = item_end(old, differing.end, end, indent)?;
        let before = old.slice(start..old_end);
        let mut after = Vec::new();
        old.append(start..differing.start, &mut after);
        after.extend_from_slice(new);
        old.append(differing.end..old_end, &mut after);
        let after = String::from_utf8(after).ok()?;
        // The list ends where it did, in a line of its own.
        (after.is_empty() || after.ends_with('\n') || old_end == old.len()).then_some(())?;
        // Anchors and merges join items to others; a key or a marker begins something else.
        let is_apart = |text: &str| !text.contains(['&', '*', '\t']) && !text.contains("<<") && !text.contains('!');
        let has_key = |text: &str| text.split_inclusive('\n').any(is_key);
        if !is_apart(&before) || !is_apart(&after) || has_key(&after) || !is_item(&after, indent) && !after.is_empty() {
            return None;
        }
        let line = u32::try_from(1 + old.lines_before(start)).ok()?;
        let lines = line_count(&after) as i64 - line_count(&before) as i64;
        Some(Hunk { section, bytes: start..old_end, old: before, new: after, line, lines, indent })
    }

    /// Leaves out the items that are the same in front and behind, and says how many these are:
    /// bytes that differ begin within an item if one is put in front of another that begins
    /// alike.
    pub fn trim(&mut self) -> [usize; 2] {
        let (old_items, new_items) = (items(&self.old, self.indent), items(&self.new, self.indent));
        let same = |(old, new): &(&&str, &&str)| old == new;
        let front = old_items.iter().zip(&new_items).take_while(same).count();
        let (old_items, new_items) = (&old_items[front..], &new_items[front..]);
        let back = old_items.iter().rev().zip(new_items.iter().rev()).take_while(same).count();
        let len = |items: &[&str]| items.iter().map(|item| item.len()).sum::<usize>();
        let [old_len, new_len] = [old_items, new_items].map(|items| len(&items[..items.len() - back]));
        let front_len = self.old.len() - len(old_items);
        self.line += line_count(&self.old[..front_len]) as u32;
        self.bytes = self.bytes.start + front_len..self.bytes.start + front_len + old_len;
        self.old = self.old[front_len..front_len + old_len].to_owned();
        self.new = self.new[front_len..front_len + new_len].to_owned();
        [front, back]
    }
}

/// The items of a text that begins with one, or has none.
fn items(text: &str, indent: usize) -> Vec<&str> {
    let mut items = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline + 1);
        let end = next_item(text, line_end, text.len(), indent);
        items.push(&text[start..end]);
        start = end;
    }
    items
}

/// Where the item begins to which a line belongs; none if that is in front of all items of its
/// list, whose key is at `header`.
fn item_start(text: &Text, header: usize, line: usize, indent: usize) -> Option<usize> {
    if text.lines_from(line).next().is_some_and(|(_, line)| is_item(line, indent)) {
        return Some(line);
    }
    let mut before = text.lines_to(line).take_while(|(start, _)| *start > header);
    before.find(|(_, line)| is_item(line, indent)).map(|(start, _)| start)
}

/// The end of the item in which what differs ends, or of the list.
fn item_end(text: &Text, at: usize, end: usize, indent: usize) -> Option<usize> {
    if at > end {
        return None;
    }
    // What differs may end with a line, or within one.
    let begun = text.line_start(at);
    let mut lines = text.lines_from(begun).skip(usize::from(begun < at)).take_while(|(start, _)| *start < end);
    Some(lines.find(|(_, line)| is_item(line, indent)).map_or(end, |(start, _)| start))
}
