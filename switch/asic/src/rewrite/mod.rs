//! Changes to a program that keep its meaning and make it smaller on a chip.
//!
//! A rewrite takes a pipeline and gives another one, with a map from what is written to the tables of the first to what is written to the
//! tables of the second. So rewrites compose ([`Rewritten::then`]); the control plane goes on speaking of the program that was written; and
//! each rewrite is held to the interpreter by running both pipelines.
//!
//! | rewrite | what it saves |
//! |---|---|
//! | [`pool`]: two tables of which a packet meets one become one | blocks that are half empty; one size for both families |
//! | [`digest`]: a wide key becomes 32 bits, with a table of the few keys that collide | SRAM: the width of exact tables |
//! | [`alpm`]: a prefix table becomes pivots and partitions | TCAM: pivots alone are left of it |
//! | [`results`]: what many entries give alike is kept once, and entries have its number | SRAM: action data |
//! | [`apart`]: a prefix key that is put together becomes keys under masks, as a chip has pivots | the step that puts it together |
//! | [`pieces`]: a table becomes several, looked up one after the other | nothing, but a piece fits where the whole does not |
//! | [`split`]: parallel pipes hold different entries | a pipe's share of the entries |
//!
//! Folding (a packet passes several pipes one after the other) changes no program: it is placement.
//!
//! What a table has for each entry (direct counters and meters, idle times, members of profiles) would have to follow the entry from table to
//! table; a table that has any of it is refused ([`RewriteError`]).

pub mod alpm;
pub mod apart;
mod chain;
pub mod digest;
mod entries;
mod graph;
mod journal;
pub mod partitions;
pub mod pieces;
pub mod pool;
pub mod prefix;
mod reroute;
pub mod results;
mod shadow;
pub mod split;

use ::entries::WriteBatch;
use ir::Pipeline;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many entries each table must hold, by its control-plane name.
pub type Sizes = BTreeMap<String, u64>;

/// A pipeline that does what another one does.
pub struct Rewritten {
    /// The pipeline, verified.
    pub pipeline: Arc<Pipeline>,
    /// What its tables must hold when the first one's hold what was asked for.
    pub sizes: Sizes,
    /// What is written to the first one, as written to this one.
    pub map: Box<dyn EntryMap>,
}

impl Rewritten {
    /// The pipeline as it is: where a chain of rewrites starts.
    pub fn unchanged(pipeline: Arc<Pipeline>, sizes: Sizes) -> Rewritten {
        Rewritten { pipeline, sizes, map: Box::new(chain::Unchanged) }
    }

    /// This rewrite and another one of its result.
    ///
    /// # Errors
    /// What the other one says.
    pub fn then(
        self,
        rewrite: impl FnOnce(&Arc<Pipeline>, &Sizes) -> Result<Rewritten, RewriteError>,
    ) -> Result<Rewritten, RewriteError> {
        let next = rewrite(&self.pipeline, &self.sizes)?;
        Ok(Rewritten { map: Box::new(chain::Chain::new(self.map, next.map)), ..next })
    }
}

/// Turns writes to a pipeline into writes to the one that stands for it.
pub trait EntryMap: Send {
    /// The batch for the second pipeline that does what `batch` does to the first. All or nothing: after an error the map is as before.
    ///
    /// # Errors
    /// [`MapError`]: which update cannot be, and why.
    fn translate(&mut self, batch: &WriteBatch) -> Result<WriteBatch, MapError>;

    /// For each update that the last translation gave, the update (index) of the batch that it is made from.
    fn origins(&self) -> &[usize];

    /// Takes back the last translation, if it succeeded and has not been taken back: for one whose batch was refused later on.
    fn undo(&mut self);

    /// Figures about what the map has done so far, by name, e.g. keys in a conflict table.
    fn figures(&self) -> Vec<(String, f64)> {
        Vec::new()
    }
}

/// Why a batch has no counterpart.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("update {index} of the batch: {reason}")]
pub struct MapError {
    /// Index of the update in the batch.
    pub index: usize,
    /// A sentence with names from the program.
    pub reason: String,
}

/// Why a table cannot be rewritten that way.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("table {table}: {reason}")]
pub struct RewriteError {
    /// Control-plane name of the table.
    pub table: String,
    /// A sentence: what stands in the way, and what would help.
    pub reason: String,
}

impl RewriteError {
    pub(crate) fn new(table: impl Into<String>, reason: impl Into<String>) -> RewriteError {
        RewriteError { table: table.into(), reason: reason.into() }
    }
}
