//! A PNA pipeline in the shape that Tofino's architecture asks for, as far as it can be had by changing the pipeline.
//!
//! - `verify` becomes a branch to a state that sets `meta.parser_error` and accepts: there are no errors of the program's own.
//! - A checksum is verified and computed by units of parser and deparser: what the program computes in a control moves there if nothing
//!   changes the header behind it.
//! - What has no form is taken out, and named.

use super::narrow::narrow;
use super::preparer::{Deparsed, Preparer};
use crate::emit::Unsupported;
use ir::*;
use std::collections::HashSet;

/// A pipeline as Tofino can have it.
pub(in crate::emit) struct Prepared {
    pub(in crate::emit) pipeline: Pipeline,
    pub(in crate::emit) left_out: Vec<Unsupported>,
    pub(in crate::emit) deparsed: Vec<Deparsed>,
}

/// Prepares a pipeline.
pub(in crate::emit) fn prepare(p: &Pipeline, meta: &str) -> Prepared {
    let mut this = Preparer::new(p, meta);
    let error = this.parser_error();
    this.colours();
    narrow(&mut this.p);
    let ids: Vec<ControlId> = p.controls.iter().map(|(id, _)| id).collect();
    for id in ids {
        let mut body = std::mem::take(&mut this.p.controls[id].body);
        match p.controls[id].kind {
            ControlKind::MainParser => {
                this.without_computing(&mut body, error);
                this.errors_as_numbers(&mut body);
                this.sums_where_extracted(&mut body);
                this.parser(&mut body, error);
                this.copies_of_what_went_by(&mut body);
                this.moves_only(&mut body);
                this.written_once(&mut body);
                this.late_in_order(&body);
                this.copies_in_order(&body);
            }
            ControlKind::MainControl => {
                this.errors_as_numbers(&mut body);
                this.one_place(&mut body);
                this.checksums(&mut body);
                this.externs(&mut body);
                this.arithmetic(&mut body);
                this.in_all_actions(&mut body);
                this.first(&p.controls[id].name, &mut body, error);
            }
            ControlKind::MainDeparser => this.externs(&mut body),
            _ => {}
        }
        this.p.controls[id].body = body;
    }
    Prepared { pipeline: this.p, left_out: this.left_out, deparsed: this.deparsed }
}

impl Preparer {
    /// The program's parser error, as a number in its metadata.
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
    fn checksums(&mut self, body: &mut Body) {
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
                match self.deparsed_sum(body, &cfg, block, at - 1, sum) {
                    Some((field, over, store)) => {
                        let name = self.p.vars[field].name.split('.').nth(1).unwrap_or("header").to_owned();
                        let name = format!("{}.update_{name}", self.meta);
                        let known = self.deparsed.iter().find(|d| d.field == field).map(|d| d.wanted);
                        let wanted = known.unwrap_or_else(|| self.add_var(&name, Type::Bool, VarKind::Meta));
                        if known.is_none() {
                            self.deparsed.push(Deparsed { field, over, wanted });
                        }
                        let yes = body.values.push(Type::Bool);
                        let insts = &mut body.blocks[block].insts;
                        insts[at - 1] = InstData { inst: Inst::Const(Const::bool(true)), results: vec![yes], loc: data.loc };
                        insts[store].inst = Inst::Store(wanted, yes);
                    }
                    None => self.leave_out(data.loc, "a checksum of other than the fields of one header: the chip has units for that in parsers and deparsers only"),
                }
            }
        }
        // What is left of them computes nothing any more.
        for data in body.blocks.values_mut() {
            data.insts.retain(|i| {
                !matches!(
                    &i.inst,
                    Inst::Extern { func: ExternFn::InternetChecksumAdd | ExternFn::InternetChecksumClear, .. }
                )
            });
        }
    }

    /// If the sum is that of a header's fields, for another field of it: that field, the fields, and where it is stored.
    fn deparsed_sum(
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
        let [Arg::Values(values)] = &data[..] else { return None };
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
                // Read further up, for other ways as well: it is what it was if nothing writes it.
                (None, None) => {
                    matches!(body.definition(*value)?.inst, Inst::Load(v) if v == *var) && !is_stored(body, *var)
                }
                (None, Some(_)) => false,
            };
            fresh.then_some(())?;
        }
        // Nothing behind it changes what was summed up.
        let order = cfg.reverse_postorder();
        let here = order.iter().position(|b| *b == block)?;
        let changes = |i: &InstData| matches!(&i.inst, Inst::Store(v, _) if over.contains(v) || *v == field);
        let behind = order[here + 1..].iter().filter(|b| body.leads_to(block, **b));
        let later = behind.into_iter().any(|b| body.blocks[*b].insts.iter().any(changes));
        (!later && !insts[store + 1..].iter().any(changes)).then_some((field, over, store))
    }

    /// Takes out arithmetic that no ALU of the chip does.
    fn arithmetic(&mut self, body: &mut Body) {
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
            found.into_iter().for_each(|(loc, what)| self.leave_out(loc, what));
        }
    }
}

/// Whether anything writes a variable.
fn is_stored(body: &Body, var: VarId) -> bool {
    body.insts().any(|i| matches!(i.inst, Inst::Store(to, _) if to == var))
}
