//! Meaning of a match field: the only code of the engine that compares the values of a packet with
//! those of an entry.

use entries::{KeyLayout, PackedKeyField, StoredEntry};
use ir::MatchKind;
use std::cmp::Reverse;

/// Returns whether all fields of an entry match. `value` returns the packet's words for a field.
pub fn entry_matches<'a>(layout: &KeyLayout, entry: &[u64], value: impl Fn(&PackedKeyField) -> &'a [u64]) -> bool {
    layout.fields.iter().all(|field| field_matches(field, entry, value(field)))
}

/// Returns whether a field of an entry matches a value. The words of an entry have the layout of
/// [`PackedKeyField`].
fn field_matches(field: &PackedKeyField, entry: &[u64], value: &[u64]) -> bool {
    // `second` is the mask, the prefix length, the end of the range, or the flag of a wildcard.
    let (entry_value, second) = (field.value(entry), field.second(entry));
    let differs = |word: usize| value[word] ^ entry_value[word];
    match field.kind {
        MatchKind::Exact => value == entry_value,
        MatchKind::Ternary => (0..field.words).all(|word| differs(word) & second[word] == 0),
        MatchKind::Lpm => (0..field.words).all(|word| differs(word) & prefix_mask(field, second[0] as u32, word) == 0),
        MatchKind::Range => is_ordered(field, entry_value, value) && is_ordered(field, value, second),
        MatchKind::Optional => second[0] == 0 || value == entry_value,
        // Selector keys choose among the members of a group, not among entries.
        MatchKind::Selector => true,
    }
}

/// Returns a word of the mask of a prefix, least significant word first. Bits above the field's
/// width are also set, because they are 0 in values.
pub fn prefix_mask(field: &PackedKeyField, prefix_len: u32, word: usize) -> u64 {
    let host_bits = field.width.saturating_sub(prefix_len).saturating_sub(64 * word as u32);
    if host_bits >= 64 { 0 } else { u64::MAX << host_bits }
}

/// Returns whether `low <= high` in the order of the field's type: two's complement if it is
/// signed.
fn is_ordered(field: &PackedKeyField, low: &[u64], high: &[u64]) -> bool {
    let top = field.words.saturating_sub(1);
    // A flipped sign bit orders two's complement like an unsigned number.
    let sign = if field.signed && field.width > 0 { 1 << ((field.width - 1) % 64) } else { 0 };
    let word = |words: &[u64], index: usize| if index == top { words[index] ^ sign } else { words[index] };
    let differing = (0..field.words).rev().find(|index| low[*index] != high[*index]);
    differing.is_none_or(|index| word(low, index) < word(high, index))
}

/// Returns the sort key of matching entries, of which the least one wins: largest priority, then
/// longest prefixes, then first inserted.
pub fn precedence(layout: &KeyLayout, entry: &StoredEntry) -> impl Ord + use<> {
    let lpm = layout.fields.iter().filter(|field| field.kind == MatchKind::Lpm);
    let prefix_bits = lpm.map(|field| field.second(entry.key())[0]).sum::<u64>();
    (Reverse(entry.priority()), Reverse(prefix_bits), entry.sequence())
}

#[cfg(test)]
mod tests {
    use super::prefix_mask;
    use entries::PackedKeyField;
    use ir::MatchKind;

    #[test]
    fn masks() {
        let mask = |width: u32, prefix_len: u32| -> Vec<u64> {
            let words = width.div_ceil(64) as usize;
            let field = PackedKeyField { position: 0, kind: MatchKind::Lpm, width, signed: false, words, offset: 0 };
            let low = |word: usize| u64::MAX >> (64 - (width - 64 * word as u32).min(64));
            (0..words).map(|word| prefix_mask(&field, prefix_len, word) & low(word)).collect()
        };
        assert_eq!(mask(32, 8), [0xff00_0000]);
        assert_eq!(mask(32, 0), [0]);
        assert_eq!(mask(32, 32), [0xffff_ffff]);
        assert_eq!(mask(128, 65), [1 << 63, u64::MAX]);
        assert_eq!(mask(128, 64), [0, u64::MAX]);
        assert_eq!(mask(128, 1), [0, 1 << 63]);
        assert_eq!(mask(48, 48), [(1 << 48) - 1]);
    }
}
