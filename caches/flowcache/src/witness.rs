//! [`Witness`]: which bits of a key a lookup had to look at to find what it found.
//!
//! All packets that agree on these bits find the same entry, or none. Of a hit they are the bits that the entry asks for, and, for each entry that is
//! stronger, one bit (of a range: a prefix) that keeps it away. Of a miss in a table whose keys are all exact, they are all bits.

use entries::match_key::Pattern;
use entries::{Entry, KeyField, KeyLayout, Strength};
use interp::walk::ApplySite;
use ir::MatchKind;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

type Fast = foldhash::fast::RandomState;

/// What an entry asks of the keys that are not exact.
#[derive(Clone, Debug)]
struct Rule {
    strength: Strength,
    /// Mask of each word; of a range 0, it is in `ranges`.
    mask: Box<[u64]>,
    /// The value under it.
    value: Box<[u64]>,
    /// Lower and upper bound of each range field, made such that they compare as unsigned.
    ranges: Box<[(u64, u64)]>,
}

/// Strength and ranges of rules with one mask and one value.
type Same = Vec<(Strength, Box<[(u64, u64)]>)>;
/// Rules by mask, then by value.
type Rules = BTreeMap<Box<[u64]>, BTreeMap<Box<[u64]>, Same>>;

/// Up to so many values under one mask are kept away one by one, each by a bit; of more, all at once, by a prefix of the masked bits.
const FEW: usize = 8;

/// Entries under the same exact keys.
#[derive(Clone, Debug)]
enum Group {
    /// Prefixes by length, the value at the upper end.
    Prefixes(BTreeMap<u32, BTreeSet<u128>>),
    /// By what they ask.
    Rules(Rules),
}

/// The entries of a table, in a form that answers what kept others away.
#[derive(Clone, Debug)]
pub struct Witness {
    layout: KeyLayout,
    /// First word of each field among the values' words; and how many words there are.
    places: Vec<usize>,
    words: usize,
    /// The only field that is not exact, if it is a prefix of up to 128 bits.
    prefix: Option<usize>,
    all_exact: bool,
    groups: HashMap<Box<[u64]>, Group, Fast>,
}

/// All bits of a word of a field.
fn full(field: &KeyField, word: usize) -> u64 {
    let low = word as u32 * 64;
    match field.width.saturating_sub(low) {
        0 => 0,
        bits if bits >= 64 => u64::MAX,
        bits => (1 << bits) - 1,
    }
}

/// The mask of the first `len` bits of a field, as the value's words.
fn prefix_words(field: &KeyField, len: u32) -> impl Iterator<Item = u64> + '_ {
    let host = field.width.saturating_sub(len);
    (0..field.words).map(move |word| {
        let below = host.saturating_sub(word as u32 * 64);
        full(field, word) & if below >= 64 { 0 } else { u64::MAX << below }
    })
}

/// The value at the upper end of 128 bits.
fn aligned(field: &KeyField, value: &[u64]) -> u128 {
    let number = value.iter().rev().fold(0u128, |number, word| number << 64 | u128::from(*word));
    if field.width == 0 { 0 } else { number << (128 - field.width) }
}

/// How many bits an unsigned value and a bound have in common, plus the one that differs: a prefix that settles how they compare.
fn settles(width: u32, value: u64, bound: u64) -> u64 {
    match value ^ bound {
        0 => full_width(width),
        difference => full_width(width) & (u64::MAX << (63 - difference.leading_zeros())),
    }
}

