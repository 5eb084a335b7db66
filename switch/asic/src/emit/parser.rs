//! Parsers: each block becomes a state; a chain of tests becomes one `select`.

use super::EmitResult;
use super::body::BodyWriter;
use super::expr::{self, P4Expr};
use super::names::to_identifier;
use super::text::{IndentedText, P4Stmt};
use super::tofino::prefixes::{all_ones, prefixes_between};
use ir::*;
use num_bigint::BigUint;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Text of a parser state.
pub(super) struct StateText {
    name: String,
    code: Vec<P4Stmt>,
    next: ParserTransition,
}

impl StateText {
    fn target_states(&self) -> Vec<String> {
        match &self.next {
            ParserTransition::To(target) => vec![target.clone()],
            ParserTransition::Select { cases, .. } => cases.iter().map(|(_, target)| target.clone()).collect(),
        }
    }
}

enum ParserTransition {
    To(String),
    Select { on: Vec<String>, cases: Vec<(String, String)> },
}

/// Test of a value in a keyset.
#[derive(Clone, Debug)]
enum KeysetTest {
    Equal(BigUint),
    Masked(BigUint, BigUint),
    Range(BigUint, BigUint),
    Set(ValueSetId),
}

/// Tests of one `select` case; all must hold.
type KeysetTests = Vec<(Value, KeysetTest)>;

impl BodyWriter<'_, '_> {
    /// Returns the states of a parser.
    pub(super) fn parser_states(&mut self) -> EmitResult<Vec<StateText>> {
        let body = self.graph.body;
        let Some(entry) = body.entry else { return Ok(Vec::new()) };
        let names = self.state_names(entry);
        let inlined = self.chained_blocks();
        let order: Vec<Block> = self.graph.cfg.reverse_postorder().to_vec();
        for block in &order {
            self.state_params(*block);
        }
        let mut states = Vec::new();
        for block in order {
            if self.graph.exit_term(block).is_some() || inlined.contains(&block) {
                continue;
            }
            let count = body.blocks[block].insts.len();
            let code = self.capture_code(|w| w.write_insts(block, 0, count))?;
            let (transition_code, next) = self.transition(block, &names, &inlined)?;
            let code = code.into_iter().chain(transition_code).collect();
            states.push(StateText { name: names[&block].clone(), code, next });
        }
        states.append(&mut self.edge_states);
        // A `select` without `default` replaces the state that reports `NoMatch`, if no other state
        // reaches it.
        let unmatched: HashSet<&String> =
            names.iter().filter(|(b, _)| self.is_no_match(**b)).map(|(_, name)| name).collect();
        let reached: HashSet<String> = states.iter().flat_map(StateText::target_states).collect();
        states.retain(|s| !unmatched.contains(&s.name) || reached.contains(&s.name) || s.name == "start");
        Ok(skip_empty_start(states))
    }

    /// Chooses a name for each block: `start` for the entry, the program's name for a parser state,
    /// and otherwise the dominating block's name with `_then`.
    fn state_names(&mut self, entry: Block) -> HashMap<Block, String> {
        let mut names: HashMap<Block, String> = HashMap::new();
        let mut taken: BTreeSet<String> = BTreeSet::new();
        names.insert(entry, "start".into());
        let program_states: Vec<ParserStateBlock> = self.graph.body.states.clone();
        for state in &program_states {
            let state_name = to_identifier(&state.name);
            let is_start = state.block == entry || (state_name == "start");
            let state_name = if is_start { "start_0".to_owned() } else { state_name };
            if state.block != entry {
                let name = self.e.names.fresh_name(&state_name);
                taken.insert(name.clone());
                names.entry(state.block).or_insert(name);
            }
        }
        let order: Vec<Block> = self.graph.cfg.reverse_postorder().to_vec();
        for block in order {
            if !names.contains_key(&block) {
                let dominator_name = self.graph.cfg.immediate_dominator(block).and_then(|b| names.get(&b)).cloned();
                let name =
                    self.e.names.fresh_name(&format!("{}_then", dominator_name.unwrap_or_else(|| "state".into())));
                names.insert(block, name);
            }
        }
        names
    }

    fn state_params(&mut self, block: Block) {
        for param in self.graph.body.blocks[block].params.clone() {
            let name = self.e.names.fresh_name("value");
            let ty = expr::type_text(self.p, self.graph.body.value_type(param));
            self.declare(&ty, &name);
            self.values.insert(param, P4Expr::primary(name, Vec::new()));
        }
    }

