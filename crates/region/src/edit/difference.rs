//! Finds the difference between two texts while the bytes of the second one are read.

use super::text::PieceText;
use std::ops::Range;

/// Maximum size in bytes of a difference in either text. A larger edit takes as long as reading the
/// whole text and needs its memory several times.
const MAX_DIFFERENCE_BYTES: usize = 4 << 20;

/// The difference between two texts, without their common prefix and suffix.
#[derive(Debug)]
pub(super) struct TextDifference {
    /// Byte range of the old text that is replaced.
    pub old: Range<usize>,
    /// The replacement.
    pub new: Vec<u8>,
}

/// Comparison of a text with a new text of known length.
pub(super) struct TextComparison<'a> {
    old: &'a PieceText,
    new_len: usize,
    /// Number of bytes of the new text that were read.
    at: usize,
    /// Offset of the first difference, and the bytes of the new text from there on. All bytes that
    /// were read after them match the old text at the same distance from its end.
    difference: Option<(usize, Vec<u8>)>,
}

impl<'a> TextComparison<'a> {
    pub fn new(old: &'a PieceText, new_len: usize) -> TextComparison<'a> {
        TextComparison { old, new_len, at: 0, difference: None }
    }

    /// Processes the next bytes of the new text. Returns false if the text is longer than `new_len`
    /// or the difference is too large.
    pub fn feed(&mut self, mut bytes: &[u8]) -> bool {
        if bytes.len() > self.new_len - self.at {
            return false;
        }
        if self.difference.is_none() {
            let same = self.old.common_prefix(self.at, bytes);
            (self.at, bytes) = (self.at + same, &bytes[same..]);
            if !bytes.is_empty() {
                self.difference = Some((self.at, Vec::new()));
            }
        }
        if let Some((start, new)) = &mut self.difference {
            let end = self.at + bytes.len();
            let differing = differing_len(self.old, self.new_len, (*start, self.at), bytes);
            if differing > 0 {
                let before = *start + new.len()..self.at;
                if new.len() + before.len() + differing > MAX_DIFFERENCE_BYTES {
                    return false;
                }
                if !before.is_empty() {
                    // The bytes that seemed to belong to the common suffix do not.
                    let in_old = |at: usize| at + self.old.len() - self.new_len;
                    self.old.append(in_old(before.start)..in_old(before.end), new);
                }
                new.extend_from_slice(&bytes[..differing]);
            }
            self.at = end;
        }
        true
    }

    /// Returns the difference. `None` if the texts are equal, the difference is too large, or the
    /// new text is incomplete.
    pub fn finish(self) -> Option<TextDifference> {
        if self.at < self.new_len {
            return None;
        }
        let len = self.old.len();
        let (start, new) = match self.difference {
            Some(difference) => difference,
            // The new text ends early.
            None if self.new_len < len => (self.new_len, Vec::new()),
            None => return None,
        };
        let behind = self.new_len - start - new.len();
        let old = start..len - behind;
        (old.len() <= MAX_DIFFERENCE_BYTES).then_some(TextDifference { old, new })
    }
}

/// Returns the number of leading bytes of `bytes` that belong to the difference. They end after the
/// last byte that does not match the old text at the same distance from its end, or that would
/// place the common suffix before the difference.
fn differing_len(old: &PieceText, new_len: usize, (start, at): (usize, usize), bytes: &[u8]) -> usize {
    // In the old text, the common suffix must not start before the difference.
    let least = (start + new_len).saturating_sub(old.len()).saturating_sub(at).min(bytes.len());
    let rest = &bytes[least..];
    if rest.is_empty() {
        return least;
    }
    let in_old = at + least + old.len() - new_len;
    let behind = old.common_suffix(in_old, rest);
    bytes.len() - behind
}

#[cfg(test)]
mod tests {
    use super::{MAX_DIFFERENCE_BYTES, TextComparison};
    use crate::edit::text::PieceText;

    #[test]
    fn a_large_difference_is_none() {
        let large = "x\n".repeat(MAX_DIFFERENCE_BYTES / 2 + 1);
        let replaced = |old: &str, new: &str| {
            let old = PieceText::new(old.to_owned());
            let mut comparison = TextComparison::new(&old, new.len());
            let is_taken = new.as_bytes().chunks(4096).all(|bytes| comparison.feed(bytes));
            is_taken.then(|| comparison.finish()).flatten().map(|difference| difference.old)
        };
        assert_eq!(replaced("a\nb\n", &format!("a\n{large}b\n")), None, "too much is new");
        assert_eq!(replaced(&format!("a\n{large}b\n"), "a\nb\n"), None, "too much is gone");
        assert_eq!(replaced(&format!("a\n{large}b\n"), &format!("c\n{large}b\n")), Some(0..1));
    }
}
