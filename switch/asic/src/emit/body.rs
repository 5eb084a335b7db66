//! Straight-line code: values become expressions where they are used, or variables of their own where something they read changes first.

use super::expr::{self, Expr, Form, State};
use super::graph::Graph;
use super::text::{Stmt, line};
use super::{Emitter, Res};
use ir::*;
use std::collections::{HashMap, HashSet};

/// Longer expressions get a name.
const MAX_TEXT: usize = 160;

/// The code of one programmable block while it is written.
pub(super) struct Writer<'e, 'a> {
    pub(super) e: &'e mut Emitter<'a>,
    pub(super) p: &'a Pipeline,
    pub(super) graph: Graph<'a>,
    pub(super) kind: ControlKind,
    pub(super) values: HashMap<Value, Expr>,
    /// Values of the block at hand whose expressions may have to be saved.
    pub(super) live: Vec<Value>,
    /// Where writes are, by what they change.
    writes: HashMap<State, Vec<(Block, usize)>>,
    /// Declarations of the block: variables that code in several places uses.
    pub(super) decls: Vec<String>,
    /// The code being written.
    pub(super) out: Vec<Stmt>,
    /// The action whose code is being written.
    pub(super) action: Option<ActionScope>,
    pub(super) frames: Vec<super::control::Frame>,
    /// Members of value sets that are asked for, for the parser's `select`.
    pub(super) in_set: HashMap<Value, (ValueSetId, Vec<Value>)>,
    pub(super) loc: Loc,
    /// States between a choice and a state that it hands values to.
    pub(super) between: Vec<super::parser::StateText>,
    /// Values that are in variables of their own.
    saved: HashSet<Value>,
}

/// The action that code goes into.
pub(super) struct ActionScope {
    pub(super) id: ActionId,
    /// How many values it has left in variables of the control.
    pub(super) saved: usize,
    temps: HashSet<String>,
    /// Variables that hold values once the action is done.
    copies: HashMap<Value, VarId>,
}

impl ActionScope {
    pub(super) fn new(id: ActionId) -> ActionScope {
        ActionScope { id, saved: 0, temps: HashSet::new(), copies: HashMap::new() }
    }
}

impl<'e, 'a> Writer<'e, 'a> {
    pub(super) fn new(e: &'e mut Emitter<'a>, kind: ControlKind, body: &'a Body) -> Writer<'e, 'a> {
        let p = e.p;
        let mut writer = Writer {
            e,
            p,
            graph: Graph::new(body),
            kind,
            values: HashMap::new(),
            live: Vec::new(),
            writes: HashMap::new(),
            decls: Vec::new(),
            out: Vec::new(),
            action: None,
            frames: Vec::new(),
            in_set: HashMap::new(),
            loc: Loc::default(),
            between: Vec::new(),
            saved: HashSet::new(),
        };
        for (block, data) in body.blocks.iter() {
            for (n, inst) in data.insts.iter().enumerate() {
                for state in writer.changes(&inst.inst) {
                    writer.writes.entry(state).or_default().push((block, n));
                }
            }
        }
        writer
    }

