//! What a packet must take along from one half of a pipe to the next one, besides itself.

use super::Placement;
use crate::demand::{Field, Program};
use serde::{Deserialize, Serialize};

/// What crosses between two hops.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bridged {
    /// Index of the hop that the packet leaves.
    pub hop: usize,
    /// Bits of metadata in the bridge header.
    pub bits: u32,
    /// Their fields.
    pub fields: Vec<String>,
}

/// The bridge header behind each hop but the last. Headers are not in it: they are in the packet, and parsed again. Metadata is, if it has a
/// value by then that a later hop reads.
pub fn bridged(program: &Program, placement: &Placement) -> Vec<Bridged> {
    let hops = |tables: &[usize]| {
        let pieces = tables.iter().filter_map(|n| placement.tables.get(*n)).flat_map(|t| &t.pieces);
        pieces.map(|p| p.hop).collect::<Vec<usize>>()
    };
    let metadata: Vec<(&Field, Option<usize>, Option<usize>)> = program
        .fields
        .iter()
        .filter(|f| f.header.is_none() && !f.is_validity())
        .map(|f| {
            let first = if f.parsed { Some(0) } else { hops(&f.written).into_iter().min() };
            (f, first, hops(&f.read).into_iter().max())
        })
        .collect();
    let crossing = |hop: usize| {
        let lives =
            metadata.iter().filter(|(_, first, last)| first.is_some_and(|f| f <= hop) && last.is_some_and(|l| l > hop));
        let fields: Vec<&Field> = lives.map(|(f, _, _)| *f).collect();
        let bits = fields.iter().map(|f| f.bits).sum();
        Bridged { hop, bits, fields: fields.iter().map(|f| f.name.clone()).collect() }
    };
    (0..placement.path.hops.len().saturating_sub(1)).map(crossing).collect()
}
