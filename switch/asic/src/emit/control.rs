//! Structured code out of a control-flow graph.
//!
//! A block's joins (children in the dominator tree that several edges lead to) follow its own code, nearest first, as in "Beyond Relooper"
//! (Ramsey, ICFP 2022). P4 has no labelled blocks: a jump over a join sets a flag that the join's code is guarded by. Code that was written
//! with `if`, `switch`, `exit` and `return` comes out without flags, but for a `return` in the middle of what was inlined.

use super::body::{ActionScope, Writer};
use super::expr::Expr;
use super::text::{Stmt, conditional, line};
use super::tofino::condition::Decision;
use super::{Mode, Res};
use ir::*;
use std::collections::BTreeSet;

/// What the code being written is inside of.
pub(super) enum Frame {
    /// This block's code follows.
    Follow {
        block: Block,
        /// Set where a jump to it passes over others.
        flag: Option<String>,
        /// Flags that its own code is passed over by.
        passed: BTreeSet<String>,
    },
    /// A loop with that head.
    Loop {
        head: Block,
        /// Set where an inner loop is left for the next turn of this one.
        flag: Option<String>,
        /// Flags that end the loop around it, too.
        after: Vec<String>,
    },
}

impl Writer<'_, '_> {
    /// The code of a whole body.
    pub(super) fn control(&mut self) -> Res<Vec<Stmt>> {
        match self.graph.body.entry {
            Some(entry) => self.tree(entry),
            None => Ok(Vec::new()),
        }
    }

    /// What `write` writes.
    pub(super) fn captured(&mut self, write: impl FnOnce(&mut Self) -> Res<()>) -> Res<Vec<Stmt>> {
        let outer = std::mem::take(&mut self.out);
        let done = write(self);
        let written = std::mem::replace(&mut self.out, outer);
        done.map(|()| written)
    }

    /// The code of a block and all that it dominates.
    pub(super) fn tree(&mut self, block: Block) -> Res<Vec<Stmt>> {
        self.e.deeper()?;
        let mut joins = self.graph.joins(block);
        joins.sort_by_key(|b| self.graph.position(*b));
        let done = if self.graph.is_loop(block) {
            if self.e.target.is_tofino() {
                let loc = self.graph.body.blocks[block].term.as_ref().map_or(self.loc, |t| t.loc);
                return self.e.unsupported(loc, "a loop in a control");
            }
            self.frames.push(Frame::Loop { head: block, flag: None, after: Vec::new() });
            let body = self.node(block, &joins);
            let (flag, after) = match self.frames.pop() {
                Some(Frame::Loop { flag, after, .. }) => (flag, after),
                _ => (None, Vec::new()),
            };
            body.map(|mut body| {
                if let Some(flag) = flag {
                    body.insert(0, line(format!("{flag} = false;")));
                }
                let mut all = vec![Stmt::Loop(body)];
                for flag in after {
                    all.extend(conditional(&flag, vec![line("break;")], Vec::new()));
                }
                all
            })
        } else {
            self.node(block, &joins)
        };
        self.e.shallower();
        done
    }

    /// A block's code, and its joins behind it.
    fn node(&mut self, block: Block, joins: &[Block]) -> Res<Vec<Stmt>> {
        self.node_from(block, joins, 0)
    }

    /// The same, from one of the block's instructions on.
    pub(super) fn node_from(&mut self, block: Block, joins: &[Block], from: usize) -> Res<Vec<Stmt>> {
        let Some((last, rest)) = joins.split_last() else { return self.straight(block, from) };
        self.e.deeper()?;
        self.params(*last);
        self.frames.push(Frame::Follow { block: *last, flag: None, passed: BTreeSet::new() });
        let inner = self.node_from(block, rest, from);
        let Some(Frame::Follow { flag, passed, .. }) = self.frames.pop() else { return inner };
        let mut code = inner?;
        self.e.shallower();
        if let Some(flag) = flag {
            code.insert(0, line(format!("{flag} = false;")));
        }
        let follow = self.tree(*last)?;
        if passed.is_empty() {
            code.extend(follow);
        } else {
            let flags: Vec<String> = passed.into_iter().collect();
            let cond = if flags.len() == 1 { format!("!{}", flags[0]) } else { format!("!({})", flags.join(" || ")) };
            code.extend(conditional(&cond, follow, Vec::new()));
        }
        Ok(code)
    }

