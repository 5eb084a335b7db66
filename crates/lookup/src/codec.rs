//! [`EntryCodec`]: conversion between entries and the keys and values of lookups, for a table that
//! the engine holds itself because packets write it.

use crate::encode::{EntryEncoder, KeyBuf, ValueBuf};
use crate::lookup_layout::LookupLayout;
use entries::{KeyFilter, PackedKey, StoredAction, StoredActionRef, StoredEntry, action_layout};
use ir::{ActionId, Pipeline, TableId};
use smallvec::SmallVec;
use std::sync::Arc;

/// Position of a value in the words of an entry, and its width.
#[derive(Clone, Copy, Debug)]
struct EntryField {
    first_word: usize,
    words: usize,
}

/// Converter of one table's entries. All keys of the table are exact.
#[derive(Clone, Debug)]
pub struct EntryCodec {
    encoder: Arc<EntryEncoder>,
    /// Words of an entry's key.
    key_words: usize,
    /// For each field of [`LookupLayout::keys`], its position in an entry's key.
    key_fields: Vec<EntryField>,
    /// The table's actions, by their position.
    actions: Vec<ActionId>,
    /// For each action the positions of its parameters in its argument words, and their number.
    params: Vec<(Vec<EntryField>, usize)>,
}

impl EntryCodec {
    pub(super) fn new(
        pipeline: &Pipeline,
        table: TableId,
        layout: &entries::KeyLayout,
        encoder: &Arc<EntryEncoder>,
    ) -> EntryCodec {
        let key_field = |place: &crate::LookupKeyField| {
            let field = layout.fields.iter().find(|field| field.position == place.position);
            field.map_or(EntryField { first_word: 0, words: 0 }, |field| EntryField {
                first_word: field.offset,
                words: field.words,
            })
        };
        let actions: Vec<ActionId> = pipeline.tables[table].actions.iter().map(|listed| listed.action).collect();
        let params = |action: &ActionId| {
            let fields = action_layout(pipeline, *action);
            let words = fields.last().map_or(0, |field| field.offset + field.words);
            let places = fields.iter().map(|f| EntryField { first_word: f.offset, words: f.words });
            (places.collect(), words)
        };
        EntryCodec {
            key_words: layout.len,
            key_fields: encoder.layout.keys.iter().map(key_field).collect(),
            params: actions.iter().map(params).collect(),
            actions,
            encoder: encoder.clone(),
        }
    }

    /// Returns the layout of keys and values.
    pub fn layout(&self) -> &LookupLayout {
        &self.encoder.layout
    }

    /// Returns the length in bytes of the longest value of an entry.
    pub fn max_value_len_bytes(&self) -> usize {
        self.encoder.max_value_len_bytes
    }

    /// Returns the position of an action among the table's.
    pub fn action_position(&self, action: ActionId) -> Option<usize> {
        self.actions.iter().position(|listed| *listed == action)
    }

    /// Returns the lookup key of an entry, as bytes of words in host byte order.
    pub fn encode_key(&self, entry: &StoredEntry) -> Vec<u8> {
        self.encode_key_words(entry.key()).to_vec()
    }

    /// Does what [`EntryCodec::encode_key`] does with the words of an entry's key: the fields in the
    /// table's order, each in whole words.
    pub fn encode_key_words(&self, key: &[u64]) -> SmallVec<[u8; 64]> {
        let mut words = KeyBuf::new();
        self.encoder.encode_key(key, &mut words).iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Returns the number of words of an entry's key.
    pub fn entry_key_words(&self) -> usize {
        self.key_words
    }

    /// Returns a filter of lookup keys that selects the same entries as a filter of entries' keys.
    pub fn encode_filter(&self, filter: &KeyFilter) -> KeyFilter {
        let ([mask, value], is_contradiction) = filter.to_words(self.key_words);
        if is_contradiction {
            return KeyFilter::nothing();
        }
        let [mask, value] = [mask, value].map(|words| self.encoder.encode_key(&words, &mut KeyBuf::new()).to_vec());
        KeyFilter::from_words(&mask, &value)
    }

    /// Returns the value of an action, padded with zeros to the length of the longest.
    pub fn encode_value(&self, action: StoredActionRef<'_>) -> Vec<u8> {
        let mut buffer = ValueBuf::new();
        let mut value = self.encoder.encode_value(action, 0, &mut buffer).to_vec();
        value.resize(self.max_value_len_bytes(), 0);
        value
    }

    /// Returns the key of the entry that has a lookup key.
    pub fn decode_key(&self, key: &[u8]) -> PackedKey {
        let (chunks, _) = key.as_chunks::<8>();
        let word = |index: usize| chunks.get(index).map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let mut entry = vec![0; self.key_words];
        for (place, field) in self.layout().keys.iter().zip(&self.key_fields) {
            let (first, shift) = ((place.bit_offset / 64) as usize, place.bit_offset % 64);
            let to = &mut entry[field.first_word..field.first_word + field.words];
            for (index, to) in to.iter_mut().enumerate() {
                // Another field can lie above a wide one in its last word.
                let width_bits = place.width_bits - 64 * index as u32;
                *to = word(first + index) >> shift & low_bits(width_bits);
            }
        }
        PackedKey::from_slice(&entry)
    }

    /// Returns the action of a value.
    pub fn decode_value(&self, value: &[u8]) -> StoredAction {
        // The engine writes only values of the table's actions.
        let arm = usize::from(value[0]).min(self.actions.len() - 1);
        let (places, words) = &self.params[arm];
        let mut args = vec![0; *words];
        for (place, field) in places.iter().zip(&self.layout().value.arms[arm]) {
            let bytes = &value[field.offset..field.offset + field.width.div_ceil(8) as usize];
            for (to, chunk) in args[place.first_word..place.first_word + place.words].iter_mut().zip(bytes.chunks(8)) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                *to = u64::from_le_bytes(word);
            }
        }
        StoredAction::Call(self.actions[arm], args.into_boxed_slice())
    }
}

/// Returns a mask of the low bits; all bits for 64 and more.
fn low_bits(width: u32) -> u64 {
    1u64.checked_shl(width).map_or(u64::MAX, |bit| bit - 1)
}
