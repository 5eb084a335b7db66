//! Naive model for fields of any kind and width, together with a table.

use super::Random;
use crate::ternary::{TernaryTable, search};
use crate::{LookupKeyField, LookupLayout};
use entries::{KeyLayout, big_from_words};
use ir::{KeyMatch, MatchKey, MatchKind, Type};
use num_bigint::BigUint;
use num_traits::One;

/// Field of a key: match kind, width in bits, and whether it is signed.
pub type FieldSpec = (MatchKind, u32, bool);

#[derive(Clone)]
struct ModelEntry {
    keys: Vec<KeyMatch>,
    priority: i32,
    sequence: u64,
    value: u64,
}

/// Table and its model, changed together.
#[derive(Clone)]
pub struct ModeledClassifier {
    fields: Vec<FieldSpec>,
    layout: KeyLayout,
    places: Vec<LookupKeyField>,
    words: usize,
    pub table: TernaryTable,
    entries: Vec<ModelEntry>,
    /// Upper part of the last insertion's sequence number, and the number of insertions.
    sequence: u64,
    insertions: u64,
}

impl ModeledClassifier {
    pub fn new(fields: &[FieldSpec]) -> ModeledClassifier {
        let key = |(kind, width, signed): &FieldSpec| {
            MatchKey::new("key", if *signed { Type::Int(*width) } else { Type::Bit(*width) }, *kind)
        };
        let keys: Vec<MatchKey> = fields.iter().map(key).collect();
        let layout = KeyLayout::new(&keys);
        let shape = LookupLayout::new(&table_with(keys), false, |_| vec![]);
        let table = TernaryTable::new(&shape.keys, shape.words, 8);
        let fields = fields.to_vec();
        ModeledClassifier {
            fields,
            layout,
            places: shape.keys,
            words: shape.words,
            table,
            entries: vec![],
            sequence: 1000,
            insertions: 0,
        }
    }

    pub fn len(&self) -> usize {
        assert_eq!(self.table.len(), self.entries.len());
        self.entries.len()
    }

    /// Inserts an entry, or replaces the value of the entry with this key and priority.
    pub fn insert(&mut self, keys: Vec<KeyMatch>, priority: i32, value: u64) {
        let packed = self.layout.pack(&keys).expect("keys of the layout");
        // Sequence numbers are unique and usually, but not always, increase.
        self.sequence = self.sequence.wrapping_add(if value.is_multiple_of(5) { 7_u64.wrapping_neg() } else { 9 });
        self.insertions += 1;
        let sequence = self.sequence << 20 | self.insertions;
        let replaced = self.table.insert(&packed, priority, sequence, &value.to_le_bytes());
        let found = self.entries.iter_mut().find(|e| e.keys == keys && e.priority == priority);
        assert_eq!(replaced, found.is_some(), "whether it replaces {keys:?} {priority}");
        match found {
            Some(entry) => entry.value = value,
            None => self.entries.push(ModelEntry { keys, priority, sequence, value }),
        }
    }

    pub fn remove(&mut self, keys: &[KeyMatch], priority: i32) {
        let removed = self.table.remove(&self.layout.pack(keys).expect("keys of the layout"), priority);
        let place = self.entries.iter().position(|e| e.keys == keys && e.priority == priority);
        assert_eq!(removed, place.is_some(), "whether it removes {keys:?} {priority}");
        place.map(|at| self.entries.swap_remove(at));
    }

    /// Removes the entry at an index of the model.
    pub fn remove_at(&mut self, at: usize) {
        let entry = self.entries[at].clone();
        self.remove(&entry.keys, entry.priority);
    }

    /// Returns key and priority of the entry at an index of the model.
    pub fn entry(&self, at: usize) -> (Vec<KeyMatch>, i32) {
        (self.entries[at].keys.clone(), self.entries[at].priority)
    }

