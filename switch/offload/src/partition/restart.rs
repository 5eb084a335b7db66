//! Cut points at which the packet restarts below: it leaves as it arrived, and the lower half runs
//! the whole program.
//!
//! The upper half restores the headers that it has changed before the cut point. This needs a
//! deparser that emits headers in the order in which the parser extracts them, and nothing that
//! cannot be undone before the cut point.

use super::PointInBlock;
use super::cut_point::CutBlock;
use super::reachability::{ProgramPoint, Reachability};
use ir::{
    Block, Body, BodyBuilder, ControlId, ControlKind, ExternFn, ExternId, HeaderId, Inst, InstData, Pipeline, Value,
    VarId, VarKind,
};
use std::collections::{BTreeMap, BTreeSet};

/// Returns why the upper half cannot reproduce packets as they arrived; `None` if it can.
pub fn packet_refusal(p: &Pipeline) -> Option<String> {
    let Some(emitted) = emitted_headers(p) else {
        return Some("the deparser does more than emit headers".to_owned());
    };
    if p.unions.keys().next().is_some() {
        return Some("it has header unions".to_owned());
    }
    for control in p.controls.values() {
        let refusal = match control.kind {
            ControlKind::Parser | ControlKind::MainParser => parser_refusal(p, &control.body, &emitted),
            ControlKind::PreControl if control.body.insts().next().is_some() => {
                Some("the pre control runs before the packet goes down".to_owned())
            }
            _ => None,
        };
        if refusal.is_some() {
            return refusal;
        }
    }
    None
}

/// Returns why the emitted headers are not the bytes that a parser extracts.
fn parser_refusal(p: &Pipeline, body: &Body, emitted: &[HeaderId]) -> Option<String> {
    let reach = Reachability::new(body);
    let mut extracted: Vec<(ProgramPoint, usize)> = Vec::new();
    for (block, data) in body.blocks.iter() {
        for (n, inst) in data.insts.iter().enumerate() {
            match &inst.inst {
                Inst::Extract(header) => {
                    let name = &p.headers[*header].name;
                    let Some(place) = emitted.iter().position(|emitted| emitted == header) else {
                        return Some(format!("the deparser does not emit `{name}`"));
                    };
                    let widths = p.headers[*header].fields.iter().map(|var| p.vars[*var].ty.width());
                    if widths.sum::<u32>() % 8 != 0 {
                        return Some(format!("`{name}` has no whole number of bytes"));
                    }
                    extracted.push(((block, PointInBlock::Inst(n)), place));
                }
                Inst::Advance(_) | Inst::ExtractVarbit(..) => {
                    return Some("the parser skips bytes, or extracts a header without a fixed length".to_owned());
                }
                inst if !changed_header_state(p, inst).is_empty() => {
                    return Some("the parser changes headers".to_owned());
                }
                Inst::Extern { object: Some(_), func, .. } if !func.is_packet_scoped() => {
                    return Some(format!("the parser calls `{}`", func.name()));
                }
                _ => {}
            }
        }
    }
    let is_later = |(from, earlier): &(ProgramPoint, usize), (to, place): &(ProgramPoint, usize)| {
        reach.reaches(*from, *to) && earlier >= place
    };
    let is_disordered = extracted.iter().any(|first| extracted.iter().any(|second| is_later(first, second)));
    is_disordered.then(|| "the deparser emits headers in another order than the parser extracts them".to_owned())
}

/// Returns the headers that the deparser emits, if it does nothing else.
pub fn emitted_headers(p: &Pipeline) -> Option<Vec<HeaderId>> {
    let deparses = |kind| matches!(kind, ControlKind::Deparser | ControlKind::MainDeparser);
    let body = &p.controls.values().find(|control| deparses(control.kind))?.body;
    let data = &body.blocks[body.entry?];
    let ends = matches!(data.term.as_ref()?.term, ir::Terminator::Return);
    let header = |data: &InstData| if let Inst::Emit(header) = data.inst { Some(header) } else { None };
    let all: Option<Vec<HeaderId>> = data.insts.iter().map(header).collect();
    all.filter(|all| ends && (1..all.len()).all(|n| !all[..n].contains(&all[n])))
}

