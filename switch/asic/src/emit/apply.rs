//! Table applications: splits an arm's code between the action and the code after the lookup.

use super::body::BodyWriter;
use super::expr::P4Expr;
use super::text::{P4Stmt, line};
use super::{ActionInlining, EmitResult};
use ir::*;
use std::collections::HashSet;

/// Code that follows a lookup for a group of actions.
struct ArmGroup {
    labels: Vec<ActionId>,
    code: Vec<P4Stmt>,
    target: Option<Block>,
}

impl BodyWriter<'_, '_> {
    /// Emits the application of a table.
    pub(super) fn apply_table(
        &mut self,
        block: Block,
        table: TableId,
        keys: &[Value],
        arms: &[ActionArm],
    ) -> EmitResult<Vec<P4Stmt>> {
        let mut code = self.set_keys(table, keys)?;
        let hit = self.hit_variable(table, arms);
        let cases = self.graph.case_blocks(block);
        for arm in arms {
            self.bind_hit_params(arm);
        }
        let mut groups: Vec<ArmGroup> = Vec::new();
        for arm in arms {
            if let Some(group) = self.write_arm(table, arm, &cases)? {
                match groups.iter_mut().find(|g| g.target == group.target && g.code == group.code) {
                    Some(same) => same.labels.extend(group.labels),
                    None => groups.push(group),
                }
            }
        }
        code.extend(self.assemble_lookup(table, hit, groups)?);
        Ok(code)
    }

    /// Returns the assignments of keys that cannot be expressions in the table's declaration.
    fn set_keys(&mut self, table: TableId, keys: &[Value]) -> EmitResult<Vec<P4Stmt>> {
        let exprs: Vec<P4Expr> = keys.iter().map(|k| self.value_expr(*k)).collect();
        let mut code = Vec::new();
        for (n, expr) in exprs.iter().enumerate() {
            if let Some(name) = self.e.record_key(table, n, expr, &mut self.decls)? {
                code.push(line(format!("{name} = {};", expr.text)));
            }
        }
        Ok(code)
    }

    /// Returns the variable that holds whether the lookup hit, if the program uses it.
    fn hit_variable(&mut self, table: TableId, arms: &[ActionArm]) -> Option<String> {
        let hits = arms.iter().filter_map(|arm| self.graph.body.blocks[arm.block].params.first().copied());
        let hits: Vec<Value> = hits.collect();
        if hits.iter().all(|hit| self.graph.uses(*hit).is_empty()) {
            return None;
        }
        let name = format!("{}_hit", self.e.names.tables[table.index()]);
        let name = self.e.names.fresh_name(&name);
        for hit in hits {
            self.values.insert(hit, P4Expr::primary(name.clone(), Vec::new()));
        }
        Some(name)
    }

    /// Binds parameters of the exit block to the hit variable, if all edges pass the hit result.
    fn bind_hit_params(&mut self, arm: &ActionArm) {
        let Some(next) = self.arm_exit(arm.block) else { return };
        for (n, param) in self.graph.body.blocks[next].params.clone().into_iter().enumerate() {
            if let Some(hit) = self.graph.hit_param(next, n) {
                let expr = self.value_expr(hit);
                self.values.insert(param, expr);
            }
        }
    }

    /// Emits an arm: its action's code, and the code after the lookup. `cases` are blocks that only
    /// arms of this table reach. `None`: the arm has no code after the lookup.
    fn write_arm(&mut self, table: TableId, arm: &ActionArm, cases: &[Block]) -> EmitResult<Option<ArmGroup>> {
        let params = &self.graph.body.blocks[arm.block].params;
        for (n, value) in params.clone().into_iter().enumerate().skip(1) {
            let expr = self.e.param_expr(arm.action, n - 1);
            self.values.insert(value, expr);
        }
        let (mut text, inst_count) = self.action_code(arm.action, arm, table)?;
        if self.e.reporting_actions.contains(&arm.action) {
            let run = self.run_variable();
            text.insert(0, line(format!("{run} = {};", arm.action.0 + 1)));
        }
        self.e.record_action_code(arm.action, text)?;
        let count = self.graph.body.blocks[arm.block].insts.len();
        let (code, target) = match (inst_count, self.graph.term(arm.block)) {
            (None, _) => match self.arm_exit(arm.block) {
                None => return Ok(None),
                Some(next) if cases.contains(&next) => (Vec::new(), Some(next)),
                Some(next) => {
                    let call = BlockCall::to(next);
                    (self.write_jump(&call)?, None)
                }
            },
            (Some(from), Some(Terminator::Jump(call))) if cases.contains(&call.block) => {
                let mut code = self.capture_code(|w| w.write_insts(arm.block, from, count))?;
                code.extend(self.assign_params(call)?);
                (code, Some(call.block))
            }
            (Some(from), _) => (self.write_arm_rest(arm.block, from)?, None),
        };
        Ok(Some(ArmGroup { labels: vec![arm.action], code, target }))
    }

