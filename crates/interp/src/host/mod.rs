//! [`ExternHost`]: the interpreter's extern functions and what they keep, for another engine.
//!
//! This module answers one question: *how does an engine that runs a pipeline in another way get exactly the interpreter's
//! externs?* It calls them here. The code is the interpreter's own, on a frame that holds nothing but one call's arguments,
//! so no second meaning can arise.
//!
//! # How to use it
//!
//! - At load: [`ExternHost::site`] for each call that the engine does not carry out itself. The [`Site`] says where each
//!   argument and result lies in two areas of 64-bit words.
//! - For each packet: [`ExternHost::begin_block`] when it enters a block of the architecture, if
//!   [`ExternHost::keeps_packet_state`]; then [`ExternHost::call`]. What a call asks of the architecture comes back as an
//!   [`Effect`]: acting on it is the engine's part.
//! - Tables belong to the engine. Where [`ExternHost::tracks_entries`] says so, the host keeps what changes as packets
//!   hit an entry (direct counter and meter, idle time) under a number that the engine gives: it is told of entries with
//!   [`ExternHost::entry_inserted`] and its like, and of hits with [`ExternHost::hit`].
//! - The control plane's [`::entries::State`] is the engine's, too. It is lent to the functions that read or change it.
//! - The clock is the latest time that the host was given, as in the interpreter: [`ExternHost::advance`] it with each packet
//!   or batch, also when no extern is called, or meters and idle times begin at another moment than they should.
//!
//! | what | where |
//! |---|---|
//! | call sites and calls, where their values lie | `site.rs`, `call.rs`, `place.rs` |
//! | what changes as packets hit an entry | `entries.rs` |
//! | members and groups, value sets | `choice.rs`, `selector.rs` |
//! | what the control plane writes and reads | `objects.rs` |
//! | the constants and variables of the architectures | [`architecture`] |
//! | hashes and sums over bytes, without a host | [`hash`], [`ones_complement_sum`] |

pub mod architecture;
mod call;
mod choice;
mod entries;
mod objects;
mod place;
mod selector;
mod site;

pub use call::{Effect, PacketContext};
pub use choice::MemberAction;
pub use entries::Expired;
pub use place::Place;
pub use selector::SelectorHash;
pub use site::{Site, SiteError, SiteId};

pub use crate::algorithm::{by_name as hash_algorithm, hash, ones_subtract, ones_sum as ones_complement_sum};

use place::{Known, places};

use crate::config::Config;
use crate::decode::{Form, LoadError, decode};
use crate::frame::Frame;
use crate::interp::restart_by_call;
use crate::lookup::Table;
use crate::memory::{DigestMessage, Memory};
use crate::program::Program;
use crate::well_known::WellKnown;
use crate::wire::BitBuffer;
use ::entries::State;
use ir::Pipeline;
use std::sync::Arc;

/// The interpreter's externs as a service. See the module.
pub struct ExternHost {
    pipeline: Arc<Pipeline>,
    /// What calls need of the decoded pipeline: no code, no variables.
    program: Program,
    config: Config,
    memory: Memory,
    /// The calls by number.
    sites: Vec<Known>,
    /// Where the keys of each value set lie.
    value_set_places: Vec<Vec<Place>>,
    /// How each table's selector, if it has one, is hashed.
    selectors: Vec<SelectorHash>,
    /// Its slots are the areas of the call that runs: arguments, then results.
    frame: Frame,
    lanes: Vec<Lane>,
    bits: BitBuffer,
}

/// What checksum objects keep while a packet is in a block.
#[derive(Clone)]
struct Lane {
    sums: Vec<u16>,
    checksums: Vec<BitBuffer>,
}

impl ExternHost {
    /// Makes the externs of a pipeline that the verifier has accepted, as nobody has written to them.
    ///
    /// # Errors
    /// Those of [`crate::Interp::new`]: what it refuses to load is refused here.
    pub fn new(pipeline: Arc<Pipeline>, config: Config) -> Result<ExternHost, LoadError> {
        let mut program = decode(&pipeline, Form::Short)?;
        let state = State::new(pipeline.clone())?;
        let mut memory = Memory::new(&pipeline, state, config.seed);
        memory.tables = pipeline.tables.keys().map(|id| Table::new(&pipeline, id)).collect();
        restart_by_call(&program, &mut memory);
        program.codes = Vec::new();
        program.headers = Vec::new();
        program.initial = Vec::new();
        program.var_regs = Vec::new();
        program.var_names = Vec::new();
        program.slot_vars = Vec::new();
        // A call must not write to the architecture's variables, which are not here: it tells the engine.
        program.well_known = WellKnown::default();
        let frame = Frame::new(&program);
        let value_set_places =
            pipeline.value_sets.values().map(|set| places(set.keys.iter().map(|key| key.ty))).collect();
        let selectors = pipeline.tables.keys().map(|table| SelectorHash::new(&pipeline, table)).collect();
        Ok(ExternHost {
            pipeline,
            program,
            config,
            memory,
            sites: Vec::new(),
            value_set_places,
            selectors,
            frame,
            lanes: Vec::new(),
            bits: BitBuffer::default(),
        })
    }

    /// The pipeline whose externs these are.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The seed of random numbers: the same one gives the same run.
    pub fn seed(&self) -> u64 {
        self.config.seed
    }

    /// The latest time in nanoseconds that the host was given.
    pub fn now(&self) -> u64 {
        self.memory.now
    }

    /// Time passes; a time before [`ExternHost::now`] changes nothing.
    pub fn advance(&mut self, now: u64) {
        self.memory.now = self.memory.now.max(now);
    }

    /// Takes the digest messages that wait.
    pub fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.memory.digests.drain(..).collect()
    }

    /// How many digest messages and notifications were lost because nobody took them.
    pub fn lost_messages(&self) -> u64 {
        self.memory.lost
    }
}
