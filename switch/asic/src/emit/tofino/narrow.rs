//! Ports have 9 bits on the chip, and PNA's 32: a port that is compared with a number is compared as it is.
//!
//! So is a port that is a key. The chip's parser can ask for what it has extracted, not for a wider form of it, and in a control widening is a step of its own.

use super::instructions::constant;
use ir::*;
use num_bigint::BigUint;

/// Bits of a port.
const PORT_BITS: u32 = 9;

/// Rewrites a pipeline.
pub(in crate::emit) fn narrow(p: &mut Pipeline) {
    ports(p).into_iter().for_each(|var| port(p, var));
    p.controls.values_mut().for_each(|control| compared(&mut control.body));
}

/// The port that a packet came by, as the parser and as the control have it.
fn ports(p: &Pipeline) -> Vec<VarId> {
    ["istd.input_port", "parser_istd.input_port"].iter().filter_map(|name| p.intrinsics.get(*name).copied()).collect()
}

/// A variable of 9 bits; whoever reads it gets it widened.
fn port(p: &mut Pipeline, var: VarId) {
    let wide = p.vars[var].ty;
    if !matches!(wide, Type::Bit(width) if width > PORT_BITS)
        || p.insts().any(|i| matches!(i.inst, Inst::Store(v, _) if v == var))
    {
        return;
    }
    p.vars[var].ty = Type::Bit(PORT_BITS);
    for body in p.controls.values_mut().map(|control| &mut control.body) {
        let Body { blocks, values, .. } = body;
        for data in blocks.values_mut() {
            let mut n = 0;
            while n < data.insts.len() {
                let inst = &mut data.insts[n];
                if inst.inst == Inst::Load(var) {
                    let read = values.push(Type::Bit(PORT_BITS));
                    let widened = InstData { inst: Inst::Cast(wide, read), ..inst.clone() };
                    inst.results = vec![read];
                    n += 1;
                    data.insts.insert(n, widened);
                }
                n += 1;
            }
        }
    }
}

/// Keys that are the port are its 9 bits: the chip has no step for a key, so to widen it would be one before the lookup.
pub(in crate::emit) fn keys(p: &mut Pipeline) {
    let ports = ports(p);
    for table in p.tables.keys().collect::<Vec<_>>() {
        for n in (0..p.tables[table].keys.len()).filter(|n| is_port(p, &ports, (table, *n))).collect::<Vec<_>>() {
            let key = &mut p.tables[table].keys[n];
            (key.ty, key.type_name) = (Type::Bit(PORT_BITS), None);
            for body in p.controls.values_mut().map(|control| &mut control.body) {
                let asked: Vec<(Block, Value)> = asked(body, (table, n)).collect();
                for (block, key) in asked {
                    let port = widened(body, key).map_or(key, |(port, _)| port);
                    if let Some(TermData { term: Term::Apply { keys, .. }, .. }) = &mut body.blocks[block].term {
                        keys[n] = port;
                    }
                }
            }
        }
    }
    p.controls.values_mut().for_each(|control| ir::passes::drop_unused(&mut control.body));
}

/// Where a table is applied, and what its key of that number is there.
fn asked(body: &Body, (table, n): (TableId, usize)) -> impl Iterator<Item = (Block, Value)> + '_ {
    body.blocks.iter().filter_map(move |(block, data)| match &data.term.as_ref()?.term {
        Term::Apply { table: own, keys, .. } if *own == table => Some((block, keys[n])),
        _ => None,
    })
}

/// Whether a key is matched exactly, is the port wherever its table is applied, and has no entry that a port of 9 bits can't match.
fn is_port(p: &Pipeline, ports: &[VarId], (table, n): (TableId, usize)) -> bool {
    let of = &p.tables[table];
    let at = of.match_keys().position(|(at, _)| at == n);
    let fits = |key: &KeyMatch| matches!(key, KeyMatch::Exact(bits) if bits.bits() <= u64::from(PORT_BITS));
    let port = |body: &Body, key: Value| {
        let read = widened(body, key).and_then(|(of, _)| body.definition(of));
        read.is_some_and(|read| matches!(read.inst, Inst::Load(var) if ports.contains(&var)))
    };
    let mut places =
        p.controls.values().flat_map(|c| asked(&c.body, (table, n)).map(|(_, key)| (&c.body, key))).peekable();
    of.keys[n].kind == MatchKind::Exact
        && places.peek().is_some()
        && places.all(|(body, key)| port(body, key))
        && of.entries.iter().filter_map(|entry| entry.keys.get(at?)).all(fits)
}

/// What a value is the wider form of, and its width.
fn widened(body: &Body, value: Value) -> Option<(Value, u32)> {
    let Inst::Cast(Type::Bit(wide), of) = body.definition(value)?.inst else { return None };
    match body.value_type(of) {
        Type::Bit(width) if width < wide => Some((of, width)),
        _ => None,
    }
}

/// Comparisons of widened values with constants ask for the values themselves.
fn compared(body: &mut Body) {
    for block in body.blocks.keys().collect::<Vec<_>>() {
        let mut n = 0;
        while n < body.blocks[block].insts.len() {
            if let Inst::Binary(op @ (BinaryOp::Eq | BinaryOp::Ne), a, b) = body.blocks[block].insts[n].inst {
                n += usize::from(equality(body, (block, n), op, [a, b]) || equality(body, (block, n), op, [b, a]));
            }
            n += 1;
        }
        let Some(TermData { term: Term::Switch { value, .. }, .. }) = &body.blocks[block].term else { continue };
        let Some((of, width)) = widened(body, *value) else { continue };
        if let Some(TermData { term: Term::Switch { value, cases, .. }, .. }) = &mut body.blocks[block].term {
            *value = of;
            cases.retain(|(number, _)| number.bits < BigUint::from(1u8) << width);
            cases.iter_mut().for_each(|(number, _)| *number = Const::new(Type::Bit(width), number.bits.clone()));
        }
    }
    ir::passes::drop_unused(body);
}

/// True if there is an instruction more before.
fn equality(body: &mut Body, (block, n): (Block, usize), op: BinaryOp, [wide, number]: [Value; 2]) -> bool {
    let Some((of, width)) = widened(body, wide) else { return false };
    let Some(number) = constant(body, number).cloned() else { return false };
    if number >= BigUint::from(1u8) << width {
        let always = Const::new(Type::Bool, BigUint::from(u8::from(op == BinaryOp::Ne)));
        body.blocks[block].insts[n].inst = Inst::Const(always);
        return false;
    }
    let narrow = body.values.push(Type::Bit(width));
    let loc = body.blocks[block].insts[n].loc;
    let constant = Inst::Const(Const::new(Type::Bit(width), number));
    body.blocks[block].insts[n].inst = Inst::Binary(op, of, narrow);
    body.blocks[block].insts.insert(n, InstData { inst: constant, results: vec![narrow], loc });
    true
}
