//! Where packets that are taken eight at a time keep what they carry: a list for each thing, in the order of the packets that wait, instead of a frame for each packet.

use crate::abi::{Arrival, CHUNK, Head, LINE};
use crate::plan::Plan;
use crate::plan::layout::{Layout, imports, size};
use crate::plan::stages::{StageInfo, Start, entries};
use ir::Pipeline;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

/// So many packets ahead a packet's first lines are asked for where packets begin: as long as they take from a far cache.
pub const AHEAD: usize = 16;
/// Lists have room for so many words: what is put behind the last is as long as a vector, and what is read ahead.
pub const ROOM: usize = CHUNK + AHEAD + 8;
/// The most bytes that all lists may take.
const MOST: i32 = 8 << 20;
/// The most bytes of packets that code for eight looks at.
pub const MOST_BYTES: u32 = 512;

/// Something that packets carry to a stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carried {
    /// Where it lies in a frame.
    pub at: u32,
    /// How many bytes it has there.
    pub bytes: u32,
    /// The list of words.
    pub list: i32,
}

/// Where the packets wait for a stage, in bytes from the context's first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StagePlace {
    /// How many wait.
    pub count: i32,
    /// Which packets of the chunk they are. Where packets begin there is none: they are all.
    pub index: Option<i32>,
    /// What they carry.
    pub columns: Vec<Carried>,
    /// Keys, and words of each.
    pub keys: (i32, usize),
    /// Keys of what is looked up together with that, and words of each.
    pub together: (i32, usize),
}

/// Where all of it lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LanesLayout {
    /// The address of memory that stands for packets that are not there, [`MOST_BYTES`] and a line long.
    pub nowhere: i32,
    /// For each packet of the chunk where it goes, as [`Head::destination`]; [`IN_FRAME`]: its frame tells.
    pub verdicts: i32,
    /// The program's reasons for drops.
    pub drop_reasons: i32,
    /// The program's reasons for the CPU.
    pub cpu_reasons: i32,
    /// For each cell of a tally, eight words.
    pub tallies: i32,
    /// How many counts wait, and they: counter and length.
    pub pending: (i32, i32),
    /// How many packets the stage that ran last leaves to code for one, and which of those that waited.
    pub left: (i32, i32),
    /// What was looked up for the packets of a stage: addresses of values, that of the default action where nothing was found, so that all may be read from.
    pub results: i32,
    /// What was looked up together with that.
    pub together: i32,
    /// For each stage that packets can wait for.
    pub stages: Vec<Option<StagePlace>>,
    /// How many bytes all packets have.
    pub packet_bytes: u32,
    /// Behind the last byte of it.
    pub end: i32,
}

/// No verdict: [`LanesLayout::verdicts`]. No destination has that low half, and [`crate::plan::plain::Plain`] asks for another one.
pub const IN_FRAME: u64 = u32::MAX as u64 - 1;

/// Where a frame has the packet's address.
pub const DATA: u32 = offset_of!(Head, arrival.data) as u32;
/// Where it has length and one: a word.
pub const COUNTED: u32 = offset_of!(Head, arrival.counted) as u32;

/// Words of what the engine writes of an arrival.
const ARRIVAL: u32 = size_of::<Arrival>() as u32 / 8;

/// Takes memory piece by piece.
struct Room {
    bytes: i32,
}

impl Room {
    /// A word, alone in its eight bytes.
    fn word(&mut self) -> i32 {
        self.bytes += 8;
        self.bytes - 8
    }

    /// The next line's first byte.
    fn line(&mut self) -> i32 {
        self.bytes = (self.bytes as usize).next_multiple_of(LINE) as i32;
        self.bytes
    }

    /// A list of so many words a packet. Lists begin with a line, an odd number of lines apart: reading one while another is written, at the same place of a page, is slow.
    fn list(&mut self, words: usize) -> i32 {
        let at = self.line();
        let lines = (words * ROOM * 8).div_ceil(LINE);
        self.bytes += ((lines | 1) * LINE) as i32;
        at
    }
}