    /// Returns blocks that only continue a chain of tests; their tests join the `select` of the
    /// preceding block.
    fn chained_blocks(&self) -> HashSet<Block> {
        let states: HashSet<Block> = self.graph.body.states.iter().map(|s| s.block).collect();
        let mut found = HashSet::new();
        for block in self.graph.cfg.reverse_postorder() {
            let next = match self.graph.term(*block) {
                Some(Terminator::Branch { els, .. }) => els,
                Some(Terminator::Switch { default, .. }) => default,
                _ => continue,
            };
            let data = &self.graph.body.blocks[next.block];
            let is_pure = data.insts.iter().all(|i| i.inst.is_pure());
            let has_test =
                matches!(self.graph.term(next.block), Some(Terminator::Branch { .. } | Terminator::Switch { .. }));
            if self.graph.forward_edges(next.block).len() == 1
                && !self.graph.is_loop(next.block)
                && data.params.is_empty()
                && is_pure
                && has_test
                && !states.contains(&next.block)
                && self.tests_of(*block).is_some()
                && self.tests_of(next.block).is_some()
            {
                found.insert(next.block);
            }
        }
        found
    }

    /// Returns whether a block is the target of a `select` without `default` when no case matches.
    fn is_no_match(&self, block: Block) -> bool {
        let data = &self.graph.body.blocks[block];
        let mut consts = HashMap::new();
        let mut ok = data.params.is_empty() && matches!(self.graph.term(block), Some(Terminator::Reject));
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

    /// Returns the cases that a terminator tests, each with its edge, and the default edge.
    fn tests_of(&self, block: Block) -> Option<(Vec<(KeysetTests, BlockCall)>, BlockCall)> {
        match self.graph.term(block)? {
            Terminator::Branch { cond, then, els } => {
                let mut case = Vec::new();
                self.decompose(*cond, &mut case).then_some(())?;
                Some((vec![(case, then.clone())], els.clone()))
            }
            Terminator::Switch { value, cases, default } => {
                let case =
                    |(c, call): &(Const, BlockCall)| (vec![(*value, KeysetTest::Equal(c.bits.clone()))], call.clone());
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

    /// Decomposes a condition into tests that a `select` supports, and appends them to `out`.
    /// Returns `false` if the condition has others.
    fn decompose(&self, cond: Value, out: &mut KeysetTests) -> bool {
        match self.inst_of(cond) {
            Some(Inst::Binary(BinaryOp::And, a, b)) if self.graph.body.value_type(*a) == Type::Bool => {
                if let Some((value, test)) = self.range_test(*a, *b) {
                    return add_test(out, value, test);
                }
                self.decompose(*a, out) && self.decompose(*b, out)
            }
            Some(Inst::Binary(BinaryOp::Eq, a, b)) => {
                let Some(wanted) = self.constant_of(*b) else { return false };
                if let Some(Inst::Binary(BinaryOp::And, value, mask)) = self.inst_of(*a)
                    && let Some(mask) = self.constant_of(*mask)
                    // A `select` also masks the constant, so the constant must not have other bits.
                    && &wanted & &mask == wanted
                {
                    return add_test(out, *value, KeysetTest::Masked(wanted, mask));
                }
                add_test(out, *a, KeysetTest::Equal(wanted))
            }
            Some(Inst::Binary(op @ (BinaryOp::Ge | BinaryOp::Gt | BinaryOp::Le | BinaryOp::Lt), a, b)) => {
                let Some(bound) = self.constant_of(*b) else { return false };
                let (zero, one) = (BigUint::ZERO, BigUint::from(1u8));
                let max = (&one << self.graph.body.value_type(*a).width()) - &one;
                let test = match op {
                    BinaryOp::Ge => KeysetTest::Range(bound, max),
                    BinaryOp::Gt if bound < max => KeysetTest::Range(bound + one, max),
                    BinaryOp::Le => KeysetTest::Range(zero, bound),
                    BinaryOp::Lt if bound > zero => KeysetTest::Range(zero, bound - one),
                    _ => return false,
                };
                add_test(out, *a, test)
            }
            Some(Inst::InValueSet(set, keys)) => match keys[..] {
                [key] => add_test(out, key, KeysetTest::Set(*set)),
                _ => false,
            },
            _ => false,
        }
    }

    fn range_test(&self, a: Value, b: Value) -> Option<(Value, KeysetTest)> {
        let (Inst::Binary(BinaryOp::Ge, x, lo), Inst::Binary(BinaryOp::Le, y, hi)) =
            (self.inst_of(a)?, self.inst_of(b)?)
        else {
            return None;
        };
        (x == y).then_some(())?;
        Some((*x, KeysetTest::Range(self.constant_of(*lo)?, self.constant_of(*hi)?)))
    }

    fn transition(
        &mut self,
        block: Block,
        names: &HashMap<Block, String>,
        chained: &HashSet<Block>,
    ) -> EmitResult<(Vec<P4Stmt>, ParserTransition)> {
        let Some(term) = self.graph.term(block) else { return Ok((Vec::new(), ParserTransition::To("accept".into()))) };
        match term {
            Terminator::Jump(call) => {
                let code = self.assign_params(call)?;
                Ok((code, ParserTransition::To(self.target_state(call.block, names))))
            }
            Terminator::Return => Ok((Vec::new(), ParserTransition::To("accept".into()))),
            Terminator::Reject => Ok((Vec::new(), ParserTransition::To("reject".into()))),
            Terminator::Branch { .. } | Terminator::Switch { .. } => self.select_transition(block, names, chained),
            _ => self.e.unsupported(self.loc, "a lookup or `exit` in a parser"),
        }
    }

    /// Returns the target state of an edge. An edge with arguments goes through a state that
    /// assigns them.
    fn edge_target(&mut self, call: &BlockCall, names: &HashMap<Block, String>) -> EmitResult<String> {
        let target = self.target_state(call.block, names);
        if call.args.is_empty() {
            return Ok(target);
        }
        let code = self.assign_params(call)?;
        let name = self.e.names.fresh_name(&format!("to_{target}"));
        self.edge_states.push(StateText { name: name.clone(), code, next: ParserTransition::To(target) });
        Ok(name)
    }

    fn target_state(&self, block: Block, names: &HashMap<Block, String>) -> String {
        match self.graph.exit_term(block) {
            Some(Terminator::Reject) => "reject".into(),
            Some(_) => "accept".into(),
            None => names.get(&block).cloned().unwrap_or_default(),
        }
    }

    /// Returns the `select` for the chain of tests that starts at a block, with the statements
    /// before it. Each tested value is a column. `names` has the blocks' states, `chained` the
    /// blocks that only continue a chain.
    fn select_transition(
        &mut self,
        block: Block,
        names: &HashMap<Block, String>,
        chained: &HashSet<Block>,
    ) -> EmitResult<(Vec<P4Stmt>, ParserTransition)> {
        let mut code = Vec::new();
        let mut cases: Vec<(KeysetTests, BlockCall)> = Vec::new();
        let mut tested = block;
        let default = loop {
            let Some((more_cases, default)) = self.tests_of(tested) else { return self.select_by_bool(block, names) };
            cases.extend(more_cases.into_iter().flat_map(|(case, call)| {
                let alternatives = self.supported_alternatives(case);
                alternatives.into_iter().map(move |case| (case, call.clone()))
            }));
            if !chained.contains(&default.block) {
                break default;
            }
            tested = default.block;
            let count = self.graph.body.blocks[tested].insts.len();
            code.extend(self.capture_code(|w| w.write_insts(tested, 0, count))?);
        };
        let mut columns: Vec<String> = Vec::new();
        for (value, _) in cases.iter().flat_map(|(case, _)| case) {
            let text = self.typed_text(*value);
            if !columns.contains(&text) {
                columns.push(text);
            }
        }
        let mut case_texts = Vec::new();
        for (case, call) in &cases {
            let items: EmitResult<Vec<String>> = columns
                .iter()
                .map(|column| match case.iter().find(|(value, _)| self.typed_text(*value) == *column) {
                    Some((value, test)) => self.keyset_item(*value, test),
                    None => Ok("_".into()),
                })
                .collect();
            let items = items?;
            let keys = if items.len() == 1 { items[0].clone() } else { format!("({})", items.join(", ")) };
            case_texts.push((keys, self.edge_target(call, names)?));
        }
        if !self.is_no_match(default.block) {
            case_texts.push(("default".into(), self.edge_target(&default, names)?));
        }
        Ok((code, ParserTransition::Select { on: columns, cases: case_texts }))
    }

    /// Returns cases that together match what one case matches. Tofino's parser compares a byte with
    /// a range, but wider values only with masks.
    fn supported_alternatives(&self, case: KeysetTests) -> Vec<KeysetTests> {
        let mut alternatives = vec![KeysetTests::new()];
        for (value, test) in case {
            let width = self.graph.body.value_type(value).width();
            let tests: Vec<KeysetTest> = match test {
                KeysetTest::Range(lo, hi) if self.e.target.is_tofino() && width > 8 => {
                    let full = all_ones(width);
                    let test = |(bits, mask)| match mask == full {
                        true => KeysetTest::Equal(bits),
                        false => KeysetTest::Masked(bits, mask),
                    };
                    prefixes_between(&lo, &hi, width).into_iter().map(test).collect()
                }
                other => vec![other],
            };
            let with = |tests_so_far: &KeysetTests| {
                let extended = |test: &KeysetTest| {
                    let mut tests = tests_so_far.clone();
                    tests.push((value, test.clone()));
                    tests
                };
                tests.iter().map(extended).collect::<Vec<_>>()
            };
            alternatives = alternatives.iter().flat_map(with).collect();
        }
        alternatives
    }

    /// Returns the text of a keyset element.
    fn keyset_item(&mut self, value: Value, test: &KeysetTest) -> EmitResult<String> {
        let ty = self.graph.body.value_type(value);
        let text =
            |bits: &BigUint| expr::constant(self.p, &Const::new(ty, bits.clone())).map(|e| e.text).unwrap_or_default();
        Ok(match test {
            KeysetTest::Equal(bits) => text(bits),
            KeysetTest::Masked(bits, mask) => format!("{} &&& {}", text(bits), text(mask)),
            KeysetTest::Range(lo, hi) => format!("{} .. {}", text(lo), text(hi)),
            KeysetTest::Set(set) => self.e.names.value_sets[set.index()].clone(),
        })
    }

    /// Returns a `select` for a condition that no keyset can express: over a value set of several
    /// keys, or over the condition as `true` and `false`.
    fn select_by_bool(
        &mut self,
        block: Block,
        names: &HashMap<Block, String>,
    ) -> EmitResult<(Vec<P4Stmt>, ParserTransition)> {
        let Some(Terminator::Branch { cond, then, els }) = self.graph.term(block) else {
            return self.e.unsupported(self.loc, "this choice in a parser");
        };
        if let Some((set, keys)) = self.set_tests.get(cond).cloned() {
            let selected: Vec<String> = keys.iter().map(|k| self.typed_text(*k)).collect();
            let set = self.e.names.value_sets[set.index()].clone();
            let mut cases = vec![(set, self.edge_target(then, names)?)];
            if !self.is_no_match(els.block) {
                cases.push(("default".into(), self.edge_target(els, names)?));
            }
            return Ok((Vec::new(), ParserTransition::Select { on: selected, cases }));
        }
        if !self.values.contains_key(cond) {
            return self.e.unsupported(self.loc, "a value set together with other tests");
        }
        let (selected, then_state, else_state) =
            (self.value_text(*cond), self.edge_target(then, names)?, self.edge_target(els, names)?);
        let mut cases = vec![("true".to_owned(), then_state)];
        if !self.is_no_match(els.block) {
            cases.push(("false".into(), else_state));
        }
        Ok((Vec::new(), ParserTransition::Select { on: vec![selected], cases }))
    }
}

fn add_test(out: &mut KeysetTests, value: Value, test: KeysetTest) -> bool {
    if out.iter().any(|(known, _)| *known == value) {
        return false;
    }
    out.push((value, test));
    true
}

/// Removes an empty start state, if no other state reaches its successor.
fn skip_empty_start(mut states: Vec<StateText>) -> Vec<StateText> {
    let Some(StateText { name, code, next: ParserTransition::To(second) }) = states.first() else { return states };
    let (name, second, empty) = (name.clone(), second.clone(), code.is_empty());
    let leads = |state: &StateText| match &state.next {
        ParserTransition::To(to) => *to == second,
        ParserTransition::Select { cases, .. } => cases.iter().any(|(_, to)| *to == second),
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

/// Returns the states with one of them renamed.
pub(super) fn rename_state(mut states: Vec<StateText>, from: &str, to: &str) -> Vec<StateText> {
    let rename = |name: &mut String| {
        if name == from {
            *name = to.to_owned();
        }
    };
    for state in &mut states {
        rename(&mut state.name);
        match &mut state.next {
            ParserTransition::To(name) => rename(name),
            ParserTransition::Select { cases, .. } => cases.iter_mut().for_each(|(_, name)| rename(name)),
        }
    }
    states
}

/// Emits the states.
pub(super) fn write_states(lines: &mut IndentedText, states: &[StateText]) {
    for state in states {
        lines.separate();
        lines.open_block(&format!("state {}", state.name));
        lines.stmts(&state.code);
        match &state.next {
            ParserTransition::To(target) => lines.line(&format!("transition {target};")),
            ParserTransition::Select { on, cases } => {
                lines.open_block(&format!("transition select({})", on.join(", ")));
                cases.iter().for_each(|(keys, target)| lines.line(&format!("{keys}: {target};")));
                lines.close_block();
            }
        }
        lines.close_block();
    }
}
