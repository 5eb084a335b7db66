//! Lower half: continues a packet at its cut point.

use super::PartitionOptions;
use super::bridge::BridgeHeader;
use super::carried_verdict::CarriedVerdict;
use super::code::{add_metadata, drop_packet, empty_body};
use super::upper::CUT_POINT_TYPE;
use ir::{Block, Body, BodyBuilder, Const, ControlId, ControlKind, HeaderId, Pipeline, SourceLoc, Type, VarId};

/// Builds the lower half from the whole pipeline, in which the blocks `places` start at the cut
/// points.
pub fn build_lower_half(
    mut p: Pipeline,
    control: ControlId,
    places: &[Block],
    (bridge, fate): (&BridgeHeader, Option<&CarriedVerdict>),
    options: PartitionOptions,
) -> Pipeline {
    let header = bridge.declare(&mut p);
    p.name = format!("{}_lower", p.name);
    let ours = add_metadata(&mut p, "bridged", Type::Bool);
    let ids: Vec<ControlId> = p.controls.keys().collect();
    for id in ids {
        match p.controls[id].kind {
            ControlKind::Parser | ControlKind::MainParser => {
                p.controls[id].body = bridge_parser(&p, bridge, header, ours, options);
            }
            // Executed in the upper half; the results are carried.
            ControlKind::VerifyChecksum | ControlKind::PreControl => p.controls[id].body = empty_body(),
            _ => {}
        }
    }
    let body = std::mem::take(&mut p.controls[control].body);
    p.controls[control].body = resume_at_cut_points(&p, body, places, (bridge, fate), (header, ours));
    p
}

fn bridge_parser(
    p: &Pipeline,
    bridge: &BridgeHeader,
    header: HeaderId,
    ours: VarId,
    options: PartitionOptions,
) -> Body {
    let mut b = BodyBuilder::new();
    if let Some(start) = b.current() {
        b.add_state("start", start, SourceLoc::default());
    }
    b.extract(header);
    let is_ours = bridge.has_our_key(p, header, options.key, &mut b);
    let (good, bad) = (b.create_block(), b.create_block());
    b.branch(is_ours, good, bad);
    b.switch_to(bad);
    b.ret();
    b.switch_to(good);
    b.add_state("headers", good, SourceLoc::default());
    for (n, carried) in bridge.headers.iter().enumerate() {
        let there = bridge.is_header_valid(p, header, n, &mut b);
        let (take, next) = (b.create_block(), b.create_block());
        b.branch(there, take, next);
        b.switch_to(take);
        b.extract(*carried);
        b.jump(next);
        b.switch_to(next);
    }
    let yes = b.bool(true);
    b.store(ours, yes);
    b.ret();
    b.finish()
}

/// Resumes a packet at its cut point. Packets without a bridge header are dropped.
fn resume_at_cut_points(
    p: &Pipeline,
    body: Body,
    places: &[Block],
    (bridge, fate): (&BridgeHeader, Option<&CarriedVerdict>),
    (header, ours): (HeaderId, VarId),
) -> Body {
    let mut b = BodyBuilder::resume(body);
    let (entry, dispatch, refuse) = (b.create_block(), b.create_block(), b.create_block());
    b.switch_to(entry);
    let is_ours = b.load(p, ours);
    b.branch(is_ours, dispatch, refuse);
    b.switch_to(refuse);
    b.set_invalid(header);
    drop_packet(p, &mut b);
    b.ret();
    let mut cases = Vec::new();
    for (stop, place) in places.iter().enumerate() {
        let block = b.create_block();
        b.switch_to(block);
        bridge.restore_vars(p, header, stop, &mut b);
        b.set_invalid(header);
        match fate.filter(|fate| fate.may_be_decided[stop]) {
            Some(fate) => fate.replay_verdict(p, *place, &mut b),
            None => b.jump(*place),
        }
        cases.push((Const::new(CUT_POINT_TYPE, stop as u32), block));
    }
    b.switch_to(dispatch);
    let stop = bridge.load_cut_point(p, header, &mut b);
    b.switch(stop, cases, refuse);
    let mut body = b.finish();
    body.entry = Some(entry);
    body
}
