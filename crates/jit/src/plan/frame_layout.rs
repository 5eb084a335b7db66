//! Layout of a packet's frame.

use crate::abi::{EmittedHeader, FrameHeader};
use crate::analysis::imported_values::imported_values;
use crate::fallback_reason::FallbackReason;
use crate::plan::StagePlan;
use ir::{Entity, Pipeline, Type, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum frame size in bytes.
const MAX_FRAME_BYTES: u32 = 1 << 20;

/// Offsets in bytes from the start of a frame.
#[derive(Clone, Debug)]
pub struct FrameLayout {
    /// List of emitted headers.
    pub emitted: u32,
    /// Each slot that is carried between stages.
    pub slots: Vec<Option<u32>>,
    /// Values that another stage uses than the one that computes them.
    pub values: BTreeMap<(usize, Value), u32>,
    /// Storage of each header that the program creates.
    pub header_storage: Vec<Option<u32>>,
    /// Distance between frames.
    pub stride: u32,
}

/// Returns the size of a value of the type in bytes.
pub fn type_bytes(ty: Type) -> u32 {
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

impl FrameLayout {
    /// Lays out the frames of a pipeline: the header, carried slots and values, the list of emitted
    /// headers, and storage for headers that the program makes.
    ///
    /// # Errors
    /// A frame that is too large.
    pub fn new(pipeline: &Pipeline, plan: &StagePlan) -> Result<FrameLayout, FallbackReason> {
        let mut next = size_of::<FrameHeader>() as u32;
        let mut alloc = |bytes: u32, align: u32| {
            next = next.next_multiple_of(align);
            let offset = next;
            next = next.saturating_add(bytes);
            offset
        };
        let emits = max_emits(pipeline);
        // Only slots that are carried between stages have storage. Those of the hot path come first,
        // because they then share few cache lines with the frame header.
        let mut order: Vec<usize> = plan.carried_slots(pipeline, plan.stages.iter()).ones().collect();
        let hot = plan.carried_slots(pipeline, plan.stages.iter().filter(|stage| plan.is_hot_stage(stage)));
        let slot_bytes = |index: usize| type_bytes(plan.slots.slot_type(pipeline, index));
        order.sort_by_key(|index| (!hot.contains(*index), std::cmp::Reverse(slot_bytes(*index).min(8))));
        let mut slots = vec![None; plan.slots.slots.len()];
        for index in order {
            let bytes = slot_bytes(index);
            slots[index] = Some(alloc(bytes, bytes.min(8)));
        }
        let mut values = BTreeMap::new();
        for (control, value) in cross_stage_values(pipeline, plan) {
            let body = &pipeline.controls[ir::ControlId(control as u32)].body;
            let bytes = type_bytes(body.value_type(value));
            values.insert((control, value), alloc(bytes, bytes.min(8)));
        }
        let emitted = alloc(emits * size_of::<EmittedHeader>() as u32, 8);
        let header_storage = pipeline.headers.keys().map(|id| {
            plan.headers.in_frame[id.index()].then(|| alloc(plan.headers.max_bytes[id.index()].next_multiple_of(8), 8))
        });
        let header_storage = header_storage.collect();
        let stride = alloc(0, 64);
        if stride > MAX_FRAME_BYTES {
            return Err(FallbackReason::TooLarge);
        }
        Ok(FrameLayout { emitted, slots, values, header_storage, stride })
    }
}

/// Returns the maximum number of headers that a packet can emit.
fn max_emits(pipeline: &Pipeline) -> u32 {
    pipeline.insts().filter(|data| matches!(data.inst, ir::Inst::Emit(_))).count() as u32
}

/// Returns the values that cross a stage boundary.
fn cross_stage_values(pipeline: &Pipeline, plan: &StagePlan) -> BTreeSet<(usize, Value)> {
    plan.stages.iter().flat_map(|stage| imported_values(pipeline, &plan.flow, &stage.nodes)).collect()
}
