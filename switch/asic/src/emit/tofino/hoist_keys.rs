//! Block parameters: constant ones are removed, and those that are the keys of a lookup are set
//! before the lookups in front of it.
//!
//! A block has parameters, and the jumps to it give their values. In the text parameters are
//! variables, set at the end of each path: a step, which waits for all that the path did before.
//!
//! ```text
//! b1: jump b3(x)   b2: jump b3(x)                ->    b3 uses x
//!
//! b1: apply t1 -> b2   b2: k = hash(h); jump b3(k)     b1: k = hash(h); apply t1
//! b3(key): apply t2(key)                         ->    b3: apply t2(k)
//! ```
//!
//! A table of long keys that collide in a digest is asked beside the digest's computation so, not
//! before it.

use crate::emit::names::flat;
use ir::*;

/// Instructions between two lookups that may move in front of both.
const MAX_MOVED: usize = 16;

/// Removes parameters of blocks that one path alone sets, or all paths alike.
pub(super) fn remove_constant_parameters(body: &mut Body) {
    body.blocks.keys().for_each(|block| remove_constants(body, block));
}

/// Moves the computation of keys in front of the lookups that do not decide about them.
pub(super) fn hoist_lookup_keys(p: &mut Pipeline, body: &mut Body) {
    let cfg = Cfg::new(body);
    for block in body.blocks.keys() {
        before_both(p, body, &cfg, block);
    }
    ir::passes::drop_unused(body);
}

/// The calls that lead to a block, and the blocks they are in; none if it is begun otherwise, or
/// one of them is a loop's.
fn ways_in(body: &Body, to: Block) -> Option<Vec<(Block, Vec<Value>)>> {
    let mut found = Vec::new();
    for block in reverse_postorder(body) {
        let Some(data) = &body.blocks[block].term else { continue };
        match &data.term {
            Term::Apply { arms, .. } if arms.iter().any(|arm| arm.block == to) => return None,
            term => term.for_each_call(|call| {
                if call.block == to {
                    found.push((block, call.args.clone()));
                }
            }),
        }
    }
    let begins = body.entry == Some(to) || body.states.iter().any(|state| state.block == to);
    (!begins && !found.is_empty() && !body.leads_to(to, to)).then_some(found)
}

/// Parameters of a block that are the same whichever way it is come to.
fn remove_constants(body: &mut Body, block: Block) {
    if body.blocks[block].params.is_empty() {
        return;
    }
    let Some(ways) = ways_in(body, block) else { return };
    for n in (0..body.blocks[block].params.len()).rev() {
        let mut brought = ways.iter().map(|(from, args)| (*from, args[n]));
        let Some((_, first)) = brought.next() else { return };
        let known = if brought.clone().all(|(_, value)| value == first) {
            Some(first)
        } else {
            let read = ways.iter().map(|(from, args)| read_there(body, *from, args[n])).collect::<Option<Vec<_>>>();
            read.filter(|vars| vars.windows(2).all(|pair| pair[0] == pair[1])).map(|vars| {
                let value = body.values.push(body.value_type(first));
                body.blocks[block].insts.insert(0, InstData::new(Inst::Load(vars[0]), vec![value]));
                value
            })
        };
        if let Some(known) = known {
            let param = body.blocks[block].params.remove(n);
            body.blocks.values_mut().for_each(|data| {
                if let Some(data) = &mut data.term {
                    data.term.for_each_call_mut(|call| _ = (call.block == block).then(|| call.args.remove(n)));
                }
            });
            renamed(body, param, known);
        }
    }
}

/// The variable that a value is at the end of a block, if the block has read it and not written it
/// since.
fn read_there(body: &Body, block: Block, value: Value) -> Option<VarId> {
    let insts = &body.blocks[block].insts;
    let at = insts.iter().position(|data| data.results.contains(&value))?;
    let Inst::Load(var) = insts[at].inst else { return None };
    insts[at..].iter().all(|data| data.inst.is_pure()).then_some(var)
}

fn renamed(body: &mut Body, from: Value, to: Value) {
    let of = |value: Value| if value == from { to } else { value };
    for data in body.blocks.values_mut() {
        data.insts.iter_mut().for_each(|data| data.inst.map_values(of));
        data.term.iter_mut().for_each(|data| data.term.map_values(of));
    }
}

