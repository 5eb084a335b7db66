//! What code is made from: the plan of a program, and what else there is to know of it.

use crate::abi::Helpers;
use crate::analysis::order::CallSite;
use crate::counters::Place;
use crate::plan::Plan;
use crate::plan::layout::Layout;
use crate::plan::lists::{FIRST_DECISION, Lists};
use crate::plan::memory::MemoryLayout;
use crate::plan::places::Places;
use cranelift_codegen::isa::CallConv;
use ir::{Inst, Pipeline, TableId, Type};
use lookup::LookupShape;
use std::cell::{Cell, RefCell};

/// What code is made from.
pub struct Compiling<'a> {
    /// The program.
    pub pipeline: &'a Pipeline,
    /// What is known of it.
    pub plan: &'a Plan,
    /// Where things lie in frames.
    pub layout: &'a Layout,
    /// Where things lie behind the context.
    pub memory: MemoryLayout,
    /// Keys and values of each table.
    pub shapes: Vec<LookupShape>,
    /// Functions of the engine.
    pub helpers: Helpers,
    /// How functions are called on this machine.
    pub call_conv: CallConv,
    /// For each extern object that is a counter counted in place, where its elements are.
    pub counters: Vec<Option<Place>>,
    /// Where a worker counts what it does.
    pub places: Places,
    /// For each table, whether the interpreter's bookkeeping is told of hits.
    pub notes_hits: Vec<bool>,
    /// For each table, whether anybody asks which entry was hit.
    pub keeps_hits: Vec<bool>,
    /// What packets do is noted.
    pub recording: Option<Recording>,
    /// How many states the parser may enter, if it can loop.
    pub state_limit: Option<u64>,
    /// Whether some object keeps data while a packet is in a body.
    pub keeps_packet_state: bool,
    /// Whether the deparser calls externs.
    pub deparser_calls: bool,
    /// Whether packets may be truncated.
    pub truncates: bool,
    /// The port that stands for the CPU.
    pub cpu_port: u32,
    /// Calls that the interpreter's code carries out.
    pub sites: RefCell<Vec<CallSite>>,
    /// The stages that tell of hits, with the table.
    pub told: RefCell<Vec<(usize, TableId)>>,
    /// The stage that is being made.
    pub stage: Cell<usize>,
}

impl Compiling<'_> {
    /// Registers a call, gives its number.
    pub fn site(&self, control: usize, inst: &Inst, results: Vec<Type>) -> usize {
        let mut sites = self.sites.borrow_mut();
        sites.push(CallSite { stage: self.stage.get(), control, inst: inst.clone(), results });
        sites.len() - 1
    }
}

/// What code is made to note, and where.
pub struct Recording {
    /// Where it is noted.
    pub lists: Lists,
    /// The number of the next decision: each choice at each place has its own.
    pub next: Cell<u32>,
}

impl Recording {
    /// For these areas.
    pub fn new(lists: Lists) -> Recording {
        Recording { lists, next: Cell::new(FIRST_DECISION) }
    }
}
