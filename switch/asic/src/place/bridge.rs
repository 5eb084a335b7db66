//! Metadata that a packet carries between gresses in a bridge header.

use super::Placement;
use crate::demand::{PhvField, ResourceDemand};
use serde::{Deserialize, Serialize};

/// Metadata that crosses between two hops.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BridgedFields {
    /// Index of the hop that the packet leaves.
    pub hop: usize,
    /// Bits of metadata in the bridge header.
    pub bits: u32,
    /// Names of the fields.
    pub fields: Vec<String>,
}

/// Returns the bridge header after each hop except the last. Headers are excluded because they are
/// in the packet and are parsed again. Metadata is included if it already has a value that a later
/// hop reads.
pub fn bridged_fields(program: &ResourceDemand, placement: &Placement) -> Vec<BridgedFields> {
    let hops = |tables: &[usize]| {
        let pieces = tables.iter().filter_map(|n| placement.tables.get(*n)).flat_map(|t| &t.pieces);
        pieces.map(|p| p.hop).collect::<Vec<usize>>()
    };
    let metadata: Vec<(&PhvField, Option<usize>, Option<usize>)> = program
        .fields
        .iter()
        .filter(|f| f.header.is_none() && !f.is_validity())
        .map(|f| {
            let first = if f.parsed { Some(0) } else { hops(&f.written).into_iter().min() };
            (f, first, hops(&f.read).into_iter().max())
        })
        .collect();
    let bridge_after = |hop: usize| {
        let live =
            metadata.iter().filter(|(_, first, last)| first.is_some_and(|f| f <= hop) && last.is_some_and(|l| l > hop));
        let fields: Vec<&PhvField> = live.map(|(f, _, _)| *f).collect();
        let bits = fields.iter().map(|f| f.bits).sum();
        BridgedFields { hop, bits, fields: fields.iter().map(|f| f.name.clone()).collect() }
    };
    (0..placement.path.hops.len().saturating_sub(1)).map(bridge_after).collect()
}
