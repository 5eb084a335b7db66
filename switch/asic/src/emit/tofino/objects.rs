//! Objects that packets go by: what the chip's have no form for is taken out, and named.

use super::preparer::Preparer;
use super::register;
use ir::*;
use num_bigint::BigUint;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The colours of PNA's meters, and the numbers that the chip's give (`MeterColor_t` of the open specification).
const COLOURS: [(&str, u8); 3] = [("GREEN", 0), ("YELLOW", 1), ("RED", 3)];

impl Preparer {
    /// Makes colours of meters numbers of 8 bits.
    pub(super) fn colours(&mut self) {
        let Some((id, colour)) = self.p.enums.iter().find(|(_, e)| e.name == "PNA_MeterColor_t") else { return };
        let number = |bits: &BigUint| {
            let member = usize::try_from(bits).ok().and_then(|n| colour.members.get(n));
            COLOURS.iter().find(|(name, _)| member.is_some_and(|m| m == name)).map_or(0, |(_, number)| *number)
        };
        let numbers: HashMap<BigUint, u8> =
            (0..colour.members.len()).map(|n| (BigUint::from(n), number(&BigUint::from(n)))).collect();
        let plain = |ty: &mut Type| {
            if *ty == Type::Enum(id) {
                *ty = Type::Bit(8);
            }
        };
        self.p.vars.values_mut().for_each(|v| plain(&mut v.ty));
        for control in self.p.controls.values_mut() {
            control.body.values.values_mut().for_each(plain);
            for inst in control.body.blocks.values_mut().flat_map(|b| &mut b.insts) {
                if let Inst::Const(c) = &mut inst.inst
                    && c.ty == Type::Enum(id)
                {
                    *c = Const::new(Type::Bit(8), numbers.get(&c.bits).copied().unwrap_or(0));
                }
            }
        }
    }

    /// Takes out counters, meters and registers that are used at several places: an object of the chip belongs to one table.
    pub(super) fn one_place(&mut self, body: &mut Body) {
        let mut places: BTreeMap<ExternId, HashSet<Block>> = BTreeMap::new();
        let mut uses: BTreeMap<ExternId, usize> = BTreeMap::new();
        for (block, data) in body.blocks.iter() {
            for inst in &data.insts {
                if let Inst::Extern { object: Some(object), func, .. } = &inst.inst
                    && let ExternFn::CounterCount
                    | ExternFn::MeterExecute
                    | ExternFn::RegisterRead
                    | ExternFn::RegisterWrite = func
                {
                    places.entry(*object).or_default().insert(block);
                    *uses.entry(*object).or_default() += 1;
                }
            }
        }
        for (object, blocks) in places {
            let data = &self.p.externs[object];
            let (name, loc, count) = (data.preamble.name.clone(), data.loc, blocks.len());
            let what = match &data.kind {
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
                ExternKind::Register { .. } => match register::fits(&self.p, body, object) {
                    Ok(()) => continue,
                    Err(why) => format!("register `{name}`: {why}"),
                },
                _ => continue,
            };
            self.leave_out(loc, what);
            Self::without(body, |inst| matches!(inst, Inst::Extern { object: Some(o), .. } if *o == object));
        }
    }

    /// Takes out tables' own counters and meters that not all of their actions use: on the chip an entry has its counter whatever its action is.
    pub(super) fn in_all_actions(&mut self, body: &mut Body) {
        for table in self.p.tables.keys() {
            let Table { direct_counter, direct_meter, .. } = self.p.tables[table].clone();
            for (object, word) in [(direct_counter, "counter"), (direct_meter, "meter")] {
                let Some(object) = object else { continue };
                let uses = |block: Block| {
                    let prefix = super::action::simple_prefix(&self.p, body, block);
                    let insts = &body.blocks[block].insts[..prefix];
                    insts.iter().any(|i| matches!(i.inst, Inst::Extern { object: Some(o), .. } if o == object))
                };
                let by_miss =
                    |a: ActionId| self.p.tables[table].actions.iter().any(|r| r.action == a && r.default_only);
                let arms = body.blocks.values().filter_map(|data| match &data.term.as_ref()?.term {
                    Term::Apply { table: of, arms, .. } if *of == table => Some(arms),
                    _ => None,
                });
                let (using, idle): (Vec<&Arm>, Vec<&Arm>) = arms.flatten().partition(|arm| uses(arm.block));
                // What nobody uses is used by the tier below, if by anybody.
                if !using.is_empty() {
                    if idle.iter().all(|arm| by_miss(arm.action)) {
                        continue;
                    }
                    let (name, loc) = (self.p.externs[object].preamble.name.clone(), self.p.externs[object].loc);
                    let what = format!("{word} `{name}`, which only some actions of its table use: on the chip all do");
                    self.leave_out(loc, what);
                }
                Self::without(body, |inst| matches!(inst, Inst::Extern { object: Some(o), .. } if *o == object));
                let table = &mut self.p.tables[table];
                match word {
                    "counter" => table.direct_counter = None,
                    _ => table.direct_meter = None,
                }
            }
        }
    }

