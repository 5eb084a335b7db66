//! Structured control flow from a control-flow graph.
//!
//! A block's joins (children in the dominator tree with several incoming edges) follow its own
//! code, nearest first, as in "Beyond Relooper" (Ramsey, ICFP 2022). P4 has no labelled blocks, so
//! a jump over a join sets a flag that guards the join's code. Code written with `if`, `switch`,
//! `exit` and `return` needs no flags, except for a `return` inside an inlined body.

use super::body::{ActionScope, BodyWriter};
use super::expr::P4Expr;
use super::text::{P4Stmt, conditional, line};
use super::tofino::condition::ConditionDecision;
use super::{ActionInlining, EmitResult};
use ir::*;
use std::collections::BTreeSet;

/// Scope that encloses the code being emitted.
pub(super) enum CodeScope {
    /// Code that is followed by the code of `block`.
    Follow {
        block: Block,
        /// Flag that is set by jumps to the block that skip other blocks.
        flag: Option<String>,
        /// Flags that skip the block's own code.
        passed: BTreeSet<String>,
    },
    /// Loop with header `head`.
    Loop {
        head: Block,
        /// Flag that is set where an inner loop is left to continue this one.
        flag: Option<String>,
        /// Flags that also end the enclosing loop.
        after: Vec<String>,
    },
}

