//! P4 for the chip: a pipeline written out again as P4-16 that people can read.
//!
//! This module answers one question: *what would a person have written for this architecture?* The IR is flat: one body for each block, all
//! code inlined. Here it becomes structured again (`control`), straight-line code goes back into actions (`apply`), the parser into
//! states (`parser`), dotted names into structs (`storage`). Tables, actions and keys keep their control-plane names, so that P4Info of
//! what is written equals that of the program.
//!
//! For v1model and PNA, what this project's own front-end makes of the text does what the pipeline does (`tests/emit_round_trip.rs`).

mod apply;
mod body;
mod call;
mod coalesce;
mod control;
mod declare;
mod expr;
mod frame;
mod graph;
mod mentions;
mod names;
mod object;
mod parser;
mod plain_sums;
mod storage;
mod table;
mod text;
mod to_v1model;
mod tofino;

use crate::rewrite::Sizes;
use expr::{Expr, Form, State};
use interp::host::architecture::{cpu_variable, drop_variable};
use ir::*;
use names::Names;
use std::collections::{HashMap, HashSet};
use text::Stmt;
pub use tofino::halves::{Split, split};
pub use tofino::passes::{Asked, PASSES};
pub use tofino::whole::{laid_out, observe_passes};

/// How deep statements may nest, and how long a chain of joins may be: writing recurses as deep.
const MAX_DEPTH: usize = 400;

/// The architecture that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Target {
    /// bmv2's v1model.
    V1Model,
    /// The Portable NIC Architecture.
    Pna,
    /// Tofino's native architecture.
    Tna,
    /// Tofino 2's native architecture.
    T2na,
}

impl Target {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Target::V1Model => "v1model",
            Target::Pna => "pna",
            Target::Tna => "tna",
            Target::T2na => "t2na",
        }
    }

    /// The chip that has this architecture ([`crate::target::Target::name`]).
    pub fn chip(self) -> Option<&'static str> {
        match self {
            Target::Tna => Some("tofino1"),
            Target::T2na => Some("tofino2"),
            Target::V1Model | Target::Pna => None,
        }
    }

    /// The architecture of a chip; none if none is written for it.
    pub fn of_chip(name: &str) -> Option<Target> {
        [Target::Tna, Target::T2na].into_iter().find(|target| target.chip() == Some(name))
    }

    /// Whether it is one of Tofino's.
    pub fn is_tofino(self) -> bool {
        matches!(self, Target::Tna | Target::T2na)
    }
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(name: &str) -> Result<Target, String> {
        let all = [Target::Tna, Target::T2na, Target::V1Model, Target::Pna];
        let found = all.into_iter().find(|target| target.name() == name);
        found.ok_or_else(|| format!("there is no architecture `{name}`; there are tna, t2na, v1model and pna"))
    }
}

/// The halves of a chip's pipe that a program is written for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Halves {
    /// All is in ingress; egress is bypassed.
    #[default]
    Ingress,
    /// What follows the decision about the packet's port is in egress, if there is such a place and what is live there can be carried.
    Both,
}

/// What is written.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The program's text.
    pub text: String,
    /// What of the program is not in it, as the architecture has no form for it. Of v1model and PNA always empty.
    pub left_out: Vec<Unsupported>,
    /// Bytes of the bridge header between ingress and egress; none if all is in ingress, or the target has no such halves.
    pub bridge_bytes: Option<u32>,
}

/// Something that the target has no form for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsupported {
    /// Where it is in the program: file, line and column; none if it has no place.
    pub place: Option<String>,
    /// The same in the pipeline; line 0 if it has no place.
    pub loc: Loc,
    /// What it is, in words of the program.
    pub what: String,
}

impl Unsupported {
    fn new(p: &Pipeline, loc: Loc, what: impl Into<String>) -> Unsupported {
        let place = p.file_of(loc).map(|file| format!("{file}:{}:{}", loc.line, loc.column));
        Unsupported { place, loc, what: what.into() }
    }
}

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// Why nothing is written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EmitError {
    /// The architecture can't express what the program does there.
    #[error("{target} cannot express this program: {what}")]
    Unsupported {
        /// The architecture.
        target: &'static str,
        /// What, and where.
        what: Unsupported,
    },
}

/// Writes a verified pipeline for an architecture, for Tofino all of it into ingress; `sizes` says how many entries its tables hold, where that is not what the program says.
///
/// # Errors
/// [`EmitError`]: what the architecture has no form for.
pub fn emit(pipeline: &Pipeline, target: Target, sizes: &Sizes) -> Result<Emitted, EmitError> {
    emit_over(pipeline, target, sizes, Halves::Ingress)
}

