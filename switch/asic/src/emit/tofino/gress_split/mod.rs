//! Split of a program into ingress and egress at a point after the port decision.
//!
//! Between the gresses a packet is bytes. Ingress prepends bridge headers with the values that are
//! live at the split point and the set of valid headers. The egress parser uses this set to parse
//! the packet again, as far as egress needs it. Carried metadata *is* the bridge header's field
//! throughout ingress, so that no copies are necessary at the split point.
//!
//! | module | decides |
//! |---|---|
//! | `split_point` | split point and carried values |
//! | `header_sets` | sets of headers that packets can have there |
//! | `egress_headers` | headers that egress parses |
//! | `bridge` | bridge headers and the variables that become their fields |

mod bridge;
mod egress_headers;
mod header_sets;
mod split_point;

use super::legalizer::DeparserChecksum;
use crate::emit::mentions::Mentions;
use bridge::BridgeHeaders;
use egress_headers::EgressHeaders;
use ir::*;
use split_point::{CounterUse, SplitAnalysis, SplitPoint, called_function};
pub(super) use split_point::{blocks_between, reachable_from};
use std::collections::BTreeSet;

/// Name of the architecture's bit that bypasses egress.
pub(in crate::emit) const BYPASS: &str = "ig_tm_md.bypass_egress";

/// Pipeline with ingress and egress.
pub(in crate::emit) struct GressSplit {
    /// Pipeline; controls of the kinds `Parser`, `Egress` and `Deparser` form egress.
    pub(in crate::emit) pipeline: Pipeline,
    /// Length of the bridge headers in bytes.
    pub(in crate::emit) bridge_bytes: u32,
}

/// Bytes that the egress parser of Tofino 1 can parse, including the chip's metadata. The limit of
/// later chips is above that of any program.
const EGRESS_DEPTH: u32 = 160;
/// Length of the chip's egress metadata in bytes.
const EGRESS_INTRINSIC: u32 = 27;
/// Maximum number of split points that are tried.
const MAX_PLACES: usize = 256;

/// Returns the number of bytes that an egress parser can parse, from the bridge header on. `None`:
/// no relevant limit.
pub(in crate::emit) fn egress_parse_limit(target: crate::emit::EmitTarget) -> Option<u32> {
    (target == crate::emit::EmitTarget::Tna).then_some(EGRESS_DEPTH - EGRESS_INTRINSIC)
}

/// Splits a legalized pipeline. `hdr` is the name of the headers parameter; `depth` limits the
/// bytes that egress parses. Returns `None` if no split point exists: there is no work after the
/// port decision, or it needs state that cannot be carried.
pub(in crate::emit) fn split_for_emission(
    p: &Pipeline,
    deparsed: &[DeparserChecksum],
    hdr: &str,
    depth: Option<u32>,
) -> Option<GressSplit> {
    split_at_best_point(p, deparsed, hdr, depth, CounterUse::OneHalf)
}

fn split_at_best_point(
    p: &Pipeline,
    deparsed: &[DeparserChecksum],
    hdr: &str,
    depth: Option<u32>,
    counters: CounterUse,
) -> Option<GressSplit> {
    let of = |kind| p.controls.iter().find(|(_, c)| c.kind == kind).map(|(id, _)| id);
    let (parser, main) = (of(ControlKind::MainParser)?, of(ControlKind::MainControl)?);
    let deparser = of(ControlKind::MainDeparser)?;
    let emitted = emitted_headers(p, deparser)?;
    let places = split_point::split_points(p, main, deparser, &emitted, counters);
    places.into_iter().take(MAX_PLACES).find_map(|place| {
        let shapes = header_sets::valid_header_sets(p, parser, main, place.block, place.at)?;
        let mut splitter =
            GressSplitter { p: p.clone(), main, parser, deparser, emitted: emitted.clone(), split_point: place };
        let (ingress, mut egress) = splitter.split_body();
        let mut kept = EgressHeaders::new(&splitter.needed_headers(&egress, deparsed), &shapes)?;
        splitter.truncate_last_headers(&mut egress, deparsed, &mut kept, &shapes);
        let longest = kept.max_bytes(&splitter.p, &shapes);
        let built = splitter.build_split(ingress, egress, hdr, &kept);
        let bytes = built.bridge_bytes + longest;
        depth.is_none_or(|depth| bytes <= depth).then_some(built)
    })
}