/// Returns the effect before a cut point that restarting would repeat. State that must be on one side
/// is no such effect, because its accesses are cut points themselves.
pub fn repeated_effect(p: &Pipeline, body: &Body, reach: &Reachability, point: ProgramPoint) -> Option<String> {
    for (block, data) in body.blocks.iter() {
        for (n, inst) in data.insts.iter().enumerate() {
            let Inst::Extern { object, func, .. } = &inst.inst else { continue };
            if repeats(*func) && reach.reaches((block, PointInBlock::Inst(n)), point) {
                let name = object.and_then(|id: ExternId| Some(p.externs.get(id)?.preamble.name.clone()));
                return Some(format!("`{}` before it would run twice", name.unwrap_or(func.name().to_owned())));
            }
        }
        // v1model counts the hits of a table without a call.
        let table = data.applied_table().filter(|table| p.tables[*table].direct_counter.is_some());
        if let Some(table) = table.filter(|_| p.arch == ir::Arch::V1Model)
            && reach.reaches((block, PointInBlock::Term), point)
        {
            return Some(format!("hits of `{}` before it would count twice", p.tables[table].preamble.name));
        }
    }
    None
}

/// Returns whether a call before the cut point has an effect that running the program again would
/// repeat.
fn repeats(func: ExternFn) -> bool {
    use ExternFn::*;
    matches!(func, CounterCount | DirectCounterCount | LogMsg)
}

/// Headers and fields as they were at the start of the control.
pub struct SavedHeaders {
    validity: BTreeMap<HeaderId, Value>,
    fields: BTreeMap<VarId, Value>,
}

impl SavedHeaders {
    /// Saves what is changed before a restart: fields that are stored to, and headers that become
    /// valid or invalid.
    pub fn save(p: &mut Pipeline, control: ControlId, cuts: &[CutBlock]) -> SavedHeaders {
        let mut saved = SavedHeaders { validity: BTreeMap::new(), fields: BTreeMap::new() };
        let body = &p.controls[control].body;
        let reach = Reachability::new(body);
        let restarts: Vec<Block> = cuts.iter().filter(|cut| cut.is_restart()).map(|cut| cut.block).collect();
        let (mut headers, mut fields) = (BTreeSet::new(), BTreeSet::new());
        for (block, data) in body.blocks.iter() {
            if !restarts.iter().any(|restart| reach.reaches_block(block, *restart)) {
                continue;
            }
            for state in data.insts.iter().flat_map(|inst| changed_header_state(p, &inst.inst)) {
                match state {
                    HeaderState::Field(var) => _ = fields.insert(var),
                    HeaderState::Header(header) => {
                        headers.insert(header);
                        fields.extend(p.headers[header].fields.iter().copied());
                    }
                }
            }
        }
        let Some(entry) = p.controls[control].body.entry else { return saved };
        let mut body = std::mem::take(&mut p.controls[control].body);
        let (insts, term) = (std::mem::take(&mut body.blocks[entry].insts), body.blocks[entry].term.take());
        let mut b = BodyBuilder::resume(body);
        b.switch_to(entry);
        saved.validity.extend(headers.into_iter().map(|header| (header, b.is_valid(header))));
        saved.fields.extend(fields.into_iter().map(|var| (var, b.load(p, var))));
        let mut body = b.finish();
        body.blocks[entry].insts.extend(insts);
        body.blocks[entry].term = term;
        p.controls[control].body = body;
        saved
    }

    /// Emits the restoration of all of them.
    pub fn restore(&self, b: &mut BodyBuilder) {
        for (header, was_valid) in &self.validity {
            let [valid, invalid, next] = [(); 3].map(|()| b.create_block());
            b.branch(*was_valid, valid, invalid);
            b.switch_to(valid);
            b.set_valid(*header);
            b.jump(next);
            b.switch_to(invalid);
            b.set_invalid(*header);
            b.jump(next);
            b.switch_to(next);
        }
        for (var, value) in &self.fields {
            b.store(*var, *value);
        }
    }
}

/// State of headers that an instruction changes.
enum HeaderState {
    /// A field.
    Field(VarId),
    /// A header's validity, and all its fields.
    Header(HeaderId),
}

fn changed_header_state(p: &Pipeline, inst: &Inst) -> Vec<HeaderState> {
    match inst {
        Inst::Store(var, _) if matches!(p.vars[*var].kind, VarKind::Field(..)) => vec![HeaderState::Field(*var)],
        Inst::SetValid(header) | Inst::SetInvalid(header) | Inst::CopyHeader { dst: header, .. } => {
            vec![HeaderState::Header(*header)]
        }
        _ => Vec::new(),
    }
}
