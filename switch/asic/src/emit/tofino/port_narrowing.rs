//! Port narrowing: ports have 9 bits on the chip and 32 bits in PNA. Comparisons and keys use the
//! 9-bit port directly.
//!
//! The chip's parser can match on extracted bits but not on a widened form, and widening in a
//! control is a separate step.

use super::instructions::constant_bits;
use ir::*;
use num_bigint::BigUint;

/// Width of a port in bits.
const PORT_BITS: u32 = 9;

/// Narrows the ingress port and comparisons of widened values.
pub(in crate::emit) fn narrow_ports(p: &mut Pipeline) {
    ingress_ports(p).into_iter().for_each(|var| narrow_port(p, var));
    p.controls.values_mut().for_each(|control| narrow_comparisons(&mut control.body));
}

/// Returns the ingress port of the parser and of the control.
fn ingress_ports(p: &Pipeline) -> Vec<VarId> {
    ["istd.input_port", "parser_istd.input_port"].iter().filter_map(|name| p.intrinsics.get(*name).copied()).collect()
}

/// Narrows a port variable to 9 bits and widens each load. A variable that the program stores to
/// stays as it is.
fn narrow_port(p: &mut Pipeline, var: VarId) {
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

/// Narrows keys that are the port to 9 bits, because widening would be a step before the lookup.
pub(in crate::emit) fn narrow_port_keys(p: &mut Pipeline) {
    let ports = ingress_ports(p);
    for table in p.tables.keys().collect::<Vec<_>>() {
        for n in (0..p.tables[table].keys.len()).filter(|n| is_port_key(p, &ports, (table, *n))).collect::<Vec<_>>() {
            let key = &mut p.tables[table].keys[n];
            (key.ty, key.type_name) = (Type::Bit(PORT_BITS), None);
            for body in p.controls.values_mut().map(|control| &mut control.body) {
                let applied: Vec<(Block, Value)> = key_values(body, (table, n)).collect();
                for (block, key) in applied {
                    let port = widened_from(body, key).map_or(key, |(port, _)| port);
                    if let Some(TerminatorData { term: Terminator::Apply { keys, .. }, .. }) =
                        &mut body.blocks[block].term
                    {
                        keys[n] = port;
                    }
                }
            }
        }
    }
    p.controls.values_mut().for_each(|control| ir::passes::remove_dead_values(&mut control.body));
}

/// Returns the applications of a table with the value of key `n`.
fn key_values(body: &Body, (table, n): (TableId, usize)) -> impl Iterator<Item = (Block, Value)> + '_ {
    body.blocks.iter().filter_map(move |(block, data)| match &data.term.as_ref()?.term {
        Terminator::Apply { table: own, keys, .. } if *own == table => Some((block, keys[n])),
        _ => None,
    })
}

/// Returns whether a key is matched exactly, is the port at each application, and has no entry
/// beyond 9 bits.
fn is_port_key(p: &Pipeline, ports: &[VarId], (table, n): (TableId, usize)) -> bool {
    let of = &p.tables[table];
    let at = of.match_keys().position(|(at, _)| at == n);
    let fits = |key: &KeyMatch| matches!(key, KeyMatch::Exact(bits) if bits.bits() <= u64::from(PORT_BITS));
    let port = |body: &Body, key: Value| {
        let read = widened_from(body, key).and_then(|(of, _)| body.defining_inst(of));
        read.is_some_and(|read| matches!(read.inst, Inst::Load(var) if ports.contains(&var)))
    };
    let mut places =
        p.controls.values().flat_map(|c| key_values(&c.body, (table, n)).map(|(_, key)| (&c.body, key))).peekable();
    of.keys[n].kind == MatchKind::Exact
        && places.peek().is_some()
        && places.all(|(body, key)| port(body, key))
        && of.entries.iter().filter_map(|entry| entry.keys.get(at?)).all(fits)
}

/// Returns the value and width that a cast widens.
fn widened_from(body: &Body, value: Value) -> Option<(Value, u32)> {
    let Inst::Cast(Type::Bit(wide), of) = body.defining_inst(value)?.inst else { return None };
    match body.value_type(of) {
        Type::Bit(width) if width < wide => Some((of, width)),
        _ => None,
    }
}

/// Compares widened values with constants in their original width.
fn narrow_comparisons(body: &mut Body) {
    for block in body.blocks.keys().collect::<Vec<_>>() {
        let mut n = 0;
        while n < body.blocks[block].insts.len() {
            if let Inst::Binary(op @ (BinaryOp::Eq | BinaryOp::Ne), a, b) = body.blocks[block].insts[n].inst {
                n += usize::from(
                    narrow_equality(body, (block, n), op, [a, b]) || narrow_equality(body, (block, n), op, [b, a]),
                );
            }
            n += 1;
        }
        let Some(TerminatorData { term: Terminator::Switch { value, .. }, .. }) = &body.blocks[block].term else {
            continue;
        };
        let Some((narrow, width)) = widened_from(body, *value) else { continue };
        if let Some(TerminatorData { term: Terminator::Switch { value, cases, .. }, .. }) = &mut body.blocks[block].term
        {
            *value = narrow;
            cases.retain(|(number, _)| number.bits < BigUint::from(1u8) << width);
            cases.iter_mut().for_each(|(number, _)| *number = Const::new(Type::Bit(width), number.bits.clone()));
        }
    }
    ir::passes::remove_dead_values(body);
}

/// Narrows a comparison. Returns whether it inserted an instruction before it.
fn narrow_equality(body: &mut Body, (block, n): (Block, usize), op: BinaryOp, [wide, number]: [Value; 2]) -> bool {
    let Some((of, width)) = widened_from(body, wide) else { return false };
    let Some(number) = constant_bits(body, number).cloned() else { return false };
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
