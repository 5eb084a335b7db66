//! Registers: what a packet does to one is a `RegisterAction`, which a stateful ALU does in one step.

use crate::emit::expr;
use ir::*;

/// What a packet does to a register.
pub(in crate::emit) enum Update {
    /// It reads it.
    Read,
    /// It writes it.
    Write,
    /// It reads it, and writes what `op` makes of the element and something else.
    Change(BinaryOp, Value),
    /// It reads it, and writes something else.
    Swap(Value),
}

/// Calls of a register: block, place, function, index.
fn calls(body: &Body, object: ExternId) -> Vec<(Block, usize, ExternFn, Vec<Arg>)> {
    let mut found = Vec::new();
    for (block, data) in body.blocks.iter() {
        for (n, inst) in data.insts.iter().enumerate() {
            if let Inst::Extern { object: Some(of), func, args } = &inst.inst
                && *of == object
            {
                found.push((block, n, *func, args.clone()));
            }
        }
    }
    found
}

/// Whether two values are the same, as far as can be seen.
fn same(body: &Body, a: Value, b: Value) -> bool {
    a == b
        || matches!((body.definition(a).map(|data| &data.inst), body.definition(b).map(|data| &data.inst)), (Some(x), Some(y)) if x == y && matches!(x, Inst::Load(_) | Inst::Const(_)))
}

fn single(args: &[Arg], n: usize) -> Option<Value> {
    match args.get(n) {
        Some(Arg::Value(value)) => Some(*value),
        Some(Arg::Values(values)) if values.len() == 1 => Some(values[0]),
        _ => None,
    }
}

/// What a program does to a register, if the chip can do it.
///
/// # Errors
/// Why it can't.
pub(in crate::emit) fn update(body: &Body, object: ExternId) -> Result<Update, &'static str> {
    let calls = calls(body, object);
    let [(block, n, first, args), rest @ ..] = &calls[..] else { return Ok(Update::Read) };
    match (first, rest) {
        (ExternFn::RegisterRead, []) => return Ok(Update::Read),
        (ExternFn::RegisterWrite, []) => return Ok(Update::Write),
        _ => {}
    }
    let (ExternFn::RegisterRead, [(block_2, m, ExternFn::RegisterWrite, more)]) = (first, rest) else {
        return Err("it is used at several places, and a register of the chip belongs to one table");
    };
    let between = &body.blocks[*block].insts[*n..*m.max(n)];
    let index = single(args, 0).zip(single(more, 0));
    if block != block_2 || !index.is_some_and(|(a, b)| same(body, a, b)) {
        return Err("it is read and written with a decision or another index between the two");
    }
    let (Some(old), Some(new)) = (body.blocks[*block].insts[*n].results.first().copied(), single(more, 1)) else {
        return Err("its elements are structures");
    };
    // What is written has to be known where it is read.
    let known = |value: Value| match body.definition(value).map(|data| &data.inst) {
        Some(Inst::Const(_)) | None => true,
        Some(Inst::Load(var)) => !between.iter().any(|i| matches!(i.inst, Inst::Store(v, _) if v == *var)),
        _ => false,
    };
    match body.definition(new).map(|data| &data.inst) {
        _ if new == old => Err("it is written as it is read"),
        Some(Inst::Binary(op, a, b)) => {
            use BinaryOp::*;
            let ok = matches!(op, Add | Sub | And | Or | Xor | AddSat | SubSat);
            match ok && *a == old && *b != old && known(*b) {
                true => Ok(Update::Change(*op, *b)),
                false => Err("what is written is more than one operation on what is read"),
            }
        }
        _ if known(new) => Ok(Update::Swap(new)),
        _ => Err("what is written is more than one operation on what is read"),
    }
}

/// Whether the chip can have the register, as the program uses it.
///
/// # Errors
/// Why it can't.
pub(in crate::emit) fn fits(p: &Pipeline, body: &Body, object: ExternId) -> Result<(), String> {
    let ExternKind::Register { elem, .. } = &p.externs[object].kind else { return Ok(()) };
    match elem[..] {
        [Type::Bit(8 | 16 | 32)] => {}
        [Type::Bit(width)] => return Err(format!("elements of {width} bits; the chip's have 8, 16 or 32")),
        _ => return Err("elements that are not one number; the chip's have 8, 16 or 32 bits".into()),
    }
    update(body, object).map(|_| ()).map_err(str::to_owned)
}

/// The register action of an update.
pub(in crate::emit) fn declaration(ty: &str, index: &str, register: &str, name: &str, new: &str) -> String {
    format!(
        "RegisterAction<{ty}, {index}, {ty}>({register}) {name} = {{ void apply(inout {ty} element, out {ty} before) {{ \
         before = element; element = {new}; }} }};"
    )
}

/// What an element becomes.
pub(in crate::emit) fn changed(op: BinaryOp, ty: Type, operand: &expr::Expr) -> String {
    let element = expr::Expr::primary("element", Vec::new());
    expr::binary(op, ty, &element, operand).text
}
