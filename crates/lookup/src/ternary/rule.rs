//! What an entry asks of a lookup key, in a form that many entries share: bits that must be equal, and ranges.
//!
//! Whatever the kinds of its fields, an entry (a *rule* here) becomes a value and a mask over the words of the lookup key. A range
//! contributes the leading bits that its bounds have in common; if that is not all it says, its bounds are compared as well.

use crate::KeyPlace;
use entries::KeyField;
use entries::match_key::Pattern;
use ir::MatchKind;

/// How rules of a table lie in memory. A rule is a slice of words ([`Shape::rule_words`]):
///
/// | words | what |
/// |---|---|
/// | 1 | rank: priority and prefix lengths, greater is stronger ([`rank`]) |
/// | 1 | sequence: of equal ranks the smaller is stronger |
/// | [`Shape::words`] | value |
/// | [`Shape::words`] | mask |
/// | for each range field, twice its words | lower and upper bound, the sign bit flipped if it is signed |
///
/// Two entries with the same key and priority are equal in all words but the sequence.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Words of a lookup key.
    pub words: usize,
    /// Words of a rule.
    pub rule_words: usize,
    /// Words of an entry's packed key.
    packed_words: usize,
    fields: Vec<Field>,
    /// Range fields of at most 64 bits.
    pub narrow: Vec<Narrow>,
    /// Wider range fields.
    pub wide: Vec<Wide>,
}

#[derive(Clone, Debug)]
struct Field {
    /// The field, as it lies in a packed key.
    key: KeyField,
    /// First bit in the lookup key.
    bit: u32,
    /// First word of the bounds in a rule; of range fields.
    bounds: usize,
}

/// A range field of at most 64 bits, as a lookup reads it: `(key[word] >> shift & mask) ^ flip`.
#[derive(Clone, Copy, Debug)]
pub struct Narrow {
    pub word: usize,
    pub shift: u32,
    pub mask: u64,
    pub flip: u64,
    /// First word of the bounds in a rule.
    pub bounds: usize,
}

/// A range field of more than 64 bits. It starts at a word.
#[derive(Clone, Copy, Debug)]
pub struct Wide {
    pub width: u32,
    pub word: usize,
    pub words: usize,
    /// Flips the sign in the last word.
    pub flip: u64,
    pub bounds: usize,
}

/// The weakest rank is 1, so that 0 is free to say "none".
pub fn rank(priority: i32, prefix_bits: u64) -> u64 {
    let ordered = u64::from(priority as u32 ^ 1 << 31);
    ordered << 31 | (prefix_bits + 1).min((1 << 31) - 1)
}

/// The part of a rank that the priority gives, in order.
#[inline(always)]
pub fn priority_of(rank: u64) -> u32 {
    (rank >> 31) as u32
}

