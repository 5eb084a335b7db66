//! Header adjacency: headers that are contiguous in every packet. Emitting them needs no check of
//! each.

use crate::analysis::flow::FlowGraph;
use crate::analysis::frame_slots::all_below;
use crate::analysis::headers::{HeaderLayout, HeaderLocation};
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::analysis::validity::KnownValidity;
use fixedbitset::FixedBitSet;
use ir::{Entity, HeaderId, Inst, Pipeline, Terminator};

/// For each header, the headers that the parser always extracts before it. Empty if the parser may
/// extract a header twice or skip bytes.
#[derive(Clone, Debug, Default)]
pub struct HeaderAdjacency {
    before: Vec<FixedBitSet>,
}

impl HeaderAdjacency {
    /// Analyses the parser: `before` gets, for each header, the headers that precede it in every
    /// packet. Empty if the parser has loops or skips bytes, because offsets are then unknown.
    pub fn new(
        pipeline: &Pipeline,
        flow: &FlowGraph,
        headers: &HeaderLayout,
        known: &[Option<KnownValidity>],
    ) -> HeaderAdjacency {
        let count = pipeline.headers.len();
        let mut before = vec![all_below(count); count];
        for (node, step) in flow.nodes.iter().enumerate() {
            let NodeKind::Block(control, block) = *step else { continue };
            let control = &pipeline.controls[ir::ControlId(control as u32)];
            if !control.kind.is_parser() {
                continue;
            }
            if crate::analysis::facts::has_loop(&control.body) {
                return HeaderAdjacency::default();
            }
            let Some(mut known) = known[node].clone() else { continue };
            for data in &control.body.blocks[block].insts {
                match &data.inst {
                    Inst::Advance(_) => return HeaderAdjacency::default(),
                    Inst::Extract(header) | Inst::ExtractVarbit(header, _) => {
                        if !known.invalid.contains(header.index()) {
                            // The header may have been extracted before.
                            return HeaderAdjacency::default();
                        }
                        before[header.index()].intersect_with(&known.valid);
                    }
                    _ => {}
                }
                known.apply_inst(headers, &data.inst);
            }
        }
        HeaderAdjacency { before }
    }

    /// Returns the total length in bytes of the headers that a deparser starting at `node` emits,
    /// if they are known and contiguous provided that the parser extracted no others.
    pub fn adjacent_bytes(
        &self,
        pipeline: &Pipeline,
        flow: &FlowGraph,
        headers: &HeaderLayout,
        known: &KnownValidity,
        node: FlowNodeId,
    ) -> Option<u64> {
        if self.before.is_empty() {
            return None;
        }
        let (mut bytes, mut last): (u64, Option<HeaderId>) = (0, None);
        for header in emitted_headers(pipeline, flow, known, node)? {
            let index = header.index();
            let in_packet = matches!(headers.locations[index], HeaderLocation::Dynamic | HeaderLocation::Fixed(_));
            let is_unmoved = in_packet && !headers.in_frame[index] && headers.varbit[index].is_none();
            let follows_last = last.is_none_or(|last| self.before[index].contains(last.index()));
            if !is_unmoved || !follows_last {
                return None;
            }
            bytes += u64::from(headers.bytes[index]);
            last = Some(header);
        }
        Some(bytes)
    }
}

/// Returns the total length in bytes of the headers that a deparser starting at `node` emits, if
/// they are known and contiguous from the start of the packet. `at` returns a header's offset in
/// bytes, if it is constant.
pub fn in_place_bytes(
    pipeline: &Pipeline,
    flow: &FlowGraph,
    headers: &HeaderLayout,
    known: &KnownValidity,
    at: impl Fn(HeaderId) -> Option<u64>,
    node: FlowNodeId,
) -> Option<u64> {
    let mut bytes = 0;
    for header in emitted_headers(pipeline, flow, known, node)? {
        if at(header) != Some(bytes) || headers.varbit[header.index()].is_some() {
            return None;
        }
        bytes += u64::from(headers.bytes[header.index()]);
    }
    Some(bytes)
}

/// Returns the headers that a deparser emits, if their validity is known and it has no other
/// instructions.
fn emitted_headers(
    pipeline: &Pipeline,
    flow: &FlowGraph,
    known: &KnownValidity,
    node: FlowNodeId,
) -> Option<Vec<HeaderId>> {
    let NodeKind::Block(control, block) = flow.nodes[node] else { return None };
    let data = &pipeline.controls[ir::ControlId(control as u32)].body.blocks[block];
    if !matches!(data.term.as_ref().map(|term| &term.term), Some(Terminator::Return)) {
        return None;
    }
    let mut headers = Vec::new();
    for inst in &data.insts {
        let Inst::Emit(header) = inst.inst else { return None };
        match known.valid.contains(header.index()) {
            true => headers.push(header),
            false if known.invalid.contains(header.index()) => {}
            false => return None,
        }
    }
    Some(headers)
}
