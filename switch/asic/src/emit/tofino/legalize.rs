//! Legalization of a PNA pipeline for Tofino.
//!
//! - `verify` becomes a branch to a state that sets `meta.parser_error` and accepts, because the
//!   chip's parser has no user-defined errors.
//! - Parsers verify checksums and deparsers compute them. A checksum computed in a control moves to
//!   the deparser if later code does not change the header.
//! - Unsupported constructs are removed and reported.

use super::legalizer::{DeparserChecksum, Legalizer};
use super::port_narrowing::narrow_ports;
use crate::emit::UnsupportedConstruct;
use ir::*;
use std::collections::HashSet;

/// Legalized pipeline.
pub(in crate::emit) struct LegalizedPipeline {
    pub(in crate::emit) pipeline: Pipeline,
    pub(in crate::emit) left_out: Vec<UnsupportedConstruct>,
    pub(in crate::emit) deparser_checksums: Vec<DeparserChecksum>,
}

/// Legalizes a pipeline.
pub(in crate::emit) fn legalize(p: &Pipeline, meta: &str) -> LegalizedPipeline {
    let mut this = Legalizer::new(p, meta);
    let error = this.parser_error();
    this.colors_as_numbers();
    narrow_ports(&mut this.p);
    let ids: Vec<ControlId> = p.controls.iter().map(|(id, _)| id).collect();
    for id in ids {
        let mut body = std::mem::take(&mut this.p.controls[id].body);
        match p.controls[id].kind {
            ControlKind::MainParser => {
                this.drop_computing_states(&mut body, error);
                this.errors_as_numbers(&mut body);
                this.move_sums_to_extractions(&mut body);
                this.lower_verify(&mut body, error);
                this.defer_late_copies(&mut body);
                this.drop_parser_computation(&mut body);
                this.sink_overwritten_stores(&mut body);
                this.sort_deferred_tests(&body);
                this.sort_deferred_copies(&body);
            }
            ControlKind::MainControl => {
                this.errors_as_numbers(&mut body);
                this.drop_shared_objects(&mut body);
                this.move_checksums_to_deparser(&mut body);
                this.legalize_calls(&mut body);
                this.drop_unsupported_arithmetic(&mut body);
                this.drop_partly_used_direct_objects(&mut body);
                this.prepend_to_control(&p.controls[id].name, &mut body, error);
            }
            ControlKind::MainDeparser => this.legalize_calls(&mut body),
            _ => {}
        }
        this.p.controls[id].body = body;
    }
    LegalizedPipeline { pipeline: this.p, left_out: this.left_out, deparser_checksums: this.deparser_checksums }
}

impl Legalizer {
    /// Returns the variable of the parser error, as a number in metadata.
    fn parser_error(&mut self) -> VarId {
        let name = format!("{}.parser_error", self.meta);
        match self.p.intrinsics.remove("istd.parser_error") {
            Some(var) => {
                self.p.vars[var].name = name;
                self.p.vars[var].ty = Type::Bit(8);
                self.p.vars[var].kind = VarKind::Meta;
                var
            }
            None => self.add_var(&name, Type::Bit(8), VarKind::Meta),
        }
    }

    fn errors_as_numbers(&mut self, body: &mut Body) {
        body.values.values_mut().filter(|ty| **ty == Type::Error).for_each(|ty| *ty = Type::Bit(8));
        for inst in body.blocks.values_mut().flat_map(|b| &mut b.insts) {
            if let Inst::Const(c) = &mut inst.inst
                && c.ty == Type::Error
            {
                *c = Const::new(Type::Bit(8), c.bits.clone());
            }
        }
    }

    /// Moves checksums that a control computes to the deparser.
    fn move_checksums_to_deparser(&mut self, body: &mut Body) {
        let blocks: Vec<Block> = body.blocks.iter().map(|(b, _)| b).collect();
        let cfg = Cfg::new(body);
        for block in blocks {
            let mut at = 0;
            while at < body.blocks[block].insts.len() {
                let data = body.blocks[block].insts[at].clone();
                at += 1;
                let Inst::Extern { object: Some(_), func: ExternFn::InternetChecksumGet, .. } = data.inst else {
                    continue;
                };
                let sum = data.results[0];
                match self.match_header_checksum(body, &cfg, block, at - 1, sum) {
                    Some((field, over, store)) => {
                        let name = self.p.vars[field].name.split('.').nth(1).unwrap_or("header").to_owned();
                        let name = format!("{}.update_{name}", self.meta);
                        let known = self.deparser_checksums.iter().find(|d| d.field == field).map(|d| d.update_flag);
                        let wanted = known.unwrap_or_else(|| self.add_var(&name, Type::Bool, VarKind::Meta));
                        if known.is_none() {
                            self.deparser_checksums.push(DeparserChecksum { field, over, update_flag: wanted });
                        }
                        let yes = body.values.push(Type::Bool);
                        let insts = &mut body.blocks[block].insts;
                        insts[at - 1] = InstData { inst: Inst::Const(Const::bool(true)), results: vec![yes], loc: data.loc };
                        insts[store].inst = Inst::Store(wanted, yes);
                    }
                    None => self.report_left_out(data.loc, "a checksum over other fields than those of one header: the chip computes checksums only in parsers and deparsers"),
                }
            }
        }
        // The remaining calls have no effect.
        for data in body.blocks.values_mut() {
            data.insts.retain(|i| {
                !matches!(
                    &i.inst,
                    Inst::Extern { func: ExternFn::InternetChecksumAdd | ExternFn::InternetChecksumClear, .. }
                )
            });
        }
    }