    /// Emits the rest of an arm's block from an instruction, with the joins that the block
    /// dominates.
    fn write_arm_rest(&mut self, block: Block, from: usize) -> EmitResult<Vec<P4Stmt>> {
        let mut joins = self.graph.join_blocks(block);
        joins.sort_by_key(|b| self.graph.position(*b));
        self.write_with_joins_from(block, &joins, from)
    }

    /// Returns the variable that holds the executed action. A lookup cannot use `action_run` if its
    /// hit result is used as well.
    fn run_variable(&mut self) -> String {
        let name = self.e.shared_name("action_run");
        self.declare("bit<32>", &name);
        name
    }

    /// Makes actions record their execution. `NoAction` is the exception, because its code is
    /// fixed.
    fn report_actions(&mut self, actions: &[ActionId]) -> EmitResult<()> {
        let mut new = false;
        for action in actions.iter().filter(|a| self.e.names.actions[a.index()] != "NoAction") {
            new |= self.e.reporting_actions.insert(*action);
        }
        if new { Err(super::EmitAbort::Retry) } else { Ok(()) }
    }

    /// Emits the statements of a lookup: a `switch` on the action that ran if the arms differ, else
    /// the code of the only group. `hit` is the variable that receives the hit flag, if the program
    /// reads it. P4 returns either the flag or the action, so with the flag the actions report
    /// themselves in a variable.
    fn assemble_lookup(
        &mut self,
        table: TableId,
        hit: Option<String>,
        groups: Vec<ArmGroup>,
    ) -> EmitResult<Vec<P4Stmt>> {
        let name = self.e.names.tables[table.index()].clone();
        let mut code = Vec::new();
        let same_target = groups.windows(2).all(|w| w[0].target == w[1].target);
        let has_one_target = groups.len() <= 1 || same_target;
        let needs_switch = groups.len() > 1 && groups.iter().any(|g| !g.code.is_empty() || !has_one_target);
        if needs_switch {
            let mut cases = Vec::new();
            for group in &groups {
                if hit.is_some() {
                    self.report_actions(&group.labels)?;
                }
                let mut body = group.code.clone();
                if !has_one_target && let Some(target) = group.target {
                    body.extend(self.write_subtree(target)?);
                }
                if !body.is_empty() {
                    let label = |a: &ActionId| match (&hit, self.e.reporting_actions.contains(a)) {
                        (None, _) => self.e.names.actions[a.index()].clone(),
                        (Some(_), true) => (a.0 + 1).to_string(),
                        (Some(_), false) => "0".into(),
                    };
                    cases.push((group.labels.iter().map(label).collect(), body));
                }
            }
            let selector = match &hit {
                None => format!("{name}.apply().action_run"),
                Some(hit) => {
                    let run = self.run_variable();
                    self.declare("bool", hit);
                    code.push(line(format!("{run} = 0;")));
                    code.push(line(format!("{hit} = {name}.apply().hit;")));
                    run
                }
            };
            code.push(P4Stmt::Switch { on: selector, cases });
        } else {
            match &hit {
                Some(hit) => {
                    self.declare("bool", hit);
                    code.push(line(format!("{hit} = {name}.apply().hit;")));
                }
                None => code.push(line(format!("{name}.apply();"))),
            }
            code.extend(groups.first().map(|g| g.code.clone()).unwrap_or_default());
        }
        if has_one_target && let Some(target) = groups.first().and_then(|g| g.target) {
            code.extend(self.write_subtree(target)?);
        }
        Ok(code)
    }
}

/// Returns for each action how much of its arms' code can become the action's.
pub(super) fn action_inlining(p: &Pipeline, tofino: bool) -> std::collections::HashMap<ActionId, ActionInlining> {
    let mut modes = std::collections::HashMap::new();
    for control in p.controls.values() {
        let graph = super::graph::BodyGraph::new(&control.body);
        for (block, _) in control.body.blocks.iter().filter(|(b, _)| graph.cfg.is_reachable(*b)) {
            let Some(Terminator::Apply { arms, .. }) = graph.term(block) else { continue };
            for arm in arms {
                let mode = if tofino { tofino_arm_inlining(p, &graph, arm) } else { arm_inlining(p, &graph, arm) };
                modes
                    .entry(arm.action)
                    .and_modify(|known: &mut ActionInlining| *known = (*known).min(mode))
                    .or_insert(mode);
            }
        }
    }
    modes
}

