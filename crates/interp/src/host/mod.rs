//! [`ExternHost`]: the interpreter's extern functions with their state, for another engine.
//!
//! This module answers one question: *how does an engine that runs a pipeline by other means get
//! exactly the interpreter's externs?* It calls them here. The code is the interpreter's own, on a
//! frame that holds only the arguments of one call, so that each extern has one implementation.
//!
//! # Usage
//!
//! - At load, the engine calls [`ExternHost::site`] for each call that it does not execute itself.
//!   The [`ExternCallSite`] has the layout of the arguments and results in two areas of 64-bit
//!   words.
//! - For each packet it calls [`ExternHost::begin_block`] at the start of a programmable block, if
//!   [`ExternHost::keeps_packet_state`], then [`ExternHost::call`]. A request to the architecture
//!   is returned as an [`ArchEffect`], which the engine carries out.
//! - The engine owns the tables. If [`ExternHost::tracks_entries`], the host keeps the state that
//!   packets change (direct counter and meter, idle timer) under the engine's number of the entry.
//!   The engine reports entries with [`ExternHost::entry_inserted`] and its siblings, and hits with
//!   [`ExternHost::hit`].
//! - The engine also owns the control plane's [`::entries::ControlState`] and lends it to the
//!   functions that read or change it.
//! - The clock is the latest time that the host was given, as in the interpreter. The engine must
//!   [`ExternHost::advance`] it with each packet or batch, even if no extern is called, because
//!   meters and idle timers depend on it.
//!
//! | content | file |
//! |---|---|
//! | call sites and calls, layout of their values | `site.rs`, `call.rs`, `value_slot.rs` |
//! | state of entries that packets change | `entries.rs` |
//! | entries that packets add to tables of the engine | `added_entries.rs` |
//! | idle times of entries, and their expiry | `idle.rs`, `hit_times.rs` |
//! | members and groups, value sets | `choice.rs`, `selector.rs` |
//! | objects that the control plane writes and reads | `objects.rs` |
//! | constants and variables of the architectures | [`architecture`] |
//! | hashes and sums over bytes, without a host | [`hash`], [`ones_complement_sum`] |

mod added_entries;
pub mod architecture;
mod call;
mod choice;
mod entries;
mod hit_times;
mod idle;
mod objects;
mod selector;
mod site;
mod value_slot;

pub use call::{ArchEffect, PacketContext};
pub use choice::MemberAction;
pub use hit_times::HitTimes;
pub use idle::Expired;
pub use selector::SelectorHash;
pub use site::{ExternCallSite, SiteError, SiteId};
pub use value_slot::ValueSlot;

pub use crate::port_pool::PortLease;

pub use crate::algorithm::{by_name as hash_algorithm, hash, ones_subtract, ones_sum as ones_complement_sum};

use value_slot::{CallSiteRecord, lay_out_values};

use crate::bit_io::BitBuffer;
use crate::config::Config;
use crate::decode::{CodeGranularity, LoadError, decode};
use crate::frame::Frame;
use crate::interp::restart_by_call;
use crate::lookup::ReferenceTable;
use crate::persistent_state::{DigestMessage, PersistentState};
use crate::program::DecodedProgram;
use crate::well_known::WellKnown;
use ::entries::ControlState;
use ir::Pipeline;
use std::sync::Arc;

/// The interpreter's externs as a service for another engine.
pub struct ExternHost {
    pipeline: Arc<Pipeline>,
    /// Parts of the decoded pipeline that calls need: no code, no variables.
    program: DecodedProgram,
    config: Config,
    memory: PersistentState,
    /// Call sites by id.
    sites: Vec<CallSiteRecord>,
    /// Slots of the keys of each value set.
    value_set_places: Vec<Vec<ValueSlot>>,
    /// Selector hash of each table.
    selectors: Vec<SelectorHash>,
    /// Frame of calls. Its words are the areas of the running call: arguments, then results.
    frame: Frame,
    lanes: Vec<ChecksumState>,
    bits: BitBuffer,
    /// Hits that workers record without the host.
    hit_times: Arc<HitTimes>,
}

/// State of the checksum objects while a packet is in a block.
#[derive(Clone)]
struct ChecksumState {
    sums: Vec<u16>,
    checksums: Vec<BitBuffer>,
}

impl ExternHost {
    /// Creates the externs of a pipeline that the verifier has accepted, in their initial state.
    ///
    /// # Errors
    /// Those of [`crate::Interp::new`].
    pub fn new(pipeline: Arc<Pipeline>, config: Config) -> Result<ExternHost, LoadError> {
        let mut program = decode(&pipeline, CodeGranularity::Short)?;
        let state = ControlState::new(pipeline.clone())?;
        let mut memory = PersistentState::new(&pipeline, state, config.seed);
        memory.tables = pipeline.tables.keys().map(|id| ReferenceTable::new(&pipeline, id)).collect();
        restart_by_call(&program, &mut memory);
        program.codes = Vec::new();
        program.headers = Vec::new();
        program.initial = Vec::new();
        program.var_regs = Vec::new();
        program.var_names = Vec::new();
        program.word_vars = Vec::new();
        // A call must not write to the architecture's variables, because they are not here. It
        // returns an effect instead.
        program.well_known = WellKnown::default();
        let frame = Frame::new(&program);
        let value_set_places =
            pipeline.value_sets.values().map(|set| lay_out_values(set.keys.iter().map(|key| key.ty))).collect();
        let selectors = pipeline.tables.keys().map(|table| SelectorHash::new(&pipeline, table)).collect();
        let hit_times = Arc::new(HitTimes::new(pipeline.tables.len()));
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
            hit_times,
        })
    }

    /// Returns the pipeline of the externs.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the seed of the random numbers. Equal seeds give equal runs.
    pub fn seed(&self) -> u64 {
        self.config.seed
    }

    /// Returns the latest time in nanoseconds that the host was given.
    pub fn now(&self) -> u64 {
        self.memory.now
    }

    /// Advances the clock. A time before [`ExternHost::now`] has no effect.
    pub fn advance(&mut self, now: u64) {
        self.memory.now = self.memory.now.max(now);
    }

    /// Removes and returns the pending digest messages.
    pub fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.memory.digests.drain(..).collect()
    }

    /// Returns the number of digest messages and notifications lost because their queue was full.
    pub fn lost_messages(&self) -> u64 {
        self.memory.lost_messages
    }

    /// Counts a notification that the engine has no space for.
    pub fn count_lost_message(&mut self) {
        self.memory.lost_messages += 1;
    }
}
