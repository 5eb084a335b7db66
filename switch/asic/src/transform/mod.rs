//! Program transforms that keep semantics and reduce resources of a chip.
//!
//! A transform takes a pipeline and returns another one, with a map from writes to the first
//! pipeline's tables to writes to the second pipeline's tables. Transforms therefore compose
//! ([`TransformedPipeline::then`]), and the control plane keeps the view of the original program.
//! Tests compare both pipelines of each transform in the interpreter.
//!
//! | transform | saved resource |
//! |---|---|
//! | [`pool`]: merges two tables of which a packet meets one | half-empty blocks |
//! | [`digest`]: shortens a wide key to 32 bits, with a conflict table | SRAM: exact tables |
//! | [`alpm`]: splits a prefix table into pivots and partitions | TCAM: only pivots remain |
//! | [`share_results`]: shares equal action data by number | SRAM: action data |
//! | [`split_prefix`]: splits a concatenated prefix key into ternary keys | the concatenation |
//! | [`split_table`]: splits a table into several, looked up in sequence | none, but pieces fit |
//! | [`split`]: distributes entries over parallel pipes | a pipe's share of the entries |
//!
//! Folding (a packet passes several pipes in sequence) is placement, because it does not change the
//! program.
//!
//! Transforms refuse tables with per-entry state (direct counters and meters, idle times, members
//! of profiles), because that state would have to follow the entry from table to table
//! ([`TransformError`]).

pub mod alpm;
mod apply_site;
mod chain;
pub(crate) mod complete_packets;
pub mod digest;
mod entries;
pub mod partitions;
pub mod pool;
pub mod prefix;
mod reroute;
mod shadowed_map;
pub mod share_results;
pub mod split;
pub mod split_prefix;
pub mod split_table;
mod undo_map;

use ::entries::WriteBatch;
use ir::Pipeline;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Required number of entries of each table, by control-plane name.
pub type TableSizes = BTreeMap<String, u64>;

/// A transformed pipeline with its entry map.
pub struct TransformedPipeline {
    /// The transformed pipeline, verified.
    pub pipeline: Arc<Pipeline>,
    /// Required entries of its tables, for the requested entries of the first pipeline.
    pub sizes: TableSizes,
    /// Map from writes to the first pipeline to writes to this one.
    pub map: Box<dyn EntryMap>,
}

impl TransformedPipeline {
    /// Returns the pipeline without transforms, as the start of a chain of them. What it does for
    /// super-frames is removed, because no link of a chip carries them.
    pub fn unchanged(pipeline: Arc<Pipeline>, sizes: TableSizes) -> TransformedPipeline {
        let pipeline = complete_packets::for_complete_packets(pipeline);
        TransformedPipeline { pipeline, sizes, map: Box::new(chain::IdentityMap) }
    }

    /// Applies another transform to the result.
    ///
    /// # Errors
    /// The error of `transform`.
    pub fn then(
        self,
        transform: impl FnOnce(&Arc<Pipeline>, &TableSizes) -> Result<TransformedPipeline, TransformError>,
    ) -> Result<TransformedPipeline, TransformError> {
        let next = transform(&self.pipeline, &self.sizes)?;
        Ok(TransformedPipeline { map: Box::new(chain::ChainedMap::new(self.map, next.map)), ..next })
    }
}

/// Translates writes to a pipeline into writes to its transformed version.
pub trait EntryMap: Send {
    /// Translates a batch for the first pipeline into one for the second. Atomic: after an error
    /// the map is unchanged.
    ///
    /// # Errors
    /// [`EntryMapError`]: the update that cannot be translated, and the reason.
    fn translate(&mut self, batch: &WriteBatch) -> Result<WriteBatch, EntryMapError>;

    /// Returns for each update of the last translation the index of the update that it was made
    /// from.
    fn origins(&self) -> &[usize];

    /// Undoes the last successful translation, for a batch that was refused later. Does nothing
    /// when called twice.
    fn undo(&mut self);

    /// Returns statistics of the map by name, such as the keys in a conflict table.
    fn stats(&self) -> Vec<(String, f64)> {
        Vec::new()
    }
}

/// Reason why a batch cannot be translated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("update {index} of the batch: {reason}")]
pub struct EntryMapError {
    /// Index of the update in the batch.
    pub index: usize,
    /// Description with names from the program.
    pub reason: String,
}

/// Reason why a table cannot be transformed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("table {table}: {reason}")]
pub struct TransformError {
    /// Control-plane name of the table.
    pub table: String,
    /// Description of the obstacle, and a suggested fix.
    pub reason: String,
}

impl TransformError {
    pub(crate) fn new(table: impl Into<String>, reason: impl Into<String>) -> TransformError {
        TransformError { table: table.into(), reason: reason.into() }
    }
}
