//! Upper half: at a cut point, a packet leaves with a bridge header.

use super::PartitionOptions;
use super::bridge::BridgeHeader;
use super::code::{MAIN_PORTS, PARSER_PORTS, add_metadata, arrived_on, branch_before, drop_packet, send_to_port};
use super::cut_point::CutBlock;
use super::restart::{SavedHeaders, emitted_headers};
use super::tables;
use ir::{
    ActionArm, BinaryOp, Block, BlockCall, Body, BodyBuilder, ControlId, ControlKind, ExternFn, HeaderId, Inst,
    InstData, Pipeline, SourceLoc, Terminator, TerminatorData, Type, Value, VarId,
};

/// Builder of the upper half.
struct UpperHalfBuilder<'a> {
    bridge: &'a BridgeHeader,
    header: HeaderId,
    /// Variable: the packet returned and its bridge header was removed.
    back: VarId,
    /// Length of the packet in this pass, if it can differ from its length at arrival.
    length: Option<VarId>,
    /// Headers that the deparser emits, if it does nothing else and the carried headers have the
    /// same order. It then also emits packets to the lower tier.
    emitted: Option<Vec<HeaderId>>,
    /// Headers of packets that restart below, as they arrived.
    saved: SavedHeaders,
    options: PartitionOptions,
}

/// Builds the upper half from the whole pipeline, in which the blocks `cut_blocks` start at the cut
/// points.
pub fn build_upper_half(
    mut p: Pipeline,
    control: ControlId,
    cut_blocks: &[CutBlock],
    bridge: &BridgeHeader,
    options: PartitionOptions,
) -> Pipeline {
    let header = bridge.declare(&mut p);
    p.name = format!("{}_upper", p.name);
    let returned_flag = add_metadata(&mut p, "back", Type::Bool);
    let length = recirculates(&p).then(|| add_metadata(&mut p, "length", Type::Bit(16)));
    let emitted = emitted_headers(&p).filter(|all| is_subsequence(&bridge.headers, all));
    let saved = SavedHeaders::save(&mut p, control, cut_blocks);
    let builder = UpperHalfBuilder { bridge, header, back: returned_flag, length, emitted, saved, options };
    let body = std::mem::take(&mut p.controls[control].body);
    let restarted_by_call = tables::restarted_by_call(&body);
    let mut body = builder.send_down_at_cut_points(&p, body, cut_blocks);
    for cut_block in cut_blocks.iter().filter(|cut_block| cut_block.is_hot_miss) {
        if let Some(table) = body.blocks[cut_block.block].applied_table() {
            // The entries of the upper tier are chosen later.
            p.tables[table].entries.clear();
            if p.tables[table].add_on_miss {
                tables::make_read_only(&mut p, &mut body, table, restarted_by_call.contains(&table));
            }
        }
    }
    p.controls[control].body = builder.forward_returned(&p, body);
    let others: Vec<ControlId> = p.controls.keys().filter(|id| *id != control).collect();
    for id in others {
        let body = std::mem::take(&mut p.controls[id].body);
        p.controls[id].body = match p.controls[id].kind {
            ControlKind::Parser | ControlKind::MainParser => builder.parse_returned(&p, body),
            ControlKind::Deparser | ControlKind::MainDeparser if builder.emitted.is_some() => {
                builder.emit_bridge_first(body)
            }
            ControlKind::Deparser | ControlKind::MainDeparser => {
                builder.bypass_control(&p, body, Some(&bridge.headers))
            }
            ControlKind::Egress | ControlKind::ComputeChecksum => builder.bypass_control(&p, body, None),
            ControlKind::VerifyChecksum => builder.skip_for_returned(body),
            _ => body,
        };
    }
    p
}

