//! Headers that lie in the packet one behind the other, whatever the packet: then what is emitted need not be looked at one by one.

use crate::analysis::cells::all_below;
use crate::analysis::flow::Flow;
use crate::analysis::headers::{Headers, Place};
use crate::analysis::node::{Node, Step};
use crate::analysis::validity::Known;
use fixedbitset::FixedBitSet;
use ir::{Entity, HeaderId, Inst, Pipeline, Term};

/// For each header, those that the parser has taken before it, always. Empty if the parser may take a header twice or skip bytes.
#[derive(Clone, Debug, Default)]
pub struct Order {
    before: Vec<FixedBitSet>,
}

impl Order {
    /// Looks the parser through.
    pub fn new(pipeline: &Pipeline, flow: &Flow, headers: &Headers, known: &[Option<Known>]) -> Order {
        let count = pipeline.headers.len();
        let mut before = vec![all_below(count); count];
        for (node, step) in flow.nodes.iter().enumerate() {
            let Step::Block(control, block) = *step else { continue };
            let control = &pipeline.controls[ir::ControlId(control as u32)];
            if !control.kind.is_parser() {
                continue;
            }
            if crate::analysis::facts::has_loop(&control.body) {
                return Order::default();
            }
            let Some(mut known) = known[node].clone() else { continue };
            for data in &control.body.blocks[block].insts {
                match &data.inst {
                    Inst::Advance(_) => return Order::default(),
                    Inst::Extract(header) | Inst::ExtractVarbit(header, _) => {
                        if !known.invalid.contains(header.index()) {
                            // Perhaps it was taken before.
                            return Order::default();
                        }
                        before[header.index()].intersect_with(&known.valid);
                    }
                    _ => {}
                }
                known.step(headers, &data.inst);
            }
        }
        Order { before }
    }

    /// What a deparser that begins at `node` emits, if that is known and lies one behind the other if it is all that the parser
    /// took: the sum of lengths in bytes.
    pub fn tiles(&self, pipeline: &Pipeline, flow: &Flow, headers: &Headers, known: &Known, node: Node) -> Option<u64> {
        if self.before.is_empty() {
            return None;
        }
        let (mut bytes, mut last): (u64, Option<HeaderId>) = (0, None);
        for header in emitted(pipeline, flow, known, node)? {
            let index = header.index();
            let in_packet = matches!(headers.places[index], Place::Moves | Place::Fixed(_));
            let stays = in_packet && !headers.in_frame[index] && headers.varbit[index].is_none();
            let behind = last.is_none_or(|last| self.before[index].contains(last.index()));
            if !stays || !behind {
                return None;
            }
            bytes += u64::from(headers.bytes[index]);
            last = Some(header);
        }
        Some(bytes)
    }
}

/// What a deparser that begins at `node` emits, if that is known and lies one behind the other, the first at the packet's first byte: the sum of lengths in bytes. `at`: how
/// many bytes behind that a header is, if that is certain.
pub fn lies(
    pipeline: &Pipeline,
    flow: &Flow,
    headers: &Headers,
    known: &Known,
    at: impl Fn(HeaderId) -> Option<u64>,
    node: Node,
) -> Option<u64> {
    let mut bytes = 0;
    for header in emitted(pipeline, flow, known, node)? {
        if at(header) != Some(bytes) || headers.varbit[header.index()].is_some() {
            return None;
        }
        bytes += u64::from(headers.bytes[header.index()]);
    }
    Some(bytes)
}

/// The headers that a deparser emits that does nothing else, if it is known which are there.
fn emitted(pipeline: &Pipeline, flow: &Flow, known: &Known, node: Node) -> Option<Vec<HeaderId>> {
    let Step::Block(control, block) = flow.nodes[node] else { return None };
    let data = &pipeline.controls[ir::ControlId(control as u32)].body.blocks[block];
    if !matches!(data.term.as_ref().map(|term| &term.term), Some(Term::Return)) {
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
