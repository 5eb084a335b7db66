//! [`Text`]: a long text that is compared with another one, and changes at a place.

use crate::sections::line_count;
use std::fmt;
use std::ops::Range;

/// How long a piece is, at least if there is more behind it, and at most but for its last line.
/// Tests have few items and many pieces.
const PIECE_BYTES: usize = if cfg!(debug_assertions) { 300 } else { 1 << 16 };

/// A text in pieces, each of whole lines, so that a change moves no more than one of them.
pub(super) struct Text {
    pieces: Vec<Piece>,
}

struct Piece {
    /// The offset where it begins.
    start: usize,
    /// How many lines end in front of it.
    line: u64,
    /// How many lines end in it.
    lines: u64,
    text: String,
}

impl Text {
    pub fn new(text: String) -> Text {
        let mut text = Text { pieces: pieces(text) };
        text.number();
        text
    }

    pub fn len(&self) -> usize {
        self.pieces.last().map_or(0, |piece| piece.start + piece.text.len())
    }

    /// The piece with this offset in it or in front of it.
    fn piece_of(&self, at: usize) -> usize {
        self.pieces.partition_point(|piece| piece.start <= at).saturating_sub(1)
    }

    /// How many lines end before an offset.
    pub fn lines_before(&self, at: usize) -> u64 {
        let Some(piece) = self.pieces.get(self.piece_of(at)) else { return 0 };
        piece.line + line_count(&piece.text[..at - piece.start])
    }

    /// Where the line begins that has an offset.
    pub fn line_start(&self, at: usize) -> usize {
        let Some(piece) = self.pieces.get(self.piece_of(at)) else { return 0 };
        piece.start + line_start(&piece.text, at - piece.start)
    }

    /// Some of it, at bounds of characters.
    pub fn slice(&self, range: Range<usize>) -> String {
        let mut slice = String::with_capacity(range.len());
        let from = self.pieces.get(self.piece_of(range.start)..).unwrap_or_default();
        for piece in from.iter().take_while(|piece| piece.start < range.end) {
            let start = range.start.saturating_sub(piece.start);
            slice.push_str(&piece.text[start..piece.text.len().min(range.end - piece.start)]);
        }
        slice
    }

    /// The lines from the beginning of one on, each with its offset.
    pub fn lines_from(&self, at: usize) -> impl Iterator<Item = (usize, &str)> {
        let from = self.pieces.get(self.piece_of(at)..).unwrap_or_default();
        from.iter().flat_map(move |piece| {
            let start = at.saturating_sub(piece.start).min(piece.text.len());
            let mut line_start = piece.start + start;
            piece.text[start..].split_inclusive('\n').map(move |line| {
                line_start += line.len();
                (line_start - line.len(), line)
            })
        })
    }

    /// The lines in front of the beginning of one, from the last one on, each with its offset.
    pub fn lines_to(&self, at: usize) -> impl Iterator<Item = (usize, &str)> {
        let to = self.pieces.get(..=self.piece_of(at)).unwrap_or_default();
        to.iter().rev().flat_map(move |piece| {
            let end = (at - piece.start).min(piece.text.len());
            let mut line_start = piece.start + end;
            piece.text[..end].split_inclusive('\n').rev().map(move |line| {
                line_start -= line.len();
                (line_start, line)
            })
        })
    }

    /// Puts something in the place of whole lines: whole lines, too, or the end of the text.
    pub fn replace(&mut self, range: Range<usize>, new: &str) {
        let first = self.piece_of(range.start);
        let behind = self.pieces.partition_point(|piece| piece.start < range.end).max(first + 1).min(self.pieces.len());
        let start = self.pieces.get(first).map_or(0, |piece| piece.start);
        let mut text: String = self.pieces[first..behind].iter().map(|piece| &*piece.text).collect();
        text.replace_range(range.start - start..range.end - start, new);
        self.pieces.splice(first..behind, pieces(text));
        self.number();
    }

    fn number(&mut self) {
        let (mut start, mut line) = (0, 0);
        for piece in &mut self.pieces {
            (piece.start, piece.line) = (start, line);
            start += piece.text.len();
            line += piece.lines;
        }
    }

