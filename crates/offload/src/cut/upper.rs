//! The half that begins: at a stop, a packet leaves with a bridge header.

use super::Options;
use super::bridge::Bridge;
use ir::{
    Arch, Arg, Block, Body, BodyBuilder, ControlId, ControlKind, ExternFn, HeaderId, Pipeline, Term, TermData, Type,
};

/// Makes it out of the whole pipeline, whose blocks `places` begin with a stop each.
pub fn make(mut p: Pipeline, control: ControlId, places: &[Block], bridge: &Bridge, options: Options) -> Pipeline {
    let header = bridge.declare(&mut p);
    p.name = format!("{}_upper", p.name);
    let body = std::mem::take(&mut p.controls[control].body);
    p.controls[control].body = leave(&p, body, places, bridge, header, options);
    let others: Vec<ControlId> = p.controls.keys().collect();
    for id in others {
        let kind = p.controls[id].kind;
        let emitted: &[HeaderId] = match kind {
            ControlKind::Deparser | ControlKind::MainDeparser => &bridge.headers,
            ControlKind::Egress | ControlKind::ComputeChecksum => &[],
            _ => continue,
        };
        let body = std::mem::take(&mut p.controls[id].body);
        let deparses = matches!(kind, ControlKind::Deparser | ControlKind::MainDeparser);
        p.controls[id].body = pass_by(body, header, deparses.then_some(emitted));
    }
    p
}

/// At each stop: fill the bridge header, and send the packet down.
fn leave(p: &Pipeline, mut body: Body, places: &[Block], bridge: &Bridge, header: HeaderId, options: Options) -> Body {
    for (stop, place) in places.iter().enumerate() {
        body.blocks[*place].insts.clear();
        body.blocks[*place].term = None;
        let mut b = BodyBuilder::over(body);
        b.switch_to(*place);
        bridge.fill(p, header, stop, options.key, &mut b);
        match p.arch {
            Arch::Pna => {
                let port = b.bits(32, options.down_port);
                b.call(None, ExternFn::SendToPort, vec![Arg::Value(port)], &[]);
            }
            Arch::V1Model => {
                for (name, value) in [("egress_spec", options.down_port), ("mcast_grp", 0)] {
                    if let Some(var) = p.intrinsics.get(&format!("standard_metadata.{name}")) {
                        let value = b.bits(p.vars[*var].ty.width(), value);
                        b.store(*var, value);
                    }
                }
            }
        }
        b.ret();
        body = b.finish();
    }
    body
}

/// A packet with a bridge header passes a control by; in a deparser, the bridge header and those that it names are emitted.
fn pass_by(body: Body, header: HeaderId, emitted: Option<&[HeaderId]>) -> Body {
    let Some(old) = body.entry else { return body };
    let mut b = BodyBuilder::over(body);
    let (entry, bridged) = (b.create_block(), b.create_block());
    b.switch_to(entry);
    let valid = b.is_valid(header);
    b.branch(valid, bridged, old);
    b.switch_to(bridged);
    if let Some(headers) = emitted {
        b.emit(header);
        headers.iter().for_each(|header| b.emit(*header));
    }
    b.ret();
    let mut body = b.finish();
    body.entry = Some(entry);
    body
}

/// A body that does nothing.
pub fn nothing() -> Body {
    let mut body = Body::default();
    let data =
        ir::BlockData { term: Some(TermData { term: Term::Return, loc: ir::Loc::default() }), ..Default::default() };
    body.entry = Some(body.blocks.push(data));
    body
}

/// Type of the number of a stop.
pub const STOP: Type = Type::Bit(8);
