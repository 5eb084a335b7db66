//! What a stage's function means where that does not follow from its instructions one by one: told while it is made, for whoever makes other code of it
//! ([`crate::lanes`]).

use crate::crc::Crc;
use cranelift_codegen::ir as cl;
use std::collections::{HashMap, HashSet};

/// What an instruction stands for.
#[derive(Clone, Debug)]
pub enum Mark {
    /// Another one, which is marked, stands for this one too.
    Part,
    /// The packet leaves for a stage.
    Leave {
        /// Which.
        stage: usize,
        /// Words of the key that is looked up before it.
        keys: Vec<cl::Value>,
        /// Words of the key that is looked up together with that.
        together: Vec<cl::Value>,
    },
    /// The packet is tallied.
    Tally {
        /// In the cell of that number, or in the next one if `hit` is not 0.
        cell: usize,
        /// Whether an entry was hit.
        hit: cl::Value,
        /// What is added.
        more: cl::Value,
    },
    /// The packet is counted.
    Count {
        /// The counter's address.
        counter: cl::Value,
        /// Its length.
        bytes: cl::Value,
    },
    /// A call that gives the remainder of two words by a CRC's polynomial.
    Remainder {
        /// The words.
        words: [cl::Value; 2],
        /// The CRC.
        crc: Crc,
    },
    /// Something is read of a table's value that is so many bytes long.
    Value(u32),
}

/// What is told of a function.
#[derive(Clone, Debug)]
pub struct Told {
    /// Where a packet's way begins.
    pub body: cl::Block,
    /// Where all ways end.
    pub next: cl::Block,
    /// The context's address.
    pub context: cl::Value,
    /// The packet's place in the list of those that wait.
    pub place: cl::Value,
    /// What instructions stand for.
    pub marks: HashMap<cl::Inst, Mark>,
    /// Where packets go on that turn off the trace.
    pub off: HashSet<cl::Block>,
}
