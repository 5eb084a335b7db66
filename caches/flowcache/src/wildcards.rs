//! [`WildcardTracker`]: the key bits that decided the result of a lookup.
//!
//! All packets that agree on these bits get the same result. For a hit they are the bits that the
//! entry matches on, and for each entry of higher precedence one bit (of a range: a prefix) that
//! excludes it. For a miss in a table with only exact keys they are all bits.

use entries::match_key::KeyFieldPattern;
use entries::{KeyLayout, MatchPrecedence, PackedKeyField, StoredEntry};
use interp::block_hook::ApplySite;
use ir::MatchKind;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

type HashState = foldhash::fast::RandomState;

/// Match of an entry on the keys that are not exact.
#[derive(Clone, Debug)]
struct MaskedRule {
    strength: MatchPrecedence,
    /// Mask of each word; 0 for ranges, which are in `ranges`.
    mask: Box<[u64]>,
    /// Value under the mask.
    value: Box<[u64]>,
    /// Lower and upper bound of each range field, converted so that they compare as unsigned
    /// numbers.
    ranges: Box<[(u64, u64)]>,
}

/// Precedence and ranges of the rules with one mask and value.
type RulesOfValue = Vec<(MatchPrecedence, Box<[(u64, u64)]>)>;
/// Rules by mask, then by value.
type RulesByMask = BTreeMap<Box<[u64]>, BTreeMap<Box<[u64]>, RulesOfValue>>;

/// Maximum number of values under one mask that are excluded one by one, with a bit each. More
/// values are excluded together by a prefix of the masked bits.
const MAX_SINGLE_VALUES: usize = 8;

/// Entries with the same exact keys.
#[derive(Clone, Debug)]
enum ExactKeyGroup {
    /// Prefixes by length; values left-aligned in 128 bits.
    Prefixes(BTreeMap<u32, BTreeSet<u128>>),
    /// Rules by mask and value.
    RulesByMask(RulesByMask),
}

/// Entries of a table, indexed to find the key bits that decided a lookup.
#[derive(Clone, Debug)]
pub struct WildcardTracker {
    layout: KeyLayout,
    /// Index of the first word of each field in a key, and the number of words.
    word_offsets: Vec<usize>,
    words: usize,
    /// The only field that is not exact, if it is an LPM field of up to 128 bits.
    prefix_field: Option<usize>,
    all_exact: bool,
    groups: HashMap<Box<[u64]>, ExactKeyGroup, HashState>,
}

/// Returns the mask of the valid bits in a word of a field.
fn word_mask(field: &PackedKeyField, word: usize) -> u64 {
    let low = word as u32 * 64;
    match field.width.saturating_sub(low) {
        0 => 0,
        bits if bits >= 64 => u64::MAX,
        bits => (1 << bits) - 1,
    }
}

/// Returns the mask of the first `len` bits of a field, by word.
fn prefix_words(field: &PackedKeyField, len: u32) -> impl Iterator<Item = u64> + '_ {
    let host = field.width.saturating_sub(len);
    (0..field.words).map(move |word| {
        let below = host.saturating_sub(word as u32 * 64);
        word_mask(field, word) & if below >= 64 { 0 } else { u64::MAX << below }
    })
}

/// Returns the value left-aligned in 128 bits.
fn left_aligned(field: &PackedKeyField, value: &[u64]) -> u128 {
    let number = value.iter().rev().fold(0u128, |number, word| number << 64 | u128::from(*word));
    if field.width == 0 { 0 } else { number << (128 - field.width) }
}

/// Returns the shortest prefix that decides how a value compares with a bound: the common bits and
/// the first differing one.
fn deciding_prefix(width: u32, value: u64, bound: u64) -> u64 {
    match value ^ bound {
        0 => width_mask(width),
        difference => width_mask(width) & (u64::MAX << (63 - difference.leading_zeros())),
    }
}

