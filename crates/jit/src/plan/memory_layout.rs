//! Layout of a worker's memory; offsets in bytes from the context.

use crate::abi::{CACHE_LINE_BYTES, MAX_CHUNK, SELECTOR_KEY_BYTES, StageContext};
use crate::plan::stages::StageInfo;
use crate::plan::vector_layout::VectorLayout;

/// Queue of a stage; offsets in bytes from the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLayout {
    /// The stage.
    pub stage: usize,
    /// Offset of the length of the queue.
    pub count: i32,
    /// Frame addresses.
    pub frames: i32,
    /// Lookup keys, contiguous.
    pub keys: i32,
    /// Words per key.
    pub key_words: usize,
    /// Keys of the paired lookup, if there is one.
    pub paired_keys: i32,
    /// Words per key of the paired lookup.
    pub paired_key_words: usize,
    /// Selector keys as bytes, [`SELECTOR_KEY_BYTES`] each, if the table has a selector.
    pub selector_keys: i32,
    /// Words of the selector keys of one packet.
    pub selector_key_words: usize,
}

/// Layout of a worker's memory; offsets in bytes from the context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLayout {
    /// For each table, the address of its default action's value.
    pub defaults: i32,
    /// For each table, the address of its entries' [`lookup::SmallTableHash`], if it has few
    /// entries.
    pub slots: i32,
    /// For each extern object, the address of its counters.
    pub counters: i32,
    /// Statistics of a batch, one word for each cell of [`crate::plan::stats_layout::StatsLayout`].
    pub stats: i32,
    /// Lookup results of a stage.
    pub results: i32,
    /// Results of the paired lookup.
    pub paired_results: i32,
    /// Queue of each stage.
    pub queues: Vec<QueueLayout>,
    /// Layout of the vector path, if there is one.
    pub vector: Option<VectorLayout>,
    pub stats_cells: usize,
    pub bytes: usize,
}

impl MemoryLayout {
    /// Lays out the memory for these numbers of tables, extern objects and statistics cells. Single
    /// words come first; then for each stage lists with a row per packet of a chunk.
    pub fn new(tables: usize, objects: usize, cells: usize, stages: &[StageInfo]) -> MemoryLayout {
        let mut bytes = size_of::<StageContext>();
        let mut alloc_words = |count: usize| {
            let offset = bytes;
            bytes += count * size_of::<u64>();
            offset as i32
        };
        let counts: Vec<i32> = stages.iter().map(|_| alloc_words(1)).collect();
        let (defaults, slots, counters, stats) =
            (alloc_words(tables), alloc_words(tables), alloc_words(objects), alloc_words(cells));
        // Lists start at a cache line, but not all at the same offset in a page.
        let mut alloc_list = |count: usize| {
            bytes = bytes.next_multiple_of(CACHE_LINE_BYTES) + CACHE_LINE_BYTES;
            let offset = bytes;
            bytes += count * MAX_CHUNK * size_of::<u64>();
            offset as i32
        };
        let (results, paired_results) = (alloc_list(1), alloc_list(1));
        let queues = stages.iter().zip(counts).enumerate().map(|(number, (stage, count))| {
            let (key_words, selector_key_words) =
                (stage.key_words, if stage.has_profile { SELECTOR_KEY_BYTES / 8 } else { 0 });
            let paired_key_words = stage.paired_table.map_or(0, |(_, words)| words);
            let (frames, keys) = (alloc_list(1), alloc_list(key_words));
            let (paired_keys, selector_keys) = (alloc_list(paired_key_words), alloc_list(selector_key_words));
            QueueLayout {
                stage: number,
                count,
                frames,
                keys,
                key_words,
                paired_keys,
                paired_key_words,
                selector_keys,
                selector_key_words,
            }
        });
        let queues = queues.collect();
        MemoryLayout {
            defaults,
            slots,
            counters,
            stats,
            results,
            paired_results,
            queues,
            vector: None,
            stats_cells: cells,
            bytes,
        }
    }
}

impl MemoryLayout {
    /// Returns the end of the layout.
    pub fn end(&self) -> i32 {
        self.bytes as i32
    }

    /// Adds the layout of the vector path.
    pub fn with_vector_layout(mut self, lanes: Option<VectorLayout>) -> MemoryLayout {
        self.bytes = lanes.as_ref().map_or(self.bytes, |lanes| lanes.end as usize);
        self.vector = lanes;
        self
    }
}
