//! Legalization of extern objects and calls. Unsupported ones are removed and reported.

use super::legalizer::Legalizer;
use super::register;
use ir::*;
use num_bigint::BigUint;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Colors of PNA meters with the numbers that the chip returns (`MeterColor_t` of the open
/// specification).
const METER_COLORS: [(&str, u8); 3] = [("GREEN", 0), ("YELLOW", 1), ("RED", 3)];

impl Legalizer {
    /// Replaces meter colors by 8-bit numbers.
    pub(super) fn colors_as_numbers(&mut self) {
        let Some((id, color_enum)) = self.p.enums.iter().find(|(_, e)| e.name == "PNA_MeterColor_t") else { return };
        let number = |bits: &BigUint| {
            let member = usize::try_from(bits).ok().and_then(|n| color_enum.members.get(n));
            METER_COLORS.iter().find(|(name, _)| member.is_some_and(|m| m == name)).map_or(0, |(_, number)| *number)
        };
        let numbers: HashMap<BigUint, u8> =
            (0..color_enum.members.len()).map(|n| (BigUint::from(n), number(&BigUint::from(n)))).collect();
        let replace_type = |ty: &mut Type| {
            if *ty == Type::Enum(id) {
                *ty = Type::Bit(8);
            }
        };
        self.p.vars.values_mut().for_each(|v| replace_type(&mut v.ty));
        for control in self.p.controls.values_mut() {
            control.body.values.values_mut().for_each(replace_type);
            for inst in control.body.blocks.values_mut().flat_map(|b| &mut b.insts) {
                if let Inst::Const(c) = &mut inst.inst
                    && c.ty == Type::Enum(id)
                {
                    *c = Const::new(Type::Bit(8), numbers.get(&c.bits).copied().unwrap_or(0));
                }
            }
        }
    }

    /// Removes counters, meters and registers with several uses, because an object of the chip
    /// belongs to one table.
    pub(super) fn drop_shared_objects(&mut self, body: &mut Body) {
        let mut blocks_by_object: BTreeMap<ExternId, HashSet<Block>> = BTreeMap::new();
        let mut uses: BTreeMap<ExternId, usize> = BTreeMap::new();
        for (block, data) in body.blocks.iter() {
            for inst in &data.insts {
                if let Inst::Extern { object: Some(object), func, .. } = &inst.inst
                    && let ExternFn::CounterCount
                    | ExternFn::MeterExecute
                    | ExternFn::RegisterRead
                    | ExternFn::RegisterWrite = func
                {
                    blocks_by_object.entry(*object).or_default().insert(block);
                    *uses.entry(*object).or_default() += 1;
                }
            }
        }
        for (object, blocks) in blocks_by_object {
            let data = &self.p.externs[object];
            let (name, loc, count) = (data.preamble.name.clone(), data.loc, blocks.len());
            let description = match &data.kind {
                ExternKind::Counter { .. } if count > 1 => {
                    format!(
                        "counter `{name}`, which is counted at {count} places: a counter of the chip belongs to one table"
                    )
                }
                ExternKind::Meter { .. } if uses[&object] > 1 => {
                    format!(
                        "meter `{name}`, which is executed at {count} places: a meter of the chip belongs to one table"
                    )
                }
                ExternKind::Register { .. } => match register::check_register_support(&self.p, body, object) {
                    Ok(()) => continue,
                    Err(reason) => format!("register `{name}`: {reason}"),
                },
                _ => continue,
            };
            self.report_left_out(loc, description);
            Self::replace_by_zero(body, |inst| matches!(inst, Inst::Extern { object: Some(o), .. } if *o == object));
        }
    }

    /// Removes direct counters and meters that only some actions of their table use, because on the
    /// chip an entry has its counter whatever its action is.
    pub(super) fn drop_partly_used_direct_objects(&mut self, body: &mut Body) {
        for table in self.p.tables.keys() {
            let Table { direct_counter, direct_meter, .. } = self.p.tables[table].clone();
            for (object, kind_name) in [(direct_counter, "counter"), (direct_meter, "meter")] {
                let Some(object) = object else { continue };
                let uses = |block: Block| {
                    let prefix = super::action::simple_prefix(&self.p, body, block);
                    let insts = &body.blocks[block].insts[..prefix];
                    insts.iter().any(|i| matches!(i.inst, Inst::Extern { object: Some(o), .. } if o == object))
                };
                let is_default_only =
                    |a: ActionId| self.p.tables[table].actions.iter().any(|r| r.action == a && r.default_only);
                let arms = body.blocks.values().filter_map(|data| match &data.term.as_ref()?.term {
                    Terminator::Apply { table: applied, arms, .. } if *applied == table => Some(arms),
                    _ => None,
                });
                let (using, idle): (Vec<&ActionArm>, Vec<&ActionArm>) = arms.flatten().partition(|arm| uses(arm.block));
                // If no action uses the object here, only the lower tier can use it.
                if !using.is_empty() {
                    if idle.iter().all(|arm| is_default_only(arm.action)) {
                        continue;
                    }
                    let (name, loc) = (self.p.externs[object].preamble.name.clone(), self.p.externs[object].loc);
                    let description =
                        format!("{kind_name} `{name}`, which only some actions of its table use: on the chip all do");
                    self.report_left_out(loc, description);
                }
                Self::replace_by_zero(
                    body,
                    |inst| matches!(inst, Inst::Extern { object: Some(o), .. } if *o == object),
                );
                let table = &mut self.p.tables[table];
                match kind_name {
                    "counter" => table.direct_counter = None,
                    _ => table.direct_meter = None,
                }
            }
        }
    }

    /// Removes instructions; their results become zero.
    fn replace_by_zero(body: &mut Body, out: impl Fn(&Inst) -> bool) {
        for n in 0..body.blocks.len() {
            let block = Block(u32::try_from(n).unwrap_or(u32::MAX));
            let insts = std::mem::take(&mut body.blocks[block].insts);
            for inst in insts {
                if !out(&inst.inst) {
                    body.blocks[block].insts.push(inst);
                    continue;
                }
                for result in inst.results {
                    let zero = Inst::Const(Const::new(body.values[result], 0u8));
                    body.blocks[block].insts.push(InstData { inst: zero, results: vec![result], loc: inst.loc });
                }
            }
        }
    }

    /// Legalizes extern calls. Unsupported calls are removed and reported; their results become
    /// zero.
    pub(super) fn legalize_calls(&mut self, body: &mut Body) {
        for n in 0..body.blocks.len() {
            let block = Block(u32::try_from(n).unwrap_or(u32::MAX));
            let mut index = 0;
            while index < body.blocks[block].insts.len() {
                let call_index = index;
                let data = body.blocks[block].insts[call_index].clone();
                index += 1;
                let Inst::Extern { object, func, args } = &data.inst else { continue };
                let added_insts = match func {
                    ExternFn::HashGet => self.legalize_hash(body, block, call_index, args),
                    ExternFn::RandomRead => self.legalize_random(body, block, call_index, *object),
                    ExternFn::MeterExecute | ExternFn::DirectMeterExecute => {
                        self.legalize_meter(body, block, call_index)
                    }
                    ExternFn::CounterCount
                    | ExternFn::DirectCounterCount
                    | ExternFn::RegisterRead
                    | ExternFn::RegisterWrite
                    | ExternFn::DropPacket
                    | ExternFn::SendToPort => Ok(0),
                    _ => Err(format!("`{}`", func.name())),
                };
                match added_insts {
                    Ok(added) => index += added,
                    Err(description) => {
                        self.report_left_out(data.loc, description);
                        let zero = |v: &Value| InstData {
                            inst: Inst::Const(Const::new(body.values[*v], 0u8)),
                            results: vec![*v],
                            loc: data.loc,
                        };
                        let zeros: Vec<InstData> = data.results.iter().map(zero).collect();
                        index = call_index + zeros.len();
                        body.blocks[block].insts.splice(call_index..=call_index, zeros);
                    }
                }
            }
        }
    }

    /// Legalizes a hash with bounds: a mask and an addition. Returns the number of added
    /// instructions.
    fn legalize_hash(&mut self, body: &mut Body, block: Block, at: usize, args: &[ExternArg]) -> Result<usize, String> {
        let [ExternArg::Value(base), list, ExternArg::Value(max)] = args else { return Ok(0) };
        let bound = Self::constant_bits(body, *max).filter(|max| max.count_ones() == 1);
        let Some(bound) = bound else { return Err("a hash with a bound that is not a power of two".into()) };
        let (base, list) = (*base, list.clone());
        let Inst::Extern { args, .. } = &mut body.blocks[block].insts[at].inst else { return Ok(0) };
        *args = vec![list];
        Ok(Self::limit_result(body, block, at, base, bound - 1u8))
    }

    /// Changes the result of an instruction to `base + (result & mask)`. Returns the number of
    /// added instructions.
    fn limit_result(body: &mut Body, block: Block, at: usize, base: Value, mask: BigUint) -> usize {
        let data = &mut body.blocks[block].insts[at];
        let (loc, result) = (data.loc, data.results[0]);
        let ty = body.values[result];
        let [whole, bits, low] = [0; 3].map(|_| body.values.push(ty));
        body.blocks[block].insts[at].results = vec![whole];
        let made = |inst, result| InstData { inst, results: vec![result], loc };
        let more = [
            made(Inst::Const(Const::new(ty, mask)), bits),
            made(Inst::Binary(BinaryOp::And, whole, bits), low),
            made(Inst::Binary(BinaryOp::Add, base, low), result),
        ];
        body.blocks[block].insts.splice(at + 1..at + 1, more);
        3
    }

    /// Legalizes a random number, instruction `index` of a block, because the chip's generator
    /// returns all values of its width: masks the result to the span and adds the minimum. Returns
    /// the number of added instructions.
    fn legalize_random(
        &mut self,
        body: &mut Body,
        block: Block,
        index: usize,
        object: Option<ExternId>,
    ) -> Result<usize, String> {
        let Some(ExternKind::Random { min, max }) = object.map(|o| self.p.externs[o].kind.clone()) else {
            return Ok(0);
        };
        let width = min.ty.width();
        let max_value = (BigUint::from(1u8) << width) - 1u8;
        if min.bits == BigUint::ZERO && max.bits == max_value {
            return Ok(0);
        }
        let span = if max.bits >= min.bits { &max.bits - &min.bits } else { BigUint::ZERO };
        if (&span + 1u8).count_ones() != 1 {
            return Err("random numbers with a number of values that is not a power of two".into());
        }
        let loc = body.blocks[block].insts[index].loc;
        let base = body.values.push(min.ty);
        let lower = InstData { inst: Inst::Const(min), results: vec![base], loc };
        body.blocks[block].insts.insert(index, lower);
        Ok(1 + Self::limit_result(body, block, index + 1, base, span))
    }

    /// Legalizes a meter: the input color is green or held by a variable.
    fn legalize_meter(&mut self, body: &mut Body, block: Block, at: usize) -> Result<usize, String> {
        let Inst::Extern { args, .. } = &body.blocks[block].insts[at].inst else { return Ok(0) };
        // The first argument is the index or the table.
        match args.get(1).cloned() {
            Some(ExternArg::Value(colour)) => match Self::constant_bits(body, colour) {
                Some(bits) if bits != BigUint::ZERO => {
                    return Err("a meter with a constant input color other than green".into());
                }
                Some(_) if args.len() > 2 => return Err("a meter with the packet's length as an argument".into()),
                Some(_) => {}
                None => return Ok(0),
            },
            _ => return Ok(0),
        }
        let Inst::Extern { args, .. } = &mut body.blocks[block].insts[at].inst else { return Ok(0) };
        args.truncate(1);
        Ok(0)
    }
}
