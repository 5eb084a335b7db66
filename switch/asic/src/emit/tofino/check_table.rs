//! Tables that decide conditions which are too much for a gateway.

use ir::*;

/// A condition that is a table in the text, as no gateway decides it.
pub(in crate::emit) struct Check<'a> {
    /// The table's name.
    pub(in crate::emit) name: String,
    /// The code that it is in.
    pub(in crate::emit) body: &'a Body,
    /// The condition.
    pub(in crate::emit) cond: Value,
    /// Entries of the table.
    pub(in crate::emit) entries: u64,
    /// What the condition is where the table hits.
    pub(in crate::emit) holds: bool,
}

/// Makes a table of a condition: it hits, or misses, where the branch went one way, or the other.
pub(super) fn decide_by_table(p: &mut Pipeline, control: ControlId, check: &Check<'_>) {
    let body = &p.controls[control].body;
    let asked = asked(body, check.cond);
    let branches = |data: &BlockData| match &data.term.as_ref()?.term {
        Term::Branch { cond, then, els } if *cond == check.cond => Some([then.clone(), els.clone()]),
        _ => None,
    };
    let Some((block, [then, els])) = body.blocks.iter().find_map(|(block, data)| Some((block, branches(data)?))) else {
        return;
    };
    let name = format!("{}.{}", p.controls[control].name, check.name);
    let keys = asked.iter().enumerate();
    let keys =
        keys.map(|(n, value)| Key::new(format!("asked_{n}"), body.value_type(*value), MatchKind::Ternary)).collect();
    let mut action = |what: &str| {
        let preamble = Preamble { name: format!("{name}_{what}"), hidden: true, ..Preamble::default() };
        p.actions.push(Action { preamble, params: Vec::new(), loc: Loc::default() })
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
        Arm { action, block: body.push_block(vec![hit], Vec::new(), Term::Jump(then)) }
    };
    let arms = vec![arm(holds, hit), arm(fails, miss)];
    let loc = body.blocks[block].term.as_ref().map_or(Loc::default(), |term| term.loc);
    body.blocks[block].term = Some(TermData { term: Term::Apply { table, keys: asked, arms }, loc });
}

/// What a condition asks for, down to what the packet brings, each once.
fn asked(body: &Body, cond: Value) -> Vec<Value> {
    let (mut found, mut seen, mut todo) = (Vec::new(), vec![cond], vec![cond]);
    let mut states = Vec::new();
    while let Some(value) = todo.pop() {
        match body.definition(value).map(|data| &data.inst) {
            Some(Inst::Const(_)) => {}
            Some(
                inst @ (Inst::Binary(..) | Inst::Unary(..) | Inst::Slice { .. } | Inst::Cast(..) | Inst::Concat(..)),
            ) => {
                inst.for_each_use(|of| {
                    if !seen.contains(&of) {
                        seen.push(of);
                        todo.push(of);
                    }
                });
            }
            // The same variable may have been loaded twice.
            Some(inst) if states.contains(inst) => {}
            other => {
                states.extend(other.cloned());
                found.push(value);
            }
        }
    }
    found
}
