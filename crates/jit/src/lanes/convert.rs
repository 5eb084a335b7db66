//! Makes code for eight packets of a stage's function for one.
//!
//! The function's blocks are gone through once, each behind all that lead to it. What a packet computes, eight lanes compute; a block's mask says which lanes
//! would be in it, and where ways meet a lane takes what it would have come with. Nothing that anybody sees is done before the end: there the lanes are known
//! whose ways are all made of what code for eight can do. Others are left to the function, as if they had never been here.

use crate::abi::Head;
use crate::code::compiling::Compiling;
use crate::code::told::{Mark, Told};
use crate::lanes::build::Builder;
use crate::lanes::ir::{Code, Id, Op};
use crate::lanes::state::{Packets, State};
use crate::plan::lanes::{LanesLayout, StagePlace, words};
use crate::plan::layout::size;
use crate::plan::stages::Start;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::{BlockArg, InstructionData};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::offset_of;

/// What a value of the function is in eight lanes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Val {
    /// Numbers: as many low bits as the value's type has, others 0.
    Vector(Id),
    /// A bool.
    Mask(Id),
    /// The address of something in the packet's frame.
    Frame(i64),
    /// An address in the list of those that wait, from the packet's place on.
    Place(i64),
    /// The address of something behind the context.
    Context(i64),
    /// The address of a byte of the packet.
    Packet(i64),
    /// The address that lies at a place behind the context, and so much more.
    Pointed(i32, i64),
    /// What was looked up, 0 where that is nothing.
    Found(Looked),
    /// The address of a byte of the value that was looked up: the default action's where nothing was found.
    Value(Looked, i64),
    /// Code for eight has no form for it.
    Unknown,
}

/// What is looked up in front of a stage.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Looked {
    /// The list of the values' addresses: the default action's where nothing was found.
    pub list: i32,
    /// Where the address of the default action's value lies behind the context.
    pub default: i32,
    /// Bytes that may be read at any of the values.
    pub readable: u32,
}

/// Why there is no code for eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The function has a loop.
    Loop,
    /// No packet comes through.
    Nobody,
}

/// How the lanes of a way end.
pub(super) struct End {
    pub mask: Id,
    pub state: State,
    pub leave: Option<Leave>,
}

/// For which stage lanes leave, with words of keys: of its lookup, and of what is looked up together with that.
pub(super) type Leave = (usize, Vec<Id>, Vec<Id>);

/// What is done in the end for lanes that come through.
pub(super) enum Later {
    Tally { cell: usize, mask: Id, value: Id },
    Count { mask: Id, counter: Id, bytes: Id },
}

/// Code for eight that is being made.
pub struct Converting<'a> {
    pub(super) c: &'a Compiling<'a>,
    pub(super) func: &'a cl::Function,
    pub(super) told: &'a Told,
    pub(super) layout: &'a LanesLayout,
    pub(super) place: &'a StagePlace,
    pub(super) stage: usize,
    pub(super) start: Start,
    pub(super) packets: Packets,
    pub(super) b: Builder,
    pub(super) values: HashMap<cl::Value, Val>,
    pub(super) state: State,
    /// What a frame has besides its head, by where it lies: how many bytes.
    pub(super) frame: BTreeMap<u32, u32>,
    /// Which lanes are in the present block.
    pub(super) mask: Id,
    pub(super) later: Vec<Later>,
    pub(super) ends: Vec<End>,
}

/// Ways into a block: which lanes come, with what, and the block's parameters.
type Ways = Vec<(Id, State, Vec<Val>)>;

/// Makes code for eight packets of a stage's function.
///
/// # Errors
/// Code for eight has no form for it.
pub fn convert(
    c: &Compiling<'_>,
    func: &cl::Function,
    told: &Told,
    layout: &LanesLayout,
    stage: usize,
) -> Result<Code, Why> {
    let place = layout.stages[stage].as_ref().ok_or(Why::Nobody)?;
    let pointers = place.columns.first().ok_or(Why::Nobody)?.list;
    let mut b = Builder::default();
    let mask = b.active();
    let start = c.plan.stages[stage].start;
    let packets = Packets { pointers, bytes: layout.packet_bytes };
    let mut converting = Converting {
        c,
        func,
        told,
        layout,
        place,
        stage,
        start,
        packets,
        b,
        values: HashMap::new(),
        state: State::default(),
        frame: frame_words(c),
        mask,
        later: Vec::new(),
        ends: Vec::new(),
    };
    converting.blocks()?;
    converting.end()
}