impl BodyWriter<'_, '_> {
    /// Emits the code of a body.
    pub(super) fn write_control(&mut self) -> EmitResult<Vec<P4Stmt>> {
        match self.graph.body.entry {
            Some(entry) => self.write_subtree(entry),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the statements that `write` emits.
    pub(super) fn capture_code(&mut self, write: impl FnOnce(&mut Self) -> EmitResult<()>) -> EmitResult<Vec<P4Stmt>> {
        let outer = std::mem::take(&mut self.out);
        let done = write(self);
        let written = std::mem::replace(&mut self.out, outer);
        done.map(|()| written)
    }

    /// Emits a block and all blocks that it dominates, as a loop if the block is a loop header.
    pub(super) fn write_subtree(&mut self, block: Block) -> EmitResult<Vec<P4Stmt>> {
        self.e.enter_nesting()?;
        let mut joins = self.graph.join_blocks(block);
        joins.sort_by_key(|b| self.graph.position(*b));
        let code = if self.graph.is_loop(block) {
            if self.e.target.is_tofino() {
                let loc = self.graph.body.blocks[block].term.as_ref().map_or(self.loc, |t| t.loc);
                return self.e.unsupported(loc, "a loop in a control");
            }
            self.scopes.push(CodeScope::Loop { head: block, flag: None, after: Vec::new() });
            let body = self.write_with_joins(block, &joins);
            let (flag, after) = match self.scopes.pop() {
                Some(CodeScope::Loop { flag, after, .. }) => (flag, after),
                _ => (None, Vec::new()),
            };
            body.map(|mut body| {
                if let Some(flag) = flag {
                    body.insert(0, line(format!("{flag} = false;")));
                }
                let mut statements = vec![P4Stmt::Loop(body)];
                for flag in after {
                    statements.extend(conditional(&flag, vec![line("break;")], Vec::new()));
                }
                statements
            })
        } else {
            self.write_with_joins(block, &joins)
        };
        self.e.leave_nesting();
        code
    }

    /// Emits a block, followed by its joins.
    fn write_with_joins(&mut self, block: Block, joins: &[Block]) -> EmitResult<Vec<P4Stmt>> {
        self.write_with_joins_from(block, joins, 0)
    }

    /// Emits a block from instruction `from` onwards, followed by its joins in order, which code in
    /// between skips by flags.
    pub(super) fn write_with_joins_from(
        &mut self,
        block: Block,
        joins: &[Block],
        from: usize,
    ) -> EmitResult<Vec<P4Stmt>> {
        let Some((last, earlier)) = joins.split_last() else { return self.write_block_from(block, from) };
        self.e.enter_nesting()?;
        self.declare_params(*last);
        self.scopes.push(CodeScope::Follow { block: *last, flag: None, passed: BTreeSet::new() });
        let inner = self.write_with_joins_from(block, earlier, from);
        let Some(CodeScope::Follow { flag, passed, .. }) = self.scopes.pop() else { return inner };
        let mut code = inner?;
        self.e.leave_nesting();
        if let Some(flag) = flag {
            code.insert(0, line(format!("{flag} = false;")));
        }
        let join_code = self.write_subtree(*last)?;
        if passed.is_empty() {
            code.extend(join_code);
        } else {
            let flags: Vec<String> = passed.into_iter().collect();
            let cond = if flags.len() == 1 { format!("!{}", flags[0]) } else { format!("!({})", flags.join(" || ")) };
            code.extend(conditional(&cond, join_code, Vec::new()));
        }
        Ok(code)
    }

    /// Declares variables for a block's parameters.
    fn declare_params(&mut self, block: Block) {
        for (n, param) in self.graph.body.blocks[block].params.clone().into_iter().enumerate() {
            if self.values.contains_key(&param) || self.graph.hit_param(block, n).is_some() {
                continue;
            }
            let name = self.e.names.fresh_name("value");
            let ty = super::expr::type_text(self.p, self.graph.body.value_type(param));
            self.declare(&ty, &name);
            self.values.insert(param, P4Expr::primary(name, Vec::new()));
        }
    }

    /// Emits a block's instructions from number `from` on, and its terminator.
    pub(super) fn write_block_from(&mut self, block: Block, from: usize) -> EmitResult<Vec<P4Stmt>> {
        let body = self.graph.body;
        let count = body.blocks[block].insts.len();
        let mut code = self.capture_code(|w| w.write_insts(block, from, count))?;
        let Some(term) = &body.blocks[block].term else { return Ok(code) };
        self.loc = term.loc;
        match &term.term {
            Terminator::Jump(call) => code.extend(self.write_jump(call)?),
            Terminator::Branch { cond, then, els } => {
                let decision = if self.e.target.is_tofino() {
                    let (before, decision) = self.decide_condition(*cond)?;
                    code.extend(before);
                    decision
                } else {
                    ConditionDecision::Gateway(self.value_text(*cond))
                };
                let (then, els) = (self.write_edge(block, then)?, self.write_edge(block, els)?);
                code.extend(self.write_decision(decision, then, els));
            }
            Terminator::Switch { value, cases, default } => {
                let on = self.typed_text(*value);
                code.extend(self.write_switch(block, on, cases, default)?);
            }
            Terminator::Apply { table, keys, arms } => code.extend(self.apply_table(block, *table, keys, arms)?),
            Terminator::Return => code.extend(self.leave_body("return;")),
            Terminator::Exit => code.extend(self.leave_body("exit;")),
            Terminator::Reject => return self.e.unsupported(term.loc, "a `reject` outside of a parser"),
        }
        Ok(code)
    }

    /// Returns the statement that leaves the body.
    fn leave_body(&self, how: &str) -> Vec<P4Stmt> {
        match (&self.action, how) {
            (None, "return;") if self.scopes.is_empty() => Vec::new(),
            // A Tofino program has one control, and compilers implement `return` with flags.
            (None, "return;") if self.e.target.is_tofino() && self.kind != ControlKind::MainDeparser => {
                vec![line("exit;")]
            }
            // Inside an action, `return` would only leave the action.
            (Some(_), _) => vec![line("exit;")],
            _ => vec![line(how)],
        }
    }

    /// Emits the target of a conditional edge: in place if this is its only edge, otherwise a jump.
    fn write_edge(&mut self, from: Block, call: &BlockCall) -> EmitResult<Vec<P4Stmt>> {
        let own = self.graph.forward_edges(call.block).len() == 1
            && !self.graph.cfg.dominates(call.block, from)
            && self.graph.exit_term(call.block).is_none();
        if own || (self.graph.is_loop(call.block) && self.graph.forward_edges(call.block) == [from]) {
            return self.enter_block(call);
        }
        self.write_jump(call)
    }

    /// Assigns a block's parameters and emits its code in place.
    fn enter_block(&mut self, call: &BlockCall) -> EmitResult<Vec<P4Stmt>> {
        self.declare_params(call.block);
        let mut code = self.assign_params(call)?;
        code.extend(self.write_subtree(call.block)?);
        Ok(code)
    }

    /// Assigns the arguments of a jump to the parameters of its target.
    pub(super) fn assign_params(&mut self, call: &BlockCall) -> EmitResult<Vec<P4Stmt>> {
        self.declare_params(call.block);
        let params = self.graph.body.blocks[call.block].params.clone();
        for (param, arg) in params.iter().zip(&call.args) {
            if !self.values.contains_key(param) {
                // All edges pass the lookup's hit result, which already has a variable.
                let hit = self.value_expr(*arg);
                self.values.insert(*param, hit);
            }
        }
        let pairs: Vec<(Value, String, String)> = params
            .iter()
            .zip(&call.args)
            .map(|(param, arg)| (*param, self.value_text(*param), self.value_text(*arg)))
            .filter(|(_, to, from)| to != from)
            .collect();
        let overwrites_later_source = |(n, (_, to, _)): (usize, &(Value, String, String))| {
            pairs.iter().skip(n + 1).any(|(_, _, from)| from.contains(to.as_str()))
        };
        let mut code = Vec::new();
        if pairs.iter().enumerate().any(overwrites_later_source) {
            // The assignments are parallel, so all sources go to temporary variables first.
            let mut later = Vec::new();
            for (param, to, from) in &pairs {
                let ty = super::expr::type_text(self.p, self.graph.body.value_type(*param));
                let name = self.e.names.fresh_name("next");
                code.push(line(format!("{ty} {name} = {from};")));
                later.push(line(format!("{to} = {name};")));
            }
            code.extend(later);
        } else {
            code.extend(pairs.iter().map(|(_, to, from)| line(format!("{to} = {from};"))));
        }
        Ok(code)
    }

    /// Emits a jump; nothing if the target's code follows.
    pub(super) fn write_jump(&mut self, call: &BlockCall) -> EmitResult<Vec<P4Stmt>> {
        if let Some(term) = self.graph.exit_term(call.block) {
            return match term {
                Terminator::Return => Ok(self.leave_body("return;")),
                Terminator::Exit => Ok(self.leave_body("exit;")),
                _ => self.e.unsupported(self.loc, "a `reject` outside of a parser"),
            };
        }
        let awaited = self.scopes.iter().any(|frame| match frame {
            CodeScope::Follow { block, .. } => *block == call.block,
            CodeScope::Loop { head, .. } => *head == call.block,
        });
        if !awaited {
            return self.enter_block(call);
        }
        let mut code = self.assign_params(call)?;
        code.extend(self.continue_at(call.block));
        Ok(code)
    }

    /// Returns the statements that reach an enclosing scope's block: a later block or a loop
    /// header. Flags skip the blocks in between, and `break` leaves the loops in between.
    fn continue_at(&mut self, target: Block) -> Vec<P4Stmt> {
        let mut passed: Vec<usize> = Vec::new();
        let mut crossed: Vec<usize> = Vec::new();
        let mut scope = self.scopes.len();
        let mut is_head = false;
        while scope > 0 {
            scope -= 1;
            match &self.scopes[scope] {
                CodeScope::Follow { block, .. } if *block == target => break,
                CodeScope::Loop { head, .. } if *head == target => {
                    is_head = true;
                    break;
                }
                CodeScope::Follow { .. } => passed.push(scope),
                CodeScope::Loop { .. } => {
                    passed.clear();
                    crossed.push(scope);
                }
            }
        }
        if is_head && crossed.is_empty() {
            return if passed.is_empty() { Vec::new() } else { vec![line("continue;")] };
        }
        let mut code = Vec::new();
        if !passed.is_empty() || crossed.len() > 1 {
            let flag = self.skip_flag(scope);
            code.push(line(format!("{flag} = true;")));
            for frame in passed {
                if let CodeScope::Follow { passed, .. } = &mut self.scopes[frame] {
                    passed.insert(flag.clone());
                }
            }
            for frame in crossed.split_last().map_or(&[][..], |(_, inner)| inner) {
                if let CodeScope::Loop { after, .. } = &mut self.scopes[*frame]
                    && !after.contains(&flag)
                {
                    after.push(flag.clone());
                }
            }
        }
        if !crossed.is_empty() {
            code.push(line("break;"));
        }
        code
    }

    /// Returns the flag that selects a scope's block as the next one.
    fn skip_flag(&mut self, frame: usize) -> String {
        if let CodeScope::Follow { flag: Some(flag), .. } | CodeScope::Loop { flag: Some(flag), .. } =
            &self.scopes[frame]
        {
            return flag.clone();
        }
        let name = self.e.names.fresh_name("skip");
        self.declare("bool", &name);
        let (CodeScope::Follow { flag, .. } | CodeScope::Loop { flag, .. }) = &mut self.scopes[frame];
        *flag = Some(name.clone());
        name
    }

    /// Emits a `switch` over a value; cases with the same target become one.
    fn write_switch(
        &mut self,
        block: Block,
        selector: String,
        cases: &[(Const, BlockCall)],
        default: &BlockCall,
    ) -> EmitResult<Vec<P4Stmt>> {
        let mut groups: Vec<(BlockCall, Vec<String>)> = Vec::new();
        for (value, call) in cases.iter().filter(|(_, call)| call != default) {
            let label = super::expr::constant(self.p, value).map(|e| e.text).unwrap_or_default();
            match groups.iter_mut().find(|(target, _)| target == call) {
                Some((_, labels)) => labels.push(label),
                None => groups.push((call.clone(), vec![label])),
            }
        }
        groups.push((default.clone(), vec!["default".into()]));
        let case_blocks = self.graph.case_blocks(block);
        let mut case_codes = Vec::new();
        for (call, labels) in groups {
            let code =
                if case_blocks.contains(&call.block) { self.enter_block(&call)? } else { self.write_jump(&call)? };
            if !code.is_empty() || labels != ["default"] {
                case_codes.push((labels, code));
            }
        }
        if case_codes.iter().all(|(_, code)| code.is_empty()) {
            return Ok(Vec::new());
        }
        if self.e.target.is_tofino() {
            return Ok(switch_as_ifs(&selector, case_codes));
        }
        Ok(vec![P4Stmt::Switch { on: selector, cases: case_codes }])
    }

    /// Emits the code of an action for one arm. Returns it with the number of instructions of the
    /// arm's block that it contains; `None`: the whole arm.
    pub(super) fn action_code(
        &mut self,
        id: ActionId,
        arm: &ActionArm,
        table: TableId,
    ) -> EmitResult<(Vec<P4Stmt>, Option<usize>)> {
        let outer = self.action.replace(ActionScope::new(id));
        let frames = std::mem::take(&mut self.scopes);
        let done = self.action_text(id, arm, table);
        self.scopes = frames;
        self.action = outer;
        done
    }

    /// Returns the code of an action, from an arm of its table, with the number of leading
    /// instructions that it contains; `None`: all of the arm's code up to its exit block.
    fn action_text(
        &mut self,
        id: ActionId,
        arm: &ActionArm,
        table: TableId,
    ) -> EmitResult<(Vec<P4Stmt>, Option<usize>)> {
        let mut code = Vec::new();
        if let (Some(var), Some(meter)) = (self.p.tables[table].meter_result, self.p.tables[table].direct_meter)
            && self.graph.dominated(arm.block).iter().any(|b| self.loads_var(*b, var))
        {
            let (meter, var) = (self.e.names.externs[meter.index()].clone(), self.e.var_name(var));
            code.push(line(format!("{meter}.read({var});")));
        }
        match self.e.inlining_of(id) {
            ActionInlining::Whole => {
                // The arm's exit block is emitted after the lookup.
                if let Some(next) = self.arm_exit(arm.block) {
                    self.scopes.push(CodeScope::Follow { block: next, flag: None, passed: BTreeSet::new() });
                }
                code.extend(self.write_subtree(arm.block)?);
                Ok((code, None))
            }
            ActionInlining::Prefix(count) => {
                // The limit comes from all arms of the action; this arm can have fewer
                // instructions.
                let count = count.min(self.graph.body.blocks[arm.block].insts.len());
                code.extend(self.capture_code(|w| {
                    w.write_insts(arm.block, 0, count)?;
                    w.save_action_results(arm.block, count)
                })?);
                Ok((code, Some(count)))
            }
        }
    }

    fn loads_var(&self, block: Block, var: VarId) -> bool {
        self.graph.body.blocks[block].insts.iter().any(|i| i.inst == Inst::Load(var))
    }

    /// Returns the block outside an arm that the arm's blocks reach.
    pub(super) fn arm_exit(&self, arm: Block) -> Option<Block> {
        let inside = self.graph.dominated(arm);
        let next = inside.iter().filter_map(|b| self.graph.term(*b)).flat_map(Terminator::successors);
        next.into_iter().find(|b| !inside.contains(b) && self.graph.exit_term(*b).is_none())
    }
}

/// Returns a `switch` over values as a chain of `if`.
fn switch_as_ifs(on: &str, cases: Vec<(Vec<String>, Vec<P4Stmt>)>) -> Vec<P4Stmt> {
    let mut all = Vec::new();
    for (labels, code) in cases.into_iter().rev() {
        if labels == ["default"] {
            all = code;
            continue;
        }
        let tests: Vec<String> = labels.iter().map(|label| format!("{on} == {label}")).collect();
        all = conditional(&tests.join(" || "), code, all);
    }
    all
}
