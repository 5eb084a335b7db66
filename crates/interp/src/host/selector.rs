//! [`SelectorHash`]: how a table's selector keys choose a member of a group.

use super::place::{Place, places};
use crate::algorithm;
use crate::apply::selector;
use crate::wire::BitBuffer;
use crate::words::mask64;
use ir::{Entity, HashAlgorithm, MatchKind, Pipeline, TableId};

/// The hash by which a table's action selector chooses among the members of a group.
#[derive(Clone, PartialEq, Debug)]
pub struct SelectorHash {
    /// Algorithm and output width in bits.
    hash: Option<(HashAlgorithm, u32)>,
    places: Vec<Place>,
}

impl SelectorHash {
    pub(super) const NONE: SelectorHash = SelectorHash { hash: None, places: Vec::new() };

    /// That of a table; one that always gives 0 if it has no selector.
    pub fn new(pipeline: &Pipeline, table: TableId) -> SelectorHash {
        let keys = pipeline.tables.get(table).map_or(&[][..], |declared| &declared.keys);
        let selectors = keys.iter().filter(|key| key.kind == MatchKind::Selector);
        SelectorHash { hash: selector(pipeline, table.index()), places: places(selectors.map(|key| key.ty)) }
    }

    /// Where [`SelectorHash::hash`] expects the selector keys, in the order of [`ir::Table::keys`].
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The hash of the selector keys, packed without gaps, cut to the selector's output width.
    pub fn hash(&self, keys: &[u64]) -> u64 {
        let Some((algorithm, output_width)) = self.hash else { return 0 };
        let mut bits = BitBuffer::default();
        for place in &self.places {
            let words = keys.get(place.word..place.word + place.words).unwrap_or_default();
            bits.push_words(place.width, words);
        }
        algorithm::hash(algorithm, bits.bytes()) & mask64(output_width)
    }
}