impl UpperHalfBuilder<'_> {
    /// Emits at each cut point the bridge header and the verdict that sends the packet down.
    fn send_down_at_cut_points(&self, p: &Pipeline, mut body: Body, cut_blocks: &[CutBlock]) -> Body {
        for (cut_number, cut_block) in cut_blocks.iter().enumerate() {
            let applied = body.blocks[cut_block.block].term.take().filter(|_| cut_block.is_hot_miss);
            let insts = std::mem::take(&mut body.blocks[cut_block.block].insts);
            let mut b = BodyBuilder::resume(body);
            let send_block = if cut_block.is_hot_miss { b.create_block() } else { cut_block.block };
            b.switch_to(send_block);
            match cut_block.is_restart() {
                true => {
                    self.saved.restore(&mut b);
                    self.bridge.write_empty_header(p, self.header, cut_number, self.options.key, &mut b);
                }
                false => self.bridge.write_header(p, self.header, cut_number, self.options.key, &mut b),
            }
            if let Some(length) = self.length {
                let value = b.load(p, length);
                b.store(self.bridge.length_field(p, self.header), value);
            }
            let emitted = self.emitted.iter().flatten().filter(|_| !cut_block.is_restart());
            emitted.filter(|header| !self.bridge.headers.contains(header)).for_each(|header| b.set_invalid(*header));
            let port = b.bits(32, self.options.lower_port);
            send_to_port(p, port, &mut b);
            b.ret();
            body = b.finish();
            if let Some(TerminatorData { term: Terminator::Apply { table, keys, arms }, loc }) = applied {
                let mut b = BodyBuilder::resume(body);
                let arms = arms.iter().map(|arm| hit_only_arm(&mut b, arm, send_block)).collect();
                body = b.finish();
                let lookup = TerminatorData { term: Terminator::Apply { table, keys, arms }, loc };
                (body.blocks[cut_block.block].insts, body.blocks[cut_block.block].term) = (insts, Some(lookup));
            }
        }
        body
    }

    /// Makes the parser extract a bridge header on the down port, and nothing else.
    fn parse_returned(&self, p: &Pipeline, body: Body) -> Body {
        let port = |b: &mut BodyBuilder| {
            let below = arrived_on(p, self.options.lower_port, &PARSER_PORTS, b)?;
            b.current().into_iter().for_each(|entry| b.add_state("terrace_port", entry, SourceLoc::default()));
            if let Some(length) = self.length {
                let bytes = b.packet_length();
                let bytes = b.cast(Type::Bit(16), bytes);
                b.store(length, bytes);
            }
            Some(below)
        };
        branch_before(body, port, |b| {
            b.current().into_iter().for_each(|block| b.add_state("terrace_back", block, SourceLoc::default()));
            b.extract(self.header);
        })
    }

    /// Sends a returned packet to the port in its bridge header; drops other packets on the down
    /// port.
    fn forward_returned(&self, p: &Pipeline, body: Body) -> Body {
        let port = |b: &mut BodyBuilder| arrived_on(p, self.options.lower_port, &MAIN_PORTS, b);
        branch_before(body, port, |b| {
            let [forward, drop] = [(); 2].map(|()| b.create_block());
            let valid = b.is_valid(self.header);
            let is_ours = self.bridge.has_our_key(p, self.header, self.options.key, b);
            let is_back = self.bridge.is_returned(p, self.header, b);
            let is_ours = b.binary(BinaryOp::And, valid, is_ours);
            let is_ours = b.binary(BinaryOp::And, is_ours, is_back);
            b.branch(is_ours, forward, drop);
            b.switch_to(forward);
            let port = self.bridge.load_return_port(p, self.header, b);
            b.set_invalid(self.header);
            let true_value = b.bool(true);
            b.store(self.back, true_value);
            send_to_port(p, port, b);
            b.ret();
            b.switch_to(drop);
            b.set_invalid(self.header);
            drop_packet(p, b);
        })
    }

    /// Makes packets that go down or returned bypass a control. In a deparser, emits the bridge
    /// header and the given headers.
    fn bypass_control(&self, p: &Pipeline, body: Body, emitted: Option<&[HeaderId]>) -> Body {
        let by = |b: &mut BodyBuilder| {
            let (valid, back) = (b.is_valid(self.header), b.load(p, self.back));
            Some(b.binary(BinaryOp::Or, valid, back))
        };
        branch_before(body, by, |b| {
            // Invalid headers are not emitted; a returned packet has no valid ones.
            for header in emitted.map(|headers| [&[self.header], headers].concat()).unwrap_or_default() {
                b.emit(header);
            }
        })
    }

    /// Emits the bridge header first in a deparser that only emits. Headers not needed in the lower
    /// half are invalid, and a returned packet has no valid headers.
    fn emit_bridge_first(&self, mut body: Body) -> Body {
        if let Some(entry) = body.entry {
            body.blocks[entry].insts.insert(0, InstData::new(Inst::Emit(self.header), Vec::new()));
        }
        body
    }

    /// Skips a control for returned packets, because they have none of the program's headers.
    fn skip_for_returned(&self, body: Body) -> Body {
        branch_before(body, |b| Some(b.is_valid(self.header)), |_| ())
    }
}

/// Returns whether a list is a subsequence of another one.
fn is_subsequence(some: &[HeaderId], all: &[HeaderId]) -> bool {
    let mut rest = all.iter();
    some.iter().all(|header| rest.any(|other| other == header))
}

/// Returns whether the program recirculates packets, which can change their length.
fn recirculates(p: &Pipeline) -> bool {
    p.insts()
        .any(|data| matches!(data.inst, Inst::Extern { func: ExternFn::Recirculate | ExternFn::PnaRecirculate, .. }))
}

/// Adds an arm that continues on a hit and goes down on a miss.
fn hit_only_arm(b: &mut BodyBuilder, arm: &ActionArm, down: Block) -> ActionArm {
    let types: Vec<Type> = b.body().blocks[arm.block].params.iter().map(|param| b.body().value_type(*param)).collect();
    let block = b.create_block();
    let args: Vec<Value> = types.into_iter().map(|ty| b.append_param(block, ty)).collect();
    b.switch_to(block);
    if let Some(hit) = args.first().copied() {
        let on = BlockCall { block: arm.block, args };
        b.branch_with(hit, on, BlockCall::to(down));
    }
    ActionArm { action: arm.action, block }
}

/// Type of a cut point's number.
pub const CUT_POINT_TYPE: Type = Type::Bit(8);
