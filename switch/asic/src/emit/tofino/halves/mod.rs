//! A program over both halves of a pipe: ingress up to a cut behind which the packet's port is decided, egress from there on.
//!
//! Between them a packet is bytes. In front of it ingress puts bridge headers with what is live at the cut (`place`), and which of the
//! headers there are (`shapes`); the egress parser takes the packet apart again by that, as far as egress touches it. Metadata that is
//! carried *is* the bridge header's field from the beginning, so that nothing is copied at the cut.
//!
//! | file | decides |
//! |---|---|
//! | `place` | where to cut, and what is carried |
//! | `shapes` | which sets of headers packets can have there |
//! | `kept` | which headers egress takes apart |
//! | `bridge` | the bridge header, and the variables that become its fields |

mod bridge;
mod kept;
mod place;
mod shapes;

use super::preparer::Deparsed;
use crate::emit::mentions::Mentions;
use bridge::Bridge;
use ir::*;
use kept::Kept;
use place::{Counters, Place, Ways, func};
pub(super) use place::{behind, between};
use std::collections::BTreeSet;

/// Name of the architecture's bit that keeps a packet from egress.
pub(in crate::emit) const BYPASS: &str = "ig_tm_md.bypass_egress";

/// A pipeline that is ingress and egress.
pub(in crate::emit) struct Halves {
    /// With controls of the kinds `Parser`, `Egress` and `Deparser` for egress.
    pub(in crate::emit) pipeline: Pipeline,
    /// Bytes of the bridge header.
    pub(in crate::emit) bytes: u32,
}

/// Bytes that the egress parser of Tofino 1 takes, with the chip's own metadata in front; later ones take more than programs have.
const EGRESS_DEPTH: u32 = 160;
/// Bytes of that metadata.
const EGRESS_INTRINSIC: u32 = 27;
/// Places that are looked at before there is none.
const MAX_PLACES: usize = 256;

/// How much of a packet an egress parser can take apart: bytes, from the bridge header on.
pub(in crate::emit) fn depth(target: crate::emit::Target) -> Option<u32> {
    (target == crate::emit::Target::Tna).then_some(EGRESS_DEPTH - EGRESS_INTRINSIC)
}

/// Splits a prepared pipeline; `hdr` is the headers' name, `depth` bounds what the egress parser takes apart. None if there is no place to
/// cut: nothing is behind the port's decision, or what is needs something that is not carried.
pub(in crate::emit) fn halves(p: &Pipeline, deparsed: &[Deparsed], hdr: &str, depth: Option<u32>) -> Option<Halves> {
    cut(p, deparsed, hdr, depth, Counters::OneHalf)
}

fn cut(p: &Pipeline, deparsed: &[Deparsed], hdr: &str, depth: Option<u32>, counters: Counters) -> Option<Halves> {
    let of = |kind| p.controls.iter().find(|(_, c)| c.kind == kind).map(|(id, _)| id);
    let (parser, main) = (of(ControlKind::MainParser)?, of(ControlKind::MainControl)?);
    let deparser = of(ControlKind::MainDeparser)?;
    let emitted = emitted(p, deparser)?;
    let places = place::places(p, main, deparser, &emitted, counters);
    places.into_iter().take(MAX_PLACES).find_map(|place| {
        let shapes = shapes::shapes(p, parser, main, place.block, place.at)?;
        let mut splitter = Splitter { p: p.clone(), main, parser, deparser, emitted: emitted.clone(), place };
        let (ingress, mut egress) = splitter.cut();
        let mut kept = Kept::new(&splitter.needed(&egress, deparsed), &shapes)?;
        splitter.fronts(&mut egress, deparsed, &mut kept, &shapes);
        let longest = kept.longest(&splitter.p, &shapes);
        let built = splitter.build(ingress, egress, hdr, &kept);
        let bytes = built.bytes + longest;
        depth.is_none_or(|depth| bytes <= depth).then_some(built)
    })
}

