//! Ports have 9 bits on the chip, and PNA's 32: a port that is compared with a number is compared as it is.
//!
//! The chip's parser can ask for what it has extracted, not for a wider form of it, and in a control widening is a step of its own.

use super::simpler::constant;
use ir::*;
use num_bigint::BigUint;

/// Bits of a port.
const PORT_BITS: u32 = 9;

/// Rewrites a pipeline.
pub(in crate::emit) fn narrow(p: &mut Pipeline) {
    for name in ["istd.input_port", "parser_istd.input_port"] {
        if let Some(var) = p.intrinsics.get(name).copied() {
            port(p, var);
        }
    }
    p.controls.values_mut().for_each(|control| compared(&mut control.body));
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