impl LanesLayout {
    /// Lays it out from `first` on. `None` if there is no trace, or too much is carried. `counts`: how often a packet counts at most.
    pub fn new(
        pipeline: &Pipeline,
        plan: &Plan,
        layout: &Layout,
        stages: &[StageInfo],
        (cells, counts): (usize, usize),
        first: i32,
    ) -> Option<LanesLayout> {
        let (_, packet_bytes) = plan.flow.trace?;
        let mut room = Room { bytes: first };
        let [nowhere, pending, left] = [(); 3].map(|()| room.word());
        let [verdicts, drop_reasons, cpu_reasons] = [(); 3].map(|()| room.list(1));
        let [results, together] = [(); 2].map(|()| room.list(1));
        let (pending, left) = ((pending, room.list(2 * counts)), (left, room.list(1)));
        let tallies = room.line();
        room.bytes += (cells * LINE) as i32;
        let imported = values_needed(pipeline, plan, layout);
        let places = stages.iter().enumerate().map(|(number, stage)| match stage.start {
            Start::Begin | Start::Site(..) if !stage.profile => {
                let begins = stage.start == Start::Begin;
                let carried = match begins {
                    true => (0..ARRIVAL).map(|word| (8 * word, 8)).collect(),
                    false => carried(pipeline, plan, layout, number, &imported),
                };
                let count = room.word();
                let index = (!begins).then(|| room.list(1));
                let column = |(at, bytes): (u32, u32)| Carried { at, bytes, list: room.list(1) };
                let columns = carried.into_iter().map(column).collect();
                let together = stage.together.map_or(0, |(_, words)| words);
                let keys = (room.list(stage.words), stage.words);
                Some(StagePlace { count, index, columns, keys, together: (room.list(together), together) })
            }
            _ => None,
        });
        let places = places.collect();
        let end = room.line();
        let fits = end - first <= MOST && packet_bytes <= MOST_BYTES;
        let layout = LanesLayout {
            nowhere,
            verdicts,
            drop_reasons,
            cpu_reasons,
            tallies,
            pending,
            left,
            results,
            together,
            stages: places,
            packet_bytes,
            end,
        };
        fits.then_some(layout)
    }
}

/// What packets carry to a stage, by where it lies in their frames.
fn carried(
    pipeline: &Pipeline,
    plan: &Plan,
    layout: &Layout,
    number: usize,
    values: &[BTreeMap<u32, u32>],
) -> Vec<(u32, u32)> {
    let at = entries(pipeline, &plan.flow, plan.stages[number].start);
    let mut live = plan.live(&at);
    live.difference_with(&plan.certain(pipeline, &at));
    let mut all = BTreeMap::from([(DATA, 8), (COUNTED, 8)]);
    for index in live.ones().filter(|index| *index < plan.cells.list.len()) {
        if let Some(at) = layout.cells[index] {
            all.extend(words(at, size(plan.cells.ty(pipeline, index))));
        }
    }
    all.extend(&values[number]);
    all.into_iter().collect()
}

/// The words of something of so many bytes.
pub fn words(at: u32, bytes: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..bytes.div_ceil(8)).map(move |word| (at + 8 * word, (bytes - 8 * word).min(8)))
}

/// For each stage the values that it or one behind it uses and does not make, by where they lie in frames.
fn values_needed(pipeline: &Pipeline, plan: &Plan, layout: &Layout) -> Vec<BTreeMap<u32, u32>> {
    let mut needed: Vec<BTreeMap<u32, u32>> = vec![BTreeMap::new(); plan.stages.len()];
    // Stages come before those that they lead to.
    for (number, stage) in plan.stages.iter().enumerate().rev() {
        let mut all: BTreeMap<u32, u32> = BTreeMap::new();
        for (control, value) in imports(pipeline, plan, &stage.nodes) {
            let ty = pipeline.controls[ir::ControlId(control as u32)].body.value_type(value);
            if let Some(at) = layout.values.get(&(control, value)) {
                all.extend(words(*at, size(ty)));
            }
        }
        let next: BTreeSet<usize> = plan.leads_to(pipeline, number);
        next.into_iter().filter(|next| *next > number).for_each(|next| all.extend(needed[next].clone()));
        needed[number] = all;
    }
    needed
}
