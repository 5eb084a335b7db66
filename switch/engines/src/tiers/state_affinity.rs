//! [`StateAffinity`]: spreads flows over lower tiers by the index of a meter or register, so that
//! flows that share an element share a tier.

use ir::{ExternId, ExternKind};
use offload::partition::{BridgeIndexBits, PipelinePartition, bridge_wire};
use offload::upper_tier_filter::used_objects;
use std::collections::BTreeSet;
use std::hash::BuildHasher;

/// Maximum width of an index in bits.
const MAX_INDEX_BITS: u32 = 128;
/// Offset of the cut point's number in a bridge header, in bytes.
const STOP_AT: usize = 18;

/// Position of an object's index in bridge headers.
#[derive(Clone, Debug)]
pub struct StateAffinity {
    object: ExternId,
    name: String,
    index_bits: BridgeIndexBits,
}

impl StateAffinity {
    /// Finds a meter or register by its name or the end of it after a dot.
    ///
    /// # Errors
    /// No such object in the lower half, or its index is unknown to the switch.
    pub fn new(cut: &PipelinePartition, name: &str) -> Result<StateAffinity, String> {
        let suffix = format!(".{name}");
        let name_of = |object: &ExternId| &*cut.lower.externs[*object].preamble.name;
        let is_named = |object: &ExternId| name_of(object) == name || name_of(object).ends_with(&suffix);
        let mut matching = cut.index_bits.keys().filter(|object| is_named(object));
        let (Some(object), None) = (matching.next(), matching.next()) else {
            let known_names: Vec<&str> = cut.index_bits.keys().map(name_of).collect();
            let known_names = if known_names.is_empty() { "none".to_owned() } else { known_names.join(", ") };
            return Err(format!(
                "`affinity_object`: `{name}` names no meter or register, or several; known are: {known_names}"
            ));
        };
        let name = name_of(object).to_owned();
        match &cut.index_bits[object] {
            Ok(index_bits) if index_bits.width_bits > MAX_INDEX_BITS => {
                Err(format!("`affinity_object`: the index of {name} has more than {MAX_INDEX_BITS} bits"))
            }
            Ok(index_bits) => Ok(StateAffinity { object: *object, name, index_bits: index_bits.clone() }),
            Err(reason) => Err(format!("`affinity_object`: the switch does not know the index of {name}: {reason}")),
        }
    }

    /// Hashes the index in a frame with a bridge header. `None`: the object is not used with the
    /// carried index after this cut point.
    pub fn hash_index(&self, seed: &impl BuildHasher, frame: &[u8]) -> Option<u64> {
        let stop = *frame.get(..bridge_wire::FIXED_BYTES)?.get(STOP_AT)?;
        let is_there = self.index_bits.is_carried_at.get(usize::from(stop)).copied().unwrap_or(false);
        let bit = |at: u32| frame.get(at as usize / 8).map(|byte| u128::from(byte >> (7 - at % 8) & 1));
        let mut bits = self.index_bits.first_bit..self.index_bits.first_bit + self.index_bits.width_bits;
        let value = bits.try_fold(0u128, |value, at| Some(value << 1 | bit(at)?)).filter(|_| is_there)?;
        Some(seed.hash_one(value))
    }
}

/// Returns notes for a configuration with several lower tiers.
pub fn affinity_notes(cut: &PipelinePartition, spread: Option<&StateAffinity>) -> Vec<String> {
    let mut notes = Vec::new();
    let follows_spread = |object: &ExternId| {
        let index_bits = |object: &ExternId| cut.index_bits.get(object).and_then(|index_bits| index_bits.as_ref().ok());
        spread.is_some_and(|spread| spread.object == *object || index_bits(object) == Some(&spread.index_bits))
    };
    let own_objects: BTreeSet<&str> = stateful_objects_below(cut)
        .filter(|object| !follows_spread(object))
        .map(|object| &*cut.lower.externs[object].preamble.name)
        .collect();
    if !own_objects.is_empty() {
        let own_objects = own_objects.into_iter().collect::<Vec<_>>().join(", ");
        let help = if spread.is_none() {
            "; give `affinity_object`, the name of one that is to be shared rightly"
        } else {
            ""
        };
        notes.push(format!("tiers: each of the tiers below has {own_objects} of its own{help}"));
    }
    if let Some(StateAffinity { name, index_bits, .. }) = spread {
        let missing = cut.cut_points.iter().zip(&index_bits.is_carried_at).filter(|(_, is_there)| !**is_there);
        notes.extend(missing.map(|(point, _)| {
            format!(
                "tiers: flows are spread by addresses and ports, not by the index of {name}, where {}",
                point.reason
            )
        }));
    }
    notes
}

/// Returns meters and registers that the lower half uses.
fn stateful_objects_below(cut: &PipelinePartition) -> impl Iterator<Item = ExternId> {
    used_objects(&cut.lower).into_iter().filter(|object| {
        let kind = &cut.lower.externs[*object].kind;
        matches!(kind, ExternKind::Meter { .. } | ExternKind::DirectMeter { .. } | ExternKind::Register { .. })
    })
}
