//! Encoding of an entry as a *rule*: value and mask over the words of the lookup key, and ranges.
//!
//! The encoding does not depend on the match kinds of the fields. A range contributes the leading
//! bits that its bounds have in common to the mask. If they don't define it completely, its bounds
//! are compared too.

use crate::LookupKeyField;
use entries::PackedKeyField;
use entries::match_key::KeyFieldPattern;
use ir::MatchKind;

/// Memory layout of a table's rules. A rule is a slice of [`RuleLayout::rule_words`] words:
///
/// | words | content |
/// |---|---|
/// | 1 | rank: priority and prefix lengths, greater takes precedence ([`precedence_rank`]) |
/// | 1 | sequence number: of equal ranks the smaller takes precedence |
/// | [`RuleLayout::key_words`] | value |
/// | [`RuleLayout::key_words`] | mask |
/// | twice the words of each range field | lower and upper bound; if signed, with flipped sign |
///
/// Two entries with the same key and priority are equal in all words except the sequence number.
#[derive(Clone, Debug)]
pub struct RuleLayout {
    /// Words of a lookup key.
    pub key_words: usize,
    /// Words of a rule.
    pub rule_words: usize,
    /// Words of an entry's packed key.
    packed_words: usize,
    fields: Vec<RuleField>,
    /// Range fields of at most 64 bits.
    pub range_fields: Vec<RangeField>,
    /// Range fields of more than 64 bits.
    pub wide_range_fields: Vec<WideRangeField>,
}

#[derive(Clone, Debug)]
struct RuleField {
    /// Position of the field in a packed key.
    key: PackedKeyField,
    /// First bit in the lookup key.
    bit_offset: u32,
    /// First word of the bounds in a rule, for range fields.
    bounds_word: usize,
}

/// Range field of at most 64 bits. Its value in a key is `(key[word] >> shift & mask) ^ flip`.
#[derive(Clone, Copy, Debug)]
pub struct RangeField {
    pub word: usize,
    pub shift: u32,
    pub mask: u64,
    pub flip: u64,
    /// First word of the bounds in a rule.
    pub bounds: usize,
}

/// Range field of more than 64 bits. It starts at a word boundary.
#[derive(Clone, Copy, Debug)]
pub struct WideRangeField {
    pub width: u32,
    pub word: usize,
    pub words: usize,
    /// Mask that flips the sign in the last word.
    pub flip: u64,
    pub bounds: usize,
}

/// Combines priority and prefix lengths to a rank. The minimum is 1, so that 0 can mean "no rule".
pub fn precedence_rank(priority: i32, prefix_bits: u64) -> u64 {
    let ordered = u64::from(priority as u32 ^ 1 << 31);
    ordered << 31 | (prefix_bits + 1).min((1 << 31) - 1)
}

/// Returns the priority of a rank, biased to be unsigned.
#[inline(always)]
pub fn biased_priority(rank: u64) -> u32 {
    (rank >> 31) as u32
}

