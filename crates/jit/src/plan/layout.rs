//! Where things lie in a packet's frame.

use crate::abi::{Emitted, Head};
use crate::analysis::node::{Node, Step};
use crate::plan::Plan;
use crate::unsupported::Unsupported;
use ir::{Entity, Pipeline, Type, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The longest frame in bytes.
const LONGEST: u32 = 1 << 20;

/// Offsets in bytes from a frame's first.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The list of emitted headers.
    pub emitted: u32,
    /// Each cell that is carried from stage to stage.
    pub cells: Vec<Option<u32>>,
    /// Values that are used in another stage than the one that makes them.
    pub values: BTreeMap<(usize, Value), u32>,
    /// Room of each header that the program makes.
    pub rooms: Vec<Option<u32>>,
    /// From frame to frame.
    pub stride: u32,
}

/// Bytes that a value of the type takes.
pub fn size(ty: Type) -> u32 {
    match ty {
        Type::Bool => 1,
        _ => match ty.width() {
            0..=8 => 1,
            9..=16 => 2,
            17..=32 => 4,
            33..=64 => 8,
            more => more.div_ceil(64) * 8,
        },
    }
}

impl Layout {
    /// Lays out the frames of a pipeline's packets.
    pub fn new(pipeline: &Pipeline, plan: &Plan) -> Result<Layout, Unsupported> {
        let mut next = size_of::<Head>() as u32;
        let mut place = |bytes: u32, align: u32| {
            next = next.next_multiple_of(align);
            let at = next;
            next = next.saturating_add(bytes);
            at
        };
        let emits = emits(pipeline);
        // Only what stages leave to each other has a place. It shares cache lines with the head.
        let mut order: Vec<usize> = plan.carried(pipeline).ones().collect();
        let cell_size = |index: usize| size(plan.cells.ty(pipeline, index));
        order.sort_by_key(|index| std::cmp::Reverse(cell_size(*index).min(8)));
        let mut cells = vec![None; plan.cells.list.len()];
        for index in order {
            let bytes = cell_size(index);
            cells[index] = Some(place(bytes, bytes.min(8)));
        }
        let mut values = BTreeMap::new();
        for (control, value) in imported(pipeline, plan) {
            let body = &pipeline.controls[ir::ControlId(control as u32)].body;
            let bytes = size(body.value_type(value));
            values.insert((control, value), place(bytes, bytes.min(8)));
        }
        let emitted = place(emits * size_of::<Emitted>() as u32, 8);
        let rooms = pipeline.headers.keys().map(|id| {
            plan.headers.in_frame[id.index()].then(|| place(plan.headers.most[id.index()].next_multiple_of(8), 8))
        });
        let rooms = rooms.collect();
        let stride = place(0, 64);
        if stride > LONGEST {
            return Err(Unsupported::TooLarge);
        }
        Ok(Layout { emitted, cells, values, rooms, stride })
    }
}

/// The most headers that a packet can emit.
fn emits(pipeline: &Pipeline) -> u32 {
    pipeline.insts().filter(|data| matches!(data.inst, ir::Inst::Emit(_))).count() as u32
}

/// The values that a stage uses and another one makes.
fn imported(pipeline: &Pipeline, plan: &Plan) -> BTreeSet<(usize, Value)> {
    plan.stages.iter().flat_map(|stage| imports(pipeline, plan, &stage.nodes)).collect()
}

/// The values that these nodes use and don't make.
pub fn imports(pipeline: &Pipeline, plan: &Plan, nodes: &[Node]) -> BTreeSet<(usize, Value)> {
    let (mut used, mut made) = (BTreeSet::new(), BTreeSet::new());
    for node in nodes {
        let Step::Block(control, block) = plan.flow.nodes[*node] else { continue };
        let data = &pipeline.controls[ir::ControlId(control as u32)].body.blocks[block];
        made.extend(data.params.iter().map(|v| (control, *v)));
        for inst in &data.insts {
            inst.inst.for_each_use(|v| {
                used.insert((control, v));
            });
            made.extend(inst.results.iter().map(|v| (control, *v)));
        }
        if let Some(term) = &data.term {
            term.term.for_each_use(|v| {
                used.insert((control, v));
            });
        }
    }
    used.difference(&made).copied().collect()
}
