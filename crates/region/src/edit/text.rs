//! [`PieceText`]: a long text with cheap comparison and local edits.

use crate::sections::line_count;
use std::fmt;
use std::ops::Range;

/// Size of a piece in bytes: the maximum, except for the last line of a piece. Small in debug
/// builds, so that tests have several pieces.
const PIECE_BYTES: usize = if cfg!(debug_assertions) { 300 } else { 1 << 16 };

/// A text in pieces of whole lines, so that an edit moves the bytes of one piece only.
pub(super) struct PieceText {
    pieces: Vec<Piece>,
}

struct Piece {
    /// Offset of the piece in the text.
    start: usize,
    /// Number of line ends before the piece.
    line: u64,
    /// Number of line ends in the piece.
    lines: u64,
    text: String,
}

impl PieceText {
    pub fn new(text: String) -> PieceText {
        let mut text = PieceText { pieces: pieces(text) };
        text.number_pieces();
        text
    }

    pub fn len(&self) -> usize {
        self.pieces.last().map_or(0, |piece| piece.start + piece.text.len())
    }

    /// Returns the index of the piece that contains an offset, or of the last piece before it.
    fn piece_of(&self, at: usize) -> usize {
        self.pieces.partition_point(|piece| piece.start <= at).saturating_sub(1)
    }

    /// Returns the number of line ends before an offset.
    pub fn lines_before(&self, at: usize) -> u64 {
        let Some(piece) = self.pieces.get(self.piece_of(at)) else { return 0 };
        piece.line + line_count(&piece.text[..at - piece.start])
    }

    /// Returns the start of the line that contains an offset.
    pub fn line_start(&self, at: usize) -> usize {
        let Some(piece) = self.pieces.get(self.piece_of(at)) else { return 0 };
        piece.start + line_start(&piece.text, at - piece.start)
    }

    /// Copies a range, which must be at character boundaries.
    pub fn slice(&self, range: Range<usize>) -> String {
        let mut slice = String::with_capacity(range.len());
        let from = self.pieces.get(self.piece_of(range.start)..).unwrap_or_default();
        for piece in from.iter().take_while(|piece| piece.start < range.end) {
            let start = range.start.saturating_sub(piece.start);
            slice.push_str(&piece.text[start..piece.text.len().min(range.end - piece.start)]);
        }
        slice
    }

    /// Iterates over the lines from `at` with their offsets. `at` is the start of a line.
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

    /// Iterates backwards over the lines before `at` with their offsets. `at` is the start of a
    /// line.
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

    /// Replaces whole lines by `new`: also whole lines, or the end of the text.
    pub fn replace(&mut self, range: Range<usize>, new: &str) {
        let first = self.piece_of(range.start);
        let behind = self.pieces.partition_point(|piece| piece.start < range.end).max(first + 1).min(self.pieces.len());
        let start = self.pieces.get(first).map_or(0, |piece| piece.start);
        let mut text: String = self.pieces[first..behind].iter().map(|piece| &*piece.text).collect();
        text.replace_range(range.start - start..range.end - start, new);
        self.pieces.splice(first..behind, pieces(text));
        self.number_pieces();
    }

    fn number_pieces(&mut self) {
        let (mut start, mut line) = (0, 0);
        for piece in &mut self.pieces {
            (piece.start, piece.line) = (start, line);
            start += piece.text.len();
            line += piece.lines;
        }
    }

    /// Iterates over the bytes of a range, piece by piece.
    fn byte_pieces(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = &[u8]> {
        let first = self.piece_of(range.start);
        let behind = self.pieces.partition_point(|piece| piece.start < range.end).max(first);
        self.pieces.get(first..behind).unwrap_or_default().iter().map(move |piece| {
            let bytes = piece.text.as_bytes();
            let start = range.start.saturating_sub(piece.start).min(bytes.len());
            &bytes[start..bytes.len().min(range.end - piece.start)]
        })
    }

    /// Appends the bytes of a range to `to`.
    pub fn append(&self, range: Range<usize>, to: &mut Vec<u8>) {
        self.byte_pieces(range).for_each(|part| to.extend_from_slice(part));
    }

    /// Returns the length of the common prefix of `bytes` and the text at `at`.
    pub fn common_prefix(&self, at: usize, bytes: &[u8]) -> usize {
        let mut count = 0;
        for part in self.byte_pieces(at..(at + bytes.len()).min(self.len())) {
            let other = &bytes[count..count + part.len()];
            if part != other {
                return count + equal_prefix_len(part.iter(), other.iter());
            }
            count += part.len();
        }
        count
    }

    /// Returns the length of the common suffix of `bytes` and the range of the same length at `at`,
    /// which must be within the text.
    pub fn common_suffix(&self, at: usize, bytes: &[u8]) -> usize {
        let mut end = bytes.len();
        for part in self.byte_pieces(at..at + bytes.len()).rev() {
            let other = &bytes[end - part.len()..end];
            if part != other {
                return bytes.len() - end + equal_prefix_len(part.iter().rev(), other.iter().rev());
            }
            end -= part.len();
        }
        bytes.len()
    }
}

/// Returns the number of equal bytes before the first difference.
fn equal_prefix_len<'a>(old: impl Iterator<Item = &'a u8>, new: impl Iterator<Item = &'a u8>) -> usize {
    old.zip(new).take_while(|(old, new)| old == new).count()
}

/// Returns the start of the line that contains an offset.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1)
}

/// Splits a text into pieces. Starts with the last piece, so that memory is never allocated for two
/// copies of the text.
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

impl fmt::Debug for PieceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slice(0..self.len()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::difference::{TextComparison, TextDifference};
    use super::PieceText;
    use crate::sections::line_count;
    use proptest::prelude::*;

    /// Lines of up to 200 bytes, so that some of them fill a piece of their own.
    fn lines() -> impl Strategy<Value = Vec<String>> {
        let line = (0usize..200, "[a-cé]").prop_map(|(len, letter)| letter.repeat(len) + "\n");
        proptest::collection::vec(line, 0..20)
    }

    proptest! {
        #[test]
        fn a_text_in_pieces_is_the_text(mut naive in lines(), new in lines(), start in 0usize..20, count in 0usize..8, step in 1usize..700) {
            let mut text = PieceText::new(naive.concat());
            let start = start.min(naive.len());
            let range = start..(start + count).min(naive.len());
            let offset = |lines: &[String], line: usize| lines[..line].concat().len();
            let bytes = offset(&naive, range.start)..offset(&naive, range.end);
            let before = naive.concat();
            naive.splice(range, new.clone());
            let after = naive.concat();
            let mut comparison = TextComparison::new(&text, after.len());
            prop_assert!(after.as_bytes().chunks(step).all(|bytes| comparison.feed(bytes)));
            match comparison.finish() {
                None => prop_assert_eq!(&before, &after),
                Some(TextDifference { old, new }) => {
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