    /// Looks up random keys, most of which match an entry, with all kernels. Returns the indices of
    /// the winning entries.
    pub fn check(&self, random: &mut Random, count: usize) -> Vec<usize> {
        let asked: Vec<Vec<BigUint>> = (0..count).map(|_| self.values(random)).collect();
        let keys: Vec<u64> = asked.iter().flat_map(|values| self.key(values)).collect();
        let won: Vec<Option<usize>> = asked.iter().map(|values| self.winner(values)).collect();
        let want: Vec<Option<u64>> = won.iter().map(|at| at.map(|at| self.entries[at].value)).collect();
        let mut kernels: Vec<(&str, search::SearchKernel)> = vec![("plain", search::scalar_kernel(self.words))];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                kernels.push(("avx2", search::avx2_kernel(self.words)));
            }
            if is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512vl") {
                kernels.push(("avx512", search::avx512_kernel(self.words)));
            }
        }
        for (name, kernel) in kernels {
            let mut table = self.table.clone();
            table.kernel = kernel;
            let mut out = vec![std::ptr::dangling(); count];
            table.lookup_batch(&keys, &mut out);
            let got: Vec<Option<u64>> = out.iter().map(|at| value(*at)).collect();
            for ((asked, want), got) in asked.iter().zip(&want).zip(&got) {
                assert_eq!(want, got, "{name}: {asked:?} among {} entries of {:?}", self.entries.len(), self.fields);
            }
        }
        if count > 0 {
            assert_eq!(value(self.table.lookup(&keys[..self.words])), want[0], "one key");
        }
        won.into_iter().flatten().collect()
    }

    fn winner(&self, values: &[BigUint]) -> Option<usize> {
        let matches = |entry: &ModelEntry| {
            self.fields.iter().zip(&entry.keys).zip(values).all(|((f, k), v)| field_matches(f, k, v))
        };
        let prefix = |entry: &ModelEntry| -> u32 {
            let len = |key: &KeyMatch| if let KeyMatch::Lpm { prefix_len, .. } = key { *prefix_len } else { 0 };
            entry.keys.iter().map(len).sum()
        };
        let order = |entry: &ModelEntry| (entry.priority, prefix(entry), std::cmp::Reverse(entry.sequence));
        (0..self.entries.len()).filter(|&at| matches(&self.entries[at])).max_by_key(|&at| order(&self.entries[at]))
    }

    /// Returns values close to those of an entry.
    fn values(&self, random: &mut Random) -> Vec<BigUint> {
        let like = (!self.entries.is_empty() && !random.once_in(8)).then(|| random.below(self.entries.len()));
        let mut value = |(at, field): (usize, &FieldSpec)| {
            let free = random_number(random, field.1);
            let Some(like) = like else { return free };
            let any = |width: u32, random: &mut Random| {
                if random.once_in(30) { flipped(random, &free, width) } else { free.clone() }
            };
            match &self.entries[like].keys[at] {
                KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => value.clone(),
                KeyMatch::Optional(None) => any(field.1, random),
                KeyMatch::Ternary { value, mask } => value | (any(field.1, random) & (mask ^ all_ones(field.1))),
                KeyMatch::Lpm { value, prefix_len } => value | (any(field.1, random) & all_ones(field.1 - prefix_len)),
                KeyMatch::Range { lo, hi } => match random.below(5) {
                    0 => lo.clone(),
                    1 => hi.clone(),
                    2 => (lo + 1_u8) & all_ones(field.1),
                    3 => (hi + 1_u8) & all_ones(field.1),
                    _ => (lo + hi) >> 1,
                },
            }
        };
        self.fields.iter().enumerate().map(&mut value).collect()
    }

    fn key(&self, values: &[BigUint]) -> Vec<u64> {
        let mut whole = BigUint::ZERO;
        for place in &self.places {
            whole |= &values[place.position] << place.bit_offset;
        }
        let mut words = whole.to_u64_digits();
        words.resize(self.words, 0);
        words
    }
}

fn value(at: *const u8) -> Option<u64> {
    #[allow(unsafe_code)]
    // SAFETY: not null, so it points to a value, of which 8 bytes may be read; the table still
    // exists.
    (!at.is_null()).then(|| u64::from_le_bytes(unsafe { at.cast::<[u8; 8]>().read() }))
}

/// Returns a number of `width` one bits.
pub fn all_ones(width: u32) -> BigUint {
    (BigUint::one() << width) - BigUint::one()
}

/// Returns a random number of `width` bits, often one of few.
pub fn random_number(random: &mut Random, width: u32) -> BigUint {
    let words: Vec<u64> = (0..4).map(|_| random.word()).collect();
    let whole = big_from_words(&words) & all_ones(width);
    match random.below(4) {
        0 => whole,
        1 => BigUint::from(random.below(5)) & all_ones(width),
        2 => all_ones(width) ^ (BigUint::from(random.below(5)) & all_ones(width)),
        _ => BigUint::from(random.below(5)) << width.saturating_sub(3) & all_ones(width),
    }
}

fn flipped(random: &mut Random, value: &BigUint, width: u32) -> BigUint {
    value ^ (BigUint::one() << random.below(width as usize))
}

fn field_matches(&(_, width, signed): &FieldSpec, key: &KeyMatch, value: &BigUint) -> bool {
    // Two's complement order is unsigned order with the sign bit flipped.
    let order = |number: &BigUint| if signed { number ^ (BigUint::one() << (width - 1)) } else { number.clone() };
    match key {
        KeyMatch::Exact(want) | KeyMatch::Optional(Some(want)) => value == want,
        KeyMatch::Optional(None) => true,
        KeyMatch::Ternary { value: want, mask } => &(value & mask) == want,
        KeyMatch::Lpm { value: want, prefix_len } => value >> (width - prefix_len) == want >> (width - prefix_len),
        KeyMatch::Range { lo, hi } => order(lo) <= order(value) && order(value) <= order(hi),
    }
}

/// Returns a random match for a field.
pub fn key_match(random: &mut Random, &(kind, width, signed): &FieldSpec) -> KeyMatch {
    let value = random_number(random, width);
    match kind {
        MatchKind::Exact | MatchKind::Selector => KeyMatch::Exact(value),
        MatchKind::Optional => KeyMatch::Optional((!random.once_in(3)).then_some(value)),
        MatchKind::Lpm => {
            let prefix_len = random.below(width as usize + 1) as u32;
            let host = width - prefix_len;
            KeyMatch::Lpm { value: value >> host << host, prefix_len }
        }
        MatchKind::Ternary => {
            let mask = match random.below(4) {
                0 => BigUint::ZERO,
                1 => all_ones(width),
                2 => all_ones(width) ^ all_ones(random.below(width as usize + 1) as u32),
                _ => random_number(random, width),
            };
            KeyMatch::Ternary { value: value & &mask, mask }
        }
        MatchKind::Range => {
            let sign = if signed { BigUint::one() << (width - 1) } else { BigUint::ZERO };
            let (one, other) = match random.below(4) {
                0 => (BigUint::ZERO, all_ones(width)),
                1 => (value.clone() ^ &sign, value ^ &sign),
                _ => (value ^ &sign, random_number(random, width) ^ &sign),
            };
            let (lo, hi) = if one <= other { (one, other) } else { (other, one) };
            KeyMatch::Range { lo: lo ^ &sign, hi: hi ^ &sign }
        }
    }
}

fn table_with(keys: Vec<MatchKey>) -> ir::Table {
    let preamble = ir::Preamble { name: "table".into(), ..ir::Preamble::default() };
    ir::Table::new(preamble, keys, vec![], ir::ActionCall { action: ir::ActionId(0), args: vec![] })
}
