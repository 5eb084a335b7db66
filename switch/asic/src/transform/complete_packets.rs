//! Removes what a program does for super-frames, because no link of a chip and no v1model switch
//! carries them: the excess of a packet over its longest segment is 0 there.

use ir::passes::{remove_dead_values, run_passes};
use ir::{BinaryOp, Body, Const, Inst, Pipeline, Value, VarId, VarKind};
use num_bigint::BigUint;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Returns the program for packets that are no super-frames: `istd.segment_excess` is 0, and
/// additions of it are gone. A program that does not read it is returned unchanged.
pub(crate) fn for_complete_packets(pipeline: Arc<Pipeline>) -> Arc<Pipeline> {
    let excess = pipeline.intrinsics.get("istd.segment_excess").copied();
    let reads = |var: VarId| {
        let mut insts = pipeline.controls.values().flat_map(|control| control.body.insts());
        insts.any(|data| matches!(data.inst, Inst::Load(read) if read == var))
    };
    let Some(excess) = excess.filter(|var| reads(*var)) else { return pipeline };
    let mut changed = Pipeline::clone(&pipeline);
    changed.intrinsics.remove("istd.segment_excess");
    changed.vars[excess].kind = VarKind::Local;
    let ty = changed.vars[excess].ty;
    for control in changed.controls.values_mut() {
        replace_loads(&mut control.body, excess, &Const::new(ty, BigUint::ZERO));
        remove_dead_values(&mut control.body);
    }
    // The passes accept each verified program; the unchanged one is right in any case.
    if run_passes(&mut changed, |_, _, _| {}).is_ok() { Arc::new(changed) } else { pipeline }
}

/// Replaces loads of a variable by zero, and sums with zero by their other operand.
fn replace_loads(body: &mut Body, var: VarId, zero: &Const) {
    let mut zeros: HashSet<Value> = HashSet::new();
    let mut renamed: HashMap<Value, Value> = HashMap::new();
    // Zeros are found first, because blocks are in no order of execution.
    let mut found = 1;
    while found > 0 {
        found = 0;
        for data in body.blocks.values_mut().flat_map(|block| &mut block.insts) {
            let [result] = data.results[..] else { continue };
            let is_zero = match &data.inst {
                Inst::Load(read) => *read == var,
                Inst::Cast(_, of) => zeros.contains(of),
                _ => false,
            };
            found += usize::from(is_zero && zeros.insert(result));
            if matches!(data.inst, Inst::Load(read) if read == var) {
                data.inst = Inst::Const(zero.clone());
            }
            if let Inst::Binary(BinaryOp::Add, left, right) = data.inst {
                let other = if zeros.contains(&right) { Some(left) } else { zeros.contains(&left).then_some(right) };
                other.map(|other| renamed.insert(result, other));
            }
        }
    }
    let of = |mut value: Value| {
        while let Some(other) = renamed.get(&value) {
            value = *other;
        }
        value
    };
    for block in body.blocks.values_mut() {
        block.insts.iter_mut().for_each(|data| data.inst.map_values(of));
        block.term.iter_mut().for_each(|data| data.term.map_values(of));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{BodyBuilder, Control, ControlKind, SourceLoc, Type};

    #[test]
    fn the_sum_with_the_excess_is_the_other_operand() {
        let mut pipeline = Pipeline::new("test", ir::Arch::Pna);
        let add = |p: &mut Pipeline, name: &str, bits| {
            p.add_var(name, Type::Bit(bits), VarKind::Intrinsic, SourceLoc::default())
        };
        let excess = add(&mut pipeline, "istd.segment_excess", 16);
        let mtu = add(&mut pipeline, "mtu", 32);
        pipeline.intrinsics.insert("istd.segment_excess".to_owned(), excess);
        let mut b = BodyBuilder::new();
        let (more, limit) = (b.load(&pipeline, excess), b.load(&pipeline, mtu));
        let more = b.cast(Type::Bit(32), more);
        let sum = b.binary(BinaryOp::Add, limit, more);
        b.store(mtu, sum);
        b.ret();
        let body = b.finish();
        pipeline.controls.push(Control { name: "main".into(), kind: ControlKind::MainControl, body });
        replace_loads(
            &mut pipeline.controls.values_mut().next().unwrap().body,
            excess,
            &Const::new(Type::Bit(16), BigUint::ZERO),
        );
        let control = pipeline.controls.values().next().unwrap();
        let stored = control.body.insts().find_map(|data| match data.inst {
            Inst::Store(_, value) => Some(value),
            _ => None,
        });
        assert_eq!(stored, Some(limit));
    }
}