/// Returns the part of an arm's code that becomes the action's on a chip, where an action is a
/// single step.
fn tofino_arm_inlining(p: &Pipeline, graph: &super::graph::BodyGraph<'_>, arm: &ActionArm) -> ActionInlining {
    let count = graph.body.blocks[arm.block].insts.len();
    let simple = super::tofino::action::simple_prefix(p, graph.body, arm.block);
    let lone = graph.dominated(arm.block).len() == 1;
    match arm_inlining(p, graph, arm) {
        ActionInlining::Whole if simple == count && lone => ActionInlining::Whole,
        ActionInlining::Whole => ActionInlining::Prefix(simple),
        ActionInlining::Prefix(n) => ActionInlining::Prefix(n.min(simple)),
    }
}

/// Decides how much of an arm's code becomes code of the action: all of it if it neither reads the
/// hit flag nor returns nor applies a table, and leaves to at most one block.
fn arm_inlining(p: &Pipeline, graph: &super::graph::BodyGraph<'_>, arm: &ActionArm) -> ActionInlining {
    let arm_blocks = graph.dominated(arm.block);
    let hit = graph.body.blocks[arm.block].params.first().copied();
    let arm_reads_hit = arm_blocks.iter().any(|b| {
        let data = &graph.body.blocks[*b];
        let mut reads_hit = false;
        data.insts.iter().for_each(|i| i.inst.for_each_use(|v| reads_hit |= Some(v) == hit));
        match &data.term {
            Some(TerminatorData { term: Terminator::Jump(call), .. }) => {
                let passes_hit = |(n, v): (usize, &Value)| Some(*v) == hit && graph.hit_param(call.block, n).is_none();
                reads_hit |= call.args.iter().enumerate().any(passes_hit);
            }
            None => {}
            Some(term) => term.term.for_each_use(|v| reads_hit |= Some(v) == hit),
        }
        reads_hit
    });
    let mut exits: HashSet<Block> = HashSet::new();
    let mut is_whole = !arm_reads_hit && p.actions[arm.action].preamble.name != "NoAction";
    for block in &arm_blocks {
        let Some(term) = graph.term(*block) else { continue };
        is_whole &= !matches!(term, Terminator::Apply { .. } | Terminator::Return) && !graph.is_loop(*block);
        let outer_blocks = term.successors().into_iter().filter(|b| !arm_blocks.contains(b));
        for next in outer_blocks {
            match graph.exit_term(next) {
                Some(Terminator::Return) => is_whole = false,
                Some(_) => {}
                None => {
                    exits.insert(next);
                }
            }
        }
    }
    if is_whole && exits.len() <= 1 {
        ActionInlining::Whole
    } else {
        ActionInlining::Prefix(prefix_len(p, graph, arm, hit))
    }
}

/// Returns the number of instructions in an arm's first block that belong to the action: up to the
/// last one that is in the action's source or uses its data.
fn prefix_len(p: &Pipeline, graph: &super::graph::BodyGraph<'_>, arm: &ActionArm, hit: Option<Value>) -> usize {
    let action = &p.actions[arm.action];
    let data = &graph.body.blocks[arm.block];
    let starts = p.actions.values().map(|a| a.loc).chain(p.tables.values().map(|t| t.loc));
    let next_line = starts.filter(|l| l.file == action.loc.file && l.line > action.loc.line).map(|l| l.line).min();
    let mut from_data: HashSet<Value> = data.params.iter().skip(1).copied().collect();
    let mut last = 0;
    for (n, inst) in data.insts.iter().enumerate() {
        let mut uses_data = false;
        let mut reads_hit = false;
        inst.inst.for_each_use(|v| {
            uses_data |= from_data.contains(&v);
            reads_hit |= Some(v) == hit;
        });
        if reads_hit {
            break;
        }
        let is_in_source = inst.loc.file == action.loc.file
            && inst.loc.line >= action.loc.line
            && next_line.is_none_or(|next_line| inst.loc.line < next_line);
        let has_table_arg =
            matches!(&inst.inst, Inst::Extern { args, .. } if args.iter().any(|a| matches!(a, ExternArg::Table(_))));
        if uses_data {
            from_data.extend(inst.results.iter().copied());
        }
        let has_effect = !matches!(
            inst.inst,
            Inst::Const(_) | Inst::Load(_) | Inst::Unary(..) | Inst::Binary(..) | Inst::Cast(..) | Inst::Slice { .. }
        );
        if is_in_source || has_table_arg || (uses_data && has_effect) {
            last = n + 1;
        }
    }
    if action.preamble.name == "NoAction" { 0 } else { last }
}