/// The two halves as programs of their own, in the order in which a packet meets them.
#[derive(Clone, Debug)]
pub struct Split {
    /// Ingress. A packet that goes on to egress has the bridge header in front; one for which the variable [`Split::BYPASS`] is set has not.
    pub ingress: Pipeline,
    /// Egress. Where the packet goes is decided already; it may drop it.
    pub egress: Pipeline,
    /// Bytes of the bridge header.
    pub bridge_bytes: u32,
}

impl Split {
    /// The variable that is 1 for packets that leave without egress.
    pub const BYPASS: &'static str = BYPASS;
}

/// Splits a PNA pipeline where [`crate::emit::emit_over`] would; none if there is no such place. A counter may be in both halves.
pub fn split(p: &Pipeline) -> Option<Split> {
    let hdr = crate::emit::names::Names::new(p, "", None).storage.hdr;
    let both = cut(p, &[], &hdr, None, Counters::Anywhere)?;
    let (mut ingress, mut egress) = (both.pipeline.clone(), both.pipeline);
    let keep = |p: &mut Pipeline, role: fn(ControlKind) -> Option<ControlKind>| {
        let mut controls = EntityMap::new();
        for control in std::mem::take(&mut p.controls).values() {
            if let Some(kind) = role(control.kind) {
                controls.push(Control { kind, ..control.clone() });
            }
        }
        p.controls = controls;
    };
    keep(&mut ingress, |kind| {
        let egress = matches!(kind, ControlKind::Parser | ControlKind::Egress | ControlKind::Deparser);
        (!egress).then_some(kind)
    });
    keep(&mut egress, |kind| match kind {
        ControlKind::Parser => Some(ControlKind::MainParser),
        ControlKind::Egress => Some(ControlKind::MainControl),
        ControlKind::Deparser => Some(ControlKind::MainDeparser),
        _ => None,
    });
    Some(Split { ingress, egress, bridge_bytes: both.bytes })
}

/// The headers that a deparser emits, in order; none if it does anything else.
fn emitted(p: &Pipeline, deparser: ControlId) -> Option<Vec<HeaderId>> {
    let body = &p.controls[deparser].body;
    let mut all = Vec::new();
    let mut at = body.entry?;
    loop {
        for inst in &body.blocks[at].insts {
            match inst.inst {
                Inst::Emit(header) if !all.contains(&header) => all.push(header),
                _ => return None,
            }
        }
        match &body.blocks[at].term.as_ref()?.term {
            Term::Jump(call) => at = call.block,
            _ => break,
        }
    }
    let varbit = |h: &HeaderId| p.headers[*h].fields.iter().any(|v| matches!(p.vars[*v].ty, Type::Varbit(_)));
    (!all.iter().any(varbit)).then_some(all)
}

struct Splitter {
    p: Pipeline,
    parser: ControlId,
    main: ControlId,
    deparser: ControlId,
    emitted: Vec<HeaderId>,
    place: Place,
}

impl Splitter {
    /// The control up to the cut, and from it on; the first block of that is empty.
    fn cut(&self) -> (Body, Body) {
        let (block, at) = (self.place.block, self.place.at);
        let mut ingress = self.p.controls[self.main].body.clone();
        let mut egress = ingress.clone();
        let loc = self.loc(&ingress);
        ingress.blocks[block].insts.truncate(at);
        ingress.blocks[block].term = Some(TermData { term: Term::Return, loc });
        let tail = BlockData {
            params: Vec::new(),
            insts: egress.blocks[block].insts.split_off(at),
            term: egress.blocks[block].term.take(),
        };
        let tail = egress.blocks.push(tail);
        let term = Term::Jump(BlockCall::to(tail));
        let first = BlockData { params: Vec::new(), insts: Vec::new(), term: Some(TermData { term, loc }) };
        egress.entry = Some(egress.blocks.push(first));
        ingress.empty_unreachable();
        egress.empty_unreachable();
        (ingress, egress)
    }

