//! Layout of packet records ([`crate::record`]): the lists of a packet's record buffer.

use crate::analysis::facts::has_loop;
use entries::KeyLayout;
use ir::{Entity, ExternFn, Inst, Pipeline, TableId, Terminator};

/// Capacity for decisions of one packet. A record with this many is incomplete.
pub const MAX_DECISIONS: usize = 2048;

/// First number that native code uses for decisions.
pub const FIRST_DECISION: u32 = 2;

/// A list in a record buffer. Offsets in bytes.
#[derive(Clone, Copy, Debug)]
pub struct RecordList {
    /// Offset of its length (32 bits).
    pub count: u32,
    /// Offset of its first item.
    pub at: u32,
    /// Length of a full list. The buffer has space for one more append, because code writes to a
    /// full list without a check.
    pub full_len: u32,
}

/// Layout of a record buffer.
#[derive(Clone, Debug)]
pub struct RecordLayout {
    /// Decisions, 32 bits each.
    pub decisions: RecordList,
    /// Lookups, 64 bits each: the table, and the entry id in the upper half.
    pub lookups: RecordList,
    /// Words of the keys, in the order of lookups.
    pub keys: RecordList,
    /// Indices of counters.
    pub indices: RecordList,
    /// Distance between record buffers.
    pub stride: u32,
    /// For each table, the number of words of its key.
    pub key_words: Vec<u32>,
}

impl RecordLayout {
    /// Lays out the record buffers of a pipeline: a list each has its count at the start of the
    /// buffer, and space for one item more than a packet can have, because appends are not checked.
    pub fn new(pipeline: &Pipeline) -> RecordLayout {
        let key_words =
            |table: &ir::Table| KeyLayout::new(&table.keys).fields.iter().map(|field| field.words as u32).sum();
        let words: Vec<u32> = pipeline.tables.values().map(key_words).collect();
        let applied: Vec<TableId> = pipeline.controls.values().flat_map(applied_tables).collect();
        let max_words = words.iter().copied().max().unwrap_or(0);
        let counts = pipeline.insts().filter(|data| is_indexed_count(&data.inst)).count() as u32;
        let mut next = 4 * size_of::<u32>() as u32;
        let mut lists = 0;
        let mut alloc_list = |bytes: u32, max_items: u32, space: u32| {
            let list = RecordList { count: lists * size_of::<u32>() as u32, at: next, full_len: max_items + 1 };
            lists += 1;
            next += (bytes * (max_items + 1 + space)).next_multiple_of(8);
            list
        };
        let decisions = alloc_list(4, max_decisions(pipeline), 1);
        let lookups = alloc_list(8, applied.len() as u32, 1);
        let keys = alloc_list(8, applied.iter().map(|table| words[table.index()]).sum(), max_words);
        let indices = alloc_list(8, counts, 1);
        // An odd number of cache lines, so that buffers start in all sets of the caches.
        let stride = (next.div_ceil(64) | 1) * 64;
        RecordLayout { decisions, lookups, keys, indices, stride, key_words: words }
    }
}

fn applied_tables(control: &ir::Control) -> impl Iterator<Item = TableId> + '_ {
    control.body.blocks.values().filter_map(|block| block.applied_table())
}

/// Returns whether an instruction updates an indexed counter.
fn is_indexed_count(inst: &Inst) -> bool {
    matches!(inst, Inst::Extern { func: ExternFn::CounterCount, .. })
}

/// Returns the maximum number of recorded decisions: without loops each branch is passed once.
fn max_decisions(pipeline: &Pipeline) -> u32 {
    let parser = |control: &&ir::Control| control.kind.is_parser();
    let most = MAX_DECISIONS - 1;
    if pipeline.controls.values().filter(parser).any(|control| has_loop(&control.body)) {
        return most as u32;
    }
    let decides = |term: &Terminator| match term {
        Terminator::Branch { .. } | Terminator::Switch { .. } => 1,
        Terminator::Apply { .. } => 2,
        _ => 0,
    };
    let blocks = pipeline.controls.values().flat_map(|control| control.body.blocks.values());
    let terms: usize = blocks.filter_map(|block| block.term.as_ref()).map(|term| decides(&term.term)).sum();
    // Plus the architecture's decisions between blocks, and parser rejections.
    (terms + pipeline.insts().count() + 8).min(most) as u32
}
