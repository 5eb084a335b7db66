//! Where two texts differ, found as the bytes of the second one come.

use super::text::Text;
use std::ops::Range;

/// How many bytes a difference may have in either text. What is larger takes as long as to read the
/// text as a whole, and is held more than once meanwhile.
const MAX_DIFFERENCE_BYTES: usize = 4 << 20;

/// What a text has that another one does not, without what both have in front and behind.
#[derive(Debug)]
pub(super) struct Difference {
    /// The bytes of the old text that are replaced.
    pub old: Range<usize>,
    /// What is there instead.
    pub new: Vec<u8>,
}

/// A comparison of a text with another one, of which the length is known.
pub(super) struct Comparison<'a> {
    old: &'a Text,
    new_len: usize,
    /// How many bytes of the new text have come.
    at: usize,
    /// Where the texts begin to differ, and what the new one has from there on. All that has come
    /// since then is what the old one has as far from its end.
    difference: Option<(usize, Vec<u8>)>,
}

impl<'a> Comparison<'a> {
    pub fn new(old: &'a Text, new_len: usize) -> Comparison<'a> {
        Comparison { old, new_len, at: 0, difference: None }
    }

    /// Takes the next bytes of the new text; false if there are more than it was said to have, or
    /// the difference is too large.
    pub fn feed(&mut self, mut bytes: &[u8]) -> bool {
        if bytes.len() > self.new_len - self.at {
            return false;
        }
        if self.difference.is_none() {
            let same = self.old.common(self.at, bytes);
            (self.at, bytes) = (self.at + same, &bytes[same..]);
            if !bytes.is_empty() {
                self.difference = Some((self.at, Vec::new()));
            }
        }
        if let Some((start, new)) = &mut self.difference {
            let end = self.at + bytes.len();
            let differing = differing(self.old, self.new_len, (*start, self.at), bytes);
            if differing > 0 {
                let before = *start + new.len()..self.at;
                if new.len() + before.len() + differing > MAX_DIFFERENCE_BYTES {
                    return false;
                }
                if !before.is_empty() {
                    // What seemed to be the end of both is not.
                    let in_old = |at: usize| at + self.old.len() - self.new_len;
                    self.old.append(in_old(before.start)..in_old(before.end), new);
                }
                new.extend_from_slice(&bytes[..differing]);
            }
            self.at = end;
        }
        true
    }

    /// What differs; none if nothing does, it is too large, or the new text is not complete.
    pub fn finish(self) -> Option<Difference> {
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
        (old.len() <= MAX_DIFFERENCE_BYTES).then_some(Difference { old, new })
    }
}

/// How many of some bytes of the new text belong to what differs, as far as one sees: up to the
/// last that is not as far from the end of the old text, and what would be in front of the
/// difference.
fn differing(old: &Text, new_len: usize, (start, at): (usize, usize), bytes: &[u8]) -> usize {
    // In the old text, the end must not begin in front of the difference.
    let least = (start + new_len).saturating_sub(old.len()).saturating_sub(at).min(bytes.len());
    let rest = &bytes[least..];
    if rest.is_empty() {
        return least;
    }
    let in_old = at + least + old.len() - new_len;
    let behind = old.common_behind(in_old, rest);
    bytes.len() - behind
}

#[cfg(test)]
mod tests {
    use super::{Comparison, MAX_DIFFERENCE_BYTES};
    use crate::edit::text::Text;

    #[test]
    fn a_large_difference_is_none() {
        let large = "x\n".repeat(MAX_DIFFERENCE_BYTES / 2 + 1);
        let replaced = |old: &str, new: &str| {
            let old = Text::new(old.to_owned());
            let mut comparison = Comparison::new(&old, new.len());
            let is_taken = new.as_bytes().chunks(4096).all(|bytes| comparison.feed(bytes));
            is_taken.then(|| comparison.finish()).flatten().map(|difference| difference.old)
        };
        assert_eq!(replaced("a\nb\n", &format!("a\n{large}b\n")), None, "too much is new");
        assert_eq!(replaced(&format!("a\n{large}b\n"), "a\nb\n"), None, "too much is gone");
        assert_eq!(replaced(&format!("a\n{large}b\n"), &format!("c\n{large}b\n")), Some(0..1));
    }
}
