//! Straight-line code: values become expressions at their uses, or variables if state that they
//! read changes before a use.

use super::expr::{self, ExprDependency, ExprPrecedence, P4Expr};
use super::graph::BodyGraph;
use super::text::{P4Stmt, line};
use super::{EmitResult, P4Emitter};
use ir::*;
use std::collections::{HashMap, HashSet};

/// Maximum length of an expression in characters; longer ones are assigned to a variable.
const MAX_TEXT: usize = 160;

/// Statement builder of one programmable block.
pub(super) struct BodyWriter<'e, 'a> {
    pub(super) e: &'e mut P4Emitter<'a>,
    pub(super) p: &'a Pipeline,
    pub(super) graph: BodyGraph<'a>,
    pub(super) kind: ControlKind,
    pub(super) values: HashMap<Value, P4Expr>,
    /// Values of the current block that may have to be saved in variables, because their
    /// expressions can change.
    pub(super) live: Vec<Value>,
    /// Positions of writes, by the state that they change.
    writes: HashMap<ExprDependency, Vec<(Block, usize)>>,
    /// Declarations of variables that several places of the block use.
    pub(super) decls: Vec<String>,
    /// Statements emitted so far.
    pub(super) out: Vec<P4Stmt>,
    /// Action that is being emitted.
    pub(super) action: Option<ActionScope>,
    pub(super) scopes: Vec<super::control::CodeScope>,
    /// Value set lookups, for the parser's `select`.
    pub(super) set_tests: HashMap<Value, (ValueSetId, Vec<Value>)>,
    pub(super) loc: SourceLoc,
    /// Parser states on edges that pass arguments to their target.
    pub(super) edge_states: Vec<super::parser::StateText>,
    /// Values that are stored in variables.
    saved: HashSet<Value>,
}

/// Action that receives the emitted code.
pub(super) struct ActionScope {
    pub(super) id: ActionId,
    /// Number of results that the action stores in variables of the control.
    pub(super) saved: usize,
    temps: HashSet<String>,
    /// Variables that hold values after the action.
    copies: HashMap<Value, VarId>,
}

impl ActionScope {
    pub(super) fn new(id: ActionId) -> ActionScope {
        ActionScope { id, saved: 0, temps: HashSet::new(), copies: HashMap::new() }
    }
}

impl<'e, 'a> BodyWriter<'e, 'a> {
    /// Creates a builder for a body and indexes the positions that change state.
    pub(super) fn new(e: &'e mut P4Emitter<'a>, kind: ControlKind, body: &'a Body) -> BodyWriter<'e, 'a> {
        let p = e.p;
        let mut writer = BodyWriter {
            e,
            p,
            graph: BodyGraph::new(body),
            kind,
            values: HashMap::new(),
            live: Vec::new(),
            writes: HashMap::new(),
            decls: Vec::new(),
            out: Vec::new(),
            action: None,
            scopes: Vec::new(),
            set_tests: HashMap::new(),
            loc: SourceLoc::default(),
            edge_states: Vec::new(),
            saved: HashSet::new(),
        };
        for (block, data) in body.blocks.iter() {
            for (n, inst) in data.insts.iter().enumerate() {
                for state in writer.changed_state(&inst.inst) {
                    writer.writes.entry(state).or_default().push((block, n));
                }
            }
        }
        writer
    }