/// The lowest `width` bits of a word.
fn ones(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// The lowest `width` bits of word `index` of a wider number.
fn ones_at(width: u32, index: usize) -> u64 {
    ones(width.saturating_sub(64 * index as u32))
}

impl Shape {
    /// First word of the value.
    pub const VALUE: usize = 2;

    pub fn new(keys: &[KeyPlace], words: usize) -> Shape {
        let mut places: Vec<&KeyPlace> = keys.iter().filter(|key| key.kind != MatchKind::Selector).collect();
        places.sort_by_key(|key| key.position);
        let (mut fields, mut narrow, mut wide) = (Vec::new(), Vec::new(), Vec::new());
        let mut packed = 0;
        let mut bounds = Shape::VALUE + 2 * words;
        for place in places {
            let (width, count) = (place.width, entries::words_for(place.width));
            let (word, shift) = ((place.bit / 64) as usize, place.bit % 64);
            assert!(count == 1 || shift == 0, "a key wider than a word starts at one");
            assert!(
                shift + width.min(64) <= 64 && word + count <= words.max(1),
                "a key lies within the lookup key's words"
            );
            let (position, kind, signed) = (place.position, place.kind, place.signed && width > 0);
            let key = KeyField { position, kind, width, signed, words: count, offset: packed };
            packed += key.total_words();
            fields.push(Field { key, bit: place.bit, bounds });
            let sign = if signed { 1 << ((width - 1) % 64) } else { 0 };
            if kind != MatchKind::Range {
                continue;
            }
            if count == 1 {
                narrow.push(Narrow { word, shift, mask: ones(width), flip: sign, bounds });
            } else {
                wide.push(Wide { width, word, words: count, flip: sign, bounds });
            }
            bounds += 2 * count;
        }
        Shape { words: words.max(1), rule_words: bounds, packed_words: packed, fields, narrow, wide }
    }

    /// Turns an entry's packed key into a rule. `rule` is overwritten.
    ///
    /// # Panics
    /// The key has not the words that [`crate::KeyLayout`] gives it.
    pub fn rule(&self, key: &[u64], priority: i32, sequence: u64, rule: &mut Vec<u64>) {
        assert_eq!(key.len(), self.packed_words, "a packed key of another table");
        rule.clear();
        rule.resize(self.rule_words, 0);
        let mut prefix_bits = 0;
        for field in &self.fields {
            let pattern = field.key.pattern(key);
            if let Pattern::Prefix { len, .. } = pattern {
                prefix_bits += len;
            }
            match pattern {
                Pattern::Range { low, high } => self.range(field, low, high, rule),
                pattern => self.place(field, field.key.value(key), |at| pattern.mask(field.key.width, at), rule),
            }
        }
        rule[0] = rank(priority, prefix_bits);
        rule[1] = sequence;
    }

    /// Puts a field's value and mask where they lie in the lookup key.
    fn place(&self, field: &Field, value: &[u64], mask: impl Fn(usize) -> u64, rule: &mut [u64]) {
        let (word, shift) = ((field.bit / 64) as usize, field.bit % 64);
        for (at, value) in value.iter().enumerate() {
            let mask = mask(at) & ones_at(field.key.width, at);
            rule[Shape::VALUE + word + at] |= (value & mask) << shift;
            rule[Shape::VALUE + self.words + word + at] |= mask << shift;
        }
    }

    fn range(&self, field: &Field, low: &[u64], high: &[u64], rule: &mut [u64]) {
        let last = field.key.words - 1;
        let sign = if field.key.signed { 1 << ((field.key.width - 1) % 64) } else { 0 };
        for at in 0..field.key.words {
            let flip = if at == last { sign } else { 0 };
            rule[field.bounds + at] = low[at] ^ flip;
            rule[field.bounds + field.key.words + at] = high[at] ^ flip;
        }
        // The bits above the highest in which the bounds differ are the same in all between.
        let differing = (0..field.key.words).rev().find_map(|at| {
            let bits = low[at] ^ high[at];
            (bits != 0).then(|| 64 * at as u32 + 64 - bits.leading_zeros())
        });
        let differing = differing.unwrap_or(0);
        self.place(field, low, |at| !ones_at(differing, at), rule);
    }

    /// The value's words.
    pub fn value<'r>(&self, rule: &'r [u64]) -> &'r [u64] {
        &rule[Shape::VALUE..Shape::VALUE + self.words]
    }

    /// The mask's words.
    pub fn mask<'r>(&self, rule: &'r [u64]) -> &'r [u64] {
        &rule[Shape::VALUE + self.words..Shape::VALUE + 2 * self.words]
    }

    /// Whether the bounds of a narrow range say more than value and mask.
    pub fn is_ranged(&self, rule: &[u64]) -> bool {
        let more = |field: &Narrow| {
            let covered = self.mask(rule)[field.word] >> field.shift & field.mask;
            let (low, high) = (rule[field.bounds], rule[field.bounds + 1]);
            low & !covered != 0 || high | covered != field.mask
        };
        self.narrow.iter().any(more)
    }

    /// Whether there is a wide range in which not every value is.
    pub fn is_wide(&self, rule: &[u64]) -> bool {
        self.wide.iter().any(|field| {
            let bounds = &rule[field.bounds..field.bounds + 2 * field.words];
            let (low, high) = bounds.split_at(field.words);
            let all =
                low.iter().all(|&word| word == 0) && (0..field.words).all(|at| high[at] == ones_at(field.width, at));
            // One value is in the mask already.
            low != high && !all
        })
    }

    /// Where bits of a field lie: a mask over the lookup key's words.
    pub fn field_masks(&self) -> Vec<Vec<u64>> {
        let one = |field: &Field| {
            let mut rule = vec![0; self.rule_words];
            self.place(field, &vec![0; field.key.words], |_| u64::MAX, &mut rule);
            self.mask(&rule).to_vec()
        };
        self.fields.iter().filter(|field| field.key.width > 0).map(one).collect()
    }
}

/// Whether a number of several words lies between two others.
pub fn between(words: usize, number: impl Fn(usize) -> u64, low: &[u64], high: &[u64]) -> bool {
    let order = |bound: &[u64]| {
        let words = (0..words).rev().map(|at| number(at).cmp(&bound[at]));
        words.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    };
    order(low).is_ge() && order(high).is_le()
}