fn width_mask(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// Returns the shortest prefix of a value that keeps it within both bounds.
fn prefix_within(width: u32, value: u64, lo: u64, hi: u64) -> u64 {
    let mut mask = width_mask(width);
    while mask != 0 {
        let wider = mask & (mask - 1);
        let block = width_mask(width) & !wider;
        if value & wider < lo || value | block > hi {
            break;
        }
        mask = wider;
    }
    mask
}

impl WildcardTracker {
    /// Creates the tracker of an empty table.
    pub fn new(keys: &[ir::MatchKey]) -> WildcardTracker {
        let layout = KeyLayout::new(keys);
        let mut words = 0;
        let word_offsets = layout.fields.iter().map(|field| {
            words += field.words;
            words - field.words
        });
        let word_offsets = word_offsets.collect();
        let inexact: Vec<usize> =
            (0..layout.fields.len()).filter(|at| layout.fields[*at].kind != MatchKind::Exact).collect();
        let prefix_field = match inexact[..] {
            [only] if layout.fields[only].kind == MatchKind::Lpm && layout.fields[only].width <= 128 => Some(only),
            _ => None,
        };
        WildcardTracker {
            all_exact: inexact.is_empty(),
            layout,
            word_offsets,
            words,
            prefix_field,
            groups: HashMap::default(),
        }
    }

    /// Returns the number of words of a key.
    pub fn word_count(&self) -> usize {
        self.words
    }

    /// Returns the fields, each with the index of its first word.
    pub fn fields_with_offsets(&self) -> impl Iterator<Item = (&PackedKeyField, usize)> {
        self.layout.fields.iter().zip(self.word_offsets.iter().copied())
    }

    fn exact_fields(&self) -> impl Iterator<Item = (&PackedKeyField, usize)> {
        self.fields_with_offsets().filter(|(field, _)| field.kind == MatchKind::Exact)
    }

    fn inexact_fields(&self) -> impl Iterator<Item = (&PackedKeyField, usize)> {
        self.fields_with_offsets().filter(|(field, _)| field.kind != MatchKind::Exact)
    }

    /// Appends the key words of a table application, field by field.
    #[inline]
    pub fn push_key(&self, site: &ApplySite, slots: &[u64], key: &mut Vec<u64>) {
        for (field, _) in self.fields_with_offsets() {
            let slot = site.keys[field.position].first_word as usize;
            key.extend_from_slice(&slots[slot..slot + field.words]);
        }
    }

    /// Returns the indices of the words of exact fields in a key.
    pub fn exact_word_indices(&self) -> impl Iterator<Item = usize> {
        self.exact_fields().flat_map(|(field, at)| at..at + field.words)
    }

    /// Returns the exact fields of a packet's key.
    pub fn exact_key(&self, key: &[u64]) -> Box<[u64]> {
        self.exact_fields().flat_map(|(field, at)| key[at..at + field.words].iter().copied()).collect()
    }

    /// Returns the exact fields of an entry.
    pub fn exact_key_of_entry(&self, entry: &StoredEntry) -> Box<[u64]> {
        self.layout.exact_words(entry.key()).collect()
    }

    /// Returns whether `entry` wins over `other` where both match.
    pub fn has_precedence(&self, entry: &StoredEntry, other: &StoredEntry) -> bool {
        self.layout.match_precedence(entry) < self.layout.match_precedence(other)
    }

    /// Maps a number of a signed field to one that compares as unsigned.
    fn to_unsigned(field: &PackedKeyField, value: u64) -> u64 {
        if field.signed && field.width > 0 { value ^ 1 << (field.width - 1).min(63) } else { value }
    }

    /// Returns the match of an entry on its inexact fields. The mask of a range is 0, because its
    /// bounds are stored instead.
    fn rule_of_entry(&self, entry: &StoredEntry) -> MaskedRule {
        let (mut masks, mut values, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
        for (field, _) in self.inexact_fields() {
            let (value, pattern) = (field.value(entry.key()), field.pattern(entry.key()));
            if let KeyFieldPattern::Range { low, high } = pattern {
                // Ranges of more than 64 bits match all bits (`decisive_mask`).
                ranges.push((Self::to_unsigned(field, low[0]), Self::to_unsigned(field, high[0])));
            }
            for (word, value) in value.iter().enumerate() {
                let mask = pattern.mask(field.width, word);
                masks.push(mask);
                values.push(value & mask);
            }
        }
        MaskedRule {
            strength: self.layout.match_precedence(entry),
            mask: masks.into(),
            value: values.into(),
            ranges: ranges.into(),
        }
    }

    /// Adds an entry of the table.
    pub fn insert_entry(&mut self, entry: &StoredEntry) {
        if self.all_exact {
            return;
        }
        let exact = self.exact_key_of_entry(entry);
        if let Some(field_index) = self.prefix_field {
            let field = &self.layout.fields[field_index];
            let (value, len) = (left_aligned(field, field.value(entry.key())), field.second(entry.key())[0] as u32);
            let group = self.groups.entry(exact).or_insert_with(|| ExactKeyGroup::Prefixes(BTreeMap::new()));
            if let ExactKeyGroup::Prefixes(lengths) = group {
                lengths.entry(len).or_default().insert(value);
            }
            return;
        }
        let rule = self.rule_of_entry(entry);
        if let ExactKeyGroup::RulesByMask(rules) =
            self.groups.entry(exact).or_insert_with(|| ExactKeyGroup::RulesByMask(RulesByMask::default()))
        {
            let rules_of_value = rules.entry(rule.mask).or_default().entry(rule.value).or_default();
            rules_of_value.push((rule.strength, rule.ranges));
        }
    }

    /// Removes an entry of the table.
    pub fn remove_entry(&mut self, entry: &StoredEntry) {
        let exact = self.exact_key_of_entry(entry);
        let rule = (!self.all_exact && self.prefix_field.is_none()).then(|| self.rule_of_entry(entry));
        let Some(group) = self.groups.get_mut(&exact) else { return };
        let is_group_empty = match (group, self.prefix_field) {
            (ExactKeyGroup::Prefixes(lengths), Some(field_index)) => {
                let field = &self.layout.fields[field_index];
                let len = field.second(entry.key())[0] as u32;
                if let Some(values) = lengths.get_mut(&len) {
                    values.remove(&left_aligned(field, field.value(entry.key())));
                    if values.is_empty() {
                        lengths.remove(&len);
                    }
                }
                lengths.is_empty()
            }
            (ExactKeyGroup::RulesByMask(rules), _) => {
                if let Some(rule) = rule {
                    remove_rule(rules, &rule);
                }
                rules.is_empty()
            }
            _ => false,
        };
        if is_group_empty {
            self.groups.remove(&exact);
        }
    }

    /// Returns the mask of all key bits.
    pub fn full_key_mask(&self) -> Vec<u64> {
        self.fields_with_offsets().flat_map(|(field, _)| (0..field.words).map(|word| word_mask(field, word))).collect()
    }

    /// Returns whether all fields are exact.
    pub fn all_exact(&self) -> bool {
        self.all_exact
    }

    /// Returns the mask of the bits of `key` that decided the result `found` (`None`: miss), by
    /// word.
    pub fn decisive_mask(&self, key: &[u64], found: Option<&StoredEntry>) -> Vec<u64> {
        let mut mask = vec![0; self.words];
        for (field, at) in self.exact_fields() {
            (0..field.words).for_each(|word| mask[at + word] = word_mask(field, word));
        }
        if self.all_exact {
            return mask;
        }
        match self.groups.get(&self.exact_key(key)) {
            Some(ExactKeyGroup::Prefixes(lengths)) => self.unwildcard_prefix(lengths, key, found, &mut mask),
            Some(ExactKeyGroup::RulesByMask(rules)) => self.unwildcard_rules(rules, key, found, &mut mask),
            None => {}
        }
        mask
    }

    /// Adds the decisive bits of the LPM field to `mask`: the prefix of the entry found, and as
    /// many bits as exclude each longer prefix. `lengths`: the prefixes of the key's group by
    /// length.
    fn unwildcard_prefix(
        &self,
        lengths: &BTreeMap<u32, BTreeSet<u128>>,
        key: &[u64],
        found: Option<&StoredEntry>,
        mask: &mut [u64],
    ) {
        let Some(field_index) = self.prefix_field else { return };
        let (field, word_offset) = (&self.layout.fields[field_index], self.word_offsets[field_index]);
        let value = left_aligned(field, &key[word_offset..word_offset + field.words]);
        let found_len = found.map(|entry| field.second(entry.key())[0] as u32);
        let mut bits = found_len.unwrap_or(0);
        for (len, values) in lengths {
            if found_len.is_some_and(|found_len| *len <= found_len) {
                continue;
            }
            // A neighbour in sort order has the longest common prefix.
            let neighbours = [values.range(..=value).next_back(), values.range(value..).next()];
            for neighbour in neighbours.into_iter().flatten() {
                bits = bits.max((value ^ neighbour).leading_zeros().min(*len - 1) + 1);
            }
        }
        let bits = bits.min(field.width);
        prefix_words(field, bits).enumerate().for_each(|(word, more)| mask[word_offset + word] |= more);
    }

    /// Adds the decisive bits of inexact fields to `mask`: those that the entry found matches on,
    /// and for each rule of higher precedence bits that exclude it.
    fn unwildcard_rules(&self, rules: &RulesByMask, key: &[u64], found: Option<&StoredEntry>, mask: &mut [u64]) {
        // Word indices of the fields that are not exact.
        let word_indices: Vec<usize> = self.inexact_fields().flat_map(|(field, at)| at..at + field.words).collect();
        let ranges: Vec<(&PackedKeyField, usize)> =
            self.inexact_fields().filter(|(field, _)| field.kind == MatchKind::Range).collect();
        for (field, at) in &ranges {
            // A range of more than 64 bits is matched exactly.
            if field.words > 1 {
                (0..field.words).for_each(|word| mask[at + word] = word_mask(field, word));
            }
        }
        let found_rule = found.map(|entry| self.rule_of_entry(entry));
        if let Some(rule) = &found_rule {
            word_indices.iter().zip(&rule.mask).for_each(|(at, rule_mask)| mask[*at] |= rule_mask);
            for ((field, at), (lo, hi)) in ranges.iter().zip(&rule.ranges).filter(|((field, _), _)| field.words == 1) {
                mask[*at] |= prefix_within(field.width, Self::to_unsigned(field, key[*at]), *lo, *hi);
            }
        }
        let has_precedence =
            |strength: &MatchPrecedence| found_rule.as_ref().is_none_or(|found_rule| *strength < found_rule.strength);
        for (rule_mask, values) in rules {
            let masked: Box<[u64]> =
                word_indices.iter().zip(rule_mask).map(|(at, rule_mask)| key[*at] & rule_mask).collect();
            if values.len() <= MAX_SINGLE_VALUES {
                let others = values.iter().filter(|(value, rules_of_value)| {
                    **value != masked && rules_of_value.iter().any(|(strength, _)| has_precedence(strength))
                });
                others.for_each(|(value, _)| unwildcard_one_bit(&word_indices, key, value, rule_mask, mask));
            } else {
                unwildcard_common_prefix(&word_indices, values, &masked, rule_mask, mask);
            }
            // These rules match the packet except for a range.
            for (strength, bounds) in values.get(&masked).into_iter().flatten() {
                if has_precedence(strength) {
                    self.unwildcard_ranges(&ranges, bounds, key, mask);
                }
            }
        }
    }

    /// Adds bits that exclude a rule which only its ranges exclude, unless `mask` already has such
    /// bits. `ranges`: the range fields with the indices of their words; `bounds`: lower and upper
    /// bound of each.
    fn unwildcard_ranges(
        &self,
        ranges: &[(&PackedKeyField, usize)],
        bounds: &[(u64, u64)],
        key: &[u64],
        mask: &mut [u64],
    ) {
        let mut excluding_bits = None;
        for ((field, at), (lo, hi)) in ranges.iter().zip(bounds).filter(|((field, _), _)| field.words == 1) {
            let value = Self::to_unsigned(field, key[*at]);
            let bits = match (value < *lo, value > *hi) {
                (true, _) => deciding_prefix(field.width, value, *lo),
                (_, true) => deciding_prefix(field.width, value, *hi),
                _ => continue,
            };
            if bits & !mask[*at] == 0 {
                return;
            }
            excluding_bits.get_or_insert((*at, bits));
        }
        // Without such a field the packet differs in a range of more than 64 bits, which has a full
        // mask.
        if let Some((at, bits)) = excluding_bits {
            mask[at] |= bits;
        }
    }
}

/// Removes a rule, and the maps that become empty.
fn remove_rule(rules: &mut RulesByMask, rule: &MaskedRule) {
    let Some(values) = rules.get_mut(&rule.mask) else { return };
    if let Some(rules_of_value) = values.get_mut(&rule.value) {
        rules_of_value.retain(|(strength, _)| *strength != rule.strength);
        if rules_of_value.is_empty() {
            values.remove(&rule.value);
        }
    }
    if values.is_empty() {
        rules.remove(&rule.mask);
    }
}

/// Adds the highest bit in which the key differs from a rule's value, unless such a bit is set.
/// Using the highest bit gives different packets the same mask. `word_indices`: indices of the
/// inexact words in the key.
fn unwildcard_one_bit(word_indices: &[usize], key: &[u64], value: &[u64], rule_mask: &[u64], mask: &mut [u64]) {
    let differs = |word: usize| (key[word_indices[word]] ^ value[word]) & rule_mask[word];
    if (0..value.len()).any(|word| differs(word) & mask[word_indices[word]] != 0) {
        return;
    }
    if let Some(word) = (0..value.len()).find(|word| differs(*word) != 0) {
        mask[word_indices[word]] |= 1 << (63 - differs(word).leading_zeros());
    }
}

/// Adds the prefix of the masked bits that distinguishes the key from all other values. `values`:
/// the values of the rules with one mask; `masked`: the key's value under it.
fn unwildcard_common_prefix(
    word_indices: &[usize],
    values: &BTreeMap<Box<[u64]>, RulesOfValue>,
    masked: &[u64],
    rule_mask: &[u64],
    mask: &mut [u64],
) {
    // A neighbour in sort order has the longest common prefix.
    let previous = values.range::<[u64], _>((Bound::Unbounded, Bound::Excluded(masked))).next_back();
    let next = values.range::<[u64], _>((Bound::Excluded(masked), Bound::Unbounded)).next();
    for (value, _) in previous.into_iter().chain(next) {
        let Some(word) = (0..masked.len()).find(|word| masked[*word] != value[*word]) else { continue };
        (0..word).for_each(|word| mask[word_indices[word]] |= rule_mask[word]);
        let differing_bit = 63 - (masked[word] ^ value[word]).leading_zeros();
        mask[word_indices[word]] |= rule_mask[word] & (u64::MAX << differing_bit);
    }
}

#[cfg(test)]
mod tests {
    use super::{deciding_prefix, prefix_within};

    #[test]
    fn the_prefix_of_a_range() {
        assert_eq!(prefix_within(16, 80, 80, 80), 0xffff);
        assert_eq!(prefix_within(16, 80, 0, 65535), 0);
        assert_eq!(prefix_within(16, 1500, 1024, 65535), 0xfc00);
        assert_eq!(deciding_prefix(16, 80, 1024), 0xfc00);
    }
}