    /// What an instruction changes.
    fn changes(&self, inst: &Inst) -> Vec<State> {
        let header = |h: HeaderId| {
            let union = self.p.headers[h].union.map(|u| self.p.unions[u].members.clone());
            union.unwrap_or_else(|| vec![h]).into_iter().map(State::Header).collect::<Vec<_>>()
        };
        match inst {
            Inst::Store(var, _) => vec![State::Var(*var)],
            Inst::SetValid(h) | Inst::SetInvalid(h) => header(*h),
            Inst::CopyHeader { dst, .. } => header(*dst),
            Inst::Extract(h) | Inst::ExtractVarbit(h, _) => {
                let mut all = header(*h);
                all.push(State::Packet);
                all
            }
            Inst::Advance(_) => vec![State::Packet],
            Inst::Extern {
                func: ExternFn::MarkToDrop | ExternFn::VerifyChecksum | ExternFn::VerifyChecksumWithPayload,
                ..
            } => {
                let intrinsic = |(id, var): (VarId, &Var)| (var.kind == VarKind::Intrinsic).then_some(State::Var(id));
                self.p.vars.iter().filter_map(intrinsic).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether an expression defined at that place has the same value wherever it is used.
    fn is_stable(&self, reads: &[State], block: Block, n: usize) -> bool {
        self.rest_until(reads, (block, n), (usize::MAX, usize::MAX))
    }

    /// Whether the expression of a value is the same wherever the value is used.
    fn is_stable_where_used(&self, value: Value, reads: &[State], block: Block, n: usize) -> bool {
        let last = self.graph.uses(value).iter().map(|(at, m)| (self.graph.position(*at), *m)).max();
        self.rest_until(reads, (block, n), last.unwrap_or_default())
    }

    /// Whether nothing writes what is read between a place and another one, which is given by its position. With loops all is between.
    fn rest_until(&self, reads: &[State], (block, n): (Block, usize), until: (usize, usize)) -> bool {
        let from = (self.graph.position(block), n);
        let between = |(at, m): &(Block, usize)| {
            let site = (self.graph.position(*at), *m);
            self.graph.has_loops() || (from < site && site < until)
        };
        !reads.iter().any(|state| self.writes.get(state).is_some_and(|sites| sites.iter().any(between)))
    }

    pub(super) fn value(&self, value: Value) -> Expr {
        self.values.get(&value).cloned().unwrap_or_else(|| Expr::primary("undefined_value", Vec::new()))
    }

    pub(super) fn text(&self, value: Value) -> String {
        self.value(value).text
    }

    pub(super) fn typed(&self, value: Value) -> String {
        self.value(value).typed().to_owned()
    }

    /// Writes the instructions `from..to` of a block.
    pub(super) fn insts(&mut self, block: Block, from: usize, to: usize) -> Res<()> {
        let body = self.graph.body;
        if from == 0 {
            self.live.clear();
            self.live.extend(body.blocks[block].params.iter().copied());
        }
        let mut written = false;
        for n in from..to {
            let data = &body.blocks[block].insts[n];
            if std::mem::take(&mut written) {
                continue;
            }
            self.loc = data.loc;
            let changed = self.changes(&data.inst);
            self.save_before(&changed, block, n)?;
            let control = matches!(self.kind, ControlKind::MainControl | ControlKind::Egress);
            let chooses = self.e.target.is_tofino() && control && self.action.is_none();
            match &data.inst {
                Inst::Store(var, value) => self.store(*var, *value, block, n)?,
                Inst::Select { cond, then, els } if chooses => {
                    let into = self.stored_next(data.results[0], block, n).filter(|_| n + 1 < to);
                    if let Some(var) = into {
                        self.save_before(&[State::Var(var)], block, n)?;
                        written = true;
                    }
                    self.choose(data.results[0], [*cond, *then, *els], into)?;
                }
                inst => match self.pure_of(inst, block)? {
                    Some(expr) => self.define(data.results[0], expr, block, n)?,
                    None => self.effect(data, block, n)?,
                },
            }
        }
        Ok(())
    }

    /// The variable that a value goes to next, and nowhere else.
    fn stored_next(&self, value: Value, block: Block, n: usize) -> Option<VarId> {
        let next = &self.graph.body.blocks[block].insts.get(n + 1)?.inst;
        let Inst::Store(var, stored) = *next else { return None };
        let plain = self.p.vars[var].kind != VarKind::Intrinsic;
        (stored == value && plain && self.graph.uses(value).len() == 1).then_some(var)
    }

    /// Gives names to values that are used later and read what is about to change.
    fn save_before(&mut self, changed: &[State], block: Block, n: usize) -> Res<()> {
        if changed.is_empty() {
            return Ok(());
        }
        for value in self.live.clone() {
            let Some(known) = self.values.get(&value) else { continue };
            let hit = known.reads.iter().any(|state| changed.contains(state));
            if hit && (self.graph.is_used_after(value, block, n) || self.graph.is_used_elsewhere(value, block)) {
                self.save(value, block)?;
            }
        }
        Ok(())
    }

    /// Whether a value is in a variable of its own.
    pub(super) fn is_saved(&self, value: Value) -> bool {
        self.saved.contains(&value)
    }

    /// Gives a value a variable of its own.
    pub(super) fn save(&mut self, value: Value, block: Block) -> Res<()> {
        let ty = self.graph.body.value_type(value);
        let expr = self.value(value);
        let ty_text = expr::type_text(self.p, ty);
        if self.e.target.is_tofino() && ty == Type::Bool && expr.form != Form::Primary {
            let name = self.outer_name(&expr);
            self.declare(&ty_text, &name);
            let code = self.set_bool(&name, value)?;
            self.out.extend(code);
            self.saved.insert(value);
            self.values.insert(value, Expr::primary(name, Vec::new()));
            return Ok(());
        }
        self.saved.insert(value);
        if self.graph.leaves_block(value, block) || self.kind.is_parser() {
            let name = self.outer_name(&expr);
            self.declare(&ty_text, &name);
            self.out.push(line(format!("{name} = {};", expr.text)));
            self.values.insert(value, Expr::primary(name, Vec::new()));
            return Ok(());
        }
        let name = self.inner_name();
        self.out.push(line(format!("{ty_text} {name} = {};", expr.text)));
        self.values.insert(value, Expr { inner: true, ..Expr::primary(name, Vec::new()) });
        Ok(())
    }

    /// A value is in that variable from now on.
    pub(super) fn keep(&mut self, value: Value, name: String) {
        self.saved.insert(value);
        self.values.insert(value, Expr::primary(name, Vec::new()));
    }

    /// Declares a variable of the block, once.
    pub(super) fn declare(&mut self, ty: &str, name: &str) {
        let text = format!("{ty} {name};");
        if !self.decls.contains(&text) {
            self.decls.push(text);
        }
    }

    /// A name for a variable that is declared in the middle of the code.
    fn inner_name(&mut self) -> String {
        match &mut self.action {
            None => self.e.names.fresh("value"),
            Some(scope) => {
                let base = (1..).map(|n| if n == 1 { "temp".to_owned() } else { format!("temp_{n}") });
                let name = base.into_iter().find(|name| scope.temps.insert(name.clone()));
                name.unwrap_or_default()
            }
        }
    }

    /// A name for a variable of the block. What an action leaves has the same name wherever the action is run.
    pub(super) fn outer_name(&mut self, of: &Expr) -> String {
        match &mut self.action {
            None => self.e.names.fresh("value"),
            Some(scope) => {
                scope.saved += 1;
                let (id, number) = (scope.id, scope.saved);
                let hint = if of.form == Form::Primary && !of.text.contains(['.', '(', '[']) {
                    of.text.clone()
                } else {
                    "value".into()
                };
                self.e.saved_name(id, number, &hint)
            }
        }
    }

    fn define(&mut self, result: Value, expr: Expr, block: Block, n: usize) -> Res<()> {
        let uses = self.graph.uses(result).len();
        let simple = expr.is_simple() || expr.form == Form::Const;
        let elsewhere = self.graph.is_used_elsewhere(result, block);
        let stable = self.is_stable_where_used(result, &expr.reads, block, n);
        let condition = self.e.target.is_tofino() && self.graph.body.value_type(result) == Type::Bool;
        let long = expr.text.len() > MAX_TEXT && expr.form != Form::Const && !condition;
        let stored_next = match self.graph.body.blocks[block].insts.get(n + 1).map(|i| &i.inst) {
            Some(Inst::Store(var, value)) => *value == result && !matches!(self.p.vars[*var].kind, VarKind::Field(..)),
            _ => false,
        };
        self.values.insert(result, expr.clone());
        self.live.push(result);
        if uses == 0 || expr.form == Form::Const {
            return Ok(());
        }
        let keeps = (simple || uses == 1) && (!elsewhere || (stable && simple && !expr.inner)) && !long;
        if !keeps && !stored_next {
            let in_parser = self.kind.is_parser();
            if in_parser && (simple || self.e.target.is_tofino()) && stable && !expr.inner {
                return Ok(());
            }
            self.save(result, block)?;
        }
        Ok(())
    }

    fn store(&mut self, var: VarId, value: Value, block: Block, n: usize) -> Res<()> {
        let expr = self.value(value);
        let name = self.e.var(var);
        let text = self.e.converted(self.p, var, &expr);
        let tofino = self.e.target.is_tofino() && !matches!(self.kind, ControlKind::MainParser);
        if tofino && self.p.vars[var].kind == VarKind::Intrinsic && name != super::tofino::halves::BYPASS {
            return Ok(());
        }
        if tofino && self.p.vars[var].ty == Type::Bool && !matches!(expr.form, Form::Primary | Form::Const) {
            let code = self.set_bool(&name, value)?;
            self.out.extend(code);
        } else if text != name {
            self.out.push(line(format!("{name} = {text};")));
        }
        // From here on the value can be had from the variable, which reads better than its expression.
        let later = self.graph.is_used_after(value, block, n) || self.graph.is_used_elsewhere(value, block);
        let plain = !matches!(self.p.vars[var].kind, VarKind::Field(..)) && !self.e.is_named(var);
        let foreign = self.graph.defined_in(value) != Some(block);
        let better = expr.form != Form::Const && (!expr.is_simple() || expr.inner);
        // On a chip, what an action reads is what was there before it: the variable's new value is there behind the action only.
        let plain = match (self.e.target.is_tofino(), &mut self.action) {
            (true, Some(scope)) => {
                if plain && better && !foreign {
                    scope.copies.insert(value, var);
                }
                false
            }
            _ => plain,
        };
        if later && plain && better && !foreign {
            let reads = vec![State::Var(var)];
            if !self.graph.is_used_elsewhere(value, block) || self.is_stable(&reads, block, n) {
                self.values.insert(value, Expr::primary(name, reads));
                self.saved.insert(value);
                self.live.push(value);
                return Ok(());
            }
        }
        // Its definition left it to this store to give it a name.
        let unnamed = !foreign && expr.form != Form::Const && !self.is_stable(&expr.reads, block, n);
        let in_step = self.e.target.is_tofino() && self.action.is_some();
        if later && !foreign && expr.form != Form::Const && !in_step {
            let lone = self.graph.uses(value).iter().filter(|(at, m)| *at != block || *m > n).count() == 1;
            let elsewhere = self.graph.is_used_elsewhere(value, block);
            if (elsewhere && (unnamed || !expr.is_simple() || expr.inner)) || (!expr.is_simple() && !lone) {
                self.save(value, block)?;
            }
        }
        Ok(())
    }

    /// The same; for a chip, of operands that an ALU takes.
    fn pure_of(&mut self, inst: &Inst, block: Block) -> Res<Option<Expr>> {
        let control = !matches!(self.kind, ControlKind::MainParser | ControlKind::Parser);
        if self.e.target.is_tofino() && control && self.action.is_none() {
            match inst {
                Inst::Binary(op, a, b) if !op.is_comparison() && self.graph.body.value_type(*a) != Type::Bool => {
                    self.operand(*a, block)?;
                    self.operand(*b, block)?;
                }
                Inst::Unary(UnaryOp::Neg | UnaryOp::Not, a) => self.operand(*a, block)?,
                Inst::Slice { value, .. } | Inst::Cast(_, value) => self.part(*value, block)?,
                Inst::Concat(a, b) => {
                    self.part(*a, block)?;
                    self.part(*b, block)?;
                }
                _ => {}
            }
        }
        self.pure(inst)
    }

    /// The expression that an instruction without effect is.
    fn pure(&mut self, inst: &Inst) -> Res<Option<Expr>> {
        let ty = |w: &Self, v: Value| w.graph.body.value_type(v);
        Ok(Some(match inst {
            Inst::Const(c) => match expr::constant(self.p, c) {
                Some(expr) => expr,
                None => {
                    let (text, width) = (expr::type_text(self.p, c.ty), c.ty.width());
                    let name = format!("no_bits_{width}");
                    self.declare(&text, &name);
                    Expr::primary(name, Vec::new())
                }
            },
            Inst::Load(var) => self.e.load(*var),
            Inst::Unary(op, a) => expr::unary(*op, &self.value(*a)),
            // The language refuses what the IR gives a meaning: nothing, and all of it remains.
            Inst::Binary(BinaryOp::Div, a, b) if self.is_zero(*b) => {
                expr::binary(BinaryOp::And, ty(self, *a), &self.value(*a), &self.value(*b))
            }
            Inst::Binary(BinaryOp::Mod, a, b) if self.is_zero(*b) => self.value(*a),
            Inst::Binary(op, a, b) => expr::binary(*op, ty(self, *a), &self.value(*a), &self.value(*b)),
            Inst::Cast(to, a) => match expr::cast(self.p, *to, ty(self, *a), &self.value(*a)) {
                Some(expr) => expr,
                None => return self.e.unsupported(self.loc, "a conversion from or to an enumeration without numbers"),
            },
            Inst::Slice { value, hi, lo } => expr::slice(&self.value(*value), *hi, *lo),
            Inst::Concat(a, b) => expr::concat(&self.value(*a), &self.value(*b)),
            Inst::Select { cond, then, els } => expr::select(&self.value(*cond), &self.value(*then), &self.value(*els)),
            Inst::IsValid(h) => {
                let name = self.e.header(*h);
                Expr::primary(format!("{name}.isValid()"), vec![State::Header(*h)])
            }
            Inst::PacketLength => Expr::primary("packet.length()", Vec::new()),
            _ => return Ok(None),
        }))
    }

    /// Whether a value is the constant zero.
    fn is_zero(&self, value: Value) -> bool {
        let block = self.graph.defined_in(value);
        let inst = block.and_then(|b| self.graph.body.blocks[b].insts.iter().find(|i| i.results.contains(&value)));
        inst.is_some_and(|i| matches!(&i.inst, Inst::Const(c) if c.bits == num_bigint::BigUint::ZERO))
    }

    /// An instruction that does something.
    fn effect(&mut self, data: &InstData, block: Block, n: usize) -> Res<()> {
        let text = match &data.inst {
            Inst::SetValid(h) => format!("{}.setValid();", self.e.header(*h)),
            Inst::SetInvalid(h) => format!("{}.setInvalid();", self.e.header(*h)),
            Inst::CopyHeader { dst, src } => format!("{} = {};", self.e.header(*dst), self.e.header(*src)),
            Inst::Extract(h) => format!("packet.extract({});", self.e.header(*h)),
            Inst::ExtractVarbit(h, bits) => {
                format!("packet.extract({}, {});", self.e.header(*h), self.typed(*bits))
            }
            Inst::Advance(bits) => format!("packet.advance({});", self.typed(*bits)),
            Inst::Verify(check, error) => format!("verify({}, {});", self.text(*check), self.text(*error)),
            Inst::Emit(h) => format!("packet.emit({});", self.e.header(*h)),
            Inst::Lookahead(ty) => {
                let text = format!("packet.lookahead<{}>()", expr::type_text(self.p, *ty));
                if self.e.target.is_tofino() {
                    let result = data.results[0];
                    self.values.insert(result, Expr::primary(text, vec![State::Packet]));
                    self.live.push(result);
                    // Behind the next header there are other bits.
                    if self.graph.is_used_elsewhere(result, block) && !self.is_stable(&[State::Packet], block, n) {
                        return self.save(result, block);
                    }
                    return Ok(());
                }
                return self.result(data, block, n, Expr::primary(text, Vec::new()));
            }
            Inst::InValueSet(set, keys) => {
                self.in_set.insert(data.results[0], (*set, keys.clone()));
                return Ok(());
            }
            Inst::Extern { object, func, args } => return self.call(data, *object, *func, args, block, n),
            _ => return self.e.unsupported(data.loc, "this instruction"),
        };
        self.out.push(line(text));
        Ok(())
    }

    /// The result of a call: a variable of its own, so that the call happens where it stands.
    pub(super) fn result(&mut self, data: &InstData, block: Block, _n: usize, call: Expr) -> Res<()> {
        match data.results.first() {
            Some(result) => {
                self.values.insert(*result, call);
                self.live.push(*result);
                self.save(*result, block)
            }
            None => {
                self.out.push(line(format!("{};", call.text)));
                Ok(())
            }
        }
    }

    /// A value that is used behind the code of an action leaves it in a variable.
    pub(super) fn leave_action(&mut self, block: Block, n: usize) -> Res<()> {
        for value in self.live.clone() {
            let Some(known) = self.values.get(&value) else { continue };
            let later = self.graph.uses(value).iter().any(|(at, m)| *at != block || *m >= n);
            if known.inner && later {
                let expr = known.clone();
                let copy = self.action.as_ref().and_then(|scope| scope.copies.get(&value).copied());
                if let Some(var) = copy.filter(|var| self.is_stable(&[State::Var(*var)], block, n)) {
                    let name = self.e.var(var);
                    self.values.insert(value, Expr::primary(name, vec![State::Var(var)]));
                    self.saved.insert(value);
                    continue;
                }
                let name = self.outer_name(&expr);
                let ty = expr::type_text(self.p, self.graph.body.value_type(value));
                self.declare(&ty, &name);
                self.out.push(line(format!("{name} = {};", expr.text)));
                self.keep(value, name);
            }
        }
        Ok(())
    }
}