    /// Declares variables for a block's parameters.
    fn params(&mut self, block: Block) {
        for (n, param) in self.graph.body.blocks[block].params.clone().into_iter().enumerate() {
            if self.values.contains_key(&param) || self.graph.hit_param(block, n).is_some() {
                continue;
            }
            let name = self.e.names.fresh("value");
            let ty = super::expr::type_text(self.p, self.graph.body.value_type(param));
            self.declare(&ty, &name);
            self.values.insert(param, Expr::primary(name, Vec::new()));
        }
    }

    /// A block's instructions from number `from` on, and its end.
    pub(super) fn straight(&mut self, block: Block, from: usize) -> Res<Vec<Stmt>> {
        let body = self.graph.body;
        let count = body.blocks[block].insts.len();
        let mut code = self.captured(|w| w.insts(block, from, count))?;
        let Some(term) = &body.blocks[block].term else { return Ok(code) };
        self.loc = term.loc;
        match &term.term {
            Term::Jump(call) => code.extend(self.jump(call)?),
            Term::Branch { cond, then, els } => {
                let decision = if self.e.target.is_tofino() {
                    let (before, decision) = self.decision(*cond)?;
                    code.extend(before);
                    decision
                } else {
                    Decision::Gateway(self.text(*cond))
                };
                let (then, els) = (self.edge(block, then)?, self.edge(block, els)?);
                code.extend(self.decided(decision, then, els));
            }
            Term::Switch { value, cases, default } => {
                let on = self.typed(*value);
                code.extend(self.switch(block, on, cases, default)?);
            }
            Term::Apply { table, keys, arms } => code.extend(self.apply(block, *table, keys, arms)?),
            Term::Return => code.extend(self.leave("return;")),
            Term::Exit => code.extend(self.leave("exit;")),
            Term::Reject => return self.e.unsupported(term.loc, "a `reject` outside of a parser"),
        }
        Ok(code)
    }

    /// Leaves the body.
    fn leave(&self, how: &str) -> Vec<Stmt> {
        match (&self.action, how) {
            (None, "return;") if self.frames.is_empty() => Vec::new(),
            // There is one control, and what a compiler makes of `return` are flags.
            (None, "return;") if self.e.target.is_tofino() && self.kind != ControlKind::MainDeparser => {
                vec![line("exit;")]
            }
            // A `return` would leave the action alone.
            (Some(_), _) => vec![line("exit;")],
            _ => vec![line(how)],
        }
    }

    /// The code behind an edge that a condition guards: the block's own if no other edge leads to it.
    fn edge(&mut self, from: Block, call: &BlockCall) -> Res<Vec<Stmt>> {
        let own = self.graph.forward_edges(call.block).len() == 1
            && !self.graph.cfg.dominates(call.block, from)
            && self.graph.leaf(call.block).is_none();
        if own || (self.graph.is_loop(call.block) && self.graph.forward_edges(call.block) == [from]) {
            return self.enter(call);
        }
        self.jump(call)
    }

    /// Gives a block its arguments and goes on with its code, here.
    fn enter(&mut self, call: &BlockCall) -> Res<Vec<Stmt>> {
        self.params(call.block);
        let mut code = self.arguments(call)?;
        code.extend(self.tree(call.block)?);
        Ok(code)
    }

