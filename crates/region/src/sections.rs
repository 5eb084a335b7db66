//! Where the lists of a region file stand in its text, and where their items begin.

use std::ops::Range;

/// A list of the region file whose items are looked at one by one.
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

    /// The list with this key.
    pub(crate) fn of(key: &str) -> Option<Section> {
        Section::ALL.into_iter().find(|section| section.key() == key)
    }
}

/// Where each key of the file stands, by the offset of its line.
#[derive(Debug)]
pub(crate) struct Sections {
    keys: Vec<(String, usize)>,
    /// The columns in front of the items of each list.
    indents: Vec<(Section, usize)>,
}

/// A line that begins at the margin with something else than a comment, an item or nothing.
pub(crate) fn is_key(line: &str) -> bool {
    line.starts_with(|c: char| !matches!(c, ' ' | '\t' | '#' | '-' | '\r' | '\n')) || is_marker(line)
}

/// The beginning or the end of a YAML document.
fn is_marker(line: &str) -> bool {
    line.starts_with("---") || line.starts_with("...")
}

/// Whether a line begins an item of a list with this indent.
pub(crate) fn is_item(line: &str, indent: usize) -> bool {
    let Some((blanks, content)) = line.split_at_checked(indent) else { return false };
    blanks.bytes().all(|b| b == b' ') && content.starts_with('-') && content[1..].starts_with([' ', '\n', '\r'])
}

/// How many lines end in a text.
pub(crate) fn line_count(text: &str) -> u64 {
    // Counts of so few bytes fit a byte each, which is sixteen of them at a time.
    let in_few = |few: &[u8]| few.iter().fold(0, |count: u8, byte| count + u8::from(*byte == b'\n'));
    text.as_bytes().chunks(255).map(|few| u64::from(in_few(few))).sum()
}

/// How many items begin in a text.
pub(crate) fn item_count(text: &str, indent: usize) -> usize {
    text.split_inclusive('\n').filter(|line| is_item(line, indent)).count()
}

/// From the beginning of a line on, the first item that begins before `end`, or `end`.
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

    /// The columns in front of the items of a list; none if its items do not stand in lines of
    /// their own.
    pub(crate) fn indent(&self, section: Section) -> Option<usize> {
        self.indents.iter().find(|(of, _)| *of == section).map(|(_, indent)| *indent)
    }

    /// The key whose value a line belongs to, by the offset where the line begins, and the bytes
    /// from its line to the next key.
    pub(crate) fn at(&self, line_start: usize, text_len: usize) -> Option<(&str, Range<usize>)> {
        let next = self.keys.partition_point(|(_, at)| *at <= line_start);
        let (key, start) = self.keys.get(next.checked_sub(1)?)?;
        Some((key, *start..self.keys.get(next).map_or(text_len, |(_, at)| *at)))
    }

    /// The lists whose items stand in lines of their own, in order: the bytes from the key to the
    /// next one, and the columns in front of the items.
    pub(crate) fn lists(&self, text_len: usize) -> impl Iterator<Item = (Section, Range<usize>, usize)> {
        let ends = self.keys.iter().skip(1).map(|(_, at)| *at).chain([text_len]);
        self.keys.iter().zip(ends).filter_map(|((key, start), end)| {
            let section = Section::of(key)?;
            Some((section, *start..end, self.indent(section)?))
        })
    }

    /// Whether a key stands behind a list.
    pub(crate) fn is_behind(&self, key: &str, section: Section) -> bool {
        let place = |wanted: &str| self.keys.iter().position(|(key, _)| key == wanted);
        place(key) > place(section.key())
    }

    /// Moves what stands at `from` or behind it.
    pub(crate) fn shift(&mut self, from: usize, by: i64) {
        for (_, at) in self.keys.iter_mut().filter(|(_, at)| *at >= from) {
            *at = at.saturating_add_signed(by as isize);
        }
    }
}
