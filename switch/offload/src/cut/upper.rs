//! The half that begins: at a stop, a packet leaves with a bridge header.

use super::Options;
use super::bridge::Bridge;
use super::code::{add_metadata, drop, send};
use ir::{
    Arm, BinaryOp, Block, BlockCall, Body, BodyBuilder, ControlId, ControlKind, ExternFn, HeaderId, Inst, InstData,
    Loc, Pipeline, Term, TermData, Type, Value, VarId,
};

/// A block that begins with a stop.
pub struct Place {
    /// The block.
    pub block: Block,
    /// Whether it is a table application that only packets without an entry stop at.
    pub hot: bool,
}

/// What all controls must know of.
struct Half<'a> {
    bridge: &'a Bridge,
    header: HeaderId,
    /// Whether the packet came back, and was taken out of its bridge header.
    back: VarId,
    /// The length of the packet in this pass, if it may be another one than that with which it came.
    length: Option<VarId>,
    /// What the deparser emits, if that is all that it does and what goes down comes in the same order: then it does the same for packets that go down.
    emitted: Option<Vec<HeaderId>>,
    options: Options,
}

/// Makes it out of the whole pipeline, whose blocks `places` begin with a stop each.
pub fn make(mut p: Pipeline, control: ControlId, places: &[Place], bridge: &Bridge, options: Options) -> Pipeline {
    let header = bridge.declare(&mut p);
    p.name = format!("{}_upper", p.name);
    let back = add_metadata(&mut p, "back", Type::Bool);
    let length = recirculates(&p).then(|| add_metadata(&mut p, "length", Type::Bit(16)));
    let emitted = emitted(&p).filter(|all| in_order(&bridge.headers, all));
    let half = Half { bridge, header, back, length, emitted, options };
    let body = std::mem::take(&mut p.controls[control].body);
    let body = half.leave(&p, body, places);
    for place in places.iter().filter(|place| place.hot) {
        if let Some(Term::Apply { table, .. }) = body.blocks[place.block].term.as_ref().map(|term| &term.term) {
            // Which of its entries are here is chosen later.
            p.tables[*table].entries.clear();
        }
    }
    p.controls[control].body = half.take_back(&p, body);
    let others: Vec<ControlId> = p.controls.keys().filter(|id| *id != control).collect();
    for id in others {
        let body = std::mem::take(&mut p.controls[id].body);
        p.controls[id].body = match p.controls[id].kind {
            ControlKind::Parser | ControlKind::MainParser => half.parse(&p, body),
            ControlKind::Deparser | ControlKind::MainDeparser if half.emitted.is_some() => half.emit_first(body),
            ControlKind::Deparser | ControlKind::MainDeparser => half.pass_by(&p, body, Some(&bridge.headers)),
            ControlKind::Egress | ControlKind::ComputeChecksum => half.pass_by(&p, body, None),
            ControlKind::VerifyChecksum => half.not_from_below(body),
            _ => body,
        };
    }
    p
}