    /// The bytes from an offset on, piece by piece.
    fn parts(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = &[u8]> {
        let first = self.piece_of(range.start);
        let behind = self.pieces.partition_point(|piece| piece.start < range.end).max(first);
        self.pieces.get(first..behind).unwrap_or_default().iter().map(move |piece| {
            let bytes = piece.text.as_bytes();
            let start = range.start.saturating_sub(piece.start).min(bytes.len());
            &bytes[start..bytes.len().min(range.end - piece.start)]
        })
    }

    /// Adds some of its bytes to others.
    pub fn append(&self, range: Range<usize>, to: &mut Vec<u8>) {
        self.parts(range).for_each(|part| to.extend_from_slice(part));
    }

    /// How many of some bytes are those at an offset, up to the first that is not.
    pub fn common(&self, at: usize, bytes: &[u8]) -> usize {
        let mut count = 0;
        for part in self.parts(at..(at + bytes.len()).min(self.len())) {
            let other = &bytes[count..count + part.len()];
            if part != other {
                return count + common(part.iter(), other.iter());
            }
            count += part.len();
        }
        count
    }

    /// The same from the last one back; as many bytes are there.
    pub fn common_behind(&self, at: usize, bytes: &[u8]) -> usize {
        let mut end = bytes.len();
        for part in self.parts(at..at + bytes.len()).rev() {
            let other = &bytes[end - part.len()..end];
            if part != other {
                return bytes.len() - end + common(part.iter().rev(), other.iter().rev());
            }
            end -= part.len();
        }
        bytes.len()
    }
}

/// How many bytes are the same before the first that differs.
fn common<'a>(old: impl Iterator<Item = &'a u8>, new: impl Iterator<Item = &'a u8>) -> usize {
    old.zip(new).take_while(|(old, new)| old == new).count()
}

/// Where the line begins that has an offset.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1)
}

/// A text in pieces, from the last one on, so that there is never room for two of each.
fn pieces(mut text: String) -> Vec<Piece> {
    let mut pieces = Vec::new();
    while !text.is_empty() {
        if pieces.len() % 64 == 63 {
            text.shrink_to_fit();
        }
        let start = if text.len() > PIECE_BYTES { line_start(&text, text.len() - PIECE_BYTES) } else { 0 };
        let piece = text.split_off(start);
        pieces.push(Piece { start: 0, line: 0, lines: line_count(&piece), text: piece });
    }
    pieces.reverse();
    pieces
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slice(0..self.len()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::difference::{Comparison, Difference};
    use super::Text;
    use crate::sections::line_count;
    use proptest::prelude::*;

    /// Lines of up to 200 bytes: some of them have a piece of their own.
    fn lines() -> impl Strategy<Value = Vec<String>> {
        let line = (0usize..200, "[a-cé]").prop_map(|(len, letter)| letter.repeat(len) + "\n");
        proptest::collection::vec(line, 0..20)
    }

    proptest! {
        #[test]
        fn a_text_in_pieces_is_the_text(mut naive in lines(), new in lines(), start in 0usize..20, count in 0usize..8, step in 1usize..700) {
            let mut text = Text::new(naive.concat());
            let start = start.min(naive.len());
            let range = start..(start + count).min(naive.len());
            let offset = |lines: &[String], line: usize| lines[..line].concat().len();
            let bytes = offset(&naive, range.start)..offset(&naive, range.end);
            let before = naive.concat();
            naive.splice(range, new.clone());
            let after = naive.concat();
            let mut comparison = Comparison::new(&text, after.len());
            prop_assert!(after.as_bytes().chunks(step).all(|bytes| comparison.feed(bytes)));
            match comparison.finish() {
                None => prop_assert_eq!(&before, &after),
                Some(Difference { old, new }) => {
                    let (before, after) = (before.as_bytes(), after.as_bytes());
                    let same = |(a, b): &(&u8, &u8)| a == b;
                    let front = before.iter().zip(after).take_while(same).count();
                    let most = before.len().min(after.len()) - front;
                    let behind = before.iter().rev().zip(after.iter().rev()).take_while(same).count().min(most);
                    prop_assert_eq!(old, front..before.len() - behind);
                    prop_assert_eq!(new, &after[front..after.len() - behind]);
                }
            }
            text.replace(bytes, &new.concat());
            prop_assert_eq!(text.slice(0..text.len()), after.clone());
            for at in [start, start.min(1), naive.len()].map(|line| offset(&naive, line)) {
                prop_assert_eq!(text.lines_before(at), line_count(&after[..at]));
                let from: String = text.lines_from(at).map(|(_, line)| line).collect();
                prop_assert_eq!(from, &after[at..]);
                let mut to: Vec<&str> = text.lines_to(at).map(|(_, line)| line).collect();
                to.reverse();
                prop_assert_eq!(to.concat(), &after[..at]);
            }
        }
    }
}
