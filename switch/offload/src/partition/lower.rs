//! Lower half: continues a packet at its cut point.

use super::PartitionOptions;
use super::bridge::BridgeHeader;
use super::carried_verdict::CarriedVerdict;
use super::code::{add_metadata, drop_packet, empty_body};
use super::upper::CUT_POINT_TYPE;
use ir::{Block, Body, BodyBuilder, Const, ControlId, ControlKind, HeaderId, Pipeline, SourceLoc, Type, VarId};

/// Builds the lower half from the whole pipeline, in which the blocks `cut_blocks` start at the cut
/// points.
pub fn build_lower_half(
    mut p: Pipeline,
    control: ControlId,
    cut_blocks: &[Block],
    (bridge, verdict): (&BridgeHeader, Option<&CarriedVerdict>),
    options: PartitionOptions,
) -> Pipeline {
    let header = bridge.declare(&mut p);
    p.name = format!("{}_lower", p.name);
    let bridged_flag = add_metadata(&mut p, "bridged", Type::Bool);
    let ids: Vec<ControlId> = p.controls.keys().collect();
    for id in ids {
        match p.controls[id].kind {
            ControlKind::Parser | ControlKind::MainParser => {
                p.controls[id].body = bridge_parser(&p, bridge, header, bridged_flag, options);
            }
            // Executed in the upper half; the results are carried.
            ControlKind::VerifyChecksum | ControlKind::PreControl => p.controls[id].body = empty_body(),
            _ => {}
        }
    }
    let body = std::mem::take(&mut p.controls[control].body);
    p.controls[control].body = resume_at_cut_points(&p, body, cut_blocks, (bridge, verdict), (header, bridged_flag));
    p
}

/// Returns the parser of the lower half: the bridge header, then the packet's headers that it lists
/// as valid. `bridged_flag` is set if the header has this switch's key; other packets end
/// here.
fn bridge_parser(
    p: &Pipeline,
    bridge: &BridgeHeader,
    header: HeaderId,
    bridged_flag: VarId,
    options: PartitionOptions,
) -> Body {
    let mut b = BodyBuilder::new();
    if let Some(start) = b.current() {
        b.add_state("start", start, SourceLoc::default());
    }
    b.extract(header);
    let is_ours = bridge.has_our_key(p, header, options.key, &mut b);
    let (accept, refuse) = (b.create_block(), b.create_block());
    b.branch(is_ours, accept, refuse);
    b.switch_to(refuse);
    b.ret();
    b.switch_to(accept);
    b.add_state("headers", accept, SourceLoc::default());
    for (n, carried) in bridge.headers.iter().enumerate() {
        let is_valid = bridge.is_header_valid(p, header, n, &mut b);
        let (extract, next) = (b.create_block(), b.create_block());
        b.branch(is_valid, extract, next);
        b.switch_to(extract);
        b.extract(*carried);
        b.jump(next);
        b.switch_to(next);
    }
    let true_value = b.bool(true);
    b.store(bridged_flag, true_value);
    b.ret();
    b.finish()
}

/// Resumes a packet at its cut point: restores the carried variables and jumps to the cut point's
/// block in `cut_blocks`. Packets without a bridge header are dropped.
fn resume_at_cut_points(
    p: &Pipeline,
    body: Body,
    cut_blocks: &[Block],
    (bridge, verdict): (&BridgeHeader, Option<&CarriedVerdict>),
    (header, bridged_flag): (HeaderId, VarId),
) -> Body {
    let mut b = BodyBuilder::resume(body);
    let (entry, dispatch, refuse) = (b.create_block(), b.create_block(), b.create_block());
    b.switch_to(entry);
    let is_ours = b.load(p, bridged_flag);
    b.branch(is_ours, dispatch, refuse);
    b.switch_to(refuse);
    b.set_invalid(header);
    drop_packet(p, &mut b);
    b.ret();
    let mut cases = Vec::new();
    for (cut_number, cut_block) in cut_blocks.iter().enumerate() {
        let block = b.create_block();
        b.switch_to(block);
        bridge.restore_vars(p, header, cut_number, &mut b);
        b.set_invalid(header);
        match verdict.filter(|verdict| verdict.may_be_decided[cut_number]) {
            Some(verdict) => verdict.replay_verdict(p, *cut_block, &mut b),
            None => b.jump(*cut_block),
        }
        cases.push((Const::new(CUT_POINT_TYPE, cut_number as u32), block));
    }
    b.switch_to(dispatch);
    let cut_number = bridge.load_cut_point(p, header, &mut b);
    b.switch(cut_number, cases, refuse);
    let mut body = b.finish();
    body.entry = Some(entry);
    body
}