/// Ingress and egress as separate programs.
#[derive(Clone, Debug)]
pub struct GressPrograms {
    /// Ingress. A packet continues to egress with bridge headers, unless it sets
    /// [`GressPrograms::BYPASS`]; then it has none.
    pub ingress: Pipeline,
    /// Egress. The output port is already decided; egress can drop the packet.
    pub egress: Pipeline,
    /// Length of the bridge headers in bytes.
    pub bridge_bytes: u32,
}

impl GressPrograms {
    /// Name of the variable that is 1 for packets that bypass egress.
    pub const BYPASS: &'static str = BYPASS;
}

/// Splits a PNA pipeline at the point that [`crate::emit::emit_with_gresses`] chooses; `None` if
/// there is none. A counter may be in both gresses.
pub fn split_gresses(p: &Pipeline) -> Option<GressPrograms> {
    let hdr = crate::emit::names::EmittedNames::new(p, "", None).storage.hdr;
    let both = split_at_best_point(p, &[], &hdr, None, CounterUse::Anywhere)?;
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
    Some(GressPrograms { ingress, egress, bridge_bytes: both.bridge_bytes })
}

/// Returns the headers that a deparser emits, in order; `None` if it executes other instructions.
fn emitted_headers(p: &Pipeline, deparser: ControlId) -> Option<Vec<HeaderId>> {
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
            Terminator::Jump(call) => at = call.block,
            _ => break,
        }
    }
    let varbit = |h: &HeaderId| p.headers[*h].fields.iter().any(|v| matches!(p.vars[*v].ty, Type::Varbit(_)));
    (!all.iter().any(varbit)).then_some(all)
}

struct GressSplitter {
    p: Pipeline,
    parser: ControlId,
    main: ControlId,
    deparser: ControlId,
    emitted: Vec<HeaderId>,
    split_point: SplitPoint,
}

impl GressSplitter {
    /// Splits the control at the split point. The entry block of the second part is empty.
    fn split_body(&self) -> (Body, Body) {
        let (block, at) = (self.split_point.block, self.split_point.at);
        let mut ingress = self.p.controls[self.main].body.clone();
        let mut egress = ingress.clone();
        let loc = self.loc_before_split(&ingress);
        ingress.blocks[block].insts.truncate(at);
        ingress.blocks[block].term = Some(TerminatorData { term: Terminator::Return, loc });
        let tail = BlockData {
            params: Vec::new(),
            insts: egress.blocks[block].insts.split_off(at),
            term: egress.blocks[block].term.take(),
        };
        let tail = egress.blocks.push(tail);
        let term = Terminator::Jump(BlockCall::to(tail));
        let first = BlockData { params: Vec::new(), insts: Vec::new(), term: Some(TerminatorData { term, loc }) };
        egress.entry = Some(egress.blocks.push(first));
        ingress.empty_unreachable();
        egress.empty_unreachable();
        (ingress, egress)
    }

    /// Returns the location of the last instruction before the split point, so that added
    /// instructions belong to the same action.
    fn loc_before_split(&self, body: &Body) -> SourceLoc {
        let before = &body.blocks[self.split_point.block].insts[..self.split_point.at];
        before.last().map(|i| i.loc).unwrap_or_default()
    }

    /// Returns the emitted headers up to the last one that egress accesses. The headers after it
    /// are payload in egress.
    fn needed_headers(&self, egress: &Body, deparsed: &[DeparserChecksum]) -> Vec<HeaderId> {
        let mut touched = Mentions::collect(&self.p, egress).headers;
        touched.extend(deparsed.iter().filter(|d| writes_var(egress, d.update_flag)).filter_map(|d| {
            match self.p.vars[d.field].kind {
                VarKind::Field(header, _) => Some(header),
                _ => None,
            }
        }));
        let last = self.emitted.iter().rposition(|h| touched.contains(h));
        self.emitted[..last.map_or(0, |last| last + 1)].to_vec()
    }

