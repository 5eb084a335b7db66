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

/// Splits a pipeline at the first split point that works; points are ordered from the best.
/// `deparsed` has the checksums that the deparser computes, `hdr` names the headers parameter, and
/// `depth` limits the bytes that the egress parser reads. `None` if no point works.
fn split_at_best_point(
    p: &Pipeline,
    deparsed: &[DeparserChecksum],
    hdr: &str,
    depth: Option<u32>,
    counters: CounterUse,
) -> Option<GressSplit> {
    let control_of = |kind| p.controls.iter().find(|(_, c)| c.kind == kind).map(|(id, _)| id);
    let (parser, main) = (control_of(ControlKind::MainParser)?, control_of(ControlKind::MainControl)?);
    let deparser = control_of(ControlKind::MainDeparser)?;
    let emitted = emitted_headers(p, deparser)?;
    let points = split_point::split_points(p, main, deparser, &emitted, counters);
    points.into_iter().take(MAX_PLACES).find_map(|point| {
        let header_sets = header_sets::valid_header_sets(p, parser, main, point.block, point.at)?;
        let mut splitter =
            GressSplitter { p: p.clone(), main, parser, deparser, emitted: emitted.clone(), split_point: point };
        let (ingress, mut egress) = splitter.split_body();
        let mut egress_headers = EgressHeaders::new(&splitter.needed_headers(&egress, deparsed), &header_sets)?;
        splitter.truncate_last_headers(&mut egress, deparsed, &mut egress_headers, &header_sets);
        let max_header_bytes = egress_headers.max_bytes(&splitter.p, &header_sets);
        let split = splitter.build_split(ingress, egress, hdr, &egress_headers);
        let bytes = split.bridge_bytes + max_header_bytes;
        depth.is_none_or(|depth| bytes <= depth).then_some(split)
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
    let split = split_at_best_point(p, &[], &hdr, None, CounterUse::Anywhere)?;
    let (mut ingress, mut egress) = (split.pipeline.clone(), split.pipeline);
    let keep_controls = |p: &mut Pipeline, role: fn(ControlKind) -> Option<ControlKind>| {
        let mut controls = EntityMap::new();
        for control in std::mem::take(&mut p.controls).values() {
            if let Some(kind) = role(control.kind) {
                controls.push(Control { kind, ..control.clone() });
            }
        }
        p.controls = controls;
    };
    keep_controls(&mut ingress, |kind| {
        let egress = matches!(kind, ControlKind::Parser | ControlKind::Egress | ControlKind::Deparser);
        (!egress).then_some(kind)
    });
    keep_controls(&mut egress, |kind| match kind {
        ControlKind::Parser => Some(ControlKind::MainParser),
        ControlKind::Egress => Some(ControlKind::MainControl),
        ControlKind::Deparser => Some(ControlKind::MainDeparser),
        _ => None,
    });
    Some(GressPrograms { ingress, egress, bridge_bytes: split.bridge_bytes })
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
    /// Splits the control at the split point: ingress returns there, and egress starts there, after
    /// an empty entry block that receives the loads from the bridge header.
    fn split_body(&self) -> (Body, Body) {
        let (block, index) = (self.split_point.block, self.split_point.at);
        let mut ingress = self.p.controls[self.main].body.clone();
        let mut egress = ingress.clone();
        let loc = self.loc_before_split(&ingress);
        ingress.blocks[block].insts.truncate(index);
        ingress.blocks[block].term = Some(TerminatorData { term: Terminator::Return, loc });
        let tail = BlockData {
            params: Vec::new(),
            insts: egress.blocks[block].insts.split_off(index),
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
    /// accesses. Egress parses fewer bytes, because the rest of such a header passes as payload.
    /// `header_sets` has the sets of valid headers at the split point, one bit for each header id.
    fn truncate_last_headers(
        &mut self,
        egress: &mut Body,
        deparsed: &[DeparserChecksum],
        egress_headers: &mut EgressHeaders,
        header_sets: &BTreeSet<u128>,
    ) {
        let contains = |header_set: &u128, h: &HeaderId| header_set >> h.index() & 1 == 1;
        let mentions = Mentions::collect(&self.p, egress);
        let sums: Vec<&DeparserChecksum> = deparsed.iter().filter(|d| writes_var(egress, d.update_flag)).collect();
        let summed = |var: VarId| sums.iter().any(|d| d.field == var || d.over.contains(&var));
        for (n, header) in egress_headers.needed.clone().into_iter().enumerate() {
            let later_headers = &egress_headers.needed[n + 1..];
            let is_last = header_sets
                .iter()
                .filter(|s| contains(s, &header))
                .all(|s| !later_headers.iter().any(|h| contains(s, h)));
            let is_changed = egress.insts().any(|i| match &i.inst {
                Inst::SetValid(h) | Inst::SetInvalid(h) => *h == header,
                Inst::CopyHeader { dst, src } => *dst == header || *src == header,
                _ => false,
            });
            // A later header that egress adds would be emitted before the rest of this header.
            let is_added = |h: &HeaderId| egress.insts().any(|i| i.inst == Inst::SetValid(*h));
            if !is_last || is_changed || later_headers.iter().any(is_added) || !egress_headers.parsed.contains(&header)
            {
                continue;
            }
            let fields = self.p.headers[header].fields.clone();
            let used = |var: &VarId| mentions.vars.contains(var) || summed(*var);
            let Some(last_used) = fields.iter().rposition(used) else { continue };
            let mut bits = 0;
            let end_of_used = |(index, var): (usize, &VarId)| {
                bits += self.p.vars[*var].ty.width();
                (index >= last_used && bits % 8 == 0).then_some(index + 1)
            };
            let Some(count) = fields.iter().enumerate().find_map(end_of_used).filter(|count| *count < fields.len())
            else {
                continue;
            };
            let front = bridge::make_front_header(&mut self.p, header, count);
            let front_fields = self.p.headers[front].fields.clone();
            fields.iter().zip(front_fields).for_each(|(from, front_fields)| replace_var(egress, *from, front_fields));
            for inst in egress.blocks.values_mut().flat_map(|b| &mut b.insts) {
                if inst.inst == Inst::IsValid(header) {
                    inst.inst = Inst::IsValid(front);
                }
            }
            egress_headers.fronts.insert(header, front);
        }
    }

    /// Assembles both gresses: carries the variables and values that are live at the split point in
    /// bridge headers, which ingress stores and egress loads, and adds the egress parser and
    /// deparser. `egress_headers` has the headers that egress parses.
    fn build_split(
        mut self,
        mut ingress: Body,
        mut egress: Body,
        hdr: &str,
        egress_headers: &EgressHeaders,
    ) -> GressSplit {
        let original = self.p.controls[self.main].body.clone();
        let mut bridge = BridgeHeaders::new(hdr);
        let header_set_var =
            (!egress_headers.varying.is_empty()).then(|| bridge.add_field(&mut self.p, "headers", Type::Bit(8)));
        let loc = self.loc_before_split(&original);
        let (mut stores, mut loads) = (Vec::new(), Vec::new());
        let immovable = self.immovable_vars();
        for var in self.split_point.live.vars.ones().map(VarId::from_index).collect::<Vec<_>>() {
            if matches!(self.p.vars[var].kind, VarKind::Field(..)) {
                continue;
            }
            // A variable that can move becomes a field of the bridge header and needs no copy.
            if !immovable.contains(&var) {
                bridge.move_into_bridge(&mut self.p, var);
                continue;
            }
            let Var { name, ty, .. } = self.p.vars[var].clone();
            let field = bridge.add_field(&mut self.p, &name, ty);
            let value = ingress.values.push(ty);
            stores.push(InstData { inst: Inst::Load(var), results: vec![value], loc });
            stores.push(InstData { inst: Inst::Store(field, value), results: Vec::new(), loc });
            replace_var(&mut egress, var, field);
        }
        for value in self.split_point.live.values.ones().map(Value::from_index).collect::<Vec<_>>() {
            if let Some(constant) = split_point::constant_inst(&original, value) {
                loads.push(constant.clone());
                continue;
            }
            let field = bridge.add_field(&mut self.p, &format!("value_{}", value.index()), original.values[value]);
            stores.push(InstData { inst: Inst::Store(field, value), results: Vec::new(), loc });
            loads.push(InstData::new(Inst::Load(field), vec![value]));
        }
        self.add_entry_block(&mut ingress, &bridge, &original);
        self.set_bypass(&mut ingress, &bridge, &original);
        ingress.blocks[self.split_point.block].insts.extend(stores);
        if let Some(header_set_var) = header_set_var {
            self.send_header_set(&mut ingress, header_set_var, egress_headers, loc);
        }
        let first = egress.entry.unwrap_or(Block(0));
        loads.extend(zeros_for_undefined(&egress, &loads));
        egress.blocks[first].insts = loads;
        self.p.controls[self.main].body = ingress;
        let parser = bridge::egress_parser(&self.p, &bridge, egress_headers, header_set_var);
        let deparser = &mut self.p.controls[self.deparser].body;
        if let Some(entry) = deparser.entry {
            deparser.blocks[entry].insts.splice(0..0, bridge.header_insts(Inst::Emit, SourceLoc::default()));
        }
        for (kind, name, body) in [
            (ControlKind::Parser, "egress_parser", parser),
            (ControlKind::Egress, "egress", egress),
            (ControlKind::Deparser, "egress_deparser", bridge::egress_deparser(egress_headers)),
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
        let Some(analysis) = SplitAnalysis::new(original) else { return };
        let bypass = self.p.vars.push(Var {
            name: BYPASS.into(),
            ty: Type::Bit(1),
            kind: VarKind::Intrinsic,
            loc: SourceLoc::default(),
        });
        self.p.intrinsics.insert(BYPASS.into(), bypass);
        for (block, reachable) in &analysis.reachable {
            if *block == self.split_point.block || reachable.contains(&self.split_point.block) {
                continue;
            }
            let sends = |i: &InstData| called_function(&i.inst) == Some(ExternFn::SendToPort);
            let Some(send_index) = ingress.blocks[*block].insts.iter().rposition(sends) else { continue };
            let loc = ingress.blocks[*block].insts[send_index].loc;
            let one = ingress.values.push(Type::Bit(1));
            let mut bypass_insts = vec![
                InstData { inst: Inst::Const(Const::new(Type::Bit(1), 1u8)), results: vec![one], loc },
                InstData { inst: Inst::Store(bypass, one), results: Vec::new(), loc },
            ];
            bypass_insts.extend(bridge.header_insts(Inst::SetInvalid, loc));
            ingress.blocks[*block].insts.splice(send_index + 1..send_index + 1, bypass_insts);
        }
    }

    /// Applies the table that encodes the valid headers as a number, at the earliest point where
    /// they are known, and stores the number in `header_set_var` for the egress parser.
    fn send_header_set(
        &mut self,
        ingress: &mut Body,
        header_set_var: VarId,
        egress_headers: &EgressHeaders,
        loc: SourceLoc,
    ) {
        let (table, action) = bridge::header_set_table(&mut self.p, self.main, egress_headers);
        let mut known_headers = egress_headers.varying.clone();
        // The header of the result field must be valid as well.
        known_headers.extend(match self.p.vars[header_set_var].kind {
            VarKind::Field(header, _) => Some(header),
            _ => None,
        });
        let (block, index) =
            split_point::earliest_known_validity(&self.p, ingress, self.split_point.block, &known_headers);
        let rest_insts = ingress.blocks[block].insts.split_off(index);
        let mut keys = Vec::new();
        for header in &egress_headers.varying {
            let key = ingress.values.push(Type::Bool);
            ingress.blocks[block].insts.push(InstData { inst: Inst::IsValid(*header), results: vec![key], loc });
            keys.push(key);
        }
        let (hit, value) = (ingress.values.push(Type::Bool), ingress.values.push(Type::Bit(8)));
        let term = ingress.blocks[block].term.take();
        let rest_insts = ingress.blocks.push(BlockData { params: Vec::new(), insts: rest_insts, term });
        let insts = vec![InstData::new(Inst::Store(header_set_var, value), Vec::new())];
        let arm = ingress.push_block(vec![hit, value], insts, Terminator::Jump(BlockCall::to(rest_insts)));
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