/// The same, over these halves of the chip's pipe; architectures that have none do not ask.
///
/// # Errors
/// [`EmitError`]: what the architecture has no form for.
pub fn emit_over(pipeline: &Pipeline, target: Target, sizes: &Sizes, halves: Halves) -> Result<Emitted, EmitError> {
    let refused = |what| EmitError::Unsupported { target: target.name(), what };
    let plain = coalesce::coalesce(pipeline);
    let (plain, meta) = match (pipeline.arch, target) {
        (_, Target::Tna | Target::T2na) => return tofino::whole::emit(pipeline, target, sizes, halves),
        (Arch::V1Model, Target::V1Model) | (Arch::Pna, Target::Pna) => (plain, None),
        (Arch::Pna, Target::V1Model) => {
            let meta = Names::new(&plain, "", None).storage.meta;
            (to_v1model::to_v1model(&plain).map_err(refused)?, Some(meta))
        }
        (Arch::V1Model, Target::Pna) => {
            let what = "it is written for v1model, whose packets go through ingress and egress";
            return Err(refused(Unsupported::new(pipeline, Loc::default(), what)));
        }
    };
    let mut emitter = Emitter::new(&plain, target, sizes, meta.as_deref());
    loop {
        match emitter.program() {
            Ok(text) => return Ok(Emitted { text, left_out: Vec::new(), bridge_bytes: None }),
            Err(Stop::Again) => emitter.reset(),
            Err(Stop::Refused(what)) => return Err(refused(what)),
        }
    }
}

/// A PNA pipeline in the shape that Tofino's architecture asks for, before it is cut into halves: what is left out is gone, the parser's
/// error is a number in metadata, and the control begins with what the chip's parser leaves to it.
pub fn prepared(pipeline: &Pipeline) -> Pipeline {
    let plain = coalesce::coalesce(pipeline);
    let meta = Names::new(&plain, "", None).storage.meta;
    tofino::prepare::prepare(&plain, &meta).pipeline
}

/// Computes in fewer steps, and as early as it can be, what the controls of a pipe compute; what they do stays the same. Part of writing a
/// program for Tofino.
pub fn in_few_steps(p: &mut Pipeline) {
    // An engine tells why it drops a packet.
    let reasons: Vec<VarId> = [drop_variable(p), cpu_variable(p)].into_iter().flatten().collect();
    tofino::passes::run_passes(p, &reasons, &mut |_, _| {});
}

/// Why writing stopped.
enum Stop {
    /// Something was assumed that turned out not to hold, and is known now.
    Again,
    /// There is no form for something.
    Refused(Unsupported),
}

type Res<T> = Result<T, Stop>;

/// How much of an arm's code is the action's. The lesser one of two serves both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Mode {
    /// So many instructions of the arm's first block.
    Cut(usize),
    /// All that the arm does before it goes on to what other arms go on to.
    Whole,
}

/// What is known while a program is written.
struct Emitter<'a> {
    p: &'a Pipeline,
    target: Target,
    sizes: &'a Sizes,
    names: Names,
    include: &'static str,
    /// The metadata's name, where that is known.
    meta: Option<String>,
    modes: HashMap<ActionId, Mode>,
    /// Code of the actions that were met.
    actions: HashMap<ActionId, Vec<Stmt>>,
    /// Key expressions of the tables that were met.
    keys: HashMap<TableId, Vec<String>>,
    /// Keys that are not the same expression wherever the table is applied: a variable is set before.
    key_vars: HashSet<(TableId, usize)>,
    /// Actions that say that they ran.
    noted: HashSet<ActionId>,
    /// Variables in which actions leave values, by action and number.
    saved: HashMap<(ActionId, usize), String>,
    shared: HashMap<String, String>,
    depth: usize,
    /// What the text does not have of the program.
    left_out: Vec<Unsupported>,
    /// How often each hash was used.
    hashes: HashMap<ExternId, usize>,
    /// Conditions that became tables.
    checks: Vec<tofino::check_table::Check<'a>>,
}