    /// Truncates headers that are the last ones of their packets after the last field that egress
    /// accesses.
    fn truncate_last_headers(
        &mut self,
        egress: &mut Body,
        deparsed: &[DeparserChecksum],
        kept: &mut EgressHeaders,
        shapes: &BTreeSet<u64>,
    ) {
        let has = |shape: &u64, h: &HeaderId| shape >> h.index() & 1 == 1;
        let mentions = Mentions::collect(&self.p, egress);
        let sums: Vec<&DeparserChecksum> = deparsed.iter().filter(|d| writes_var(egress, d.update_flag)).collect();
        let summed = |var: VarId| sums.iter().any(|d| d.field == var || d.over.contains(&var));
        for (n, header) in kept.needed.clone().into_iter().enumerate() {
            let behind = &kept.needed[n + 1..];
            let last = shapes.iter().filter(|s| has(s, &header)).all(|s| !behind.iter().any(|h| has(s, h)));
            let remade = egress.insts().any(|i| match &i.inst {
                Inst::SetValid(h) | Inst::SetInvalid(h) => *h == header,
                Inst::CopyHeader { dst, src } => *dst == header || *src == header,
                _ => false,
            });
            // A later header that egress adds would be emitted before the rest of this header.
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
            let front = bridge::make_front_header(&mut self.p, header, count);
            let to = self.p.headers[front].fields.clone();
            fields.iter().zip(to).for_each(|(from, to)| replace_var(egress, *from, to));
            for inst in egress.blocks.values_mut().flat_map(|b| &mut b.insts) {
                if inst.inst == Inst::IsValid(header) {
                    inst.inst = Inst::IsValid(front);
                }
            }
            kept.fronts.insert(header, front);
        }
    }

    fn build_split(mut self, mut ingress: Body, mut egress: Body, hdr: &str, kept: &EgressHeaders) -> GressSplit {
        let original = self.p.controls[self.main].body.clone();
        let mut bridge = BridgeHeaders::new(hdr);
        let shape = (!kept.varying.is_empty()).then(|| bridge.add_field(&mut self.p, "headers", Type::Bit(8)));
        let loc = self.loc_before_split(&original);
        let (mut leave, mut enter) = (Vec::new(), Vec::new());
        let fixed = self.immovable_vars();
        for var in self.split_point.live.vars.ones().map(VarId::from_index).collect::<Vec<_>>() {
            if matches!(self.p.vars[var].kind, VarKind::Field(..)) {
                continue;
            }
            if !fixed.contains(&var) {
                bridge.move_into_bridge(&mut self.p, var);
                continue;
            }
            let Var { name, ty, .. } = self.p.vars[var].clone();
            let field = bridge.add_field(&mut self.p, &name, ty);
            let value = ingress.values.push(ty);
            leave.push(InstData { inst: Inst::Load(var), results: vec![value], loc });
            leave.push(InstData { inst: Inst::Store(field, value), results: Vec::new(), loc });
            replace_var(&mut egress, var, field);
        }
        for value in self.split_point.live.values.ones().map(Value::from_index).collect::<Vec<_>>() {
            if let Some(constant) = split_point::constant_inst(&original, value) {
                enter.push(constant.clone());
                continue;
            }
            let field = bridge.add_field(&mut self.p, &format!("value_{}", value.index()), original.values[value]);
            leave.push(InstData { inst: Inst::Store(field, value), results: Vec::new(), loc });
            enter.push(InstData::new(Inst::Load(field), vec![value]));
        }
        self.add_entry_block(&mut ingress, &bridge, &original);
        self.set_bypass(&mut ingress, &bridge, &original);
        ingress.blocks[self.split_point.block].insts.extend(leave);
        if let Some(shape) = shape {
            self.send_header_set(&mut ingress, shape, kept, loc);
        }
        let first = egress.entry.unwrap_or(Block(0));
        enter.extend(zeros_for_undefined(&egress, &enter));
        egress.blocks[first].insts = enter;
        self.p.controls[self.main].body = ingress;
        let parser = bridge::egress_parser(&self.p, &bridge, kept, shape);
        let deparser = &mut self.p.controls[self.deparser].body;
        if let Some(entry) = deparser.entry {
            deparser.blocks[entry].insts.splice(0..0, bridge.header_insts(Inst::Emit, SourceLoc::default()));
        }
        for (kind, name, body) in [
            (ControlKind::Parser, "egress_parser", parser),
            (ControlKind::Egress, "egress", egress),
            (ControlKind::Deparser, "egress_deparser", bridge::egress_deparser(kept)),
        ] {
            self.p.controls.push(Control { name: name.into(), kind, body });
        }
        GressSplit { bridge_bytes: bridge.len_bytes(&self.p), pipeline: self.p }
    }

    /// Returns variables that cannot become bridge fields: intrinsics, and those that the parser or
    /// deparser accesses.
    fn immovable_vars(&self) -> BTreeSet<VarId> {
        let mut fixed = Mentions::collect(&self.p, &self.p.controls[self.parser].body).vars;
        fixed.extend(Mentions::collect(&self.p, &self.p.controls[self.deparser].body).vars);
        fixed.extend(self.p.vars.iter().filter(|(_, v)| v.kind == VarKind::Intrinsic).map(|(id, _)| id));
        fixed
    }

