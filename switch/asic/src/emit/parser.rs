//! Parsers: each block becomes a state; chains of tests become one `select`.

use super::Res;
use super::body::Writer;
use super::expr::{self, Expr};
use super::names::flat;
use super::text::{Lines, Stmt};
use ir::*;
use num_bigint::BigUint;
use std::collections::{BTreeSet, HashMap, HashSet};

/// A state as it is printed.
pub(super) struct StateText {
    name: String,
    code: Vec<Stmt>,
    next: Next,
}

impl StateText {
    fn targets(&self) -> Vec<String> {
        match &self.next {
            Next::To(target) => vec![target.clone()],
            Next::Select { cases, .. } => cases.iter().map(|(_, target)| target.clone()).collect(),
        }
    }
}

enum Next {
    To(String),
    Select { on: Vec<String>, cases: Vec<(String, String)> },
}

/// What a test asks of a value.
#[derive(Clone, Debug)]
enum Test {
    Equal(BigUint),
    Masked(BigUint, BigUint),
    Range(BigUint, BigUint),
    Set(ValueSetId),
}

/// The tests of one case: all must hold.
type Case = Vec<(Value, Test)>;

impl Writer<'_, '_> {
    /// The states of a parser.
    pub(super) fn parser(&mut self) -> Res<Vec<StateText>> {
        let body = self.graph.body;
        let Some(entry) = body.entry else { return Ok(Vec::new()) };
        let names = self.state_names(entry);
        let inlined = self.chained();
        let order: Vec<Block> = self.graph.cfg.reverse_postorder().to_vec();
        for block in &order {
            self.state_params(*block);
        }
        let mut states = Vec::new();
        for block in order {
            if self.graph.leaf(block).is_some() || inlined.contains(&block) {
                continue;
            }
            let count = body.blocks[block].insts.len();
            let code = self.captured(|w| w.insts(block, 0, count))?;
            let (more, next) = self.transition(block, &names, &inlined)?;
            let code = code.into_iter().chain(more).collect();
            states.push(StateText { name: names[&block].clone(), code, next });
        }
        states.append(&mut self.between);
        // A `select` without `default` says the same as a state that nothing else leads to.
        let unmatched: HashSet<&String> =
            names.iter().filter(|(b, _)| self.is_no_match(**b)).map(|(_, name)| name).collect();
        let wanted: HashSet<String> = states.iter().flat_map(StateText::targets).collect();
        states.retain(|s| !unmatched.contains(&s.name) || wanted.contains(&s.name) || s.name == "start");
        Ok(skip_empty_start(states))
    }

    fn state_names(&mut self, entry: Block) -> HashMap<Block, String> {
        let mut names: HashMap<Block, String> = HashMap::new();
        let mut taken: BTreeSet<String> = BTreeSet::new();
        names.insert(entry, "start".into());
        let own: Vec<State> = self.graph.body.states.clone();
        for state in &own {
            let wanted = flat(&state.name);
            let direct = state.block == entry || (wanted == "start");
            let wanted = if direct { "start_0".to_owned() } else { wanted };
            if state.block != entry {
                let name = self.e.names.fresh(&wanted);
                taken.insert(name.clone());
                names.entry(state.block).or_insert(name);
            }
        }
        let order: Vec<Block> = self.graph.cfg.reverse_postorder().to_vec();
        for block in order {
            if !names.contains_key(&block) {
                let above = self.graph.cfg.immediate_dominator(block).and_then(|b| names.get(&b)).cloned();
                let name = self.e.names.fresh(&format!("{}_then", above.unwrap_or_else(|| "state".into())));
                names.insert(block, name);
            }
        }
        names
    }

    fn state_params(&mut self, block: Block) {
        for param in self.graph.body.blocks[block].params.clone() {
            let name = self.e.names.fresh("value");
            let ty = expr::type_text(self.p, self.graph.body.value_type(param));
            self.declare(&ty, &name);
            self.values.insert(param, Expr::primary(name, Vec::new()));
        }
    }

