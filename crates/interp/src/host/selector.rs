//! [`SelectorHash`]: hash function that selects a member of a group by a table's selector keys.

use super::value_slot::{ValueSlot, lay_out_values};
use crate::algorithm;
use crate::apply::selector;
use crate::bit_io::BitBuffer;
use crate::wide_int::mask64;
use ir::{Entity, HashAlgorithm, MatchKind, Pipeline, TableId};

/// Hash function of a table's action selector.
#[derive(Clone, PartialEq, Debug)]
pub struct SelectorHash {
    /// Algorithm and output width in bits.
    hash: Option<(HashAlgorithm, u32)>,
    places: Vec<ValueSlot>,
}

impl SelectorHash {
    pub(super) const NONE: SelectorHash = SelectorHash { hash: None, places: Vec::new() };

    /// Returns the hash function of a table; it always returns 0 if the table has no selector.
    pub fn new(pipeline: &Pipeline, table: TableId) -> SelectorHash {
        let keys = pipeline.tables.get(table).map_or(&[][..], |declared| &declared.keys);
        let selectors = keys.iter().filter(|key| key.kind == MatchKind::Selector);
        SelectorHash { hash: selector(pipeline, table.index()), places: lay_out_values(selectors.map(|key| key.ty)) }
    }

    /// Returns the slots of the selector keys for [`SelectorHash::hash`], in the order of
    /// [`ir::Table::keys`].
    pub fn places(&self) -> &[ValueSlot] {
        &self.places
    }

    /// Returns the hash of the selector keys, packed without gaps and truncated to the selector's
    /// output width.
    pub fn hash(&self, keys: &[u64]) -> u64 {
        let Some((algorithm, output_width)) = self.hash else { return 0 };
        let mut bits = BitBuffer::default();
        for place in &self.places {
            let words = keys.get(place.first_word..place.first_word + place.words).unwrap_or_default();
            bits.push_words(place.width, words);
        }
        algorithm::hash(algorithm, bits.bytes()) & mask64(output_width)
    }
}
