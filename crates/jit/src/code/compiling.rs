//! Inputs of code generation: the plan of a program and its layouts.

use crate::abi::Helpers;
use crate::analysis::order::CallSite;
use crate::counters::CounterRange;
use crate::plan::StagePlan;
use crate::plan::frame_layout::FrameLayout;
use crate::plan::memory_layout::MemoryLayout;
use crate::plan::record_layout::{FIRST_DECISION, RecordLayout};
use crate::plan::stats_layout::StatsLayout;
use cranelift_codegen::isa::CallConv;
use ir::{Inst, Pipeline, TableId, Type};
use lookup::LookupLayout;
use std::cell::{Cell, RefCell};

/// Inputs of code generation.
pub struct CodegenContext<'a> {
    /// The program.
    pub pipeline: &'a Pipeline,
    /// Its stages and analyses.
    pub plan: &'a StagePlan,
    /// Layout of frames.
    pub layout: &'a FrameLayout,
    /// Layout of a worker's memory.
    pub memory: MemoryLayout,
    /// Layout of keys and values of each table.
    pub table_layouts: Vec<LookupLayout>,
    /// Functions of the engine.
    pub helpers: Helpers,
    /// Calling convention of this machine.
    pub call_conv: CallConv,
    /// Location of each extern object that is counted in place.
    pub counters: Vec<Option<CounterRange>>,
    /// Layout of a worker's statistics.
    pub stats_layout: StatsLayout,
    /// For each table, whether hits are reported to the host.
    pub reports_hits: Vec<bool>,
    /// For each table, whether the program or host needs the entry that was hit.
    pub needs_hit_entries: Vec<bool>,
    /// For each table, whether packets add entries to it.
    pub packet_written: &'a [bool],
    /// Whether `add_entry` is called in another stage than the one behind its table.
    pub has_misplaced_addition: Cell<bool>,
    /// Layout of packet records, if the code records.
    pub recording: Option<RecordingState>,
    /// Maximum number of entered parser states, if the parser can loop.
    pub state_limit: Option<u64>,
    /// Whether an object keeps state while a packet is in a body.
    pub keeps_packet_state: bool,
    /// Whether the deparser calls externs.
    pub deparser_calls: bool,
    /// Whether packets may be truncated.
    pub truncates: bool,
    /// The CPU port.
    pub cpu_port: u32,
    /// Calls that the interpreter's code executes.
    pub call_sites: RefCell<Vec<CallSite>>,
    /// Stages that report hits to the host, with the table.
    pub hit_reports: RefCell<Vec<(usize, TableId)>>,
    /// Stage that is being compiled.
    pub stage: Cell<usize>,
}

impl CodegenContext<'_> {
    /// Registers a call site; returns its number.
    pub fn site(&self, control: usize, inst: &Inst, results: Vec<Type>) -> usize {
        let mut sites = self.call_sites.borrow_mut();
        sites.push(CallSite { stage: self.stage.get(), control, inst: inst.clone(), results });
        sites.len() - 1
    }
}

/// Recording state of code generation.
pub struct RecordingState {
    /// Layout of record buffers.
    pub lists: RecordLayout,
    /// Number of the next decision; each outcome of each branch has its own.
    pub next: Cell<u32>,
}

impl RecordingState {
    /// Starts with no decisions.
    pub fn new(lists: RecordLayout) -> RecordingState {
        RecordingState { lists, next: Cell::new(FIRST_DECISION) }
    }
}