    /// Blocks that only ask on: their tests go into the `select` of the block before.
    fn chained(&self) -> HashSet<Block> {
        let states: HashSet<Block> = self.graph.body.states.iter().map(|s| s.block).collect();
        let mut found = HashSet::new();
        for block in self.graph.cfg.reverse_postorder() {
            let next = match self.graph.term(*block) {
                Some(Term::Branch { els, .. }) => els,
                Some(Term::Switch { default, .. }) => default,
                _ => continue,
            };
            let data = &self.graph.body.blocks[next.block];
            let quiet = data.insts.iter().all(|i| i.inst.is_pure());
            let asks = matches!(self.graph.term(next.block), Some(Term::Branch { .. } | Term::Switch { .. }));
            if self.graph.forward_edges(next.block).len() == 1
                && !self.graph.is_loop(next.block)
                && data.params.is_empty()
                && quiet
                && asks
                && !states.contains(&next.block)
                && self.tests_of(*block).is_some()
                && self.tests_of(next.block).is_some()
            {
                found.insert(next.block);
            }
        }
        found
    }

    /// The block that a `select` without `default` goes to when nothing matches.
    fn is_no_match(&self, block: Block) -> bool {
        let data = &self.graph.body.blocks[block];
        let mut consts = HashMap::new();
        let mut ok = data.params.is_empty() && matches!(self.graph.term(block), Some(Term::Reject));
        for inst in &data.insts {
            match &inst.inst {
                Inst::Const(c) => {
                    consts.insert(inst.results[0], c.clone());
                }
                Inst::Verify(check, error) => {
                    let no_match = self.p.errors.iter().position(|e| e == "NoMatch");
                    ok &= consts.get(check).is_some_and(|c| c.bits == BigUint::ZERO)
                        && consts.get(error).and_then(|c| usize::try_from(&c.bits).ok()) == no_match;
                }
                _ => return false,
            }
        }
        ok && data.insts.iter().any(|i| matches!(i.inst, Inst::Verify(..)))
    }

    /// The cases that a block's end asks for, each with the edge that it takes, and the edge of all else.
    fn tests_of(&self, block: Block) -> Option<(Vec<(Case, BlockCall)>, BlockCall)> {
        match self.graph.term(block)? {
            Term::Branch { cond, then, els } => {
                let mut case = Vec::new();
                self.decompose(*cond, &mut case).then_some(())?;
                Some((vec![(case, then.clone())], els.clone()))
            }
            Term::Switch { value, cases, default } => {
                let case = |(c, call): &(Const, BlockCall)| (vec![(*value, Test::Equal(c.bits.clone()))], call.clone());
                Some((cases.iter().map(case).collect(), default.clone()))
            }
            _ => None,
        }
    }

    fn inst_of(&self, value: Value) -> Option<&Inst> {
        let block = self.graph.defined_in(value)?;
        self.graph.body.blocks[block].insts.iter().find(|i| i.results.contains(&value)).map(|i| &i.inst)
    }

    fn constant_of(&self, value: Value) -> Option<BigUint> {
        match self.inst_of(value)? {
            Inst::Const(c) if !matches!(c.ty, Type::Int(_)) => Some(c.bits.clone()),
            _ => None,
        }
    }

    /// Takes a condition apart into tests that a `select` can make.
    fn decompose(&self, cond: Value, out: &mut Case) -> bool {
        match self.inst_of(cond) {
            Some(Inst::Binary(BinaryOp::And, a, b)) if self.graph.body.value_type(*a) == Type::Bool => {
                if let Some((value, test)) = self.range(*a, *b) {
                    return put(out, value, test);
                }
                self.decompose(*a, out) && self.decompose(*b, out)
            }
            Some(Inst::Binary(BinaryOp::Eq, a, b)) => {
                let Some(wanted) = self.constant_of(*b) else { return false };
                if let Some(Inst::Binary(BinaryOp::And, value, mask)) = self.inst_of(*a)
                    && let Some(mask) = self.constant_of(*mask)
                    // A `select` would mask the constant, too.
                    && &wanted & &mask == wanted
                {
                    return put(out, *value, Test::Masked(wanted, mask));
                }
                put(out, *a, Test::Equal(wanted))
            }
            Some(Inst::Binary(op @ (BinaryOp::Ge | BinaryOp::Gt | BinaryOp::Le | BinaryOp::Lt), a, b)) => {
                let Some(bound) = self.constant_of(*b) else { return false };
                let (zero, one) = (BigUint::ZERO, BigUint::from(1u8));
                let top = (&one << self.graph.body.value_type(*a).width()) - &one;
                let test = match op {
                    BinaryOp::Ge => Test::Range(bound, top),
                    BinaryOp::Gt if bound < top => Test::Range(bound + one, top),
                    BinaryOp::Le => Test::Range(zero, bound),
                    BinaryOp::Lt if bound > zero => Test::Range(zero, bound - one),
                    _ => return false,
                };
                put(out, *a, test)
            }
            Some(Inst::InValueSet(set, keys)) => match keys[..] {
                [key] => put(out, key, Test::Set(*set)),
                _ => false,
            },
            _ => false,
        }
    }