    /// Adds an entry block to ingress that makes the bridge headers valid and zeroes fields that
    /// can be read before they are written.
    fn add_entry_block(&self, ingress: &mut Body, bridge: &BridgeHeaders, original: &Body) {
        let Some(entry) = ingress.entry else { return };
        let loc = SourceLoc::default();
        let mut insts: Vec<InstData> = bridge.header_insts(Inst::SetValid, loc).collect();
        let progress = &crate::live::NothingExecuted;
        let analysis = crate::live::LivenessAnalysis { pipeline: &self.p, body: original, progress };
        let begin = analysis.live_at_entry(&crate::live::LiveSet::default());
        for var in bridge.taken.iter().filter(|v| begin.vars.contains(v.index())) {
            let zero = ingress.values.push(self.p.vars[*var].ty);
            let value = Inst::Const(Const::new(self.p.vars[*var].ty, 0u8));
            insts.push(InstData { inst: value, results: vec![zero], loc });
            insts.push(InstData { inst: Inst::Store(*var, zero), results: Vec::new(), loc });
        }
        let term = Terminator::Jump(BlockCall::to(entry));
        let first = BlockData { params: Vec::new(), insts, term: Some(TerminatorData { term, loc }) };
        ingress.entry = Some(ingress.blocks.push(first));
    }

    /// Makes packets bypass egress that are sent without reaching the split point.
    fn set_bypass(&mut self, ingress: &mut Body, bridge: &BridgeHeaders, original: &Body) {
        let Some(ways) = SplitAnalysis::new(original) else { return };
        let bypass = self.p.vars.push(Var {
            name: BYPASS.into(),
            ty: Type::Bit(1),
            kind: VarKind::Intrinsic,
            loc: SourceLoc::default(),
        });
        self.p.intrinsics.insert(BYPASS.into(), bypass);
        for (block, behind) in &ways.reachable {
            if *block == self.split_point.block || behind.contains(&self.split_point.block) {
                continue;
            }
            let sends = |i: &InstData| called_function(&i.inst) == Some(ExternFn::SendToPort);
            let Some(at) = ingress.blocks[*block].insts.iter().rposition(sends) else { continue };
            let loc = ingress.blocks[*block].insts[at].loc;
            let one = ingress.values.push(Type::Bit(1));
            let mut more = vec![
                InstData { inst: Inst::Const(Const::new(Type::Bit(1), 1u8)), results: vec![one], loc },
                InstData { inst: Inst::Store(bypass, one), results: Vec::new(), loc },
            ];
            more.extend(bridge.header_insts(Inst::SetInvalid, loc));
            ingress.blocks[*block].insts.splice(at + 1..at + 1, more);
        }
    }

    /// Applies the table that encodes the valid headers, at the earliest point where they are
    /// known.
    fn send_header_set(&mut self, ingress: &mut Body, shape: VarId, kept: &EgressHeaders, loc: SourceLoc) {
        let (table, action) = bridge::header_set_table(&mut self.p, self.main, kept);
        let mut known = kept.varying.clone();
        // The header of the result field must be valid as well.
        known.extend(match self.p.vars[shape].kind {
            VarKind::Field(header, _) => Some(header),
            _ => None,
        });
        let (block, at) = split_point::earliest_known_validity(&self.p, ingress, self.split_point.block, &known);
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
        let arm = ingress.push_block(vec![hit, value], insts, Terminator::Jump(BlockCall::to(rest)));
        let arms = vec![ActionArm { action, block: arm }];
        ingress.blocks[block].term = Some(TerminatorData { term: Terminator::Apply { table, keys, arms }, loc });
    }
}

/// Returns whether a body writes a variable.
pub(in crate::emit) fn writes_var(body: &Body, var: VarId) -> bool {
    body.insts().any(|i| matches!(i.inst, Inst::Store(v, _) if v == var))
}

fn replace_var(body: &mut Body, from: VarId, to: VarId) {
    for inst in body.blocks.values_mut().flat_map(|b| &mut b.insts) {
        match &mut inst.inst {
            Inst::Load(var) | Inst::Store(var, _) if *var == from => *var = to,
            _ => {}
        }
    }
}

/// Returns zero constants for values that are used but undefined after the split. No live value
/// depends on them.
fn zeros_for_undefined(body: &Body, known: &[InstData]) -> Vec<InstData> {
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