impl Half<'_> {
    /// At each stop: fill the bridge header, and send the packet down.
    fn leave(&self, p: &Pipeline, mut body: Body, places: &[Place]) -> Body {
        for (stop, place) in places.iter().enumerate() {
            let applied = body.blocks[place.block].term.take().filter(|_| place.hot);
            let insts = std::mem::take(&mut body.blocks[place.block].insts);
            let mut b = BodyBuilder::over(body);
            let down = if place.hot { b.create_block() } else { place.block };
            b.switch_to(down);
            self.bridge.fill(p, self.header, stop, self.options.key, &mut b);
            if let Some(length) = self.length {
                let value = b.load(p, length);
                b.store(self.bridge.length_field(p, self.header), value);
            }
            let all = self.emitted.iter().flatten();
            all.filter(|header| !self.bridge.headers.contains(header)).for_each(|header| b.set_invalid(*header));
            let port = b.bits(32, self.options.down_port);
            send(p, port, &mut b);
            b.ret();
            body = b.finish();
            if let Some(TermData { term: Term::Apply { table, keys, arms }, loc }) = applied {
                let mut b = BodyBuilder::over(body);
                let arms = arms.iter().map(|arm| hit_only(&mut b, arm, down)).collect();
                body = b.finish();
                let found = TermData { term: Term::Apply { table, keys, arms }, loc };
                (body.blocks[place.block].insts, body.blocks[place.block].term) = (insts, Some(found));
            }
        }
        body
    }

    /// Whether the packet came from below, by the port.
    fn came_from_below(&self, p: &Pipeline, names: &[&str], b: &mut BodyBuilder) -> Option<Value> {
        let port = names.iter().find_map(|name| p.intrinsics.get(*name))?;
        let found = b.load(p, *port);
        let below = b.bits(p.vars[*port].ty.width(), self.options.down_port);
        Some(b.eq(found, below))
    }

    /// On the port that leads down there are packets in bridge headers, and nothing else.
    fn parse(&self, p: &Pipeline, body: Body) -> Body {
        let port = |b: &mut BodyBuilder| {
            let below = self.came_from_below(p, &["standard_metadata.ingress_port", "parser_istd.input_port"], b)?;
            b.current().into_iter().for_each(|entry| b.add_state("terrace_port", entry, Loc::default()));
            if let Some(length) = self.length {
                let bytes = b.packet_length();
                let bytes = b.cast(Type::Bit(16), bytes);
                b.store(length, bytes);
            }
            Some(below)
        };
        instead(body, port, |b| {
            b.current().into_iter().for_each(|block| b.add_state("terrace_back", block, Loc::default()));
            b.extract(self.header);
        })
    }

    /// A packet that comes back leaves as it is, on the port that its bridge header names; others of that port are dropped.
    fn take_back(&self, p: &Pipeline, body: Body) -> Body {
        let port =
            |b: &mut BodyBuilder| self.came_from_below(p, &["standard_metadata.ingress_port", "istd.input_port"], b);
        instead(body, port, |b| {
            let [good, bad] = [(); 2].map(|()| b.create_block());
            let valid = b.is_valid(self.header);
            let ours = self.bridge.is_ours(p, self.header, self.options.key, b);
            let back = self.bridge.comes_back(p, self.header, b);
            let ours = b.binary(BinaryOp::And, valid, ours);
            let ours = b.binary(BinaryOp::And, ours, back);
            b.branch(ours, good, bad);
            b.switch_to(good);
            let port = self.bridge.port(p, self.header, b);
            b.set_invalid(self.header);
            let yes = b.bool(true);
            b.store(self.back, yes);
            send(p, port, b);
            b.ret();
            b.switch_to(bad);
            b.set_invalid(self.header);
            drop(p, b);
        })
    }

    /// A packet that goes down or came back passes a control by; in a deparser, the bridge header and those that it names are emitted.
    fn pass_by(&self, p: &Pipeline, body: Body, emitted: Option<&[HeaderId]>) -> Body {
        let by = |b: &mut BodyBuilder| {
            let (valid, back) = (b.is_valid(self.header), b.load(p, self.back));
            Some(b.binary(BinaryOp::Or, valid, back))
        };
        instead(body, by, |b| {
            // What is not valid is not emitted: of a packet that came back, nothing.
            for header in emitted.map(|headers| [&[self.header], headers].concat()).unwrap_or_default() {
                b.emit(header);
            }
        })
    }

    /// A deparser that only emits: the bridge header comes first, if there is one. What is not needed below is not valid any more, and a packet that came back
    /// has no header.
    fn emit_first(&self, mut body: Body) -> Body {
        if let Some(entry) = body.entry {
            body.blocks[entry].insts.insert(0, InstData::new(Inst::Emit(self.header), Vec::new()));
        }
        body
    }

    /// A packet from below passes by: it has none of the program's headers.
    fn not_from_below(&self, body: Body) -> Body {
        instead(body, |b| Some(b.is_valid(self.header)), |_| ())
    }
}

/// A body that does something else, and returns, where a condition holds. Without a condition it begins as it did.
fn instead(
    body: Body,
    condition: impl FnOnce(&mut BodyBuilder) -> Option<Value>,
    other: impl FnOnce(&mut BodyBuilder),
) -> Body {
    let Some(old) = body.entry else { return body };
    let mut b = BodyBuilder::over(body);
    let (entry, block) = (b.create_block(), b.create_block());
    b.switch_to(entry);
    let holds = condition(&mut b);
    if let Some(holds) = holds {
        b.branch(holds, block, old);
        b.switch_to(block);
        other(&mut b);
        b.ret();
    }
    let mut body = b.finish();
    body.entry = Some(if holds.is_some() { entry } else { old });
    body
}

/// The headers that the deparser emits one after the other, if it does nothing else.
fn emitted(p: &Pipeline) -> Option<Vec<HeaderId>> {
    let deparses = |kind| matches!(kind, ControlKind::Deparser | ControlKind::MainDeparser);
    let body = &p.controls.values().find(|control| deparses(control.kind))?.body;
    let data = &body.blocks[body.entry?];
    let ends = matches!(data.term.as_ref()?.term, Term::Return);
    let header = |data: &InstData| if let Inst::Emit(header) = data.inst { Some(header) } else { None };
    let all: Option<Vec<HeaderId>> = data.insts.iter().map(header).collect();
    all.filter(|all| ends && (1..all.len()).all(|n| !all[..n].contains(&all[n])))
}

/// Whether these come in that order, each once.
fn in_order(some: &[HeaderId], all: &[HeaderId]) -> bool {
    let mut rest = all.iter();
    some.iter().all(|header| rest.any(|other| other == header))
}

/// Whether packets come in again that the program has changed.
fn recirculates(p: &Pipeline) -> bool {
    p.insts()
        .any(|data| matches!(data.inst, Inst::Extern { func: ExternFn::Recirculate | ExternFn::PnaRecirculate, .. }))
}

/// An arm that goes on only where an entry was found, and down where none was.
fn hit_only(b: &mut BodyBuilder, arm: &Arm, down: Block) -> Arm {
    let types: Vec<Type> = b.body().blocks[arm.block].params.iter().map(|param| b.body().value_type(*param)).collect();
    let block = b.create_block();
    let args: Vec<Value> = types.into_iter().map(|ty| b.append_param(block, ty)).collect();
    b.switch_to(block);
    if let Some(hit) = args.first().copied() {
        let on = BlockCall { block: arm.block, args };
        b.branch_with(hit, on, BlockCall::to(down));
    }
    Arm { action: arm.action, block }
}

/// Type of the number of a stop.
pub const STOP: Type = Type::Bit(8);
