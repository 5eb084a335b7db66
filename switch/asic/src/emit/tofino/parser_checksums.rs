//! Checksums that a parser verifies. The chip adds a field to a sum when it extracts the field, so
//! additions move to the states that extract the headers. The reads of a sum stay in place.

use super::legalizer::Legalizer;
use ir::*;
use std::collections::HashSet;

/// Fields that a sum covers, by header.
type Addends = Vec<(HeaderId, Vec<VarId>)>;

impl Legalizer {
    /// Moves additions to the extractions of the fields. Each read of a sum gets a separate unit.
    /// Unsupported sums become zero and are reported.
    pub(super) fn move_sums_to_extractions(&mut self, body: &mut Body) {
        let cfg = Cfg::new(body);
        let mut reads = Vec::new();
        for (block, data) in body.blocks.iter() {
            for (n, inst) in data.insts.iter().enumerate() {
                if let Inst::Extern { object: Some(object), func: ExternFn::InternetChecksumGet, .. } = inst.inst {
                    reads.push((block, n, object, inst.results[0], inst.loc));
                }
            }
        }
        let mut moved = Vec::new();
        let mut used_units = HashSet::new();
        for (block, n, object, result, loc) in reads {
            let additions = self.summed_fields(body, &cfg, block, n, object).and_then(|addends| {
                let state = |(header, fields): (HeaderId, Vec<VarId>)| {
                    Some((Self::extracting_state(body, &cfg, block, header)?, header, fields))
                };
                addends.into_iter().map(state).collect::<Option<Vec<_>>>()
            });
            let Some(additions) = additions else {
                let reason = "a checksum over other fields than those that the parser extracts on each path to it";
                self.report_left_out(loc, reason);
                let zero = Const::new(body.values[result], 0u8);
                body.blocks[block].insts[n].inst = Inst::Const(zero);
                continue;
            };
            let unit = if used_units.insert(object) { object } else { self.clone_checksum_unit(object) };
            if let Inst::Extern { object, .. } = &mut body.blocks[block].insts[n].inst {
                *object = Some(unit);
            }
            moved.extend(additions.into_iter().map(|(state, header, fields)| (state, header, fields, unit, loc)));
        }
        for data in body.blocks.values_mut() {
            data.insts.retain(|i| !is_addition(&i.inst));
        }
        for (state, header, fields, unit, loc) in moved {
            let values: Vec<Value> = fields.iter().map(|var| body.values.push(self.p.vars[*var].ty)).collect();
            let load = |(var, value): (&VarId, &Value)| InstData { inst: Inst::Load(*var), results: vec![*value], loc };
            let mut insts: Vec<InstData> = fields.iter().zip(&values).map(load).collect();
            let (func, args) = (ExternFn::InternetChecksumAdd, vec![ExternArg::Values(values)]);
            insts.push(InstData { inst: Inst::Extern { object: Some(unit), func, args }, results: Vec::new(), loc });
            let state_insts = &mut body.blocks[state].insts;
            let after_extract = state_insts
                .iter()
                .position(|i| i.inst == Inst::Extract(header))
                .map_or(state_insts.len(), |state| state + 1);
            state_insts.splice(after_extract..after_extract, insts);
        }
    }

    fn clone_checksum_unit(&mut self, object: ExternId) -> ExternId {
        let mut unit = self.p.externs[object].clone();
        unit.preamble.name.push_str("_again");
        self.p.externs.push(unit)
    }

    /// Returns the fields that a sum covers at a read (instruction `n` of a block), if they are the
    /// same on each path to it: walks up the dominators to the clearing of the sum. `None`
    /// otherwise.
    fn summed_fields(&self, body: &Body, cfg: &Cfg, block: Block, n: usize, object: ExternId) -> Option<Addends> {
        let mut addends: Addends = Vec::new();
        let mut seen = HashSet::new();
        let (mut visited, mut end) = (block, n);
        let mut cleared = None;
        'all: loop {
            seen.insert(visited);
            for inst in body.blocks[visited].insts[..end].iter().rev() {
                let Inst::Extern { object: Some(of), func, args } = &inst.inst else { continue };
                match func {
                    _ if *of != object => {}
                    ExternFn::InternetChecksumClear => {
                        cleared = Some(visited);
                        break 'all;
                    }
                    ExternFn::InternetChecksumAdd => self.collect_fields(body, args, &mut addends)?,
                    ExternFn::InternetChecksumGet => {}
                    _ => return None,
                }
            }
            let Some(dominator) = cfg.immediate_dominator(visited) else { break };
            (visited, end) = (dominator, body.blocks[dominator].insts.len());
        }
        // An addition on some paths would move to a state on all paths.
        let adds_elsewhere = |(b, data): (Block, &BlockData)| {
            let is_relevant = !seen.contains(&b) && cleared.is_none_or(|visited| cfg.dominates(visited, b));
            is_relevant && data.insts.iter().any(|i| is_addition_to(&i.inst, object)) && body.can_reach(b, block)
        };
        (!addends.is_empty() && !body.blocks.iter().any(adds_elsewhere)).then_some(addends)
    }

    /// Adds the fields that an addition covers to `found`, by header. `None` if it covers anything
    /// but fields and zeros.
    fn collect_fields(&self, body: &Body, args: &[ExternArg], found: &mut Addends) -> Option<()> {
        let values = match args {
            [ExternArg::Values(values)] => values.clone(),
            [ExternArg::Value(value)] => vec![*value],
            _ => return None,
        };
        for value in values {
            let var = match body.defining_inst(value)?.inst {
                Inst::Load(var) => var,
                Inst::Const(ref c) if c.bits == num_bigint::BigUint::ZERO => continue,
                _ => return None,
            };
            let VarKind::Field(header, _) = self.p.vars[var].kind else { return None };
            match found.iter_mut().find(|(h, _)| *h == header) {
                Some((_, fields)) => fields.push(var),
                None => found.push((header, vec![var])),
            }
        }
        Some(())
    }

    /// Returns the single state that extracts a header on all paths to a block.
    fn extracting_state(body: &Body, cfg: &Cfg, block: Block, header: HeaderId) -> Option<Block> {
        let extracts = |(_, data): &(Block, &BlockData)| data.insts.iter().any(|i| i.inst == Inst::Extract(header));
        let mut all = body.blocks.iter().filter(extracts).map(|(b, _)| b).filter(|b| cfg.dominates(*b, block));
        let only = all.next()?;
        all.next().is_none().then_some(only)
    }
}

fn is_addition(inst: &Inst) -> bool {
    matches!(inst, Inst::Extern { func: ExternFn::InternetChecksumAdd | ExternFn::InternetChecksumClear, .. })
}

fn is_addition_to(inst: &Inst, object: ExternId) -> bool {
    is_addition(inst) && matches!(inst, Inst::Extern { object: Some(of), .. } if *of == object)
}