/// Whether an instruction reads and computes, and leaves nothing behind.
fn computes(p: &Pipeline, inst: &Inst) -> bool {
    match inst {
        // A lookup may write a meter's colour.
        Inst::Load(var) => p.tables.values().all(|table| table.meter_result != Some(*var)),
        Inst::Extern { func, .. } => matches!(func, ExternFn::HashGet | ExternFn::Hash),
        inst => inst.is_pure(),
    }
}

/// Where a way goes from a block's lookup to another one, its computations go before the lookup,
/// and so does what it brings to where ways meet.
fn before_both(p: &mut Pipeline, body: &mut Body, cfg: &Cfg, block: Block) {
    let Some(TermData { term: Term::Apply { arms, .. }, .. }) = body.blocks[block].term.clone() else { return };
    for arm in arms {
        let data = &body.blocks[arm.block];
        let own = |value: Value| data.params.contains(&value);
        let mut plain = cfg.predecessors(arm.block) == [block] && data.insts.len() <= MAX_MOVED;
        for data in &data.insts {
            plain &= computes(p, &data.inst);
            data.inst.for_each_use(|value| plain &= !own(value));
        }
        let hashes = data.insts.iter().any(|data| matches!(data.inst, Inst::Extern { .. }));
        let moves = plain
            && match data.term.as_ref().map(|data| &data.term) {
                Some(Term::Apply { .. }) => hashes,
                Some(Term::Jump(BlockCall { block, args })) => {
                    let (join, known) = (*block, !args.is_empty() && !args.iter().any(|value| own(*value)));
                    known && carried(p, body, join).is_some()
                }
                _ => false,
            };
        if moves {
            let moved = std::mem::take(&mut body.blocks[arm.block].insts);
            body.blocks[block].insts.extend(moved);
        }
    }
}

/// Puts variables in place of the parameters of a block that does nothing but look them up, to
/// which ways lead by jumps alone. None for another block.
fn carried(p: &mut Pipeline, body: &mut Body, join: Block) -> Option<()> {
    let ways = ways_in(body, join)?;
    let jumps = |block: Block| matches!(body.blocks[block].term.as_ref().map(|t| &t.term), Some(Term::Jump(_)));
    let Some(Term::Apply { table, keys, .. }) = body.blocks[join].term.as_ref().map(|data| data.term.clone()) else {
        return None;
    };
    let keyed = body.blocks[join].params.iter().any(|param| keys.contains(param));
    (ways.len() > 1 && keyed && ways.iter().all(|(block, _)| jumps(*block))).then_some(())?;
    let params = std::mem::take(&mut body.blocks[join].params);
    let short = flat(p.tables[table].preamble.name.rsplit('.').next().unwrap_or_default());
    let mut vars = Vec::new();
    for (n, param) in params.into_iter().enumerate() {
        let key = keys.iter().position(|key| *key == param);
        let suffix = key.map_or_else(|| n.to_string(), |at| flat(&p.tables[table].keys[at].name));
        let var = Var {
            name: format!("{short}_{suffix}"),
            ty: body.value_type(param),
            kind: VarKind::Local,
            loc: Loc::default(),
        };
        vars.push(p.vars.push(var));
        body.blocks[join].insts.insert(n, InstData::new(Inst::Load(vars[n]), vec![param]));
    }
    for (block, _) in ways {
        stored(&mut body.blocks[block], &vars);
    }
    Some(())
}

/// Has a block store what its jump brings, each value as soon as it is there: what is computed for
/// a variable alone is computed into it.
fn stored(data: &mut BlockData, vars: &[VarId]) {
    let Some(TermData { term: Term::Jump(call), loc }) = &mut data.term else { return };
    for (var, value) in vars.iter().zip(std::mem::take(&mut call.args)) {
        let made = data.insts.iter().position(|data| data.results.contains(&value));
        let store = InstData { inst: Inst::Store(*var, value), results: Vec::new(), loc: *loc };
        data.insts.insert(made.map_or(data.insts.len(), |at| at + 1), store);
    }
}
