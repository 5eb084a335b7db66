//! Memory layout of the vector path: for each carried value a list in queue order, instead of a
//! frame for each packet.

use crate::abi::{CACHE_LINE_BYTES, FrameHeader, FrameInput, MAX_CHUNK};
use crate::analysis::imported_values::imported_values;
use crate::plan::StagePlan;
use crate::plan::frame_layout::{FrameLayout, type_bytes};
use crate::plan::stages::{StageEntry, StageInfo, entry_nodes};
use crate::vector_refusal::VectorRefusal;
use ir::Pipeline;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

/// Prefetch distance in packets at the program's entry, sufficient for the latency of a last-level
/// cache.
pub const PREFETCH_DISTANCE: usize = 16;
/// Capacity of a list in words: a chunk, one more vector, and the prefetch distance.
pub const LIST_WORDS: usize = MAX_CHUNK + PREFETCH_DISTANCE + 8;
/// Maximum size of all lists in bytes. Packets touch only the lists of their stages: most of a large
/// program's lists are those of rare paths.
const MAX_LAYOUT_BYTES: i32 = 64 << 20;
/// Maximum number of packet bytes that vector code accesses.
pub const MAX_VECTOR_PACKET_BYTES: u32 = 512;

/// A value that packets carry to a stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VectorColumn {
    /// Offset in a frame.
    pub frame_offset: u32,
    /// Size in the frame, in bytes.
    pub bytes: u32,
    /// Offset of the list of words.
    pub list: i32,
}

/// Vector queue of a stage; offsets in bytes from the context.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VectorQueue {
    /// Offset of the length of the queue.
    pub count: i32,
    /// Offset of the packets' indices in the chunk; `None` for the entry stage, which has all
    /// packets.
    pub index: Option<i32>,
    /// Carried values.
    pub columns: Vec<VectorColumn>,
    /// Offset of the keys, and words per key.
    pub keys: (i32, usize),
    /// Offset of the keys of the paired lookup, and words per key.
    pub paired_keys: (i32, usize),
}

/// Layout of the vector path's memory; offsets in bytes from the context.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VectorLayout {
    /// Address of dummy memory for unused lanes, [`MAX_VECTOR_PACKET_BYTES`] and one cache line
    /// long.
    pub dummy_memory: i32,
    /// Verdict of each packet of the chunk, as [`FrameHeader::destination`]; [`IN_FRAME`] if it is
    /// in the frame.
    pub verdicts: i32,
    /// The program's drop reasons.
    pub drop_reasons: i32,
    /// The program's reasons for sending to the CPU.
    pub cpu_reasons: i32,
    /// Statistics: eight words for each cell.
    pub stats: i32,
    /// Number of deferred counter updates, and the updates: counter and length.
    pub pending: (i32, i32),
    /// Number of packets that diverged in the last stage, and their positions in its queue.
    pub diverged: (i32, i32),
    /// Lookup results of a stage: addresses of values. A miss has the default action's value, so
    /// that all addresses can be read.
    pub results: i32,
    /// Results of the paired lookup.
    pub paired_results: i32,
    /// Queue of each stage that has one.
    pub stages: Vec<Option<VectorQueue>>,
    /// Minimum length of the packets in bytes.
    pub packet_bytes: u32,
    /// End of the layout.
    pub end: i32,
}

/// Marks [`VectorLayout::verdicts`] without a verdict. No destination has this low half, and
/// [`crate::plan::in_place_forward::InPlaceForward`] matches another one.
pub const IN_FRAME: u64 = u32::MAX as u64 - 1;

/// Offset of the packet's address in a frame.
pub const DATA_OFFSET: u32 = offset_of!(FrameHeader, input.data) as u32;
/// Offset of the word with metered length and packet count in a frame.
pub const METERED_LEN_OFFSET: u32 = offset_of!(FrameHeader, input.metered_len) as u32;

/// Number of words of a frame's input.
const INPUT_WORDS: u32 = size_of::<FrameInput>() as u32 / 8;

/// Allocates offsets.
struct LayoutAllocator {
    bytes: i32,
}

impl LayoutAllocator {
    /// Allocates a word, alone in its eight bytes.
    fn alloc_word(&mut self) -> i32 {
        self.bytes += 8;
        self.bytes - 8
    }

    /// Aligns to the next cache line and returns its offset.
    fn align_to_line(&mut self) -> i32 {
        self.bytes = (self.bytes as usize).next_multiple_of(CACHE_LINE_BYTES) as i32;
        self.bytes
    }

    /// Allocates a list of `words` words per packet. Lists start at a cache line, an odd number of
    /// lines apart, because reading one list while writing another at the same offset in a page is
    /// slow.
    fn alloc_list(&mut self, words: usize) -> i32 {
        let at = self.align_to_line();
        let lines = (words * LIST_WORDS * 8).div_ceil(CACHE_LINE_BYTES);
        self.bytes += ((lines | 1) * CACHE_LINE_BYTES) as i32;
        at
    }
}