    /// Takes instructions out; what they give is zero.
    fn without(body: &mut Body, out: impl Fn(&Inst) -> bool) {
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

    /// Takes out calls that the chip has no form for; what they give is zero.
    pub(super) fn externs(&mut self, body: &mut Body) {
        for n in 0..body.blocks.len() {
            let block = Block(u32::try_from(n).unwrap_or(u32::MAX));
            let mut at = 0;
            while at < body.blocks[block].insts.len() {
                let here = at;
                let data = body.blocks[block].insts[here].clone();
                at += 1;
                let Inst::Extern { object, func, args } = &data.inst else { continue };
                let form = match func {
                    ExternFn::HashGet => self.hash(body, block, here, args),
                    ExternFn::RandomRead => self.random(body, block, here, *object),
                    ExternFn::MeterExecute | ExternFn::DirectMeterExecute => self.meter(body, block, here),
                    ExternFn::CounterCount
                    | ExternFn::DirectCounterCount
                    | ExternFn::RegisterRead
                    | ExternFn::RegisterWrite
                    | ExternFn::DropPacket
                    | ExternFn::SendToPort => Ok(0),
                    _ => Err(format!("`{}`", func.name())),
                };
                match form {
                    Ok(more) => at += more,
                    Err(what) => {
                        self.leave_out(data.loc, what);
                        let zero = |v: &Value| InstData {
                            inst: Inst::Const(Const::new(body.values[*v], 0u8)),
                            results: vec![*v],
                            loc: data.loc,
                        };
                        let zeros: Vec<InstData> = data.results.iter().map(zero).collect();
                        at = here + zeros.len();
                        body.blocks[block].insts.splice(here..=here, zeros);
                    }
                }
            }
        }
    }

    /// A hash within bounds is some of its bits, and a sum. How many instructions came to it.
    fn hash(&mut self, body: &mut Body, block: Block, at: usize, args: &[Arg]) -> Result<usize, String> {
        let [Arg::Value(base), list, Arg::Value(max)] = args else { return Ok(0) };
        let bound = Self::constant(body, *max).filter(|max| max.count_ones() == 1);
        let Some(bound) = bound else { return Err("a hash with a bound that is no power of two".into()) };
        let (base, list) = (*base, list.clone());
        let Inst::Extern { args, .. } = &mut body.blocks[block].insts[at].inst else { return Ok(0) };
        *args = vec![list];
        Ok(Self::within(body, block, at, base, bound - 1u8))
    }

    /// What the instruction gives is `base + (that & mask)` from now on.
    fn within(body: &mut Body, block: Block, at: usize, base: Value, mask: BigUint) -> usize {
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

    /// The chip's random numbers have all values of their bits.
    fn random(&mut self, body: &mut Body, block: Block, at: usize, object: Option<ExternId>) -> Result<usize, String> {
        let Some(ExternKind::Random { min, max }) = object.map(|o| self.p.externs[o].kind.clone()) else {
            return Ok(0);
        };
        let width = min.ty.width();
        let all = (BigUint::from(1u8) << width) - 1u8;
        if min.bits == BigUint::ZERO && max.bits == all {
            return Ok(0);
        }
        let span = if max.bits >= min.bits { &max.bits - &min.bits } else { BigUint::ZERO };
        if (&span + 1u8).count_ones() != 1 {
            return Err("random numbers of other than a power of two of values".into());
        }
        let loc = body.blocks[block].insts[at].loc;
        let base = body.values.push(min.ty);
        let lower = InstData { inst: Inst::Const(min), results: vec![base], loc };
        body.blocks[block].insts.insert(at, lower);
        Ok(1 + Self::within(body, block, at + 1, base, span))
    }

    /// A meter: packets are green before, or have a colour that is in a variable.
    fn meter(&mut self, body: &mut Body, block: Block, at: usize) -> Result<usize, String> {
        let Inst::Extern { args, .. } = &body.blocks[block].insts[at].inst else { return Ok(0) };
        // The first argument is the index, or the table.
        match args.get(1).cloned() {
            Some(Arg::Value(colour)) => match Self::constant(body, colour) {
                Some(bits) if bits != BigUint::ZERO => {
                    return Err("a meter for packets of another colour than green that no variable holds".into());
                }
                Some(_) if args.len() > 2 => return Err("a meter that is told the packet's length".into()),
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
