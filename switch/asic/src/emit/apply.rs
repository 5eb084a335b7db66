//! Applications of tables: what of an arm's code goes into the action, and what is done behind the lookup.

use super::body::Writer;
use super::expr::Expr;
use super::text::{Stmt, line};
use super::{Mode, Res};
use ir::*;
use std::collections::HashSet;

/// What happens behind a lookup after some of its actions.
struct Group {
    labels: Vec<ActionId>,
    code: Vec<Stmt>,
    target: Option<Block>,
}

impl Writer<'_, '_> {
    /// Applies a table.
    pub(super) fn apply(&mut self, block: Block, table: TableId, keys: &[Value], arms: &[Arm]) -> Res<Vec<Stmt>> {
        let mut code = self.keys(table, keys)?;
        let hit = self.hit(table, arms);
        let cases = self.graph.cases(block);
        for arm in arms {
            self.hit_params(arm);
        }
        let mut groups: Vec<Group> = Vec::new();
        for arm in arms {
            if let Some(group) = self.arm(table, arm, &cases)? {
                match groups.iter_mut().find(|g| g.target == group.target && g.code == group.code) {
                    Some(known) => known.labels.extend(group.labels),
                    None => groups.push(group),
                }
            }
        }
        code.extend(self.assemble(table, hit, groups)?);
        Ok(code)
    }

    /// The keys of a lookup: expressions in the table's declaration, or variables that are set before.
    fn keys(&mut self, table: TableId, keys: &[Value]) -> Res<Vec<Stmt>> {
        let exprs: Vec<Expr> = keys.iter().map(|k| self.value(*k)).collect();
        let mut code = Vec::new();
        for (n, expr) in exprs.iter().enumerate() {
            if let Some(name) = self.e.key(table, n, expr, &mut self.decls)? {
                code.push(line(format!("{name} = {};", expr.text)));
            }
        }
        Ok(code)
    }

    /// The variable that says whether a lookup hit, if somebody asks.
    fn hit(&mut self, table: TableId, arms: &[Arm]) -> Option<String> {
        let hits = arms.iter().filter_map(|arm| self.graph.body.blocks[arm.block].params.first().copied());
        let hits: Vec<Value> = hits.collect();
        if hits.iter().all(|hit| self.graph.uses(*hit).is_empty()) {
            return None;
        }
        let name = format!("{}_hit", self.e.names.tables[table.index()]);
        let name = self.e.names.fresh(&name);
        for hit in hits {
            self.values.insert(hit, Expr::primary(name.clone(), Vec::new()));
        }
        Some(name)
    }

    /// Where all ways to a block say whether the lookup hit, the parameter is that.
    fn hit_params(&mut self, arm: &Arm) {
        let Some(next) = self.way_out(arm.block) else { return };
        for (n, param) in self.graph.body.blocks[next].params.clone().into_iter().enumerate() {
            if let Some(hit) = self.graph.hit_param(next, n) {
                let expr = self.value(hit);
                self.values.insert(param, expr);
            }
        }
    }

    /// An arm: its action's code, and what follows; `None` if nothing does.
    fn arm(&mut self, table: TableId, arm: &Arm, cases: &[Block]) -> Res<Option<Group>> {
        let params = &self.graph.body.blocks[arm.block].params;
        for (n, value) in params.clone().into_iter().enumerate().skip(1) {
            let expr = self.e.param(arm.action, n - 1);
            self.values.insert(value, expr);
        }
        let (mut text, taken) = self.action_code(arm.action, arm, table)?;
        if self.e.noted.contains(&arm.action) {
            let run = self.run_variable();
            text.insert(0, line(format!("{run} = {};", arm.action.0 + 1)));
        }
        self.e.put_action(arm.action, text)?;
        let count = self.graph.body.blocks[arm.block].insts.len();
        let (code, target) = match (taken, self.graph.term(arm.block)) {
            (None, _) => match self.way_out(arm.block) {
                None => return Ok(None),
                Some(next) if cases.contains(&next) => (Vec::new(), Some(next)),
                Some(next) => {
                    let call = BlockCall::to(next);
                    (self.jump(&call)?, None)
                }
            },
            (Some(from), Some(Term::Jump(call))) if cases.contains(&call.block) => {
                let mut code = self.captured(|w| w.insts(arm.block, from, count))?;
                code.extend(self.arguments(call)?);
                (code, Some(call.block))
            }
            (Some(from), _) => (self.straight_arm(arm.block, from)?, None),
        };
        Ok(Some(Group { labels: vec![arm.action], code, target }))
    }

