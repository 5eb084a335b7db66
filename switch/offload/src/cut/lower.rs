//! The half that goes on: takes up what a packet had at its stop.

use super::Options;
use super::bridge::Bridge;
use super::code::{add_metadata, drop, nothing};
use super::fate::Fate;
use super::upper::STOP;
use ir::{Block, Body, BodyBuilder, Const, ControlId, ControlKind, HeaderId, Loc, Pipeline, Type, VarId};

/// Makes it out of the whole pipeline, whose blocks `places` begin with a stop each.
pub fn make(
    mut p: Pipeline,
    control: ControlId,
    places: &[Block],
    (bridge, fate): (&Bridge, Option<&Fate>),
    options: Options,
) -> Pipeline {
    let header = bridge.declare(&mut p);
    p.name = format!("{}_lower", p.name);
    let ours = add_metadata(&mut p, "bridged", Type::Bool);
    let ids: Vec<ControlId> = p.controls.keys().collect();
    for id in ids {
        match p.controls[id].kind {
            ControlKind::Parser | ControlKind::MainParser => {
                p.controls[id].body = parser(&p, bridge, header, ours, options);
            }
            // Done in front of the stop; what came out is carried.
            ControlKind::VerifyChecksum | ControlKind::PreControl => p.controls[id].body = nothing(),
            _ => {}
        }
    }
    let body = std::mem::take(&mut p.controls[control].body);
    p.controls[control].body = resume(&p, body, places, (bridge, fate), (header, ours));
    p
}

fn parser(p: &Pipeline, bridge: &Bridge, header: HeaderId, ours: VarId, options: Options) -> Body {
    let mut b = BodyBuilder::new();
    if let Some(start) = b.current() {
        b.add_state("start", start, Loc::default());
    }
    b.extract(header);
    let is_ours = bridge.is_ours(p, header, options.key, &mut b);
    let (good, bad) = (b.create_block(), b.create_block());
    b.branch(is_ours, good, bad);
    b.switch_to(bad);
    b.ret();
    b.switch_to(good);
    b.add_state("headers", good, Loc::default());
    for (n, carried) in bridge.headers.iter().enumerate() {
        let there = bridge.has(p, header, n, &mut b);
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

/// Goes on where the packet stopped. A packet that nobody bridged is dropped.
fn resume(
    p: &Pipeline,
    body: Body,
    places: &[Block],
    (bridge, fate): (&Bridge, Option<&Fate>),
    (header, ours): (HeaderId, VarId),
) -> Body {
    let mut b = BodyBuilder::over(body);
    let (entry, dispatch, refuse) = (b.create_block(), b.create_block(), b.create_block());
    b.switch_to(entry);
    let is_ours = b.load(p, ours);
    b.branch(is_ours, dispatch, refuse);
    b.switch_to(refuse);
    b.set_invalid(header);
    drop(p, &mut b);
    b.ret();
    let mut cases = Vec::new();
    for (stop, place) in places.iter().enumerate() {
        let block = b.create_block();
        b.switch_to(block);
        bridge.restore(p, header, stop, &mut b);
        b.set_invalid(header);
        match fate.filter(|fate| fate.said[stop]) {
            Some(fate) => fate.again(p, *place, &mut b),
            None => b.jump(*place),
        }
        cases.push((Const::new(STOP, stop as u32), block));
    }
    b.switch_to(dispatch);
    let stop = bridge.stop(p, header, &mut b);
    b.switch(stop, cases, refuse);
    let mut body = b.finish();
    body.entry = Some(entry);
    body
}