    fn range(&self, a: Value, b: Value) -> Option<(Value, Test)> {
        let (Inst::Binary(BinaryOp::Ge, x, lo), Inst::Binary(BinaryOp::Le, y, hi)) =
            (self.inst_of(a)?, self.inst_of(b)?)
        else {
            return None;
        };
        (x == y).then_some(())?;
        Some((*x, Test::Range(self.constant_of(*lo)?, self.constant_of(*hi)?)))
    }

    fn transition(
        &mut self,
        block: Block,
        names: &HashMap<Block, String>,
        chained: &HashSet<Block>,
    ) -> Res<(Vec<Stmt>, Next)> {
        let Some(term) = self.graph.term(block) else { return Ok((Vec::new(), Next::To("accept".into()))) };
        match term {
            Term::Jump(call) => {
                let code = self.arguments(call)?;
                Ok((code, Next::To(self.target(call.block, names))))
            }
            Term::Return => Ok((Vec::new(), Next::To("accept".into()))),
            Term::Reject => Ok((Vec::new(), Next::To("reject".into()))),
            Term::Branch { .. } | Term::Switch { .. } => self.select(block, names, chained),
            _ => self.e.unsupported(self.loc, "a lookup or `exit` in a parser"),
        }
    }

    /// Where an edge of a choice leads: if it hands values on, a state that does so.
    fn edge_target(&mut self, call: &BlockCall, names: &HashMap<Block, String>) -> Res<String> {
        let target = self.target(call.block, names);
        if call.args.is_empty() {
            return Ok(target);
        }
        let code = self.arguments(call)?;
        let name = self.e.names.fresh(&format!("to_{target}"));
        self.between.push(StateText { name: name.clone(), code, next: Next::To(target) });
        Ok(name)
    }

    fn target(&self, block: Block, names: &HashMap<Block, String>) -> String {
        match self.graph.leaf(block) {
            Some(Term::Reject) => "reject".into(),
            Some(_) => "accept".into(),
            None => names.get(&block).cloned().unwrap_or_default(),
        }
    }

    fn select(
        &mut self,
        block: Block,
        names: &HashMap<Block, String>,
        chained: &HashSet<Block>,
    ) -> Res<(Vec<Stmt>, Next)> {
        let mut code = Vec::new();
        let mut cases: Vec<(Case, BlockCall)> = Vec::new();
        let mut at = block;
        let rest = loop {
            let Some((more, rest)) = self.tests_of(at) else { return self.select_bool(block, names) };
            cases.extend(more);
            if !chained.contains(&rest.block) {
                break rest;
            }
            at = rest.block;
            let count = self.graph.body.blocks[at].insts.len();
            code.extend(self.captured(|w| w.insts(at, 0, count))?);
        };
        let mut columns: Vec<String> = Vec::new();
        for (value, _) in cases.iter().flat_map(|(case, _)| case) {
            let text = self.typed(*value);
            if !columns.contains(&text) {
                columns.push(text);
            }
        }
        let mut written = Vec::new();
        for (case, call) in &cases {
            let items: Res<Vec<String>> = columns
                .iter()
                .map(|column| match case.iter().find(|(value, _)| self.typed(*value) == *column) {
                    Some((value, test)) => self.item(*value, test),
                    None => Ok("_".into()),
                })
                .collect();
            let items = items?;
            let keys = if items.len() == 1 { items[0].clone() } else { format!("({})", items.join(", ")) };
            written.push((keys, self.edge_target(call, names)?));
        }
        if !self.is_no_match(rest.block) {
            written.push(("default".into(), self.edge_target(&rest, names)?));
        }
        Ok((code, Next::Select { on: columns, cases: written }))
    }

