//! How the keys of a table lie in the words that are looked up: exact keys first, packed tightly, then the others, each
//! in words of its own.

use crate::program::Reg;
use ir::{Key, MatchKind};
use tables::{Entry, KeyField, KeyLayout, PackedKey, words_for};

/// Where a key goes.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Position among the table's keys.
    pub key: usize,
    /// Its field in entries.
    pub field: usize,
    /// How it is matched.
    pub kind: MatchKind,
    /// Width in bits.
    pub width: u32,
    /// Two's complement.
    pub signed: bool,
    /// First word.
    pub word: usize,
    /// Words.
    pub words: usize,
    /// Bits that it is shifted up by, if it shares a word.
    pub shift: u32,
}

/// The places of a table's keys.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// Exact keys, then ternary, lpm and optional, then range keys.
    pub places: Vec<Place>,
    /// Words of exact keys.
    pub exact: usize,
    /// Words up to the first range key.
    pub masked_end: usize,
    /// All words.
    pub total: usize,
    /// Selector keys: positions among the table's keys.
    pub selector: Vec<usize>,
}

impl Shape {
    /// The shape of these keys.
    pub fn new(keys: &[Key]) -> Shape {
        let mut shape = Shape::default();
        let layout = KeyLayout::new(keys);
        let group = |kind: MatchKind| match kind {
            MatchKind::Exact => 0,
            MatchKind::Ternary | MatchKind::Lpm | MatchKind::Optional => 1,
            MatchKind::Range | MatchKind::Selector => 2,
        };
        let mut free = 0;
        for wanted in 0..3 {
            for (field, place) in layout.fields.iter().enumerate().filter(|(_, f)| group(f.kind) == wanted) {
                shape.place(field, place, wanted == 0, &mut free);
            }
            free = 0;
            match wanted {
                0 => (shape.exact, shape.masked_end) = (shape.total, shape.total),
                1 => shape.masked_end = shape.total,
                _ => {}
            }
        }
        let selectors = keys.iter().enumerate().filter(|(_, k)| k.kind == MatchKind::Selector);
        shape.selector = selectors.map(|(position, _)| position).collect();
        shape
    }

    /// `free`: bits left in the last word, for exact keys that fit in there.
    fn place(&mut self, index: usize, field: &KeyField, share: bool, free: &mut u32) {
        let words = words_for(field.width);
        let (word, shift) = if share && field.width <= *free && words == 1 {
            *free -= field.width;
            (self.total - 1, 64 - *free - field.width)
        } else {
            *free = if words == 1 { 64 - field.width } else { 0 };
            self.total += words;
            (self.total - words, 0)
        };
        let (kind, width, signed) = (field.kind, field.width, field.signed);
        self.places.push(Place { key: field.position, field: index, kind, width, signed, word, words, shift });
    }

    /// The words of a packet's keys.
    #[inline]
    pub fn pack(&self, slots: &[u64], keys: &[Reg], out: &mut [u64]) {
        for place in &self.places {
            let slot = keys[place.key].slot as usize;
            // Whoever comes first to a word has its lowest bits.
            if place.words == 1 && place.shift == 0 {
                out[place.word] = slots[slot];
            } else if place.words == 1 {
                out[place.word] |= slots[slot] << place.shift;
            } else {
                out[place.word..place.word + place.words].copy_from_slice(&slots[slot..slot + place.words]);
            }
        }
    }

    /// A packet's key in the form of an entry's: of each key the value, the words behind it 0.
    pub fn unpack(&self, layout: &KeyLayout, words: &[u64]) -> PackedKey {
        let mut key = PackedKey::from_elem(0, layout.len);
        for place in &self.places {
            let offset = layout.fields[place.field].offset;
            for index in 0..place.words {
                let word = words[place.word + index] >> place.shift;
                key[offset + index] = if place.words == 1 { word & crate::words::mask64(place.width) } else { word };
            }
        }
        key
    }

    /// The words of an entry's values (of ranges: of the lower bounds).
    pub fn pack_entry(&self, layout: &KeyLayout, entry: &Entry) -> Vec<u64> {
        let mut out = vec![0; self.total];
        for place in &self.places {
            let value = layout.fields[place.field].value(entry.key());
            for (word, value) in out[place.word..].iter_mut().zip(value) {
                *word |= value << place.shift;
            }
        }
        out
    }
}

/// The mask of a prefix, as words.
pub fn prefix_mask(width: u32, prefix_len: u32, words: usize) -> Vec<u64> {
    let host = width.saturating_sub(prefix_len);
    let word = |index: usize| {
        let low = index as u32 * 64;
        let ones = |bits: u32| if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        ones(width.saturating_sub(low)) & !ones(host.saturating_sub(low))
    };
    (0..words).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::prefix_mask;

    #[test]
    fn masks() {
        assert_eq!(prefix_mask(32, 8, 1), [0xff00_0000]);
        assert_eq!(prefix_mask(32, 0, 1), [0]);
        assert_eq!(prefix_mask(32, 32, 1), [0xffff_ffff]);
        assert_eq!(prefix_mask(128, 65, 2), [1 << 63, u64::MAX]);
        assert_eq!(prefix_mask(128, 64, 2), [0, u64::MAX]);
        assert_eq!(prefix_mask(128, 1, 2), [0, 1 << 63]);
        assert_eq!(prefix_mask(48, 48, 1), [(1 << 48) - 1]);
    }
}
