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

/// Legalizes a pipeline: rewrites the constructs that the chip can express in another way and
/// removes all others, which the result lists. `meta` names the metadata parameter.
pub(in crate::emit) fn legalize(p: &Pipeline, meta: &str) -> LegalizedPipeline {
    let mut legalizer = Legalizer::new(p, meta);
    let error = legalizer.parser_error();
    legalizer.colors_as_numbers();
    narrow_ports(&mut legalizer.p);
    let ids: Vec<ControlId> = p.controls.iter().map(|(id, _)| id).collect();
    for id in ids {
        let mut body = std::mem::take(&mut legalizer.p.controls[id].body);
        match p.controls[id].kind {
            ControlKind::MainParser => {
                legalizer.drop_computing_states(&mut body, error);
                legalizer.errors_as_numbers(&mut body);
                legalizer.move_sums_to_extractions(&mut body);
                legalizer.lower_verify(&mut body, error);
                legalizer.defer_late_copies(&mut body);
                legalizer.drop_parser_computation(&mut body);
                legalizer.sink_overwritten_stores(&mut body);
                legalizer.sort_deferred_tests(&body);
                legalizer.sort_deferred_copies(&body);
            }
            ControlKind::MainControl => {
                legalizer.errors_as_numbers(&mut body);
                legalizer.drop_shared_objects(&mut body);
                legalizer.move_checksums_to_deparser(&mut body);
                legalizer.legalize_calls(&mut body);
                legalizer.drop_unsupported_arithmetic(&mut body);
                legalizer.drop_partly_used_direct_objects(&mut body);
                legalizer.prepend_to_control(&p.controls[id].name, &mut body, error);
            }
            ControlKind::MainDeparser => legalizer.legalize_calls(&mut body),
            _ => {}
        }
        legalizer.p.controls[id].body = body;
    }
    LegalizedPipeline {
        pipeline: legalizer.p,
        left_out: legalizer.left_out,
        deparser_checksums: legalizer.deparser_checksums,
    }
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

    /// Moves checksums that a control computes to the deparser, which updates the field if a flag
    /// is set. The control sets the flag in place of the store.
    fn move_checksums_to_deparser(&mut self, body: &mut Body) {
        let blocks: Vec<Block> = body.blocks.iter().map(|(b, _)| b).collect();
        let cfg = Cfg::new(body);
        for block in blocks {
            let mut next_index = 0;
            while next_index < body.blocks[block].insts.len() {
                let data = body.blocks[block].insts[next_index].clone();
                next_index += 1;
                let Inst::Extern { object: Some(_), func: ExternFn::InternetChecksumGet, .. } = data.inst else {
                    continue;
                };
                let sum = data.results[0];
                match self.match_header_checksum(body, &cfg, block, next_index - 1, sum) {
                    Some((field, summed, store)) => {
                        let name = self.p.vars[field].name.split('.').nth(1).unwrap_or("header").to_owned();
                        let name = format!("{}.update_{name}", self.meta);
                        let existing_flag = self.deparser_checksums.iter().find(|d| d.field == field).map(|d| d.update_flag);
                        let flag = existing_flag.unwrap_or_else(|| self.add_var(&name, Type::Bool, VarKind::Meta));
                        if existing_flag.is_none() {
                            self.deparser_checksums.push(DeparserChecksum { field, over: summed, update_flag: flag });
                        }
                        let one = body.values.push(Type::Bool);
                        let insts = &mut body.blocks[block].insts;
                        insts[next_index - 1] = InstData { inst: Inst::Const(Const::bool(true)), results: vec![one], loc: data.loc };
                        insts[store].inst = Inst::Store(flag, one);
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

    /// Matches a checksum over all other fields of a header that is stored to a field of it. `get`
    /// is the index of the call that returns `sum`. Returns the stored field, the summed fields and
    /// the index of the store; `None` if a summed value is not the field's current one.
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
        let summed_fields: Vec<VarId> = self.p.headers[header].fields.iter().copied().filter(|v| *v != field).collect();
        (values.len() == summed_fields.len()).then_some(())?;
        for (value, var) in values.iter().zip(&summed_fields) {
            let loaded = insts[..get].iter().position(|i| i.inst == Inst::Load(*var) && i.results.contains(value));
            let stored = insts[..get].iter().enumerate().rev().find_map(|(n, i)| match &i.inst {
                Inst::Store(stored_var, v) if stored_var == var => Some((n, v)),
                _ => None,
            });
            let is_current = match (loaded, stored) {
                (_, Some((_, v))) if v == value => true,
                (Some(load_index), Some((n, _))) => load_index > n,
                (Some(_), None) => true,
                // Loaded in an earlier block; still the current value if no store exists.
                (None, None) => {
                    matches!(body.defining_inst(*value)?.inst, Inst::Load(v) if v == *var) && !is_stored(body, *var)
                }
                (None, Some(_)) => false,
            };
            is_current.then_some(())?;
        }
        // Later code must not change the summed fields.
        let order = cfg.reverse_postorder();
        let order_index = order.iter().position(|b| *b == block)?;
        let changes_field =
            |i: &InstData| matches!(&i.inst, Inst::Store(v, _) if summed_fields.contains(v) || *v == field);
        let later_blocks = order[order_index + 1..].iter().filter(|b| body.can_reach(block, **b));
        let is_changed_later = later_blocks.into_iter().any(|b| body.blocks[*b].insts.iter().any(changes_field));
        (!is_changed_later && !insts[store + 1..].iter().any(changes_field)).then_some((field, summed_fields, store))
    }

    /// Removes arithmetic that no ALU of the chip supports.
    fn drop_unsupported_arithmetic(&mut self, body: &mut Body) {
        let constants: HashSet<Value> =
            body.insts().filter(|i| matches!(i.inst, Inst::Const(_))).flat_map(|i| i.results.clone()).collect();
        let values = body.values.clone();
        for n in 0..body.blocks.len() {
            let block = Block(u32::try_from(n).unwrap_or(u32::MAX));
            let mut dropped = Vec::new();
            for inst in &mut body.blocks[block].insts {
                let Inst::Binary(op, a, b) = inst.inst else { continue };
                let width = values[a].width();
                let construct = match op {
                    BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod => "multiplication or division",
                    BinaryOp::Shl | BinaryOp::Shr if !constants.contains(&b) => {
                        "a shift by a number known at run time only"
                    }
                    BinaryOp::Add | BinaryOp::Sub | BinaryOp::AddSat | BinaryOp::SubSat if width > 32 => {
                        "arithmetic on more than 32 bits"
                    }
                    _ => continue,
                };
                dropped.push((inst.loc, construct));
                inst.inst = Inst::Const(Const::new(values[inst.results[0]], 0u8));
            }
            dropped.into_iter().for_each(|(loc, construct)| self.report_left_out(loc, construct));
        }
    }
}

/// Returns whether a body writes a variable.
fn is_stored(body: &Body, var: VarId) -> bool {
    body.insts().any(|i| matches!(i.inst, Inst::Store(to, _) if to == var))
}
