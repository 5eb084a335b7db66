//! A transform with its options, for application or display.

use crate::transform::{
    TableSizes, TransformError, TransformedPipeline, alpm, digest, pool, share_results, split_table,
};
use ir::Pipeline;
use std::fmt;
use std::sync::Arc;

/// A transform of named tables.
#[derive(Clone, Debug, PartialEq)]
pub enum TransformStep {
    /// [`digest::digest_keys`].
    Digest(String, digest::DigestOptions),
    /// [`pool::pool_tables`].
    Pool([String; 2]),
    /// [`alpm::partition_table`].
    Alpm(String, alpm::AlpmOptions),
    /// [`share_results::share_results`].
    ShareResults(String, share_results::ResultOptions),
    /// [`split_table::split_table`], with the entries of each piece.
    SplitTable(String, Vec<u64>),
}

impl TransformStep {
    /// Applies the transform to a pipeline.
    ///
    /// # Errors
    /// The error of the transform.
    pub fn apply(&self, pipeline: &Arc<Pipeline>, sizes: &TableSizes) -> Result<TransformedPipeline, TransformError> {
        match self {
            TransformStep::Digest(table, options) => digest::digest_keys(pipeline, sizes, table, options),
            TransformStep::Pool([first, second]) => pool::pool_tables(pipeline, sizes, [first, second]),
            TransformStep::Alpm(table, options) => alpm::partition_table(pipeline, sizes, table, options),
            TransformStep::ShareResults(table, options) => {
                share_results::share_results(pipeline, sizes, table, options)
            }
            TransformStep::SplitTable(table, room) => split_table::split_table(pipeline, sizes, table, room),
        }
    }
}

impl fmt::Display for TransformStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransformStep::Digest(table, options) => write!(f, "digest {table} to {} bits", options.bits),
            TransformStep::Pool([first, second]) => write!(f, "pool {first} and {second}"),
            TransformStep::Alpm(table, alpm::AlpmOptions::Fitted { depth, target, .. }) => {
                write!(f, "part {table}, {depth} entries a partition, at most {target} a pivot")
            }
            TransformStep::Alpm(table, alpm::AlpmOptions::Given(shape)) => {
                let (partitions, depth, pivots) = (shape.partitions, shape.depth, shape.pivots);
                write!(f, "part {table}, {partitions} partitions of {depth} entries, {pivots} pivots")
            }
            TransformStep::ShareResults(table, options) => {
                write!(f, "share {} of {table}", options.argument)?;
                options.values.map_or(Ok(()), |values| write!(f, ", {values} values"))?;
                options.results_per_table.map_or(Ok(()), |each| write!(f, " in tables of {each}"))
            }
            TransformStep::SplitTable(table, room) => write!(f, "cut {table} in {} pieces", room.len()),
        }
    }
}
