//! Where two texts differ, and which items of which list that is.

use std::ops::Range;

/// A list of the region file whose items are looked at one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Section {
    Vpcs,
    Vms,
}

impl Section {
    fn key(self) -> &'static str {
        match self {
            Section::Vpcs => "vpcs",
            Section::Vms => "vms",
        }
    }
}

/// Where each key of the file stands, by the offset of its line.
#[derive(Debug)]
pub(super) struct Sections {
    keys: Vec<(String, usize)>,
    /// The columns in front of the items of each list.
    indents: Vec<(Section, usize)>,
}

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
}

/// A line that begins at the margin with something else than a comment, an item or nothing.
fn is_key(line: &str) -> bool {
    line.starts_with(|c: char| !matches!(c, ' ' | '\t' | '#' | '-' | '\r' | '\n')) || is_marker(line)
}

/// The beginning or the end of a YAML document.
fn is_marker(line: &str) -> bool {
    line.starts_with("---") || line.starts_with("...")
}

/// Whether a line begins an item of a list with this indent.
fn is_item(line: &str, indent: usize) -> bool {
    let Some((blanks, content)) = line.split_at_checked(indent) else { return false };
    blanks.bytes().all(|b| b == b' ') && content.starts_with('-') && content[1..].starts_with([' ', '\n', '\r'])
}

pub(super) fn line_count(text: &str) -> u64 {
    text.bytes().filter(|b| *b == b'\n').count() as u64
}

/// How many items begin in a text.
pub(super) fn count(text: &str, indent: usize) -> usize {
    text.split_inclusive('\n').filter(|line| is_item(line, indent)).count()
}

impl Sections {
    pub fn of(text: &str) -> Sections {
        let mut keys: Vec<(String, usize)> = Vec::new();
        let mut indents: Vec<(Section, usize)> = Vec::new();
        let mut waiting = None;
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            if is_key(line) {
                let key = line.split([':', ' ', '\n', '\r']).next().unwrap_or_default().trim_start_matches('\u{feff}');
                waiting = [Section::Vpcs, Section::Vms].into_iter().find(|section| section.key() == key);
                keys.push((key.to_owned(), at));
            } else if let Some(section) = waiting
                && let content = line.trim_start_matches(' ')
                && !content.trim_end().is_empty()
                && !content.starts_with('#')
            {
                if content.starts_with("- ") || content.trim_end() == "-" {
                    indents.push((section, line.len() - content.len()));
                }
                waiting = None;
            }
            at += line.len();
        }
        Sections { keys, indents }
    }

    /// The columns in front of the items of a list; none if its items do not stand in lines of their own.
    pub fn indent(&self, section: Section) -> Option<usize> {
        self.indents.iter().find(|(of, _)| *of == section).map(|(_, indent)| *indent)
    }

    /// Whether a key stands behind a list.
    pub fn is_behind(&self, key: &str, section: Section) -> bool {
        let place = |wanted: &str| self.keys.iter().position(|(key, _)| key == wanted);
        place(key) > place(section.key())
    }

    /// Moves what stands at `from` or behind it.
    pub fn shift(&mut self, from: usize, by: i64) {
        for (_, at) in self.keys.iter_mut().filter(|(_, at)| *at >= from) {
            *at = at.saturating_add_signed(by as isize);
        }
    }

    /// The items in which two texts differ; none if they differ elsewhere, too, or nowhere.
    pub fn hunk<'a>(&self, old: &str, new: &'a str) -> Option<Hunk<'a>> {
        let differing = differing(old.as_bytes(), new.as_bytes())?;
        let begin = line_start(old, differing.start);
        let next = self.keys.partition_point(|(_, at)| *at <= begin);
        let (key, header) = self.keys.get(next.checked_sub(1)?)?;
        let section = [Section::Vpcs, Section::Vms].into_iter().find(|section| section.key() == *key)?;
        let end = self.keys.get(next).map_or(old.len(), |(_, at)| *at);
        let indent = self.indent(section)?;
        // In front of the first item is something else.
        let first = first_item(&old[*header..begin], &old[begin..end], indent)?;
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
        Some(Hunk { section, bytes: start..old_end, new: after, line, lines })
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
    let mut next =
        if at == line_start(text, at) { at } else { at + text[at..end].find('\n').map_or(end - at, |n| n + 1) };
    while next < end && !is_item(&text[next..end], indent) {
        next += text[next..end].find('\n').map_or(end - next, |newline| newline + 1);
    }
    (next >= at).then_some(next)
}