fn full_width(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// The prefix of a value that keeps it within both bounds.
fn inside(width: u32, value: u64, lo: u64, hi: u64) -> u64 {
    let mut mask = full_width(width);
    while mask != 0 {
        let wider = mask & (mask - 1);
        let block = full_width(width) & !wider;
        if value & wider < lo || value | block > hi {
            break;
        }
        mask = wider;
    }
    mask
}

impl Witness {
    /// For a table without entries.
    pub fn new(keys: &[ir::Key]) -> Witness {
        let layout = KeyLayout::new(keys);
        let mut words = 0;
        let places = layout.fields.iter().map(|field| {
            words += field.words;
            words - field.words
        });
        let places = places.collect();
        let others: Vec<usize> =
            (0..layout.fields.len()).filter(|at| layout.fields[*at].kind != MatchKind::Exact).collect();
        let prefix = match others[..] {
            [only] if layout.fields[only].kind == MatchKind::Lpm && layout.fields[only].width <= 128 => Some(only),
            _ => None,
        };
        Witness { all_exact: others.is_empty(), layout, places, words, prefix, groups: HashMap::default() }
    }

    /// The words of the values of a key.
    pub fn words(&self) -> usize {
        self.words
    }

    /// The fields, with the first word of each.
    pub fn fields(&self) -> impl Iterator<Item = (&KeyField, usize)> {
        self.layout.fields.iter().zip(self.places.iter().copied())
    }

    fn exact(&self) -> impl Iterator<Item = (&KeyField, usize)> {
        self.fields().filter(|(field, _)| field.kind == MatchKind::Exact)
    }

    fn others(&self) -> impl Iterator<Item = (&KeyField, usize)> {
        self.fields().filter(|(field, _)| field.kind != MatchKind::Exact)
    }

    /// Appends the words of the values that an application asks for, field by field.
    #[inline]
    pub fn push_key(&self, site: &ApplySite, slots: &[u64], key: &mut Vec<u64>) {
        for (field, _) in self.fields() {
            let slot = site.keys[field.position].slot as usize;
            key.extend_from_slice(&slots[slot..slot + field.words]);
        }
    }

    /// The words of exact keys among those of a key.
    pub fn exact_words(&self) -> impl Iterator<Item = usize> {
        self.exact().flat_map(|(field, at)| at..at + field.words)
    }

    /// The exact keys of a packet's key.
    pub fn exact_of(&self, key: &[u64]) -> Box<[u64]> {
        self.exact().flat_map(|(field, at)| key[at..at + field.words].iter().copied()).collect()
    }

    /// The exact keys of an entry.
    pub fn exact_of_entry(&self, entry: &Entry) -> Box<[u64]> {
        self.layout.exact_words(entry.key()).collect()
    }

    /// Whether the first of two entries wins where both match.
    pub fn is_stronger(&self, entry: &Entry, other: &Entry) -> bool {
        self.layout.strength(entry) < self.layout.strength(other)
    }

    /// Turns a number of a signed key into one that compares as unsigned.
    fn unsigned(field: &KeyField, value: u64) -> u64 {
        if field.signed && field.width > 0 { value ^ 1 << (field.width - 1).min(63) } else { value }
    }

    fn rule(&self, entry: &Entry) -> Rule {
        let (mut masks, mut values, mut ranges) = (Vec::new(), Vec::new(), Vec::new());
        for (field, _) in self.others() {
            let (value, pattern) = (field.value(entry.key()), field.pattern(entry.key()));
            if let Pattern::Range { low, high } = pattern {
                // Ranges of more than 64 bits ask for all bits: see `decide`.
                ranges.push((Self::unsigned(field, low[0]), Self::unsigned(field, high[0])));
            }
            for (at, value) in value.iter().enumerate() {
                let mask = pattern.mask(field.width, at);
                masks.push(mask);
                values.push(value & mask);
            }
        }
        Rule { strength: self.layout.strength(entry), mask: masks.into(), value: values.into(), ranges: ranges.into() }
    }

    /// An entry is in the table.
    pub fn insert(&mut self, entry: &Entry) {
        if self.all_exact {
            return;
        }
        let exact = self.exact_of_entry(entry);
        if let Some(at) = self.prefix {
            let field = &self.layout.fields[at];
            let (value, len) = (aligned(field, field.value(entry.key())), field.second(entry.key())[0] as u32);
            let group = self.groups.entry(exact).or_insert_with(|| Group::Prefixes(BTreeMap::new()));
            if let Group::Prefixes(lengths) = group {
                lengths.entry(len).or_default().insert(value);
            }
            return;
        }
        let rule = self.rule(entry);
        if let Group::Rules(rules) = self.groups.entry(exact).or_insert_with(|| Group::Rules(Rules::default())) {
            let same = rules.entry(rule.mask).or_default().entry(rule.value).or_default();
            same.push((rule.strength, rule.ranges));
        }
    }

    /// An entry is no more in the table.
    pub fn remove(&mut self, entry: &Entry) {
        let exact = self.exact_of_entry(entry);
        let rule = (!self.all_exact && self.prefix.is_none()).then(|| self.rule(entry));
        let Some(group) = self.groups.get_mut(&exact) else { return };
        let empty = match (group, self.prefix) {
            (Group::Prefixes(lengths), Some(at)) => {
                let field = &self.layout.fields[at];
                let len = field.second(entry.key())[0] as u32;
                if let Some(values) = lengths.get_mut(&len) {
                    values.remove(&aligned(field, field.value(entry.key())));
                    if values.is_empty() {
                        lengths.remove(&len);
                    }
                }
                lengths.is_empty()
            }
            (Group::Rules(rules), _) => {
                if let Some(rule) = rule {
                    take_out(rules, &rule);
                }
                rules.is_empty()
            }
            _ => false,
        };
        if empty {
            self.groups.remove(&exact);
        }
    }

    /// All bits of a key.
    pub fn all(&self) -> Vec<u64> {
        self.fields().flat_map(|(field, _)| (0..field.words).map(|word| full(field, word))).collect()
    }

    /// Whether all keys are exact.
    pub fn all_exact(&self) -> bool {
        self.all_exact
    }

    /// The bits of `key` that decided that `found`, or nothing, was found: a mask of as many words.
    pub fn decide(&self, key: &[u64], found: Option<&Entry>) -> Vec<u64> {
        let mut mask = vec![0; self.words];
        for (field, at) in self.exact() {
            (0..field.words).for_each(|word| mask[at + word] = full(field, word));
        }
        if self.all_exact {
            return mask;
        }
        match self.groups.get(&self.exact_of(key)) {
            Some(Group::Prefixes(lengths)) => self.decide_prefix(lengths, key, found, &mut mask),
            Some(Group::Rules(rules)) => self.decide_rules(rules, key, found, &mut mask),
            None => {}
        }
        mask
    }

    fn decide_prefix(
        &self,
        lengths: &BTreeMap<u32, BTreeSet<u128>>,
        key: &[u64],
        found: Option<&Entry>,
        mask: &mut [u64],
    ) {
        let Some(at) = self.prefix else { return };
        let (field, place) = (&self.layout.fields[at], self.places[at]);
        let value = aligned(field, &key[place..place + field.words]);
        let own = found.map(|entry| field.second(entry.key())[0] as u32);
        let mut bits = own.unwrap_or(0);
        for (len, values) in lengths {
            if own.is_some_and(|own| *len <= own) {
                continue;
            }
            // The longest common part is with a neighbour.
            let near = [values.range(..=value).next_back(), values.range(value..).next()];
            for near in near.into_iter().flatten() {
                bits = bits.max((value ^ near).leading_zeros().min(*len - 1) + 1);
            }
        }
        let bits = bits.min(field.width);
        prefix_words(field, bits).enumerate().for_each(|(word, more)| mask[place + word] |= more);
    }

    fn decide_rules(&self, rules: &Rules, key: &[u64], found: Option<&Entry>, mask: &mut [u64]) {
        // Words of the keys that are not exact, one after the other.
        let places: Vec<usize> = self.others().flat_map(|(field, at)| at..at + field.words).collect();
        let ranges: Vec<(&KeyField, usize)> =
            self.others().filter(|(field, _)| field.kind == MatchKind::Range).collect();
        for (field, at) in &ranges {
            if field.words > 1 {
                (0..field.words).for_each(|word| mask[at + word] = full(field, word));
            }
        }
        let own = found.map(|entry| self.rule(entry));
        if let Some(rule) = &own {
            places.iter().zip(&rule.mask).for_each(|(at, asked)| mask[*at] |= asked);
            for ((field, at), (lo, hi)) in ranges.iter().zip(&rule.ranges).filter(|((field, _), _)| field.words == 1) {
                mask[*at] |= inside(field.width, Self::unsigned(field, key[*at]), *lo, *hi);
            }
        }
        let stronger = |strength: &Strength| own.as_ref().is_none_or(|own| *strength < own.strength);
        for (asked, values) in rules {
            let masked: Box<[u64]> = places.iter().zip(asked).map(|(at, asked)| key[*at] & asked).collect();
            if values.len() <= FEW {
                let others =
                    values.iter().filter(|(value, same)| **value != masked && same.iter().any(|(s, _)| stronger(s)));
                others.for_each(|(value, _)| one_bit(&places, key, value, asked, mask));
            } else {
                prefix_of_all(&places, values, &masked, asked, mask);
            }
            // What it has in common with the packet, but for a range.
            for (strength, bounds) in values.get(&masked).into_iter().flatten() {
                if stronger(strength) {
                    self.outside(&ranges, bounds, key, mask);
                }
            }
        }
    }

    /// Asks for what keeps a rule away whose ranges alone do.
    fn outside(&self, ranges: &[(&KeyField, usize)], bounds: &[(u64, u64)], key: &[u64], mask: &mut [u64]) {
        let mut outside = None;
        for ((field, at), (lo, hi)) in ranges.iter().zip(bounds).filter(|((field, _), _)| field.words == 1) {
            let value = Self::unsigned(field, key[*at]);
            let bits = match (value < *lo, value > *hi) {
                (true, _) => settles(field.width, value, *lo),
                (_, true) => settles(field.width, value, *hi),
                _ => continue,
            };
            if bits & !mask[*at] == 0 {
                return;
            }
            outside.get_or_insert((*at, bits));
        }
        // If there is none, it differs in a range of more than 64 bits, all of which are asked for.
        if let Some((at, bits)) = outside {
            mask[at] |= bits;
        }
    }
}

fn take_out(rules: &mut Rules, rule: &Rule) {
    let Some(values) = rules.get_mut(&rule.mask) else { return };
    if let Some(same) = values.get_mut(&rule.value) {
        same.retain(|(strength, _)| *strength != rule.strength);
        if same.is_empty() {
            values.remove(&rule.value);
        }
    }
    if values.is_empty() {
        rules.remove(&rule.mask);
    }
}

/// Asks for a bit in which the key differs from a rule's value, unless one is asked for already: the highest, so that packets ask for the same ones.
fn one_bit(places: &[usize], key: &[u64], value: &[u64], asked: &[u64], mask: &mut [u64]) {
    let differs = |word: usize| (key[places[word]] ^ value[word]) & asked[word];
    if (0..value.len()).any(|word| differs(word) & mask[places[word]] != 0) {
        return;
    }
    if let Some(word) = (0..value.len()).find(|word| differs(*word) != 0) {
        mask[places[word]] |= 1 << (63 - differs(word).leading_zeros());
    }
}

/// Asks for as much of the masked bits, from the first on, as tells the key from all values but its own.
fn prefix_of_all(
    places: &[usize],
    values: &BTreeMap<Box<[u64]>, Same>,
    masked: &[u64],
    asked: &[u64],
    mask: &mut [u64],
) {
    // The longest common part is with a neighbour.
    let before = values.range::<[u64], _>((Bound::Unbounded, Bound::Excluded(masked))).next_back();
    let behind = values.range::<[u64], _>((Bound::Excluded(masked), Bound::Unbounded)).next();
    for (value, _) in before.into_iter().chain(behind) {
        let Some(word) = (0..masked.len()).find(|word| masked[*word] != value[*word]) else { continue };
        (0..word).for_each(|word| mask[places[word]] |= asked[word]);
        let from = 63 - (masked[word] ^ value[word]).leading_zeros();
        mask[places[word]] |= asked[word] & (u64::MAX << from);
    }
}

#[cfg(test)]
mod tests {
    use super::{inside, settles};

    #[test]
    fn the_prefix_of_a_range() {
        assert_eq!(inside(16, 80, 80, 80), 0xffff);
        assert_eq!(inside(16, 80, 0, 65535), 0);
        assert_eq!(inside(16, 1500, 1024, 65535), 0xfc00);
        assert_eq!(settles(16, 80, 1024), 0xfc00);
    }
}