    /// One item of a key set.
    fn item(&mut self, value: Value, test: &Test) -> Res<String> {
        let ty = self.graph.body.value_type(value);
        let text =
            |bits: &BigUint| expr::constant(self.p, &Const::new(ty, bits.clone())).map(|e| e.text).unwrap_or_default();
        Ok(match test {
            Test::Equal(bits) => text(bits),
            Test::Masked(bits, mask) => format!("{} &&& {}", text(bits), text(mask)),
            Test::Range(lo, hi) => format!("{} .. {}", text(lo), text(hi)),
            Test::Set(set) => self.e.names.value_sets[set.index()].clone(),
        })
    }

    /// A choice by a condition that is no set of values.
    fn select_bool(&mut self, block: Block, names: &HashMap<Block, String>) -> Res<(Vec<Stmt>, Next)> {
        let Some(Term::Branch { cond, then, els }) = self.graph.term(block) else {
            return self.e.unsupported(self.loc, "this choice in a parser");
        };
        if let Some((set, keys)) = self.in_set.get(cond).cloned() {
            let on: Vec<String> = keys.iter().map(|k| self.typed(*k)).collect();
            let set = self.e.names.value_sets[set.index()].clone();
            let mut cases = vec![(set, self.edge_target(then, names)?)];
            if !self.is_no_match(els.block) {
                cases.push(("default".into(), self.edge_target(els, names)?));
            }
            return Ok((Vec::new(), Next::Select { on, cases }));
        }
        if !self.values.contains_key(cond) {
            return self.e.unsupported(self.loc, "a value set together with other tests");
        }
        let (on, yes, no) = (self.text(*cond), self.edge_target(then, names)?, self.edge_target(els, names)?);
        let mut cases = vec![("true".to_owned(), yes)];
        if !self.is_no_match(els.block) {
            cases.push(("false".into(), no));
        }
        Ok((Vec::new(), Next::Select { on: vec![on], cases }))
    }
}

fn put(out: &mut Case, value: Value, test: Test) -> bool {
    if out.iter().any(|(known, _)| *known == value) {
        return false;
    }
    out.push((value, test));
    true
}

/// A first state that only goes on to another one, which nothing else leads to, is that one.
fn skip_empty_start(mut states: Vec<StateText>) -> Vec<StateText> {
    let Some(StateText { name, code, next: Next::To(second) }) = states.first() else { return states };
    let (name, second, empty) = (name.clone(), second.clone(), code.is_empty());
    let leads = |state: &StateText| match &state.next {
        Next::To(to) => *to == second,
        Next::Select { cases, .. } => cases.iter().any(|(_, to)| *to == second),
    };
    if !empty || states.iter().filter(|s| leads(s)).count() != 1 {
        return states;
    }
    if let Some(state) = states.iter_mut().find(|s| s.name == second) {
        state.name = name;
        states.remove(0);
    }
    states
}

/// The states with another name for one of them.
pub(super) fn renamed(mut states: Vec<StateText>, from: &str, to: &str) -> Vec<StateText> {
    let rename = |name: &mut String| {
        if name == from {
            *name = to.to_owned();
        }
    };
    for state in &mut states {
        rename(&mut state.name);
        match &mut state.next {
            Next::To(name) => rename(name),
            Next::Select { cases, .. } => cases.iter_mut().for_each(|(_, name)| rename(name)),
        }
    }
    states
}

/// Writes the states.
pub(super) fn print(lines: &mut Lines, states: &[StateText]) {
    for state in states {
        lines.gap();
        lines.open(&format!("state {}", state.name));
        lines.stmts(&state.code);
        match &state.next {
            Next::To(target) => lines.line(&format!("transition {target};")),
            Next::Select { on, cases } => {
                lines.open(&format!("transition select({})", on.join(", ")));
                cases.iter().for_each(|(keys, target)| lines.line(&format!("{keys}: {target};")));
                lines.close();
            }
        }
        lines.close();
    }
}
