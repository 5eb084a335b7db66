//! A rewrite with its options, to be applied or printed.

use crate::rewrite::{RewriteError, Rewritten, Sizes, alpm, digest, pieces, pool, results};
use ir::Pipeline;
use std::fmt;
use std::sync::Arc;

/// A rewrite of named tables.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// [`digest::digest`].
    Digest(String, digest::Options),
    /// [`pool::pool`].
    Pool([String; 2]),
    /// [`alpm::alpm`].
    Alpm(String, alpm::Options),
    /// [`results::results`].
    Results(String, results::Options),
    /// [`pieces::pieces`], with the entries of each.
    Pieces(String, Vec<u64>),
}

impl Step {
    /// Applies it.
    ///
    /// # Errors
    /// As the rewrite says.
    pub fn apply(&self, pipeline: &Arc<Pipeline>, sizes: &Sizes) -> Result<Rewritten, RewriteError> {
        match self {
            Step::Digest(table, options) => digest::digest(pipeline, sizes, table, options),
            Step::Pool([first, second]) => pool::pool(pipeline, sizes, [first, second]),
            Step::Alpm(table, options) => alpm::alpm(pipeline, sizes, table, options),
            Step::Results(table, options) => results::results(pipeline, sizes, table, options),
            Step::Pieces(table, room) => pieces::pieces(pipeline, sizes, table, room),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Digest(table, options) => write!(f, "digest {table} to {} bits", options.bits),
            Step::Pool([first, second]) => write!(f, "pool {first} and {second}"),
            Step::Alpm(table, alpm::Options::Fitted { depth, target, .. }) => {
                write!(f, "part {table}, {depth} entries a partition, at most {target} a pivot")
            }
            Step::Alpm(table, alpm::Options::Given(shape)) => {
                let (partitions, depth, pivots) = (shape.partitions, shape.depth, shape.pivots);
                write!(f, "part {table}, {partitions} partitions of {depth} entries, {pivots} pivots")
            }
            Step::Results(table, options) => {
                write!(f, "share {} of {table}", options.argument)?;
                options.values.map_or(Ok(()), |values| write!(f, ", {values} values"))?;
                options.each.map_or(Ok(()), |each| write!(f, " in tables of {each}"))
            }
            Step::Pieces(table, room) => write!(f, "cut {table} in {} pieces", room.len()),
        }
    }
}