    /// Where the last instruction before the cut comes from: what is added there belongs to the same action.
    fn loc(&self, body: &Body) -> Loc {
        let before = &body.blocks[self.place.block].insts[..self.place.at];
        before.last().map(|i| i.loc).unwrap_or_default()
    }

    /// Headers that egress has to have: up to the last one that it looks at. Those behind it are payload.
    fn needed(&self, egress: &Body, deparsed: &[Deparsed]) -> Vec<HeaderId> {
        let mut touched = Mentions::of(&self.p, egress).headers;
        touched.extend(deparsed.iter().filter(|d| stores(egress, d.wanted)).filter_map(|d| {
            match self.p.vars[d.field].kind {
                VarKind::Field(header, _) => Some(header),
                _ => None,
            }
        }));
        let last = self.emitted.iter().rposition(|h| touched.contains(h));
        self.emitted[..last.map_or(0, |last| last + 1)].to_vec()
    }

    /// Of a header that comes last in its packets, egress needs no more than up to the last field that it looks at.
    fn fronts(&mut self, egress: &mut Body, deparsed: &[Deparsed], kept: &mut Kept, shapes: &BTreeSet<u64>) {
        let has = |shape: &u64, h: &HeaderId| shape >> h.index() & 1 == 1;
        let mentions = Mentions::of(&self.p, egress);
        let sums: Vec<&Deparsed> = deparsed.iter().filter(|d| stores(egress, d.wanted)).collect();
        let summed = |var: VarId| sums.iter().any(|d| d.field == var || d.over.contains(&var));
        for (n, header) in kept.needed.clone().into_iter().enumerate() {
            let behind = &kept.needed[n + 1..];
            let last = shapes.iter().filter(|s| has(s, &header)).all(|s| !behind.iter().any(|h| has(s, h)));
            let remade = egress.insts().any(|i| match &i.inst {
                Inst::SetValid(h) | Inst::SetInvalid(h) => *h == header,
                Inst::CopyHeader { dst, src } => *dst == header || *src == header,
                _ => false,
            });
            // A header behind it that egress makes would come before its rest.
            let made = |h: &HeaderId| egress.insts().any(|i| i.inst == Inst::SetValid(*h));
            if !last || remade || behind.iter().any(made) || !kept.parsed.contains(&header) {
                continue;
            }
            let fields = self.p.headers[header].fields.clone();
            let used = |var: &VarId| mentions.vars.contains(var) || summed(*var);
            let Some(until) = fields.iter().rposition(used) else { continue };
            let mut bits = 0;
            let ends = |(at, var): (usize, &VarId)| {
                bits += self.p.vars[*var].ty.width();
                (at >= until && bits % 8 == 0).then_some(at + 1)
            };
            let Some(count) = fields.iter().enumerate().find_map(ends).filter(|count| *count < fields.len()) else {
                continue;
            };
            let front = bridge::front(&mut self.p, header, count);
            let to = self.p.headers[front].fields.clone();
            fields.iter().zip(to).for_each(|(from, to)| replace(egress, *from, to));
            for inst in egress.blocks.values_mut().flat_map(|b| &mut b.insts) {
                if inst.inst == Inst::IsValid(header) {
                    inst.inst = Inst::IsValid(front);
                }
            }
            kept.fronts.insert(header, front);
        }
    }