    /// Matches a checksum over all other fields of a header that is stored to a field of it.
    /// Returns that field, the summed fields and the index of the store.
    fn match_header_checksum(
        &self,
        body: &Body,
        cfg: &Cfg,
        block: Block,
        get: usize,
        sum: Value,
    ) -> Option<(VarId, Vec<VarId>, usize)> {
        let insts = &body.blocks[block].insts;
        let is_store = |i: &InstData| matches!(&i.inst, Inst::Store(_, v) if *v == sum);
        let store = insts.iter().position(is_store)?;
        let Inst::Store(field, _) = insts[store].inst else { return None };
        let VarKind::Field(header, _) = self.p.vars[field].kind else { return None };
        let data = insts[..get].iter().rev().find_map(|i| match &i.inst {
            Inst::Extern { func: ExternFn::InternetChecksumAdd, args, .. } => Some(args.clone()),
            _ => None,
        })?;
        let [ExternArg::Values(values)] = &data[..] else { return None };
        let over: Vec<VarId> = self.p.headers[header].fields.iter().copied().filter(|v| *v != field).collect();
        (values.len() == over.len()).then_some(())?;
        for (value, var) in values.iter().zip(&over) {
            let loaded = insts[..get].iter().position(|i| i.inst == Inst::Load(*var) && i.results.contains(value));
            let stored = insts[..get].iter().enumerate().rev().find_map(|(n, i)| match &i.inst {
                Inst::Store(to, v) if to == var => Some((n, v)),
                _ => None,
            });
            let fresh = match (loaded, stored) {
                (_, Some((_, v))) if v == value => true,
                (Some(at), Some((n, _))) => at > n,
                (Some(_), None) => true,
                // Loaded in an earlier block; still the current value if no store exists.
                (None, None) => {
                    matches!(body.defining_inst(*value)?.inst, Inst::Load(v) if v == *var) && !is_stored(body, *var)
                }
                (None, Some(_)) => false,
            };
            fresh.then_some(())?;
        }
        // Later code must not change the summed fields.
        let order = cfg.reverse_postorder();
        let here = order.iter().position(|b| *b == block)?;
        let changes = |i: &InstData| matches!(&i.inst, Inst::Store(v, _) if over.contains(v) || *v == field);
        let behind = order[here + 1..].iter().filter(|b| body.can_reach(block, **b));
        let later = behind.into_iter().any(|b| body.blocks[*b].insts.iter().any(changes));
        (!later && !insts[store + 1..].iter().any(changes)).then_some((field, over, store))
    }

    /// Removes arithmetic that no ALU of the chip supports.
    fn drop_unsupported_arithmetic(&mut self, body: &mut Body) {
        let constants: HashSet<Value> =
            body.insts().filter(|i| matches!(i.inst, Inst::Const(_))).flat_map(|i| i.results.clone()).collect();
        let values = body.values.clone();
        for n in 0..body.blocks.len() {
            let block = Block(u32::try_from(n).unwrap_or(u32::MAX));
            let mut found = Vec::new();
            for inst in &mut body.blocks[block].insts {
                let Inst::Binary(op, a, b) = inst.inst else { continue };
                let width = values[a].width();
                let what = match op {
                    BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod => "multiplication or division",
                    BinaryOp::Shl | BinaryOp::Shr if !constants.contains(&b) => {
                        "a shift by a number known at run time only"
                    }
                    BinaryOp::Add | BinaryOp::Sub | BinaryOp::AddSat | BinaryOp::SubSat if width > 32 => {
                        "arithmetic on more than 32 bits"
                    }
                    _ => continue,
                };
                found.push((inst.loc, what));
                inst.inst = Inst::Const(Const::new(values[inst.results[0]], 0u8));
            }
            found.into_iter().for_each(|(loc, what)| self.report_left_out(loc, what));
        }
    }
}

/// Returns whether a body writes a variable.
fn is_stored(body: &Body, var: VarId) -> bool {
    body.insts().any(|i| matches!(i.inst, Inst::Store(to, _) if to == var))
}
