//! Annotations of a stage's function for the vectoriser ([`crate::lanes`]): facts that do not
//! follow from single instructions.

use crate::crc::Crc;
use cranelift_codegen::ir as cl;
use std::collections::{HashMap, HashSet};

/// Role of an instruction.
#[derive(Clone, Debug)]
pub enum InstRole {
    /// Part of another, annotated instruction.
    Part,
    /// The packet leaves for a stage.
    Leave {
        /// Index of the stage.
        stage: usize,
        /// Words of the key of the lookup before it.
        keys: Vec<cl::Value>,
        /// Words of the key of the paired lookup.
        together: Vec<cl::Value>,
    },
    /// The packet is counted in the statistics.
    Tally {
        /// Number of the cell; the next cell if `hit` is not 0.
        cell: usize,
        /// Whether an entry was hit.
        hit: cl::Value,
        /// Word that is added.
        more: cl::Value,
    },
    /// A counter is updated.
    Count {
        /// Address of the counter.
        counter: cl::Value,
        /// Length of the packet in bytes.
        bytes: cl::Value,
    },
    /// Call that returns the remainder of two words by a CRC's polynomial.
    Remainder {
        /// The words.
        words: [cl::Value; 2],
        /// The CRC.
        crc: Crc,
    },
    /// Load from a table's value of this length in bytes.
    Value(u32),
}

/// Annotations of a stage's function.
#[derive(Clone, Debug)]
pub struct StageAnnotations {
    /// First block of the loop over packets.
    pub body: cl::Block,
    /// Block where the processing of each packet ends.
    pub next: cl::Block,
    /// Address of the context.
    pub context: cl::Value,
    /// Address of the packet's entry in the queue.
    pub queue_entry: cl::Value,
    /// Roles of instructions.
    pub roles: HashMap<cl::Inst, InstRole>,
    /// Blocks that only packets off the hot path reach.
    pub off_hot_path: HashSet<cl::Block>,
}
