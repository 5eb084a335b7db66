//! Maps the difference between two texts to items of one list.

use super::difference::TextDifference;
use super::text::PieceText;
use crate::sections::{Section, Sections, is_item, is_key, line_count, next_item};
use std::ops::Range;

/// Items that differ between two texts: whole items in both.
pub(super) struct Hunk {
    pub section: Section,
    /// Their byte range in the old text.
    pub bytes: Range<usize>,
    /// Their old text.
    pub old: String,
    /// Their new text.
    pub new: String,
    /// The line of the first item in both texts, from 1.
    pub line: u32,
    /// Number of lines of the new text minus those of the old text.
    pub lines: i64,
    /// The indent of each item, in columns.
    pub indent: usize,
}

impl Hunk {
    /// Returns the items in which two texts differ. `None` if they also differ elsewhere.
    pub fn find(sections: &Sections, old: &PieceText, difference: &TextDifference) -> Option<Hunk> {
        let TextDifference { old: differing, new } = difference;
        let begin = old.line_start(differing.start);
        let (key, Range { start: header, end }) = sections.key_at(begin, old.len())?;
        let section = Section::of(key).filter(|section| matches!(section, Section::Vpcs | Section::Vms))?;
        let indent = sections.item_indent(section)?;
        // Text before the first item is not an item.
        let start = item_start(old, header, begin, indent)?;
        let old_end = item_end(old, differing.end, end, indent)?;
        let before = old.slice(start..old_end);
        let mut after = Vec::new();
        old.append(start..differing.start, &mut after);
        after.extend_from_slice(new);
        old.append(differing.end..old_end, &mut after);
        let after = String::from_utf8(after).ok()?;
        // The list still ends at a line end.
        (after.is_empty() || after.ends_with('\n') || old_end == old.len()).then_some(())?;
        // Anchors and merges connect items with others; a key or a marker ends the list.
        let is_apart = |text: &str| !text.contains(['&', '*', '\t']) && !text.contains("<<") && !text.contains('!');
        let has_key = |text: &str| text.split_inclusive('\n').any(is_key);
        if !is_apart(&before) || !is_apart(&after) || has_key(&after) || !is_item(&after, indent) && !after.is_empty() {
            return None;
        }
        let line = u32::try_from(1 + old.lines_before(start)).ok()?;
        let lines = line_count(&after) as i64 - line_count(&before) as i64;
        Some(Hunk { section, bytes: start..old_end, old: before, new: after, line, lines, indent })
    }

    /// Removes equal items at both ends, and returns their numbers. Such items exist because the
    /// byte difference starts within an item if a new item is inserted before one with an equal
    /// beginning.
    pub fn trim_equal_items(&mut self) -> [usize; 2] {
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

/// Splits a text into items. The text starts with an item or is empty.
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

/// Returns the start of the item that contains a line. `None` if the line is before all items of
/// the list. `header` is the offset of the list's key.
fn item_start(text: &PieceText, header: usize, line: usize, indent: usize) -> Option<usize> {
    if text.lines_from(line).next().is_some_and(|(_, line)| is_item(line, indent)) {
        return Some(line);
    }
    let mut before = text.lines_to(line).take_while(|(start, _)| *start > header);
    before.find(|(_, line)| is_item(line, indent)).map(|(start, _)| start)
}

/// Returns the end of the item in which the difference ends, or of the list.
fn item_end(text: &PieceText, at: usize, end: usize, indent: usize) -> Option<usize> {
    if at > end {
        return None;
    }
    // The difference can end at a line end or within a line.
    let begun = text.line_start(at);
    let mut lines = text.lines_from(begun).skip(usize::from(begun < at)).take_while(|(start, _)| *start < end);
    Some(lines.find(|(_, line)| is_item(line, indent)).map_or(end, |(start, _)| start))
}