    /// Sets the parameters of a block.
    pub(super) fn arguments(&mut self, call: &BlockCall) -> Res<Vec<Stmt>> {
        self.params(call.block);
        let params = self.graph.body.blocks[call.block].params.clone();
        for (param, arg) in params.iter().zip(&call.args) {
            if !self.values.contains_key(param) {
                // It is always whether the lookup hit, which has a name.
                let hit = self.value(*arg);
                self.values.insert(*param, hit);
            }
        }
        let pairs: Vec<(Value, String, String)> = params
            .iter()
            .zip(&call.args)
            .map(|(param, arg)| (*param, self.text(*param), self.text(*arg)))
            .filter(|(_, to, from)| to != from)
            .collect();
        let clash = |(n, (_, to, _)): (usize, &(Value, String, String))| {
            pairs.iter().skip(n + 1).any(|(_, _, from)| from.contains(to.as_str()))
        };
        let mut code = Vec::new();
        if pairs.iter().enumerate().any(clash) {
            let mut later = Vec::new();
            for (param, to, from) in &pairs {
                let ty = super::expr::type_text(self.p, self.graph.body.value_type(*param));
                let name = self.e.names.fresh("next");
                code.push(line(format!("{ty} {name} = {from};")));
                later.push(line(format!("{to} = {name};")));
            }
            code.extend(later);
        } else {
            code.extend(pairs.iter().map(|(_, to, from)| line(format!("{to} = {from};"))));
        }
        Ok(code)
    }

    /// A jump: nothing where the target's code follows anyway.
    pub(super) fn jump(&mut self, call: &BlockCall) -> Res<Vec<Stmt>> {
        if let Some(term) = self.graph.leaf(call.block) {
            return match term {
                Term::Return => Ok(self.leave("return;")),
                Term::Exit => Ok(self.leave("exit;")),
                _ => self.e.unsupported(self.loc, "a `reject` outside of a parser"),
            };
        }
        let awaited = self.frames.iter().any(|frame| match frame {
            Frame::Follow { block, .. } => *block == call.block,
            Frame::Loop { head, .. } => *head == call.block,
        });
        if !awaited {
            return self.enter(call);
        }
        let mut code = self.arguments(call)?;
        code.extend(self.go(call.block));
        Ok(code)
    }

