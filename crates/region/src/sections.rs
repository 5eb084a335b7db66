//! Locates the lists of a region file, and their items, in its text.

use std::ops::Range;

/// A list of the region file that is read item by item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Section {
    Servers,
    Vpcs,
    Vms,
}

impl Section {
    pub(crate) const ALL: [Section; 3] = [Section::Servers, Section::Vpcs, Section::Vms];

    fn key(self) -> &'static str {
        match self {
            Section::Servers => "servers",
            Section::Vpcs => "vpcs",
            Section::Vms => "vms",
        }
    }

    /// Returns the list with this key.
    pub(crate) fn of(key: &str) -> Option<Section> {
        Section::ALL.into_iter().find(|section| section.key() == key)
    }
}

/// The keys of the file with the offsets of their lines.
#[derive(Debug)]
pub(crate) struct Sections {
    keys: Vec<(String, usize)>,
    /// The indent of the items of each list, in columns.
    indents: Vec<(Section, usize)>,
}

/// Returns whether a line starts in the first column with a key: it is no comment, item, or empty
/// line.
pub(crate) fn is_key(line: &str) -> bool {
    line.starts_with(|c: char| !matches!(c, ' ' | '\t' | '#' | '-' | '\r' | '\n')) || is_marker(line)
}

/// Returns whether a line starts or ends a YAML document.
fn is_marker(line: &str) -> bool {
    line.starts_with("---") || line.starts_with("...")
}

/// Returns whether an item of a list with this indent starts in a line.
pub(crate) fn is_item(line: &str, indent: usize) -> bool {
    let Some((blanks, content)) = line.split_at_checked(indent) else { return false };
    blanks.bytes().all(|b| b == b' ') && content.starts_with('-') && content[1..].starts_with([' ', '\n', '\r'])
}

/// Returns the number of line ends in a text.
pub(crate) fn line_count(text: &str) -> u64 {
    // Counts of at most 255 bytes fit in one byte, so the compiler can count 16 bytes at a time.
    let in_few = |few: &[u8]| few.iter().fold(0, |count: u8, byte| count + u8::from(*byte == b'\n'));
    text.as_bytes().chunks(255).map(|few| u64::from(in_few(few))).sum()
}

/// Returns the number of items that start in a text.
pub(crate) fn item_count(text: &str, indent: usize) -> usize {
    text.split_inclusive('\n').filter(|line| is_item(line, indent)).count()
}

/// Returns the offset of the first item that starts before `end`, or `end`. `from` is the start of
/// a line.
pub(crate) fn next_item(text: &str, mut from: usize, end: usize, indent: usize) -> usize {
    while from < end && !is_item(&text[from..end], indent) {
        from += text[from..end].find('\n').map_or(end - from, |newline| newline + 1);
    }
    from
}

impl Sections {
    pub(crate) fn of(text: &str) -> Sections {
        let mut keys: Vec<(String, usize)> = Vec::new();
        let mut indents: Vec<(Section, usize)> = Vec::new();
        let mut waiting = None;
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            if is_key(line) {
                let key = line.split([':', ' ', '\n', '\r']).next().unwrap_or_default().trim_start_matches('\u{feff}');
                waiting = Section::of(key);
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

    /// Returns the indent of a list's items, in columns. `None` if the items are not on lines of
    /// their own.
    pub(crate) fn item_indent(&self, section: Section) -> Option<usize> {
        self.indents.iter().find(|(of, _)| *of == section).map(|(_, indent)| *indent)
    }

    /// Returns the key before a line, and the byte range from the key's line to the next key.
    /// `line_start` is the offset of the line.
    pub(crate) fn key_at(&self, line_start: usize, text_len: usize) -> Option<(&str, Range<usize>)> {
        let next = self.keys.partition_point(|(_, at)| *at <= line_start);
        let (key, start) = self.keys.get(next.checked_sub(1)?)?;
        Some((key, *start..self.keys.get(next).map_or(text_len, |(_, at)| *at)))
    }

    /// Iterates in order over the lists with items on lines of their own. Returns the byte range
    /// from the key to the next key, and the indent of the items in columns.
    pub(crate) fn item_lists(&self, text_len: usize) -> impl Iterator<Item = (Section, Range<usize>, usize)> {
        let ends = self.keys.iter().skip(1).map(|(_, at)| *at).chain([text_len]);
        self.keys.iter().zip(ends).filter_map(|((key, start), end)| {
            let section = Section::of(key)?;
            Some((section, *start..end, self.item_indent(section)?))
        })
    }

    /// Returns whether a key comes after a list.
    pub(crate) fn is_after(&self, key: &str, section: Section) -> bool {
        let place = |wanted: &str| self.keys.iter().position(|(key, _)| key == wanted);
        place(key) > place(section.key())
    }

    /// Moves all keys at offset `from` or later by `by` bytes.
    pub(crate) fn shift(&mut self, from: usize, by: i64) {
        for (_, at) in self.keys.iter_mut().filter(|(_, at)| *at >= from) {
            *at = at.saturating_add_signed(by as isize);
        }
    }
}
