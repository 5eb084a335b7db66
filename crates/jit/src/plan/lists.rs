//! Where code that records notes what a packet does ([`crate::record`]): the lists of a packet's area.

use crate::analysis::facts::has_loop;
use entries::KeyLayout;
use ir::{Entity, ExternFn, Inst, Pipeline, TableId, Term};

/// The most decisions that are noted of a packet. A record that has as many is not complete.
pub const MAX_DECISIONS: usize = 2048;

/// The first number of a decision that native code notes.
pub const FIRST_DECISION: u32 = 2;

/// A list in a packet's area. Offsets in bytes.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// Where its length is: 32 bits.
    pub count: u32,
    /// Its first item.
    pub at: u32,
    /// A list of this length is full. There is space for more: what is written last to a full list is written behind its items.
    pub full: u32,
}

/// Where things lie in a packet's area.
#[derive(Clone, Debug)]
pub struct Lists {
    /// Words of 32 bits.
    pub decisions: List,
    /// Numbers of 64 bits: the table, and in the upper half what it found.
    pub applications: List,
    /// Words of the keys, in the order of applications.
    pub keys: List,
    /// Indices of counters.
    pub indices: List,
    /// From area to area.
    pub stride: u32,
    /// For each table, how many words its keys have.
    pub words: Vec<u32>,
}

impl Lists {
    /// Lays out the areas of a pipeline's packets.
    pub fn new(pipeline: &Pipeline) -> Lists {
        let words = |table: &ir::Table| KeyLayout::new(&table.keys).fields.iter().map(|field| field.words as u32).sum();
        let words: Vec<u32> = pipeline.tables.values().map(words).collect();
        let applied: Vec<TableId> = pipeline.controls.values().flat_map(applied).collect();
        let most_words = words.iter().copied().max().unwrap_or(0);
        let counts = pipeline.insts().filter(|data| counts(&data.inst)).count() as u32;
        let mut next = 4 * size_of::<u32>() as u32;
        let mut lists = 0;
        let mut list = |bytes: u32, most: u32, space: u32| {
            let list = List { count: lists * size_of::<u32>() as u32, at: next, full: most + 1 };
            lists += 1;
            next += (bytes * (most + 1 + space)).next_multiple_of(8);
            list
        };
        let decisions = list(4, most_decisions(pipeline), 1);
        let applications = list(8, applied.len() as u32, 1);
        let keys = list(8, applied.iter().map(|table| words[table.index()]).sum(), most_words);
        let indices = list(8, counts, 1);
        // An odd number of cache lines: areas begin in all sets of the caches.
        let stride = (next.div_ceil(64) | 1) * 64;
        Lists { decisions, applications, keys, indices, stride, words }
    }
}

fn applied(control: &ir::Control) -> impl Iterator<Item = TableId> + '_ {
    control.body.blocks.values().filter_map(|block| block.applied())
}

/// Whether an instruction counts in an indexed counter.
fn counts(inst: &Inst) -> bool {
    matches!(inst, Inst::Extern { func: ExternFn::CounterCount, .. })
}

/// The most decisions that are noted of a packet: without loops each place can be passed once.
fn most_decisions(pipeline: &Pipeline) -> u32 {
    let parser = |control: &&ir::Control| control.kind.is_parser();
    let most = MAX_DECISIONS - 1;
    if pipeline.controls.values().filter(parser).any(|control| has_loop(&control.body)) {
        return most as u32;
    }
    let decides = |term: &Term| match term {
        Term::Branch { .. } | Term::Switch { .. } => 1,
        Term::Apply { .. } => 2,
        _ => 0,
    };
    let blocks = pipeline.controls.values().flat_map(|control| control.body.blocks.values());
    let terms: usize = blocks.filter_map(|block| block.term.as_ref()).map(|term| decides(&term.term)).sum();
    // What the architecture decides between the blocks, and why a parser gave up.
    (terms + pipeline.insts().count() + 8).min(most) as u32
}
