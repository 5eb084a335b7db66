//! Registers: the accesses of a packet to one register become a `RegisterAction`, which a stateful
//! ALU executes in one step.

use crate::emit::expr;
use ir::*;

/// Access of a packet to a register.
pub(in crate::emit) enum RegisterUpdate {
    /// Reads the element.
    Read,
    /// Writes the element.
    Write,
    /// Reads the element and writes the result of an operation on it.
    Modify(BinaryOp, Value),
    /// Reads the element and writes another value.
    Swap(Value),
}

/// Returns the calls of a register: block, index, function, arguments.
fn register_calls(body: &Body, object: ExternId) -> Vec<(Block, usize, ExternFn, Vec<ExternArg>)> {
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

/// Returns whether two values are provably equal: the same value, constant or load.
fn same_value(body: &Body, a: Value, b: Value) -> bool {
    a == b
        || matches!((body.defining_inst(a).map(|data| &data.inst), body.defining_inst(b).map(|data| &data.inst)), (Some(x), Some(y)) if x == y && matches!(x, Inst::Load(_) | Inst::Const(_)))
}

fn single_value(args: &[ExternArg], n: usize) -> Option<Value> {
    match args.get(n) {
        Some(ExternArg::Value(value)) => Some(*value),
        Some(ExternArg::Values(values)) if values.len() == 1 => Some(values[0]),
        _ => None,
    }
}

/// Returns the access of a program to a register.
///
/// # Errors
/// The reason for which the chip does not support it.
pub(in crate::emit) fn register_update(body: &Body, object: ExternId) -> Result<RegisterUpdate, &'static str> {
    let calls = register_calls(body, object);
    let [(block, read_index, first_func, args), later_calls @ ..] = &calls[..] else { return Ok(RegisterUpdate::Read) };
    match (first_func, later_calls) {
        (ExternFn::RegisterRead, []) => return Ok(RegisterUpdate::Read),
        (ExternFn::RegisterWrite, []) => return Ok(RegisterUpdate::Write),
        _ => {}
    }
    let (ExternFn::RegisterRead, [(write_block, write_index, ExternFn::RegisterWrite, write_args)]) =
        (first_func, later_calls)
    else {
        return Err("it has several uses, and a register of the chip belongs to one table");
    };
    let between = &body.blocks[*block].insts[*read_index..*write_index.max(read_index)];
    let index = single_value(args, 0).zip(single_value(write_args, 0));
    if block != write_block || !index.is_some_and(|(a, b)| same_value(body, a, b)) {
        return Err("it is read and written with a decision or another index between the two");
    }
    let (Some(old_value), Some(new_value)) =
        (body.blocks[*block].insts[*read_index].results.first().copied(), single_value(write_args, 1))
    else {
        return Err("its elements are structures");
    };
    // The written value must be available where the register is read.
    let is_known_before = |value: Value| match body.defining_inst(value).map(|data| &data.inst) {
        Some(Inst::Const(_)) | None => true,
        Some(Inst::Load(var)) => !between.iter().any(|i| matches!(i.inst, Inst::Store(v, _) if v == *var)),
        _ => false,
    };
    match body.defining_inst(new_value).map(|data| &data.inst) {
        _ if new_value == old_value => Err("it is written as it is read"),
        Some(Inst::Binary(op, a, b)) => {
            use BinaryOp::*;
            let is_supported = matches!(op, Add | Sub | And | Or | Xor | AddSat | SubSat);
            match is_supported && *a == old_value && *b != old_value && is_known_before(*b) {
                true => Ok(RegisterUpdate::Modify(*op, *b)),
                false => Err("the written value is more than one operation on the value read"),
            }
        }
        _ if is_known_before(new_value) => Ok(RegisterUpdate::Swap(new_value)),
        _ => Err("the written value is more than one operation on the value read"),
    }
}

/// Checks that the chip supports a register and its use.
///
/// # Errors
/// The reason for which the chip does not support it.
pub(in crate::emit) fn check_register_support(p: &Pipeline, body: &Body, object: ExternId) -> Result<(), String> {
    let ExternKind::Register { elem, .. } = &p.externs[object].kind else { return Ok(()) };
    match elem[..] {
        [Type::Bit(8 | 16 | 32)] => {}
        [Type::Bit(width)] => return Err(format!("elements of {width} bits; the chip's have 8, 16 or 32")),
        _ => return Err("elements that are not one number; the chip's have 8, 16 or 32 bits".into()),
    }
    register_update(body, object).map(|_| ()).map_err(str::to_owned)
}

/// Returns the declaration of a register action.
pub(in crate::emit) fn register_action_text(ty: &str, index: &str, register: &str, name: &str, new: &str) -> String {
    format!(
        "RegisterAction<{ty}, {index}, {ty}>({register}) {name} = {{ void apply(inout {ty} element, out {ty} before) {{ \
         before = element; element = {new}; }} }};"
    )
}

/// Returns the expression of an element after a modification.
pub(in crate::emit) fn new_element_text(op: BinaryOp, ty: Type, operand: &expr::P4Expr) -> String {
    let element = expr::P4Expr::primary("element", Vec::new());
    expr::binary(op, ty, &element, operand).text
}