    fn build(mut self, mut ingress: Body, mut egress: Body, hdr: &str, kept: &Kept) -> Halves {
        let original = self.p.controls[self.main].body.clone();
        let mut bridge = Bridge::new(hdr);
        let shape = (!kept.varying.is_empty()).then(|| bridge.field(&mut self.p, "headers", Type::Bit(8)));
        let loc = self.loc(&original);
        let (mut leave, mut enter) = (Vec::new(), Vec::new());
        let fixed = self.fixed();
        for var in self.place.live.vars.ones().map(VarId::from_index).collect::<Vec<_>>() {
            if matches!(self.p.vars[var].kind, VarKind::Field(..)) {
                continue;
            }
            if !fixed.contains(&var) {
                bridge.take(&mut self.p, var);
                continue;
            }
            let Var { name, ty, .. } = self.p.vars[var].clone();
            let field = bridge.field(&mut self.p, &name, ty);
            let value = ingress.values.push(ty);
            leave.push(InstData { inst: Inst::Load(var), results: vec![value], loc });
            leave.push(InstData { inst: Inst::Store(field, value), results: Vec::new(), loc });
            replace(&mut egress, var, field);
        }
        for value in self.place.live.values.ones().map(Value::from_index).collect::<Vec<_>>() {
            if let Some(constant) = place::constant(&original, value) {
                enter.push(constant.clone());
                continue;
            }
            let field = bridge.field(&mut self.p, &format!("value_{}", value.index()), original.values[value]);
            leave.push(InstData { inst: Inst::Store(field, value), results: Vec::new(), loc });
            enter.push(InstData::new(Inst::Load(field), vec![value]));
        }
        self.begin(&mut ingress, &bridge, &original);
        self.bypass(&mut ingress, &bridge, &original);
        ingress.blocks[self.place.block].insts.extend(leave);
        if let Some(shape) = shape {
            self.send_shape(&mut ingress, shape, kept, loc);
        }
        let first = egress.entry.unwrap_or(Block(0));
        enter.extend(unknown(&egress, &enter));
        egress.blocks[first].insts = enter;
        self.p.controls[self.main].body = ingress;
        let parser = bridge::parser(&self.p, &bridge, kept, shape);
        let deparser = &mut self.p.controls[self.deparser].body;
        if let Some(entry) = deparser.entry {
            deparser.blocks[entry].insts.splice(0..0, bridge.each(Inst::Emit, Loc::default()));
        }
        for (kind, name, body) in [
            (ControlKind::Parser, "egress_parser", parser),
            (ControlKind::Egress, "egress", egress),
            (ControlKind::Deparser, "egress_deparser", bridge::deparser(kept)),
        ] {
            self.p.controls.push(Control { name: name.into(), kind, body });
        }
        Halves { bytes: bridge.bytes(&self.p), pipeline: self.p }
    }

    /// Variables that stay what they are: those of the architecture, and those that the parser or the deparser knows.
    fn fixed(&self) -> BTreeSet<VarId> {
        let mut fixed = Mentions::of(&self.p, &self.p.controls[self.parser].body).vars;
        fixed.extend(Mentions::of(&self.p, &self.p.controls[self.deparser].body).vars);
        fixed.extend(self.p.vars.iter().filter(|(_, v)| v.kind == VarKind::Intrinsic).map(|(id, _)| id));
        fixed
    }

    /// What ingress does first: the bridge header is there. Fields of it that somebody may read before they are written are zero.
    fn begin(&self, ingress: &mut Body, bridge: &Bridge, original: &Body) {
        let Some(entry) = ingress.entry else { return };
        let loc = Loc::default();
        let mut insts: Vec<InstData> = bridge.each(Inst::SetValid, loc).collect();
        let progress = &crate::live::Untouched;
        let analysis = crate::live::Analysis { pipeline: &self.p, body: original, progress };
        let begin = analysis.entry(&crate::live::Live::default());
        for var in bridge.taken.iter().filter(|v| begin.vars.contains(v.index())) {
            let zero = ingress.values.push(self.p.vars[*var].ty);
            let value = Inst::Const(Const::new(self.p.vars[*var].ty, 0u8));
            insts.push(InstData { inst: value, results: vec![zero], loc });
            insts.push(InstData { inst: Inst::Store(*var, zero), results: Vec::new(), loc });
        }
        let term = Term::Jump(BlockCall::to(entry));
        let first = BlockData { params: Vec::new(), insts, term: Some(TermData { term, loc }) };
        ingress.entry = Some(ingress.blocks.push(first));
    }

