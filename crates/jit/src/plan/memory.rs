//! Where things lie in a worker's memory, in bytes from the context's first.

use crate::abi::{AUX_BYTES, CHUNK, Context, LINE};
use crate::plan::lanes::LanesLayout;
use crate::plan::stages::StageInfo;

/// Where the packets lie that wait for a stage, in bytes from the context's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePlace {
    /// For which stage.
    pub stage: usize,
    /// How many wait.
    pub count: i32,
    /// The addresses of their frames.
    pub frames: i32,
    /// Lookup keys, one after the other.
    pub keys: i32,
    /// Words of a key.
    pub key_words: usize,
    /// Keys of what is looked up together with that, if there is anything.
    pub together: i32,
    /// Words of one.
    pub together_words: usize,
    /// Selector keys as bytes, [`AUX_BYTES`] each, if there are.
    pub aux: i32,
    /// Words of a selector's keys.
    pub aux_words: usize,
}

/// Where all that lies, in bytes from the context's first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLayout {
    /// For each table, the address of its default action's value.
    pub defaults: i32,
    /// For each table, the address of its entries' [`lookup::Slots`], if they are a handful.
    pub slots: i32,
    /// For each extern object, the address of its counters.
    pub counters: i32,
    /// What the worker counts of itself in a batch, a word for each of the cells of [`crate::plan::places::Places`].
    pub tally: i32,
    /// What was looked up for the packets of a stage.
    pub results: i32,
    /// What was looked up together with that.
    pub together: i32,
    /// For each stage, who waits for it.
    pub queues: Vec<QueuePlace>,
    /// Where packets that are taken eight at a time keep what they carry, if they are.
    pub lanes: Option<LanesLayout>,
    pub cells: usize,
    pub bytes: usize,
}

impl MemoryLayout {
    /// For so many tables, extern objects and cells.
    pub fn new(tables: usize, objects: usize, cells: usize, stages: &[StageInfo]) -> MemoryLayout {
        let mut bytes = size_of::<Context>();
        let mut words = |count: usize| {
            let at = bytes;
            bytes += count * size_of::<u64>();
            at as i32
        };
        let counts: Vec<i32> = stages.iter().map(|_| words(1)).collect();
        let (defaults, slots, counters, tally) = (words(tables), words(tables), words(objects), words(cells));
        // Lists begin with a line, and not all at the same place of a page.
        let mut list = |count: usize| {
            bytes = bytes.next_multiple_of(LINE) + LINE;
            let at = bytes;
            bytes += count * CHUNK * size_of::<u64>();
            at as i32
        };
        let (results, together) = (list(1), list(1));
        let queues = stages.iter().zip(counts).enumerate().map(|(number, (stage, count))| {
            let (key_words, aux_words) = (stage.words, if stage.profile { AUX_BYTES / 8 } else { 0 });
            let together_words = stage.together.map_or(0, |(_, words)| words);
            let (frames, keys) = (list(1), list(key_words));
            let (together, aux) = (list(together_words), list(aux_words));
            QueuePlace { stage: number, count, frames, keys, key_words, together, together_words, aux, aux_words }
        });
        let queues = queues.collect();
        MemoryLayout { defaults, slots, counters, tally, results, together, queues, lanes: None, cells, bytes }
    }
}

impl MemoryLayout {
    /// Where the next thing would lie.
    pub fn end(&self) -> i32 {
        self.bytes as i32
    }

    /// With lists for packets that are taken eight at a time.
    pub fn with_lanes(mut self, lanes: Option<LanesLayout>) -> MemoryLayout {
        self.bytes = lanes.as_ref().map_or(self.bytes, |lanes| lanes.end as usize);
        self.lanes = lanes;
        self
    }
}