impl<'a> Emitter<'a> {
    fn new(p: &'a Pipeline, target: Target, sizes: &'a Sizes, meta: Option<&str>) -> Emitter<'a> {
        let include = match target {
            Target::V1Model => concat!(
                include_str!("../../../../programs/include/core.p4"),
                include_str!("../../../../programs/include/v1model.p4")
            ),
            Target::Tna | Target::T2na => concat!(
                include_str!("../../../../programs/include/core.p4"),
                include_str!("../../../../programs/include/tna.p4")
            ),
            Target::Pna => concat!(
                include_str!("../../../../programs/include/core.p4"),
                include_str!("../../../../programs/include/pna.p4")
            ),
        };
        Emitter {
            p,
            target,
            sizes,
            names: Names::new(p, include, meta),
            meta: meta.map(str::to_owned),
            include,
            modes: apply::modes(p, target.is_tofino()),
            actions: HashMap::new(),
            keys: HashMap::new(),
            key_vars: HashSet::new(),
            noted: HashSet::new(),
            saved: HashMap::new(),
            shared: HashMap::new(),
            depth: 0,
            left_out: Vec::new(),
            hashes: HashMap::new(),
            checks: Vec::new(),
        }
    }

    /// Forgets what was written, not what was learnt.
    fn reset(&mut self) {
        self.names = Names::new(self.p, self.include, self.meta.as_deref());
        self.actions.clear();
        self.keys.clear();
        self.saved.clear();
        self.shared.clear();
        self.hashes.clear();
        self.checks.clear();
        self.depth = 0;
    }

    fn unsupported<T>(&self, loc: Loc, what: impl Into<String>) -> Res<T> {
        Err(Stop::Refused(Unsupported::new(self.p, loc, what)))
    }

    fn deeper(&mut self) -> Res<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.unsupported(Loc::default(), format!("code that nests more than {MAX_DEPTH} deep"));
        }
        Ok(())
    }

    fn shallower(&mut self) {
        self.depth -= 1;
    }

    fn mode(&self, action: ActionId) -> Mode {
        self.modes.get(&action).copied().unwrap_or(Mode::Cut(0))
    }

    /// An action's code is that, at one more place.
    fn put_action(&mut self, action: ActionId, code: Vec<Stmt>) -> Res<()> {
        match self.actions.get(&action) {
            None => {
                self.actions.insert(action, code);
                Ok(())
            }
            Some(known) if *known == code => Ok(()),
            Some(_) => match self.mode(action) {
                Mode::Cut(0) => {
                    let what = format!(
                        "action `{}`, which is not the same in each table",
                        self.p.actions[action].preamble.name
                    );
                    self.unsupported(self.p.actions[action].loc, what)
                }
                _ => {
                    self.modes.insert(action, Mode::Cut(0));
                    Err(Stop::Again)
                }
            },
        }
    }

    /// The variable of that number in which an action leaves a value.
    fn saved_name(&mut self, action: ActionId, number: usize, hint: &str) -> String {
        if let Some(known) = self.saved.get(&(action, number)) {
            return known.clone();
        }
        let name = self.names.fresh(&format!("{}_{hint}", self.names.actions[action.index()]));
        self.saved.insert((action, number), name.clone());
        name
    }

    /// One name for each purpose.
    fn shared_name(&mut self, purpose: &str) -> String {
        if let Some(known) = self.shared.get(purpose) {
            return known.clone();
        }
        let name = self.names.fresh(purpose);
        self.shared.insert(purpose.to_owned(), name.clone());
        name
    }

    fn var(&self, var: VarId) -> String {
        self.names.vars[var.index()].clone()
    }

    fn header(&self, header: HeaderId) -> String {
        self.names.headers[header.index()].clone()
    }

    /// The type of the architecture's or program's that a variable has, where it is not a plain one.
    fn var_type(&self, var: VarId) -> Option<&'static str> {
        if self.target.is_tofino() {
            return None;
        }
        let name = &self.p.vars[var].name;
        let last = name.rsplit('.').next().unwrap_or(name);
        match (self.p.arch, self.p.vars[var].kind) {
            (Arch::Pna, VarKind::Intrinsic) => match last {
                "input_port" => Some("PortId_t"),
                "pass" => Some("PassNumber_t"),
                "timestamp" => Some("Timestamp_t"),
                "class_of_service" => Some("ClassOfService_t"),
                "said" => Some("SecurityAssocId_t"),
                _ => None,
            },
            _ => None,
        }
    }

    fn is_named(&self, var: VarId) -> bool {
        self.var_type(var).is_some()
    }

    /// A variable's value.
    fn load(&self, var: VarId) -> Expr {
        let name = self.var(var);
        if self.target.is_tofino() && self.p.vars[var].kind == VarKind::Intrinsic {
            return self.tofino_intrinsic(var, &name);
        }
        let mut reads = vec![State::Var(var)];
        if let VarKind::Field(header, _) = self.p.vars[var].kind {
            reads.push(State::Header(header));
        }
        match self.var_type(var) {
            None => Expr::primary(name, reads),
            Some(ty) => {
                let text = format!("({}) {name}", expr::type_text(self.p, self.p.vars[var].ty));
                let named = Some((ty.to_owned(), name));
                Expr { named, form: Form::Prefix, ..Expr::primary(text, reads) }
            }
        }
    }

    /// What the chip knows of a packet; zero for what it doesn't.
    fn tofino_intrinsic(&self, var: VarId, name: &str) -> Expr {
        let ty = expr::type_text(self.p, self.p.vars[var].ty);
        let (text, form) = match name {
            "ig_prsr_md.parser_err" => (name.to_owned(), Form::Primary),
            "istd.input_port" | "parser_istd.input_port" if self.p.vars[var].ty == Type::Bit(9) => {
                ("ig_intr_md.ingress_port".to_owned(), Form::Primary)
            }
            "istd.input_port" | "parser_istd.input_port" => (format!("({ty}) ig_intr_md.ingress_port"), Form::Prefix),
            "istd.timestamp" => (format!("({ty}) ig_prsr_md.global_tstamp"), Form::Prefix),
            _ => (self.zero(self.p.vars[var].ty), Form::Primary),
        };
        Expr { form, ..Expr::primary(text, vec![State::Var(var)]) }
    }

    /// A value as it is assigned to a variable.
    fn converted(&self, p: &Pipeline, var: VarId, value: &Expr) -> String {
        let _ = p;
        match (self.var_type(var), &value.named) {
            (None, _) => value.text.clone(),
            (Some(ty), Some((known, text))) if ty == known => text.clone(),
            (Some(ty), _) => format!("({ty}) ({})", value.typed()),
        }
    }

    /// An action's parameter number `n`.
    fn param(&self, action: ActionId, n: usize) -> Expr {
        let param = &self.p.actions[action].params[n];
        let name = self.param_name(action, n);
        let expr = match &param.type_name {
            Some(ty) if !self.target.is_tofino() && !matches!(param.ty, Type::Enum(_)) => {
                let text = format!("({}) {name}", expr::type_text(self.p, param.ty));
                Expr { named: Some((ty.clone(), name)), form: Form::Prefix, ..Expr::primary(text, Vec::new()) }
            }
            _ => Expr::primary(name, Vec::new()),
        };
        Expr { inner: true, ..expr }
    }

    /// What an action's parameter is called: as in the program, unless that is something else's name.
    fn param_name(&self, action: ActionId, n: usize) -> String {
        let wanted = names::flat(&self.p.actions[action].params[n].name);
        if self.names.is_reserved(&wanted) {
            format!("{wanted}_of_{}", self.names.actions[action.index()])
        } else {
            wanted
        }
    }

    /// Takes note of a table's key. If it is not the same expression everywhere, the variable to set before.
    fn key(&mut self, table: TableId, n: usize, key: &Expr, decls: &mut Vec<String>) -> Res<Option<String>> {
        let declared = &self.p.tables[table].keys[n];
        let ty = expr::type_text(self.p, declared.ty);
        if key.inner && self.key_vars.insert((table, n)) {
            return Err(Stop::Again);
        }
        let (text, before) = if self.key_vars.contains(&(table, n)) {
            let purpose = format!("{}_key_{n}", self.names.tables[table.index()]);
            let name = self.shared_name(&purpose);
            let decl = format!("{ty} {name};");
            if !decls.contains(&decl) {
                decls.push(decl);
            }
            (name.clone(), Some(name))
        } else {
            (key.typed().to_owned(), None)
        };
        let text = match &declared.type_name {
            Some(named) if !self.target.is_tofino() && !matches!(declared.ty, Type::Enum(_)) => match &key.named {
                Some((known, text)) if known == named && before.is_none() => text.clone(),
                _ => format!("({named}) ({text})"),
            },
            _ => text,
        };
        let known = self.keys.entry(table).or_default();
        if known.len() <= n {
            known.push(text);
        } else if known[n] != text {
            self.key_vars.insert((table, n));
            return Err(Stop::Again);
        }
        Ok(before)
    }

    /// The width of an object's index, where its declaration gives it no type of its own: that of its first use.
    fn index_width(&self, object: ExternId) -> Option<u32> {
        if self.p.arch == Arch::V1Model {
            return Some(32);
        }
        for control in self.p.controls.values() {
            for inst in control.body.blocks.values().flat_map(|b| &b.insts) {
                if let Inst::Extern { object: Some(of), args, .. } = &inst.inst
                    && *of == object
                    && let Some(Arg::Value(index)) = args.first()
                {
                    return Some(control.body.value_type(*index).width());
                }
            }
        }
        None
    }
}