    /// Packets that are sent without coming to the cut leave as they are.
    fn bypass(&mut self, ingress: &mut Body, bridge: &Bridge, original: &Body) {
        let Some(ways) = Ways::new(original) else { return };
        let bypass = self.p.vars.push(Var {
            name: BYPASS.into(),
            ty: Type::Bit(1),
            kind: VarKind::Intrinsic,
            loc: Loc::default(),
        });
        self.p.intrinsics.insert(BYPASS.into(), bypass);
        for (block, behind) in &ways.behind {
            if *block == self.place.block || behind.contains(&self.place.block) {
                continue;
            }
            let sends = |i: &InstData| func(&i.inst) == Some(ExternFn::SendToPort);
            let Some(at) = ingress.blocks[*block].insts.iter().rposition(sends) else { continue };
            let loc = ingress.blocks[*block].insts[at].loc;
            let one = ingress.values.push(Type::Bit(1));
            let mut more = vec![
                InstData { inst: Inst::Const(Const::new(Type::Bit(1), 1u8)), results: vec![one], loc },
                InstData { inst: Inst::Store(bypass, one), results: Vec::new(), loc },
            ];
            more.extend(bridge.each(Inst::SetInvalid, loc));
            ingress.blocks[*block].insts.splice(at + 1..at + 1, more);
        }
    }

    /// Where it is known which headers there are, a table that says so.
    fn send_shape(&mut self, ingress: &mut Body, shape: VarId, kept: &Kept, loc: Loc) {
        let (table, action) = bridge::shape_table(&mut self.p, self.main, kept);
        let mut known = kept.varying.clone();
        // Its own header has to be there.
        known.extend(match self.p.vars[shape].kind {
            VarKind::Field(header, _) => Some(header),
            _ => None,
        });
        let (block, at) = place::settled(&self.p, ingress, self.place.block, &known);
        let rest = ingress.blocks[block].insts.split_off(at);
        let mut keys = Vec::new();
        for header in &kept.varying {
            let key = ingress.values.push(Type::Bool);
            ingress.blocks[block].insts.push(InstData { inst: Inst::IsValid(*header), results: vec![key], loc });
            keys.push(key);
        }
        let (hit, value) = (ingress.values.push(Type::Bool), ingress.values.push(Type::Bit(8)));
        let term = ingress.blocks[block].term.take();
        let rest = ingress.blocks.push(BlockData { params: Vec::new(), insts: rest, term });
        let insts = vec![InstData::new(Inst::Store(shape, value), Vec::new())];
        let arm = ingress.push_block(vec![hit, value], insts, Term::Jump(BlockCall::to(rest)));
        let arms = vec![Arm { action, block: arm }];
        ingress.blocks[block].term = Some(TermData { term: Term::Apply { table, keys, arms }, loc });
    }
}

/// Whether a body writes a variable.
pub(in crate::emit) fn stores(body: &Body, var: VarId) -> bool {
    body.insts().any(|i| matches!(i.inst, Inst::Store(v, _) if v == var))
}

fn replace(body: &mut Body, from: VarId, to: VarId) {
    for inst in body.blocks.values_mut().flat_map(|b| &mut b.insts) {
        match &mut inst.inst {
            Inst::Load(var) | Inst::Store(var, _) if *var == from => *var = to,
            _ => {}
        }
    }
}

/// Zeros for values that a body has not: nothing that is live needs them, but instructions name them.
fn unknown(body: &Body, known: &[InstData]) -> Vec<InstData> {
    let blocks = || body.blocks.values();
    let insts = || body.insts().chain(known);
    let mut defined: BTreeSet<Value> = insts().flat_map(|i| i.results.iter().copied()).collect();
    defined.extend(blocks().flat_map(|b| b.params.iter().copied()));
    let mut used = BTreeSet::new();
    insts().for_each(|i| i.inst.for_each_use(|v| _ = used.insert(v)));
    blocks().filter_map(|b| b.term.as_ref()).for_each(|t| t.term.for_each_use(|v| _ = used.insert(v)));
    let zero = |value: &Value| {
        let inst = Inst::Const(Const::new(body.values[*value], 0u8));
        InstData::new(inst, vec![*value])
    };
    used.difference(&defined).map(zero).collect()
}
