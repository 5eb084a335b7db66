//! Tables that evaluate conditions that do not fit in a gateway.

use ir::*;

/// Condition that the source evaluates with a table, because it does not fit in a gateway.
pub(in crate::emit) struct CheckTable<'a> {
    /// Name of the table.
    pub(in crate::emit) name: String,
    /// Body that contains the condition.
    pub(in crate::emit) body: &'a Body,
    /// The condition.
    pub(in crate::emit) cond: Value,
    /// Number of entries of the table.
    pub(in crate::emit) entries: u64,
    /// Value of the condition if the table hits.
    pub(in crate::emit) holds: bool,
}

/// Replaces the branch on a condition by an application of a table whose keys are the inputs of the
/// condition.
pub(super) fn decide_by_table(p: &mut Pipeline, control: ControlId, check: &CheckTable<'_>) {
    let body = &p.controls[control].body;
    let inputs = condition_inputs(body, check.cond);
    let targets = |data: &BlockData| match &data.term.as_ref()?.term {
        Terminator::Branch { cond, then, els } if *cond == check.cond => Some([then.clone(), els.clone()]),
        _ => None,
    };
    let Some((block, [then, els])) = body.blocks.iter().find_map(|(block, data)| Some((block, targets(data)?))) else {
        return;
    };
    let name = format!("{}.{}", p.controls[control].name, check.name);
    let keys = inputs.iter().enumerate();
    let keys = keys
        .map(|(n, value)| MatchKey::new(format!("asked_{n}"), body.value_type(*value), MatchKind::Ternary))
        .collect();
    let mut action = |outcome: &str| {
        let preamble = Preamble { name: format!("{name}_{outcome}"), hidden: true, ..Preamble::default() };
        p.actions.push(Action { preamble, params: Vec::new(), loc: SourceLoc::default() })
    };
    let (holds, fails) = (action("holds"), action("fails"));
    let preamble = Preamble { name: name.clone(), hidden: true, ..Preamble::default() };
    let default = ActionCall { action: fails, args: Vec::new() };
    let actions = vec![ActionRef::new(holds), ActionRef { default_only: true, ..ActionRef::new(fails) }];
    let table =
        Table { size: Some(check.entries), const_default: true, ..Table::new(preamble, keys, actions, default) };
    let table = p.tables.push(table);
    let (hit, miss) = if check.holds { (then, els) } else { (els, then) };
    let body = &mut p.controls[control].body;
    let mut arm = |action, then| {
        let hit = body.values.push(Type::Bool);
        ActionArm { action, block: body.push_block(vec![hit], Vec::new(), Terminator::Jump(then)) }
    };
    let arms = vec![arm(holds, hit), arm(fails, miss)];
    let loc = body.blocks[block].term.as_ref().map_or(SourceLoc::default(), |term| term.loc);
    body.blocks[block].term = Some(TerminatorData { term: Terminator::Apply { table, keys: inputs, arms }, loc });
}

/// Returns the inputs of a condition: the loads, validity tests and calls that it depends on, each
/// once.
fn condition_inputs(body: &Body, cond: Value) -> Vec<Value> {
    let (mut inputs, mut seen, mut unvisited) = (Vec::new(), vec![cond], vec![cond]);
    let mut states = Vec::new();
    while let Some(value) = unvisited.pop() {
        match body.defining_inst(value).map(|data| &data.inst) {
            Some(Inst::Const(_)) => {}
            Some(
                inst @ (Inst::Binary(..) | Inst::Unary(..) | Inst::Slice { .. } | Inst::Cast(..) | Inst::Concat(..)),
            ) => {
                inst.for_each_use(|operand| {
                    if !seen.contains(&operand) {
                        seen.push(operand);
                        unvisited.push(operand);
                    }
                });
            }
            // Two loads of the same variable are one input.
            Some(inst) if states.contains(inst) => {}
            other => {
                states.extend(other.cloned());
                inputs.push(value);
            }
        }
    }
    inputs
}