/// Returns a mask of the lowest `width` bits of a word.
fn low_bits(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// Returns the part in word `index` of a mask of the lowest `width` bits of a wider number.
fn low_bits_of_word(width: u32, index: usize) -> u64 {
    low_bits(width.saturating_sub(64 * index as u32))
}

impl RuleLayout {
    /// First word of the value.
    pub const VALUE_WORD: usize = 2;

    /// Lays out a rule: two words for precedence and age, values and masks over the `words` words
    /// of the lookup key, then the bounds of ranges. Ranges of one word are checked by vector code,
    /// wider ones by themselves.
    pub fn new(keys: &[LookupKeyField], words: usize) -> RuleLayout {
        let mut sorted_keys: Vec<&LookupKeyField> = keys.iter().filter(|key| key.kind != MatchKind::Selector).collect();
        sorted_keys.sort_by_key(|key| key.position);
        let (mut fields, mut range_fields, mut wide_range_fields) = (Vec::new(), Vec::new(), Vec::new());
        let mut packed_words = 0;
        let mut bounds = RuleLayout::VALUE_WORD + 2 * words;
        for lookup_key in sorted_keys {
            let (width, count) = (lookup_key.width_bits, entries::words_for(lookup_key.width_bits));
            let (word, shift) = ((lookup_key.bit_offset / 64) as usize, lookup_key.bit_offset % 64);
            assert!(count == 1 || shift == 0, "a key wider than a word starts at a word");
            assert!(
                shift + width.min(64) <= 64 && word + count <= words.max(1),
                "a key lies within the lookup key's words"
            );
            let (position, kind, signed) = (lookup_key.position, lookup_key.kind, lookup_key.signed && width > 0);
            let key = PackedKeyField { position, kind, width, signed, words: count, offset: packed_words };
            packed_words += key.total_words();
            fields.push(RuleField { key, bit_offset: lookup_key.bit_offset, bounds_word: bounds });
            let sign = if signed { 1 << ((width - 1) % 64) } else { 0 };
            if kind != MatchKind::Range {
                continue;
            }
            if count == 1 {
                range_fields.push(RangeField { word, shift, mask: low_bits(width), flip: sign, bounds });
            } else {
                wide_range_fields.push(WideRangeField { width, word, words: count, flip: sign, bounds });
            }
            bounds += 2 * count;
        }
        RuleLayout {
            key_words: words.max(1),
            rule_words: bounds,
            packed_words,
            fields,
            range_fields,
            wide_range_fields,
        }
    }

    /// Encodes an entry's packed key as a rule. Overwrites `rule`.
    ///
    /// # Panics
    /// If the key does not have the words of its [`entries::KeyLayout`].
    pub fn encode_rule(&self, key: &[u64], priority: i32, sequence: u64, rule: &mut Vec<u64>) {
        assert_eq!(key.len(), self.packed_words, "a packed key of this table");
        rule.clear();
        rule.resize(self.rule_words, 0);
        let mut prefix_bits = 0;
        for field in &self.fields {
            let pattern = field.key.pattern(key);
            if let KeyFieldPattern::Prefix { len, .. } = pattern {
                prefix_bits += len;
            }
            match pattern {
                KeyFieldPattern::Range { low, high } => self.write_range(field, low, high, rule),
                pattern => self.write_field(field, field.key.value(key), |at| pattern.mask(field.key.width, at), rule),
            }
        }
        rule[0] = precedence_rank(priority, prefix_bits);
        rule[1] = sequence;
    }

    /// Writes a field's value and mask at its position in the lookup key.
    fn write_field(&self, field: &RuleField, value: &[u64], mask: impl Fn(usize) -> u64, rule: &mut [u64]) {
        let (word, shift) = ((field.bit_offset / 64) as usize, field.bit_offset % 64);
        for (at, value) in value.iter().enumerate() {
            let mask = mask(at) & low_bits_of_word(field.key.width, at);
            rule[RuleLayout::VALUE_WORD + word + at] |= (value & mask) << shift;
            rule[RuleLayout::VALUE_WORD + self.key_words + word + at] |= mask << shift;
        }
    }

    fn write_range(&self, field: &RuleField, low: &[u64], high: &[u64], rule: &mut [u64]) {
        let last = field.key.words - 1;
        let sign = if field.key.signed { 1 << ((field.key.width - 1) % 64) } else { 0 };
        for at in 0..field.key.words {
            let flip = if at == last { sign } else { 0 };
            rule[field.bounds_word + at] = low[at] ^ flip;
            rule[field.bounds_word + field.key.words + at] = high[at] ^ flip;
        }
        // The bits above the highest differing bit of the bounds are equal in all values between
        // them.
        let differing = (0..field.key.words).rev().find_map(|at| {
            let bits = low[at] ^ high[at];
            (bits != 0).then(|| 64 * at as u32 + 64 - bits.leading_zeros())
        });
        let differing = differing.unwrap_or(0);
        self.write_field(field, low, |at| !low_bits_of_word(differing, at), rule);
    }

    /// Returns the words of the value.
    pub fn value_words<'r>(&self, rule: &'r [u64]) -> &'r [u64] {
        &rule[RuleLayout::VALUE_WORD..RuleLayout::VALUE_WORD + self.key_words]
    }

    /// Returns the words of the mask.
    pub fn mask_words<'r>(&self, rule: &'r [u64]) -> &'r [u64] {
        &rule[RuleLayout::VALUE_WORD + self.key_words..RuleLayout::VALUE_WORD + 2 * self.key_words]
    }

    /// Returns whether a range of at most 64 bits is not completely defined by value and mask.
    pub fn has_range_check(&self, rule: &[u64]) -> bool {
        let more = |field: &RangeField| {
            let covered = self.mask_words(rule)[field.word] >> field.shift & field.mask;
            let (low, high) = (rule[field.bounds], rule[field.bounds + 1]);
            low & !covered != 0 || high | covered != field.mask
        };
        self.range_fields.iter().any(more)
    }

    /// Returns whether a wide range has to be compared, because it excludes some values.
    pub fn has_wide_range(&self, rule: &[u64]) -> bool {
        self.wide_range_fields.iter().any(|field| {
            let bounds = &rule[field.bounds..field.bounds + 2 * field.words];
            let (low, high) = bounds.split_at(field.words);
            let all = low.iter().all(|&word| word == 0)
                && (0..field.words).all(|at| high[at] == low_bits_of_word(field.width, at));
            // A range of a single value is already covered by the mask.
            low != high && !all
        })
    }

    /// Returns, for each field, the mask of its bits over the lookup key's words.
    pub fn field_masks(&self) -> Vec<Vec<u64>> {
        let one = |field: &RuleField| {
            let mut rule = vec![0; self.rule_words];
            self.write_field(field, &vec![0; field.key.words], |_| u64::MAX, &mut rule);
            self.mask_words(&rule).to_vec()
        };
        self.fields.iter().filter(|field| field.key.width > 0).map(one).collect()
    }
}

/// Returns whether a number of several words lies within two bounds, inclusive.
pub fn is_between(words: usize, number: impl Fn(usize) -> u64, low: &[u64], high: &[u64]) -> bool {
    let order = |bound: &[u64]| {
        let words = (0..words).rev().map(|at| number(at).cmp(&bound[at]));
        words.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    };
    order(low).is_ge() && order(high).is_le()
}