impl VectorLayout {
    /// Lays the memory out from offset `first` on. `cells` is the number of statistics cells,
    /// `counts` the maximum number of counter updates per packet.
    ///
    /// # Errors
    /// There is no hot path, its headers are too long, or the lists are too large.
    pub fn new(
        pipeline: &Pipeline,
        plan: &StagePlan,
        layout: &FrameLayout,
        stages: &[StageInfo],
        (cells, counts): (usize, usize),
        first: i32,
    ) -> Result<VectorLayout, VectorRefusal> {
        let (_, packet_bytes) = plan.flow.hot_path.ok_or(VectorRefusal::NoHotPath)?;
        if packet_bytes > MAX_VECTOR_PACKET_BYTES {
            return Err(VectorRefusal::HeadersTooLong { bytes: packet_bytes, limit: MAX_VECTOR_PACKET_BYTES });
        }
        let mut allocator = LayoutAllocator { bytes: first };
        let [dummy_memory, pending, diverged] = [(); 3].map(|()| allocator.alloc_word());
        let [verdicts, drop_reasons, cpu_reasons] = [(); 3].map(|()| allocator.alloc_list(1));
        let [results, paired_results] = [(); 2].map(|()| allocator.alloc_list(1));
        let (pending, diverged) = ((pending, allocator.alloc_list(2 * counts)), (diverged, allocator.alloc_list(1)));
        let stats = allocator.align_to_line();
        allocator.bytes += (cells * CACHE_LINE_BYTES) as i32;
        let imported = live_values(pipeline, plan, layout);
        let queues = stages.iter().enumerate().map(|(number, stage)| match stage.start {
            StageEntry::Begin | StageEntry::Table(..) if !stage.has_profile => {
                let begins = stage.start == StageEntry::Begin;
                let carried = match begins {
                    true => (0..INPUT_WORDS).map(|word| (8 * word, 8)).collect(),
                    false => carried_bytes(pipeline, plan, layout, number, &imported),
                };
                let count = allocator.alloc_word();
                let index = (!begins).then(|| allocator.alloc_list(1));
                let column = |(offset, bytes): (u32, u32)| VectorColumn {
                    frame_offset: offset,
                    bytes,
                    list: allocator.alloc_list(1),
                };
                let columns = carried.into_iter().map(column).collect();
                let paired_words = stage.paired_table.map_or(0, |(_, words)| words);
                let keys = (allocator.alloc_list(stage.key_words), stage.key_words);
                Some(VectorQueue {
                    count,
                    index,
                    columns,
                    keys,
                    paired_keys: (allocator.alloc_list(paired_words), paired_words),
                })
            }
            _ => None,
        });
        let queues = queues.collect();
        let end = allocator.align_to_line();
        if end - first > MAX_LAYOUT_BYTES {
            return Err(VectorRefusal::ListsTooLarge { bytes: end - first, limit: MAX_LAYOUT_BYTES });
        }
        Ok(VectorLayout {
            dummy_memory,
            verdicts,
            drop_reasons,
            cpu_reasons,
            stats,
            pending,
            diverged,
            results,
            paired_results,
            stages: queues,
            packet_bytes,
            end,
        })
    }
}

/// Returns the values that packets carry to a stage, by offset and size in their frames.
fn carried_bytes(
    pipeline: &Pipeline,
    plan: &StagePlan,
    layout: &FrameLayout,
    number: usize,
    values: &[BTreeMap<u32, u32>],
) -> Vec<(u32, u32)> {
    let at = entry_nodes(pipeline, &plan.flow, plan.stages[number].start);
    let mut live = plan.live_slots(&at);
    live.difference_with(&plan.constant_slots(pipeline, &at));
    let mut all = BTreeMap::from([(DATA_OFFSET, 8), (METERED_LEN_OFFSET, 8)]);
    for index in live.ones().filter(|index| *index < plan.slots.slots.len()) {
        if let Some(at) = layout.slots[index] {
            all.extend(split_into_words(at, type_bytes(plan.slots.slot_type(pipeline, index))));
        }
    }
    all.extend(&values[number]);
    all.into_iter().collect()
}

/// Splits a value of `bytes` bytes into words: offset and size of each.
pub fn split_into_words(at: u32, bytes: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..bytes.div_ceil(8)).map(move |word| (at + 8 * word, (bytes - 8 * word).min(8)))
}

/// Returns for each stage the values that it or a later stage uses but does not compute, by offset
/// in frames.
fn live_values(pipeline: &Pipeline, plan: &StagePlan, layout: &FrameLayout) -> Vec<BTreeMap<u32, u32>> {
    let mut needed: Vec<BTreeMap<u32, u32>> = vec![BTreeMap::new(); plan.stages.len()];
    // Stages are in topological order.
    for (number, stage) in plan.stages.iter().enumerate().rev() {
        let mut all: BTreeMap<u32, u32> = BTreeMap::new();
        for (control, value) in imported_values(pipeline, &plan.flow, &stage.nodes) {
            let ty = pipeline.controls[ir::ControlId(control as u32)].body.value_type(value);
            if let Some(at) = layout.values.get(&(control, value)) {
                all.extend(split_into_words(*at, type_bytes(ty)));
            }
        }
        let next: BTreeSet<usize> = plan.next_stages(pipeline, number);
        next.into_iter().filter(|next| *next > number).for_each(|next| all.extend(needed[next].clone()));
        needed[number] = all;
    }
    needed
}