/// What frames have besides their heads: words of cells and values, by where they lie.
fn frame_words(c: &Compiling<'_>) -> BTreeMap<u32, u32> {
    let cells = c
        .layout
        .cells
        .iter()
        .enumerate()
        .filter_map(|(index, at)| Some((at.as_ref().copied()?, size(c.plan.cells.ty(c.pipeline, index)))));
    let values = c.layout.values.iter().map(|((control, value), at)| {
        let body = &c.pipeline.controls[ir::ControlId(*control as u32)].body;
        (*at, size(body.value_type(*value)))
    });
    cells.chain(values).flat_map(|(at, bytes)| words(at, bytes)).collect()
}

impl Converting<'_> {
    /// The blocks of a packet's way, each behind all that lead to it.
    fn order(&self) -> Result<Vec<cl::Block>, Why> {
        let (mut done, mut open) = (HashSet::new(), HashSet::new());
        let mut order = Vec::new();
        let mut work = vec![(self.told.body, false)];
        while let Some((block, again)) = work.pop() {
            if again {
                open.remove(&block);
                done.insert(block);
                order.push(block);
                continue;
            }
            if done.contains(&block) || !open.insert(block) {
                continue;
            }
            work.push((block, true));
            let ends = |next: &cl::Block| *next == self.told.next || self.told.off.contains(next);
            for next in self.successors(block).into_iter().filter(|next| !ends(next)) {
                if open.contains(&next) {
                    return Err(Why::Loop);
                }
                work.push((next, false));
            }
        }
        order.reverse();
        Ok(order)
    }

    fn last(&self, block: cl::Block) -> Option<cl::Inst> {
        self.func.layout.last_inst(block)
    }

    fn successors(&self, block: cl::Block) -> Vec<cl::Block> {
        let Some(last) = self.last(block) else { return Vec::new() };
        let calls =
            self.func.dfg.insts[last].branch_destination(&self.func.dfg.jump_tables, &self.func.dfg.exception_tables);
        calls.iter().map(|call| call.block(&self.func.dfg.value_lists)).collect()
    }

    fn blocks(&mut self) -> Result<(), Why> {
        let order = self.order()?;
        self.values.insert(self.told.context, Val::Context(0));
        self.values.insert(self.told.place, if self.start == Start::Begin { Val::Frame(0) } else { Val::Place(0) });
        let mut ways: HashMap<cl::Block, Ways> = HashMap::new();
        let all = self.mask;
        ways.insert(self.told.body, vec![(all, State::default(), Vec::new())]);
        for block in order {
            let Some(incoming) = ways.remove(&block) else { continue };
            if !self.enter(block, incoming) {
                continue;
            }
            if let Some(leave) = self.instructions(block) {
                self.branch(block, leave, &mut ways);
            }
        }
        Ok(())
    }

    /// Brings ways together. False if no lane comes.
    fn enter(&mut self, block: cl::Block, incoming: Ways) -> bool {
        let mut ways = incoming.into_iter();
        let Some((mut mask, mut state, mut params)) = ways.next() else { return false };
        let place = self.place;
        for (other, with, args) in ways {
            let mut before = |b: &mut Builder, at: u32| column(b, place, at);
            state.meet(&mut self.b, other, &with, self.packets, &mut before);
            for (param, arg) in params.iter_mut().zip(args) {
                *param = self.either(other, arg, *param);
            }
            mask = self.b.either(mask, other);
        }
        (self.mask, self.state) = (mask, state);
        if block != self.told.body {
            let names = self.func.dfg.block_params(block).to_vec();
            self.values.extend(names.into_iter().zip(params));
        }
        !self.b.is_nobody(mask)
    }

    /// The first in lanes of the mask, the second in others.
    pub(super) fn either(&mut self, mask: Id, one: Val, two: Val) -> Val {
        if one == two {
            return one;
        }
        if let (Val::Mask(one), Val::Mask(two)) = (one, two) {
            return Val::Mask(self.b.choose(mask, one, two));
        }
        match (self.vector(one), self.vector(two)) {
            (Some(one), Some(two)) => Val::Vector(self.b.blend(mask, one, two)),
            _ => Val::Unknown,
        }
    }

    /// The instructions of a block. Where the packet leaves for, if it does; `None`: lanes here are left to the function.
    fn instructions(&mut self, block: cl::Block) -> Option<Option<Leave>> {
        let mut leave = None;
        let last = self.last(block);
        let insts: Vec<cl::Inst> = self.func.layout.block_insts(block).filter(|inst| Some(*inst) != last).collect();
        for inst in insts {
            match self.told.marks.get(&inst) {
                Some(Mark::Part) => {}
                Some(Mark::Leave { stage, keys, together }) => {
                    self.layout.stages.get(*stage)?.as_ref()?;
                    leave = Some((*stage, self.vectors(keys)?, self.vectors(together)?));
                }
                Some(Mark::Tally { cell, hit, more }) => self.tally(*cell, *hit, *more)?,
                Some(Mark::Count { counter, bytes }) => {
                    let (counter, bytes) = (self.numbers(*counter)?, self.numbers(*bytes)?);
                    self.later.push(Later::Count { mask: self.mask, counter, bytes });
                }
                Some(Mark::Remainder { words, crc }) => self.remainder(inst, *words, crc)?,
                Some(Mark::Value(_)) | None => self.instruction(inst)?,
            }
        }
        Some(leave)
    }

    fn vectors(&mut self, values: &[cl::Value]) -> Option<Vec<Id>> {
        values.iter().map(|value| self.numbers(*value)).collect()
    }

    fn tally(&mut self, cell: usize, hit: cl::Value, more: cl::Value) -> Option<()> {
        let (hit, value) = (self.condition(self.of(hit))?, self.numbers(more)?);
        let (hits, misses) = (self.b.both(self.mask, hit), self.b.without(self.mask, hit));
        for (cell, mask) in [(cell, misses), (cell + 1, hits)] {
            self.later.push(Later::Tally { cell, mask, value });
        }
        Some(())
    }

    /// A value of the function.
    pub(super) fn of(&self, value: cl::Value) -> Val {
        let value = self.func.dfg.resolve_aliases(value);
        self.values.get(&value).copied().unwrap_or(Val::Unknown)
    }

    // ---- ways ----

    fn branch(&mut self, block: cl::Block, leave: Option<Leave>, ways: &mut HashMap<cl::Block, Ways>) {
        let Some(last) = self.last(block) else { return };
        let dfg = &self.func.dfg;
        match &dfg.insts[last] {
            InstructionData::Jump { destination, .. } => self.way(self.mask, *destination, leave, ways),
            InstructionData::Brif { arg, blocks, .. } => {
                let Some(cond) = self.condition(self.of(*arg)) else { return };
                let (yes, no) = (self.b.both(self.mask, cond), self.b.without(self.mask, cond));
                self.way(yes, blocks[0], leave.clone(), ways);
                self.way(no, blocks[1], leave, ways);
            }
            InstructionData::BranchTable { arg, table, .. } => {
                let Some(number) = self.numbers(*arg) else { return };
                let table = &dfg.jump_tables[*table];
                let mut rest = self.mask;
                for (at, call) in table.as_slice().iter().enumerate() {
                    let at = self.b.constant(at as u64);
                    let same = self.b.compare(crate::lanes::ir::Cond::Equal, number, at);
                    let mask = self.b.both(self.mask, same);
                    rest = self.b.without(rest, same);
                    self.way(mask, *call, leave.clone(), ways);
                }
                self.way(rest, table.default_block(), leave, ways);
            }
            _ => {}
        }
    }

    fn way(&mut self, mask: Id, call: cl::BlockCall, leave: Option<Leave>, ways: &mut HashMap<cl::Block, Ways>) {
        if self.b.is_nobody(mask) {
            return;
        }
        let block = call.block(&self.func.dfg.value_lists);
        if self.told.off.contains(&block) {
            return;
        }
        if block == self.told.next {
            let told = self.state.frame.contains_key(&(offset_of!(Head, destination) as u32));
            // Headers that do not lie as they came are put together by the engine, from the packet's frame.
            let apart = [offset_of!(Head, front), offset_of!(Head, emitted), offset_of!(Head, truncate)];
            let apart = apart.iter().any(|at| self.state.frame.contains_key(&(*at as u32)));
            if leave.is_some() || told && !apart {
                self.ends.push(End { mask, state: self.state.clone(), leave });
            }
            return;
        }
        let args = call.args(&self.func.dfg.value_lists);
        let args = args.map(|arg| match arg {
            BlockArg::Value(value) => self.of(value),
            _ => Val::Unknown,
        });
        let args = args.collect();
        ways.entry(block).or_default().push((mask, self.state.clone(), args));
    }
}

/// A word of a frame as it came to the stage: also one that is part of a longer one.
pub(super) fn column(b: &mut Builder, place: &StagePlace, at: u32) -> Option<Id> {
    let found = place.columns.iter().find(|column| column.at == at)?;
    let word = b.plain(Op::Column(found.list));
    Some(if found.bytes == 8 {
        word
    } else {
        let mask = b.constant(crate::lanes::bound::low(8 * found.bytes));
        b.and(word, mask)
    })
}
