//! Checksums that a parser verifies. The chip adds a field up while it extracts it, so each sum is added to in the states that extract
//! its headers; where it is looked at stays where it was.

use super::preparer::Preparer;
use ir::*;
use std::collections::HashSet;

/// What a sum is made of: fields, by header.
type Addends = Vec<(HeaderId, Vec<VarId>)>;

impl Preparer {
    /// Moves additions to where the fields are extracted. Each sum that is looked at gets a unit of its own; one that has no such
    /// form is zero from then on, and named.
    pub(super) fn sums_where_extracted(&mut self, body: &mut Body) {
        let cfg = Cfg::new(body);
        let mut looked_at = Vec::new();
        for (block, data) in body.blocks.iter() {
            for (n, inst) in data.insts.iter().enumerate() {
                if let Inst::Extern { object: Some(object), func: ExternFn::InternetChecksumGet, .. } = inst.inst {
                    looked_at.push((block, n, object, inst.results[0], inst.loc));
                }
            }
        }
        let mut moved = Vec::new();
        let mut used = HashSet::new();
        for (block, n, object, result, loc) in looked_at {
            let places = self.addends(body, &cfg, block, n, object).and_then(|addends| {
                let at = |(header, fields): (HeaderId, Vec<VarId>)| {
                    Some((Self::extraction(body, &cfg, block, header)?, header, fields))
                };
                addends.into_iter().map(at).collect::<Option<Vec<_>>>()
            });
            let Some(places) = places else {
                let what = "a checksum of other than fields that the parser extracts on its way there";
                self.leave_out(loc, what);
                let zero = Const::new(body.values[result], 0u8);
                body.blocks[block].insts[n].inst = Inst::Const(zero);
                continue;
            };
            let unit = if used.insert(object) { object } else { self.another_unit(object) };
            if let Inst::Extern { object, .. } = &mut body.blocks[block].insts[n].inst {
                *object = Some(unit);
            }
            moved.extend(places.into_iter().map(|(at, header, fields)| (at, header, fields, unit, loc)));
        }
        for data in body.blocks.values_mut() {
            data.insts.retain(|i| !is_addition(&i.inst));
        }
        for (at, header, fields, unit, loc) in moved {
            let values: Vec<Value> = fields.iter().map(|var| body.values.push(self.p.vars[*var].ty)).collect();
            let load = |(var, value): (&VarId, &Value)| InstData { inst: Inst::Load(*var), results: vec![*value], loc };
            let mut insts: Vec<InstData> = fields.iter().zip(&values).map(load).collect();
            let (func, args) = (ExternFn::InternetChecksumAdd, vec![Arg::Values(values)]);
            insts.push(InstData { inst: Inst::Extern { object: Some(unit), func, args }, results: Vec::new(), loc });
            let all = &mut body.blocks[at].insts;
            let behind = all.iter().position(|i| i.inst == Inst::Extract(header)).map_or(all.len(), |at| at + 1);
            all.splice(behind..behind, insts);
        }
    }

    fn another_unit(&mut self, object: ExternId) -> ExternId {
        let mut unit = self.p.externs[object].clone();
        unit.preamble.name.push_str("_again");
        self.p.externs.push(unit)
    }

    /// What was added to a sum when it is looked at, if that is the same on each way there.
    fn addends(&self, body: &Body, cfg: &Cfg, block: Block, n: usize, object: ExternId) -> Option<Addends> {
        let mut found: Addends = Vec::new();
        let mut seen = HashSet::new();
        let (mut at, mut end) = (block, n);
        let mut cleared = None;
        'all: loop {
            seen.insert(at);
            for inst in body.blocks[at].insts[..end].iter().rev() {
                let Inst::Extern { object: Some(of), func, args } = &inst.inst else { continue };
                match func {
                    _ if *of != object => {}
                    ExternFn::InternetChecksumClear => {
                        cleared = Some(at);
                        break 'all;
                    }
                    ExternFn::InternetChecksumAdd => self.add_fields(body, args, &mut found)?,
                    ExternFn::InternetChecksumGet => {}
                    _ => return None,
                }
            }
            let Some(above) = cfg.immediate_dominator(at) else { break };
            (at, end) = (above, body.blocks[above].insts.len());
        }
        // Additions on some ways only would be there on all.
        let elsewhere = |(b, data): (Block, &BlockData)| {
            let counts = !seen.contains(&b) && cleared.is_none_or(|at| cfg.dominates(at, b));
            counts && data.insts.iter().any(|i| is_addition_to(&i.inst, object)) && body.leads_to(b, block)
        };
        (!found.is_empty() && !body.blocks.iter().any(elsewhere)).then_some(found)
    }

    fn add_fields(&self, body: &Body, args: &[Arg], found: &mut Addends) -> Option<()> {
        let values = match args {
            [Arg::Values(values)] => values.clone(),
            [Arg::Value(value)] => vec![*value],
            _ => return None,
        };
        for value in values {
            let var = match body.definition(value)?.inst {
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

    /// The one state that extracts a header on each way to a block.
    fn extraction(body: &Body, cfg: &Cfg, block: Block, header: HeaderId) -> Option<Block> {
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