    /// Returns the state that an instruction changes. Validity of one member of a header union
    /// changes that of all members.
    fn changed_state(&self, inst: &Inst) -> Vec<ExprDependency> {
        let header = |h: HeaderId| {
            let union = self.p.headers[h].union.map(|u| self.p.unions[u].members.clone());
            union.unwrap_or_else(|| vec![h]).into_iter().map(ExprDependency::Header).collect::<Vec<_>>()
        };
        match inst {
            Inst::Store(var, _) => vec![ExprDependency::Var(*var)],
            Inst::SetValid(h) | Inst::SetInvalid(h) => header(*h),
            Inst::CopyHeader { dst, .. } => header(*dst),
            Inst::Extract(h) | Inst::ExtractVarbit(h, _) => {
                let mut changed = header(*h);
                changed.push(ExprDependency::Packet);
                changed
            }
            Inst::Advance(_) => vec![ExprDependency::Packet],
            Inst::Extern {
                func: ExternFn::MarkToDrop | ExternFn::VerifyChecksum | ExternFn::VerifyChecksumWithPayload,
                ..
            } => {
                let intrinsic =
                    |(id, var): (VarId, &Var)| (var.kind == VarKind::Intrinsic).then_some(ExprDependency::Var(id));
                self.p.vars.iter().filter_map(intrinsic).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether an expression defined at a position has the same value at every later
    /// position.
    fn is_stable(&self, reads: &[ExprDependency], block: Block, n: usize) -> bool {
        self.is_unwritten_until(reads, (block, n), (usize::MAX, usize::MAX))
    }

    /// Returns whether the expression of a value is unchanged at all uses of the value.
    fn is_stable_where_used(&self, value: Value, reads: &[ExprDependency], block: Block, n: usize) -> bool {
        let last = self.graph.uses(value).iter().map(|(at, m)| (self.graph.position(*at), *m)).max();
        self.is_unwritten_until(reads, (block, n), last.unwrap_or_default())
    }

    /// Returns whether no write to `reads` lies between two positions. In a body with loops, every
    /// write counts.
    fn is_unwritten_until(&self, reads: &[ExprDependency], (block, n): (Block, usize), until: (usize, usize)) -> bool {
        let from = (self.graph.position(block), n);
        let between = |(at, m): &(Block, usize)| {
            let site = (self.graph.position(*at), *m);
            self.graph.has_loops() || (from < site && site < until)
        };
        !reads.iter().any(|state| self.writes.get(state).is_some_and(|sites| sites.iter().any(between)))
    }

    pub(super) fn value_expr(&self, value: Value) -> P4Expr {
        self.values.get(&value).cloned().unwrap_or_else(|| P4Expr::primary("undefined_value", Vec::new()))
    }

    pub(super) fn value_text(&self, value: Value) -> String {
        self.value_expr(value).text
    }

    pub(super) fn typed_text(&self, value: Value) -> String {
        self.value_expr(value).typed_text().to_owned()
    }

    /// Emits the instructions `from..to` of a block.
    pub(super) fn write_insts(&mut self, block: Block, from: usize, to: usize) -> EmitResult<()> {
        let body = self.graph.body;
        if from == 0 {
            self.live.clear();
            self.live.extend(body.blocks[block].params.iter().copied());
        }
        let mut store_is_done = false;
        for n in from..to {
            let data = &body.blocks[block].insts[n];
            if std::mem::take(&mut store_is_done) {
                continue;
            }
            self.loc = data.loc;
            let changed = self.changed_state(&data.inst);
            self.save_before(&changed, block, n)?;
            let in_control = matches!(self.kind, ControlKind::MainControl | ControlKind::Egress);
            // A Tofino control computes a `Select` by a branch, directly into the variable of the
            // next store.
            let selects_as_branch = self.e.target.is_tofino() && in_control && self.action.is_none();
            match &data.inst {
                Inst::Store(var, value) => self.write_store(*var, *value, block, n)?,
                Inst::Select { cond, then, els } if selects_as_branch => {
                    let target_var = self.stored_next(data.results[0], block, n).filter(|_| n + 1 < to);
                    if let Some(var) = target_var {
                        self.save_before(&[ExprDependency::Var(var)], block, n)?;
                        store_is_done = true;
                    }
                    self.write_select(data.results[0], [*cond, *then, *els], target_var)?;
                }
                inst => match self.pure_expr_for_target(inst, block)? {
                    Some(expr) => self.define_value(data.results[0], expr, block, n)?,
                    None => self.write_effect(data, block, n)?,
                },
            }
        }
        Ok(())
    }

    /// Returns the variable that the next instruction stores a value to, if that is the value's
    /// only use.
    fn stored_next(&self, value: Value, block: Block, n: usize) -> Option<VarId> {
        let next = &self.graph.body.blocks[block].insts.get(n + 1)?.inst;
        let Inst::Store(var, stored) = *next else { return None };
        let plain = self.p.vars[var].kind != VarKind::Intrinsic;
        (stored == value && plain && self.graph.uses(value).len() == 1).then_some(var)
    }

    /// Saves live values that read state about to change and that have later uses.
    fn save_before(&mut self, changed: &[ExprDependency], block: Block, n: usize) -> EmitResult<()> {
        if changed.is_empty() {
            return Ok(());
        }
        for value in self.live.clone() {
            let Some(known) = self.values.get(&value) else { continue };
            let hit = known.reads.iter().any(|state| changed.contains(state));
            if hit && (self.graph.is_used_after(value, block, n) || self.graph.is_used_elsewhere(value, block)) {
                self.save_value(value, block)?;
            }
        }
        Ok(())
    }

    /// Returns whether a value is stored in a variable.
    pub(super) fn is_saved(&self, value: Value) -> bool {
        self.saved.contains(&value)
    }

    /// Stores a value in a new variable: one of the control, if other blocks use the value, else
    /// one within the statements. Later uses read the variable.
    pub(super) fn save_value(&mut self, value: Value, block: Block) -> EmitResult<()> {
        let ty = self.graph.body.value_type(value);
        let expr = self.value_expr(value);
        let ty_text = expr::type_text(self.p, ty);
        if self.e.target.is_tofino() && ty == Type::Bool && expr.precedence != ExprPrecedence::Primary {
            let name = self.outer_name(&expr);
            self.declare(&ty_text, &name);
            let code = self.set_bool(&name, value)?;
            self.out.extend(code);
            self.saved.insert(value);
            self.values.insert(value, P4Expr::primary(name, Vec::new()));
            return Ok(());
        }
        self.saved.insert(value);
        if self.graph.leaves_block(value, block) || self.kind.is_parser() {
            let name = self.outer_name(&expr);
            self.declare(&ty_text, &name);
            self.out.push(line(format!("{name} = {};", expr.text)));
            self.values.insert(value, P4Expr::primary(name, Vec::new()));
            return Ok(());
        }
        let name = self.inner_name();
        self.out.push(line(format!("{ty_text} {name} = {};", expr.text)));
        self.values.insert(value, P4Expr { uses_inner_names: true, ..P4Expr::primary(name, Vec::new()) });
        Ok(())
    }

    /// Records that a variable holds a value.
    pub(super) fn keep_in_variable(&mut self, value: Value, name: String) {
        self.saved.insert(value);
        self.values.insert(value, P4Expr::primary(name, Vec::new()));
    }

    /// Declares a variable of the block, at most once.
    pub(super) fn declare(&mut self, ty: &str, name: &str) {
        let text = format!("{ty} {name};");
        if !self.decls.contains(&text) {
            self.decls.push(text);
        }
    }

    /// Returns a name for a variable that is declared between statements.
    fn inner_name(&mut self) -> String {
        match &mut self.action {
            None => self.e.names.fresh_name("value"),
            Some(scope) => {
                let base = (1..).map(|n| if n == 1 { "temp".to_owned() } else { format!("temp_{n}") });
                let name = base.into_iter().find(|name| scope.temps.insert(name.clone()));
                name.unwrap_or_default()
            }
        }
    }

    /// Returns a name for a variable of the block. The result of an action has the same name at
    /// every application of the table.
    pub(super) fn outer_name(&mut self, of: &P4Expr) -> String {
        match &mut self.action {
            None => self.e.names.fresh_name("value"),
            Some(scope) => {
                scope.saved += 1;
                let (id, number) = (scope.id, scope.saved);
                let hint = if of.precedence == ExprPrecedence::Primary && !of.text.contains(['.', '(', '[']) {
                    of.text.clone()
                } else {
                    "value".into()
                };
                self.e.saved_name(id, number, &hint)
            }
        }
    }

    /// Records the expression of an instruction's result, and stores it in a variable if the
    /// expression is long, has several uses or can change before a use. `n` is the index of the
    /// instruction.
    fn define_value(&mut self, result: Value, expr: P4Expr, block: Block, n: usize) -> EmitResult<()> {
        let uses = self.graph.uses(result).len();
        let is_simple = expr.is_simple() || expr.precedence == ExprPrecedence::Const;
        let has_other_blocks = self.graph.is_used_elsewhere(result, block);
        let is_stable = self.is_stable_where_used(result, &expr.reads, block, n);
        // A gateway tests a condition without a variable, however long its text is.
        let is_condition = self.e.target.is_tofino() && self.graph.body.value_type(result) == Type::Bool;
        let is_long = expr.text.len() > MAX_TEXT && expr.precedence != ExprPrecedence::Const && !is_condition;
        let is_stored_next = match self.graph.body.blocks[block].insts.get(n + 1).map(|i| &i.inst) {
            Some(Inst::Store(var, value)) => *value == result && !matches!(self.p.vars[*var].kind, VarKind::Field(..)),
            _ => false,
        };
        self.values.insert(result, expr.clone());
        self.live.push(result);
        if uses == 0 || expr.precedence == ExprPrecedence::Const {
            return Ok(());
        }
        let stays_inline = (is_simple || uses == 1)
            && (!has_other_blocks || (is_stable && is_simple && !expr.uses_inner_names))
            && !is_long;
        if !stays_inline && !is_stored_next {
            let in_parser = self.kind.is_parser();
            if in_parser && (is_simple || self.e.target.is_tofino()) && is_stable && !expr.uses_inner_names {
                return Ok(());
            }
            self.save_value(result, block)?;
        }
        Ok(())
    }

    /// Emits a store. A value that is used again becomes the variable's name, or goes to a variable
    /// of its own if the store has changed its expression. `n` is the index of the instruction.
    fn write_store(&mut self, var: VarId, value: Value, block: Block, n: usize) -> EmitResult<()> {
        let expr = self.value_expr(value);
        let name = self.e.var_name(var);
        let text = self.e.value_for_var(self.p, var, &expr);
        let tofino = self.e.target.is_tofino() && !matches!(self.kind, ControlKind::MainParser);
        if tofino && self.p.vars[var].kind == VarKind::Intrinsic && name != super::tofino::gress_split::BYPASS {
            return Ok(());
        }
        if tofino
            && self.p.vars[var].ty == Type::Bool
            && !matches!(expr.precedence, ExprPrecedence::Primary | ExprPrecedence::Const)
        {
            let code = self.set_bool(&name, value)?;
            self.out.extend(code);
        } else if text != name {
            self.out.push(line(format!("{name} = {text};")));
        }
        // Later uses read the variable, because its name is shorter than the expression.
        let is_used_later = self.graph.is_used_after(value, block, n) || self.graph.is_used_elsewhere(value, block);
        let is_plain_var = !matches!(self.p.vars[var].kind, VarKind::Field(..)) && !self.e.has_named_type(var);
        let is_from_elsewhere = self.graph.defined_in(value) != Some(block);
        let is_name_shorter = expr.precedence != ExprPrecedence::Const && (!expr.is_simple() || expr.uses_inner_names);
        // On a chip, an action reads state from before the action, so the variable's new value is
        // visible only after the action.
        let is_plain_var = match (self.e.target.is_tofino(), &mut self.action) {
            (true, Some(scope)) => {
                if is_plain_var && is_name_shorter && !is_from_elsewhere {
                    scope.copies.insert(value, var);
                }
                false
            }
            _ => is_plain_var,
        };
        if is_used_later && is_plain_var && is_name_shorter && !is_from_elsewhere {
            let reads = vec![ExprDependency::Var(var)];
            if !self.graph.is_used_elsewhere(value, block) || self.is_stable(&reads, block, n) {
                self.values.insert(value, P4Expr::primary(name, reads));
                self.saved.insert(value);
                self.live.push(value);
                return Ok(());
            }
        }
        // The definition of the value relied on this store to name it.
        let is_changed =
            !is_from_elsewhere && expr.precedence != ExprPrecedence::Const && !self.is_stable(&expr.reads, block, n);
        let in_step = self.e.target.is_tofino() && self.action.is_some();
        if is_used_later && !is_from_elsewhere && expr.precedence != ExprPrecedence::Const && !in_step {
            let has_one_use = self
                .graph
                .uses(value)
                .iter()
                .filter(|(use_block, use_index)| *use_block != block || *use_index > n)
                .count()
                == 1;
            let is_used_elsewhere = self.graph.is_used_elsewhere(value, block);
            if (is_used_elsewhere && (is_changed || !expr.is_simple() || expr.uses_inner_names))
                || (!expr.is_simple() && !has_one_use)
            {
                self.save_value(value, block)?;
            }
        }
        Ok(())
    }

    /// Returns the expression of a side-effect-free instruction. For Tofino, saves operands first
    /// that an ALU cannot take.
    fn pure_expr_for_target(&mut self, inst: &Inst, block: Block) -> EmitResult<Option<P4Expr>> {
        let control = !matches!(self.kind, ControlKind::MainParser | ControlKind::Parser);
        if self.e.target.is_tofino() && control && self.action.is_none() {
            match inst {
                Inst::Binary(op, a, b) if !op.is_comparison() && self.graph.body.value_type(*a) != Type::Bool => {
                    self.save_complex_operand(*a, block)?;
                    self.save_complex_operand(*b, block)?;
                }
                Inst::Unary(UnaryOp::Neg | UnaryOp::Not, a) => self.save_complex_operand(*a, block)?,
                Inst::Slice { value, .. } | Inst::Cast(_, value) => self.save_computed_base(*value, block)?,
                Inst::Concat(a, b) => {
                    self.save_computed_base(*a, block)?;
                    self.save_computed_base(*b, block)?;
                }
                _ => {}
            }
        }
        self.pure_expr(inst)
    }

    /// Returns the expression of a side-effect-free instruction; `None` for other instructions.
    fn pure_expr(&mut self, inst: &Inst) -> EmitResult<Option<P4Expr>> {
        let ty = |w: &Self, v: Value| w.graph.body.value_type(v);
        Ok(Some(match inst {
            Inst::Const(c) => match expr::constant(self.p, c) {
                Some(expr) => expr,
                None => {
                    let (text, width) = (expr::type_text(self.p, c.ty), c.ty.width());
                    // P4 has no literal of this type; a variable that nothing assigns holds its
                    // only value.
                    let name = format!("no_bits_{width}");
                    self.declare(&text, &name);
                    P4Expr::primary(name, Vec::new())
                }
            },
            Inst::Load(var) => self.e.load_expr(*var),
            Inst::Unary(op, a) => expr::unary(*op, &self.value_expr(*a)),
            // The compiler rejects a constant zero divisor; in the IR, `x / 0` is 0 and `x % 0` is
            // `x`.
            Inst::Binary(BinaryOp::Div, a, b) if self.is_constant_zero(*b) => {
                expr::binary(BinaryOp::And, ty(self, *a), &self.value_expr(*a), &self.value_expr(*b))
            }
            Inst::Binary(BinaryOp::Mod, a, b) if self.is_constant_zero(*b) => self.value_expr(*a),
            Inst::Binary(op, a, b) => expr::binary(*op, ty(self, *a), &self.value_expr(*a), &self.value_expr(*b)),
            Inst::Cast(to, a) => match expr::cast(self.p, *to, ty(self, *a), &self.value_expr(*a)) {
                Some(expr) => expr,
                None => return self.e.unsupported(self.loc, "a conversion from or to an enumeration without numbers"),
            },
            Inst::Slice { value, hi, lo } => expr::slice(&self.value_expr(*value), *hi, *lo),
            Inst::Concat(a, b) => expr::concat(&self.value_expr(*a), &self.value_expr(*b)),
            Inst::Select { cond, then, els } => {
                expr::select(&self.value_expr(*cond), &self.value_expr(*then), &self.value_expr(*els))
            }
            Inst::IsValid(h) => {
                let name = self.e.header_name(*h);
                P4Expr::primary(format!("{name}.isValid()"), vec![ExprDependency::Header(*h)])
            }
            Inst::PacketLength => P4Expr::primary("packet.length()", Vec::new()),
            _ => return Ok(None),
        }))
    }

    /// Returns whether a value is the constant zero.
    fn is_constant_zero(&self, value: Value) -> bool {
        let block = self.graph.defined_in(value);
        let inst = block.and_then(|b| self.graph.body.blocks[b].insts.iter().find(|i| i.results.contains(&value)));
        inst.is_some_and(|i| matches!(&i.inst, Inst::Const(c) if c.bits == num_bigint::BigUint::ZERO))
    }

    /// Emits an instruction that has a side effect or reads the packet. `n` is its index in the
    /// block.
    fn write_effect(&mut self, data: &InstData, block: Block, n: usize) -> EmitResult<()> {
        let text = match &data.inst {
            Inst::SetValid(h) => format!("{}.setValid();", self.e.header_name(*h)),
            Inst::SetInvalid(h) => format!("{}.setInvalid();", self.e.header_name(*h)),
            Inst::CopyHeader { dst, src } => format!("{} = {};", self.e.header_name(*dst), self.e.header_name(*src)),
            Inst::Extract(h) => format!("packet.extract({});", self.e.header_name(*h)),
            Inst::ExtractVarbit(h, bits) => {
                format!("packet.extract({}, {});", self.e.header_name(*h), self.typed_text(*bits))
            }
            Inst::Advance(bits) => format!("packet.advance({});", self.typed_text(*bits)),
            Inst::Verify(check, error) => format!("verify({}, {});", self.value_text(*check), self.value_text(*error)),
            Inst::Emit(h) => format!("packet.emit({});", self.e.header_name(*h)),
            Inst::Lookahead(ty) => {
                let text = format!("packet.lookahead<{}>()", expr::type_text(self.p, *ty));
                if self.e.target.is_tofino() {
                    let result = data.results[0];
                    self.values.insert(result, P4Expr::primary(text, vec![ExprDependency::Packet]));
                    self.live.push(result);
                    // A later extraction moves the packet position, so the lookahead must be saved.
                    if self.graph.is_used_elsewhere(result, block)
                        && !self.is_stable(&[ExprDependency::Packet], block, n)
                    {
                        return self.save_value(result, block);
                    }
                    return Ok(());
                }
                return self.write_result(data, block, n, P4Expr::primary(text, Vec::new()));
            }
            Inst::InValueSet(set, keys) => {
                self.set_tests.insert(data.results[0], (*set, keys.clone()));
                return Ok(());
            }
            Inst::Extern { object, func, args } => return self.write_call(data, *object, *func, args, block, n),
            _ => return self.e.unsupported(data.loc, "this instruction"),
        };
        self.out.push(line(text));
        Ok(())
    }

    /// Emits a call and stores its result in a variable, so that the call executes at its position.
    pub(super) fn write_result(&mut self, data: &InstData, block: Block, _n: usize, call: P4Expr) -> EmitResult<()> {
        match data.results.first() {
            Some(result) => {
                self.values.insert(*result, call);
                self.live.push(*result);
                self.save_value(*result, block)
            }
            None => {
                self.out.push(line(format!("{};", call.text)));
                Ok(())
            }
        }
    }

    /// Stores values that are used after an action in variables of the control. The action ends
    /// before instruction `n` of the block.
    pub(super) fn save_action_results(&mut self, block: Block, n: usize) -> EmitResult<()> {
        for value in self.live.clone() {
            let Some(known) = self.values.get(&value) else { continue };
            let is_used_later =
                self.graph.uses(value).iter().any(|(use_block, use_index)| *use_block != block || *use_index >= n);
            if known.uses_inner_names && is_used_later {
                let expr = known.clone();
                let copy = self.action.as_ref().and_then(|scope| scope.copies.get(&value).copied());
                if let Some(var) = copy.filter(|var| self.is_stable(&[ExprDependency::Var(*var)], block, n)) {
                    let name = self.e.var_name(var);
                    self.values.insert(value, P4Expr::primary(name, vec![ExprDependency::Var(var)]));
                    self.saved.insert(value);
                    continue;
                }
                let name = self.outer_name(&expr);
                let ty = expr::type_text(self.p, self.graph.body.value_type(value));
                self.declare(&ty, &name);
                self.out.push(line(format!("{name} = {};", expr.text)));
                self.keep_in_variable(value, name);
            }
        }
        Ok(())
    }
}