    /// What an arm's block does from an instruction on, with the joins that it dominates.
    fn straight_arm(&mut self, block: Block, from: usize) -> Res<Vec<Stmt>> {
        let mut joins = self.graph.joins(block);
        joins.sort_by_key(|b| self.graph.position(*b));
        self.node_from(block, &joins, from)
    }

    /// The variable in which actions leave which of them it was, for lookups that are asked whether they hit, too.
    fn run_variable(&mut self) -> String {
        let name = self.e.shared_name("action_run");
        self.declare("bit<32>", &name);
        name
    }

    /// Has actions say that they ran. `NoAction`, which nobody can change, is the one that does not.
    fn note_actions(&mut self, actions: &[ActionId]) -> Res<()> {
        let mut new = false;
        for action in actions.iter().filter(|a| self.e.names.actions[a.index()] != "NoAction") {
            new |= self.e.noted.insert(*action);
        }
        if new { Err(super::Stop::Again) } else { Ok(()) }
    }

    /// The statements of a lookup.
    fn assemble(&mut self, table: TableId, hit: Option<String>, groups: Vec<Group>) -> Res<Vec<Stmt>> {
        let name = self.e.names.tables[table.index()].clone();
        let mut code = Vec::new();
        let same_target = groups.windows(2).all(|w| w[0].target == w[1].target);
        let together = groups.len() <= 1 || same_target;
        let needs_switch = groups.len() > 1 && groups.iter().any(|g| !g.code.is_empty() || !together);
        if needs_switch {
            let mut cases = Vec::new();
            for group in &groups {
                if hit.is_some() {
                    self.note_actions(&group.labels)?;
                }
                let mut body = group.code.clone();
                if !together && let Some(target) = group.target {
                    body.extend(self.tree(target)?);
                }
                if !body.is_empty() {
                    let label = |a: &ActionId| match (&hit, self.e.noted.contains(a)) {
                        (None, _) => self.e.names.actions[a.index()].clone(),
                        (Some(_), true) => (a.0 + 1).to_string(),
                        (Some(_), false) => "0".into(),
                    };
                    cases.push((group.labels.iter().map(label).collect(), body));
                }
            }
            let on = match &hit {
                None => format!("{name}.apply().action_run"),
                Some(hit) => {
                    let run = self.run_variable();
                    self.declare("bool", hit);
                    code.push(line(format!("{run} = 0;")));
                    code.push(line(format!("{hit} = {name}.apply().hit;")));
                    run
                }
            };
            code.push(Stmt::Switch { on, cases });
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
        if together && let Some(target) = groups.first().and_then(|g| g.target) {
            code.extend(self.tree(target)?);
        }
        Ok(code)
    }
}

/// How much of the arms' code may be the action's.
pub(super) fn modes(p: &Pipeline, tofino: bool) -> std::collections::HashMap<ActionId, Mode> {
    let mut modes = std::collections::HashMap::new();
    for control in p.controls.values() {
        let graph = super::graph::Graph::new(&control.body);
        for (block, _) in control.body.blocks.iter().filter(|(b, _)| graph.cfg.is_reachable(*b)) {
            let Some(Term::Apply { arms, .. }) = graph.term(block) else { continue };
            for arm in arms {
                let mode = if tofino { tofino_mode(p, &graph, arm) } else { mode(p, &graph, arm) };
                modes.entry(arm.action).and_modify(|known: &mut Mode| *known = (*known).min(mode)).or_insert(mode);
            }
        }
    }
    modes
}

/// The same for a chip whose actions are one step.
fn tofino_mode(p: &Pipeline, graph: &super::graph::Graph<'_>, arm: &Arm) -> Mode {
    let count = graph.body.blocks[arm.block].insts.len();
    let simple = super::tofino::action::simple_prefix(p, graph.body, arm.block);
    let lone = graph.dominated(arm.block).len() == 1;
    match mode(p, graph, arm) {
        Mode::Whole if simple == count && lone => Mode::Whole,
        Mode::Whole => Mode::Cut(simple),
        Mode::Cut(n) => Mode::Cut(n.min(simple)),
    }
}

fn mode(p: &Pipeline, graph: &super::graph::Graph<'_>, arm: &Arm) -> Mode {
    let inside = graph.dominated(arm.block);
    let hit = graph.body.blocks[arm.block].params.first().copied();
    let asks_hit = inside.iter().any(|b| {
        let data = &graph.body.blocks[*b];
        let mut asks = false;
        data.insts.iter().for_each(|i| i.inst.for_each_use(|v| asks |= Some(v) == hit));
        match &data.term {
            Some(TermData { term: Term::Jump(call), .. }) => {
                let handed = |(n, v): (usize, &Value)| Some(*v) == hit && graph.hit_param(call.block, n).is_none();
                asks |= call.args.iter().enumerate().any(handed);
            }
            None => {}
            Some(term) => term.term.for_each_use(|v| asks |= Some(v) == hit),
        }
        asks
    });
    let mut outside: HashSet<Block> = HashSet::new();
    let mut whole = !asks_hit && p.actions[arm.action].preamble.name != "NoAction";
    for block in &inside {
        let Some(term) = graph.term(*block) else { continue };
        whole &= !matches!(term, Term::Apply { .. } | Term::Return) && !graph.is_loop(*block);
        let leaves = term.successors().into_iter().filter(|b| !inside.contains(b));
        for next in leaves {
            match graph.leaf(next) {
                Some(Term::Return) => whole = false,
                Some(_) => {}
                None => {
                    outside.insert(next);
                }
            }
        }
    }
    if whole && outside.len() <= 1 { Mode::Whole } else { Mode::Cut(cut(p, graph, arm, hit)) }
}

/// How many instructions of an arm's first block are the action's: up to the last that is written there or takes its data.
fn cut(p: &Pipeline, graph: &super::graph::Graph<'_>, arm: &Arm, hit: Option<Value>) -> usize {
    let action = &p.actions[arm.action];
    let data = &graph.body.blocks[arm.block];
    let starts = p.actions.values().map(|a| a.loc).chain(p.tables.values().map(|t| t.loc));
    let next = starts.filter(|l| l.file == action.loc.file && l.line > action.loc.line).map(|l| l.line).min();
    let mut of_data: HashSet<Value> = data.params.iter().skip(1).copied().collect();
    let mut last = 0;
    for (n, inst) in data.insts.iter().enumerate() {
        let mut takes = false;
        let mut asks = false;
        inst.inst.for_each_use(|v| {
            takes |= of_data.contains(&v);
            asks |= Some(v) == hit;
        });
        if asks {
            break;
        }
        let own = inst.loc.file == action.loc.file
            && inst.loc.line >= action.loc.line
            && next.is_none_or(|next| inst.loc.line < next);
        let bound = matches!(&inst.inst, Inst::Extern { args, .. } if args.iter().any(|a| matches!(a, Arg::Table(_))));
        if takes {
            of_data.extend(inst.results.iter().copied());
        }
        let stores = !matches!(
            inst.inst,
            Inst::Const(_) | Inst::Load(_) | Inst::Unary(..) | Inst::Binary(..) | Inst::Cast(..) | Inst::Slice { .. }
        );
        if own || bound || (takes && stores) {
            last = n + 1;
        }
    }
    if action.preamble.name == "NoAction" { 0 } else { last }
}