    /// Gets to a block whose code comes later, or to the head of a loop.
    fn go(&mut self, target: Block) -> Vec<Stmt> {
        let mut passed: Vec<usize> = Vec::new();
        let mut crossed: Vec<usize> = Vec::new();
        let mut at = self.frames.len();
        let mut is_head = false;
        while at > 0 {
            at -= 1;
            match &self.frames[at] {
                Frame::Follow { block, .. } if *block == target => break,
                Frame::Loop { head, .. } if *head == target => {
                    is_head = true;
                    break;
                }
                Frame::Follow { .. } => passed.push(at),
                Frame::Loop { .. } => {
                    passed.clear();
                    crossed.push(at);
                }
            }
        }
        if is_head && crossed.is_empty() {
            return if passed.is_empty() { Vec::new() } else { vec![line("continue;")] };
        }
        let mut code = Vec::new();
        if !passed.is_empty() || crossed.len() > 1 {
            let flag = self.flag(at);
            code.push(line(format!("{flag} = true;")));
            for frame in passed {
                if let Frame::Follow { passed, .. } = &mut self.frames[frame] {
                    passed.insert(flag.clone());
                }
            }
            for frame in crossed.split_last().map_or(&[][..], |(_, inner)| inner) {
                if let Frame::Loop { after, .. } = &mut self.frames[*frame]
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

    /// The flag that says which block comes next.
    fn flag(&mut self, frame: usize) -> String {
        if let Frame::Follow { flag: Some(flag), .. } | Frame::Loop { flag: Some(flag), .. } = &self.frames[frame] {
            return flag.clone();
        }
        let name = self.e.names.fresh("skip");
        self.declare("bool", &name);
        let (Frame::Follow { flag, .. } | Frame::Loop { flag, .. }) = &mut self.frames[frame];
        *flag = Some(name.clone());
        name
    }

    /// `switch` over a value.
    fn switch(
        &mut self,
        block: Block,
        on: String,
        cases: &[(Const, BlockCall)],
        default: &BlockCall,
    ) -> Res<Vec<Stmt>> {
        let mut groups: Vec<(BlockCall, Vec<String>)> = Vec::new();
        for (value, call) in cases.iter().filter(|(_, call)| call != default) {
            let label = super::expr::constant(self.p, value).map(|e| e.text).unwrap_or_default();
            match groups.iter_mut().find(|(known, _)| known == call) {
                Some((_, labels)) => labels.push(label),
                None => groups.push((call.clone(), vec![label])),
            }
        }
        groups.push((default.clone(), vec!["default".into()]));
        let own = self.graph.cases(block);
        let mut written = Vec::new();
        for (call, labels) in groups {
            let code = if own.contains(&call.block) { self.enter(&call)? } else { self.jump(&call)? };
            if !code.is_empty() || labels != ["default"] {
                written.push((labels, code));
            }
        }
        if written.iter().all(|(_, code)| code.is_empty()) {
            return Ok(Vec::new());
        }
        if self.e.target.is_tofino() {
            return Ok(as_ifs(&on, written));
        }
        Ok(vec![Stmt::Switch { on, cases: written }])
    }

    /// The code of an action at one place where its table is applied, and how many instructions of the arm's block that took.
    pub(super) fn action_code(&mut self, id: ActionId, arm: &Arm, table: TableId) -> Res<(Vec<Stmt>, Option<usize>)> {
        let outer = self.action.replace(ActionScope::new(id));
        let frames = std::mem::take(&mut self.frames);
        let done = self.action_text(id, arm, table);
        self.frames = frames;
        self.action = outer;
        done
    }

    fn action_text(&mut self, id: ActionId, arm: &Arm, table: TableId) -> Res<(Vec<Stmt>, Option<usize>)> {
        let mut code = Vec::new();
        if let (Some(var), Some(meter)) = (self.p.tables[table].meter_result, self.p.tables[table].direct_meter)
            && self.graph.dominated(arm.block).iter().any(|b| self.reads(*b, var))
        {
            let (meter, var) = (self.e.names.externs[meter.index()].clone(), self.e.var(var));
            code.push(line(format!("{meter}.read({var});")));
        }
        match self.e.mode(id) {
            Mode::Whole => {
                // What the arm goes on to is behind the lookup.
                if let Some(next) = self.way_out(arm.block) {
                    self.frames.push(Frame::Follow { block: next, flag: None, passed: BTreeSet::new() });
                }
                code.extend(self.tree(arm.block)?);
                Ok((code, None))
            }
            Mode::Cut(count) => {
                // Another place where the table is applied may have more code.
                let count = count.min(self.graph.body.blocks[arm.block].insts.len());
                code.extend(self.captured(|w| {
                    w.insts(arm.block, 0, count)?;
                    w.leave_action(arm.block, count)
                })?);
                Ok((code, Some(count)))
            }
        }
    }

    fn reads(&self, block: Block, var: VarId) -> bool {
        self.graph.body.blocks[block].insts.iter().any(|i| i.inst == Inst::Load(var))
    }

    /// The one block outside that an arm's blocks lead to.
    pub(super) fn way_out(&self, arm: Block) -> Option<Block> {
        let inside = self.graph.dominated(arm);
        let next = inside.iter().filter_map(|b| self.graph.term(*b)).flat_map(Term::successors);
        next.into_iter().find(|b| !inside.contains(b) && self.graph.leaf(*b).is_none())
    }
}

/// A `switch` over values as a chain of `if`.
fn as_ifs(on: &str, cases: Vec<(Vec<String>, Vec<Stmt>)>) -> Vec<Stmt> {
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
