//! P4 emitter: writes a pipeline as readable P4-16 source for v1model, PNA, TNA or T2NA.
//!
//! The IR is flat: one body per programmable block, with all calls inlined. The emitter restores
//! structure: control flow (`control`), actions (`apply`), parser states (`parser`) and structs
//! from dotted names (`storage`). Tables, actions and keys keep their control-plane names, so that
//! the P4Info of the emitted program equals that of the pipeline.
//!
//! For v1model and PNA, the emitted source compiles to a pipeline of the same behaviour
//! (`tests/emit_round_trip.rs`).

mod apply;
mod body;
mod checksum_arithmetic;
mod coalesce;
mod control;
mod declare;
mod expr;
mod extern_calls;
mod graph;
mod mentions;
mod names;
mod object;
mod parser;
mod program_skeleton;
mod storage;
mod table;
mod text;
mod to_v1model;
mod tofino;

use crate::transform::TableSizes;
use crate::transform::complete_packets::for_complete_packets;
use expr::{ExprDependency, ExprPrecedence, P4Expr};
use interp::host::architecture::{cpu_variable, drop_variable};
use ir::*;
use names::EmittedNames;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use text::P4Stmt;
pub use tofino::driver::{observe_passes, pipeline_for_planning};
pub use tofino::gress_split::{GressPrograms, split_gresses};
pub use tofino::passes::{ExternallyReadVars, PASSES};

/// Maximum nesting depth of statements and maximum length of a chain of joins. Bounds the emitter's
/// recursion depth.
const MAX_DEPTH: usize = 400;

/// Architecture of the emitted program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum EmitTarget {
    /// bmv2's v1model.
    V1Model,
    /// The Portable NIC Architecture.
    Pna,
    /// Tofino's native architecture.
    Tna,
    /// Tofino 2's native architecture.
    T2na,
}

impl EmitTarget {
    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            EmitTarget::V1Model => "v1model",
            EmitTarget::Pna => "pna",
            EmitTarget::Tna => "tna",
            EmitTarget::T2na => "t2na",
        }
    }

    /// Returns the name of the chip with this architecture ([`crate::target::ChipTarget::name`]).
    pub fn chip(self) -> Option<&'static str> {
        match self {
            EmitTarget::Tna => Some("tofino1"),
            EmitTarget::T2na => Some("tofino2"),
            EmitTarget::V1Model | EmitTarget::Pna => None,
        }
    }

    /// Returns the architecture of a chip. `None`: the emitter does not support the chip.
    pub fn of_chip(name: &str) -> Option<EmitTarget> {
        [EmitTarget::Tna, EmitTarget::T2na].into_iter().find(|target| target.chip() == Some(name))
    }

    /// Returns whether the architecture belongs to a Tofino chip.
    pub fn is_tofino(self) -> bool {
        matches!(self, EmitTarget::Tna | EmitTarget::T2na)
    }
}

impl std::str::FromStr for EmitTarget {
    type Err = String;

    fn from_str(name: &str) -> Result<EmitTarget, String> {
        let all = [EmitTarget::Tna, EmitTarget::T2na, EmitTarget::V1Model, EmitTarget::Pna];
        let found = all.into_iter().find(|target| target.name() == name);
        found.ok_or_else(|| format!("there is no architecture `{name}`; there are tna, t2na, v1model and pna"))
    }
}

/// Gresses of a chip's pipe that the emitted program uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum GressUse {
    /// All code runs in ingress; egress is bypassed.
    #[default]
    Ingress,
    /// Code after the port decision runs in egress, if the live state at a split point fits in the
    /// bridge header.
    Both,
}

/// Result of the emitter.
#[derive(Clone, Debug)]
pub struct EmittedProgram {
    /// P4-16 source.
    pub text: String,
    /// Constructs that the source omits because the architecture cannot express them. Always empty
    /// for v1model and PNA.
    pub left_out: Vec<UnsupportedConstruct>,
    /// Length of the bridge header between ingress and egress in bytes. `None`: all code is in
    /// ingress, or the target has no gresses.
    pub bridge_bytes: Option<u32>,
}

/// Construct of a program that the target cannot express.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnsupportedConstruct {
    /// Source location as file, line and column. `None`: the construct has no location.
    pub location: Option<String>,
    /// Location in the pipeline; line 0 if the construct has none.
    pub loc: SourceLoc,
    /// Description in terms of the program.
    pub construct: String,
}

impl UnsupportedConstruct {
    fn new(p: &Pipeline, loc: SourceLoc, what: impl Into<String>) -> UnsupportedConstruct {
        let place = p.file_of(loc).map(|file| format!("{file}:{}:{}", loc.line, loc.column));
        UnsupportedConstruct { location: place, loc, construct: what.into() }
    }
}

impl std::fmt::Display for UnsupportedConstruct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.location {
            Some(place) => write!(f, "{place}: {}", self.construct),
            None => f.write_str(&self.construct),
        }
    }
}

/// Reason for which a program cannot be emitted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EmitError {
    /// The architecture cannot express a construct of the program.
    #[error("{target} cannot express this program: {what}")]
    Unsupported {
        /// Name of the architecture.
        target: &'static str,
        /// The construct and its location.
        what: UnsupportedConstruct,
    },
}

/// Emits a verified pipeline for an architecture. For Tofino, all code goes to ingress. `sizes`
/// overrides the table sizes of the program.
///
/// # Errors
/// [`EmitError`] if the architecture cannot express the program.
pub fn emit(pipeline: &Pipeline, target: EmitTarget, sizes: &TableSizes) -> Result<EmittedProgram, EmitError> {
    emit_with_gresses(pipeline, target, sizes, GressUse::Ingress)
}

/// Emits a verified pipeline for an architecture with the given use of gresses. `halves` has no
/// effect for v1model and PNA.
///
/// # Errors
/// [`EmitError`] if the architecture cannot express the program.
pub fn emit_with_gresses(
    pipeline: &Pipeline,
    target: EmitTarget,
    sizes: &TableSizes,
    halves: GressUse,
) -> Result<EmittedProgram, EmitError> {
    let refused = |what| EmitError::Unsupported { target: target.name(), what };
    let (coalesced, meta) = match (pipeline.arch, target) {
        (_, EmitTarget::Tna | EmitTarget::T2na) => return tofino::driver::emit(pipeline, target, sizes, halves),
        (Arch::V1Model, EmitTarget::V1Model) | (Arch::Pna, EmitTarget::Pna) => (coalesce::coalesce(pipeline), None),
        (Arch::Pna, EmitTarget::V1Model) => {
            // v1model has no super-frames.
            let complete = for_complete_packets(Arc::new(pipeline.clone()));
            let coalesced = coalesce::coalesce(&complete);
            let meta = EmittedNames::new(&coalesced, "", None).storage.meta;
            (to_v1model::to_v1model(&coalesced).map_err(refused)?, Some(meta))
        }
        (Arch::V1Model, EmitTarget::Pna) => {
            let what = "it is written for v1model, whose packets go through ingress and egress";
            return Err(refused(UnsupportedConstruct::new(pipeline, SourceLoc::default(), what)));
        }
    };
    let mut emitter = P4Emitter::new(&coalesced, target, sizes, meta.as_deref());
    loop {
        match emitter.program_text() {
            Ok(text) => return Ok(EmittedProgram { text, left_out: Vec::new(), bridge_bytes: None }),
            Err(EmitAbort::Retry) => emitter.reset(),
            Err(EmitAbort::Refused(what)) => return Err(refused(what)),
        }
    }
}

/// Legalizes a PNA pipeline for Tofino, before the split into gresses. Unsupported constructs are
/// removed, the parser error is a number in metadata, and the control starts with the checks that
/// the chip's parser defers to it.
pub fn legalize_for_tofino(pipeline: &Pipeline) -> Pipeline {
    let plain = coalesce::coalesce(pipeline);
    let meta = EmittedNames::new(&plain, "", None).storage.meta;
    tofino::legalize::legalize(&plain, &meta).pipeline
}

/// Optimises the controls of a pipe for Tofino: fewer steps, computed as early as possible. The
/// behaviour is unchanged. The emitter runs these passes for Tofino programs.
pub fn run_tofino_passes(p: &mut Pipeline) {
    // The interpreter reports drop reasons, so the stores to these variables are live.
    let reasons: Vec<VarId> = [drop_variable(p), cpu_variable(p)].into_iter().flatten().collect();
    tofino::passes::run_passes(p, &reasons, &mut |_, _| {});
}

/// Reason for which emission stopped.
enum EmitAbort {
    /// An assumption did not hold and has been corrected; emission restarts.
    Retry,
    /// The architecture cannot express a construct.
    Refused(UnsupportedConstruct),
}

type EmitResult<T> = Result<T, EmitAbort>;

/// Part of an arm's code that becomes code of the action. If arms differ, the smaller one applies
/// to all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ActionInlining {
    /// Number of leading instructions of the arm's first block.
    Prefix(usize),
    /// All code of the arm before its exit block.
    Whole,
}

/// State of the emitter.
struct P4Emitter<'a> {
    p: &'a Pipeline,
    target: EmitTarget,
    sizes: &'a TableSizes,
    names: EmittedNames,
    include: &'static str,
    /// Name of the metadata parameter, if known.
    meta: Option<String>,
    inlining: HashMap<ActionId, ActionInlining>,
    /// Code of each action that was emitted.
    actions: HashMap<ActionId, Vec<P4Stmt>>,
    /// Key expressions of each table that was emitted.
    keys: HashMap<TableId, Vec<String>>,
    /// Keys with different expressions in different applications of their table. The emitter
    /// assigns them to a variable before each application.
    key_vars: HashSet<(TableId, usize)>,
    /// Actions that record their execution in a variable.
    reporting_actions: HashSet<ActionId>,
    /// Variables that hold results of actions, by action and number.
    saved_names: HashMap<(ActionId, usize), String>,
    shared_names: HashMap<String, String>,
    depth: usize,
    /// Constructs that the source omits.
    left_out: Vec<UnsupportedConstruct>,
    /// Number of uses of each hash object.
    hash_uses: HashMap<ExternId, usize>,
    /// Conditions that are decided by a table.
    check_tables: Vec<tofino::check_table::CheckTable<'a>>,
}

impl<'a> P4Emitter<'a> {
    /// Creates an emitter. `meta` is the name of the metadata struct, if it is known. The text of
    /// the architecture's P4 files is part of it, because new names must differ from theirs.
    fn new(p: &'a Pipeline, target: EmitTarget, sizes: &'a TableSizes, meta: Option<&str>) -> P4Emitter<'a> {
        let include = match target {
            EmitTarget::V1Model => concat!(
                include_str!("../../../../programs/include/core.p4"),
                include_str!("../../../../programs/include/v1model.p4")
            ),
            EmitTarget::Tna | EmitTarget::T2na => concat!(
                include_str!("../../../../programs/include/core.p4"),
                include_str!("../../../../programs/include/tna.p4")
            ),
            EmitTarget::Pna => concat!(
                include_str!("../../../../programs/include/core.p4"),
                include_str!("../../../../programs/include/pna.p4")
            ),
        };
        P4Emitter {
            p,
            target,
            sizes,
            names: EmittedNames::new(p, include, meta),
            meta: meta.map(str::to_owned),
            include,
            inlining: apply::action_inlining(p, target.is_tofino()),
            actions: HashMap::new(),
            keys: HashMap::new(),
            key_vars: HashSet::new(),
            reporting_actions: HashSet::new(),
            saved_names: HashMap::new(),
            shared_names: HashMap::new(),
            depth: 0,
            left_out: Vec::new(),
            hash_uses: HashMap::new(),
            check_tables: Vec::new(),
        }
    }

    /// Discards the emitted code but keeps the corrected assumptions.
    fn reset(&mut self) {
        self.names = EmittedNames::new(self.p, self.include, self.meta.as_deref());
        self.actions.clear();
        self.keys.clear();
        self.saved_names.clear();
        self.shared_names.clear();
        self.hash_uses.clear();
        self.check_tables.clear();
        self.depth = 0;
    }

    fn unsupported<T>(&self, loc: SourceLoc, what: impl Into<String>) -> EmitResult<T> {
        Err(EmitAbort::Refused(UnsupportedConstruct::new(self.p, loc, what)))
    }

    fn enter_nesting(&mut self) -> EmitResult<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.unsupported(SourceLoc::default(), format!("code that nests more than {MAX_DEPTH} deep"));
        }
        Ok(())
    }

    fn leave_nesting(&mut self) {
        self.depth -= 1;
    }

    fn inlining_of(&self, action: ActionId) -> ActionInlining {
        self.inlining.get(&action).copied().unwrap_or(ActionInlining::Prefix(0))
    }

    /// Records the code of an action at one application of its table. All applications must agree;
    /// otherwise the action's code is inlined after the lookup.
    fn record_action_code(&mut self, action: ActionId, code: Vec<P4Stmt>) -> EmitResult<()> {
        match self.actions.get(&action) {
            None => {
                self.actions.insert(action, code);
                Ok(())
            }
            Some(known) if *known == code => Ok(()),
            // Less code inside of the action may agree; with none left, emission is impossible.
            Some(_) => match self.inlining_of(action) {
                ActionInlining::Prefix(0) => {
                    let construct = format!(
                        "action `{}`, which is not the same in each table",
                        self.p.actions[action].preamble.name
                    );
                    self.unsupported(self.p.actions[action].loc, construct)
                }
                _ => {
                    self.inlining.insert(action, ActionInlining::Prefix(0));
                    Err(EmitAbort::Retry)
                }
            },
        }
    }

    /// Returns the variable that holds result `number` of an action.
    fn saved_name(&mut self, action: ActionId, number: usize, hint: &str) -> String {
        if let Some(known) = self.saved_names.get(&(action, number)) {
            return known.clone();
        }
        let name = self.names.fresh_name(&format!("{}_{hint}", self.names.actions[action.index()]));
        self.saved_names.insert((action, number), name.clone());
        name
    }

    /// Returns the name for a purpose; the same purpose has one name.
    fn shared_name(&mut self, purpose: &str) -> String {
        if let Some(known) = self.shared_names.get(purpose) {
            return known.clone();
        }
        let name = self.names.fresh_name(purpose);
        self.shared_names.insert(purpose.to_owned(), name.clone());
        name
    }

    fn var_name(&self, var: VarId) -> String {
        self.names.vars[var.index()].clone()
    }

    fn header_name(&self, header: HeaderId) -> String {
        self.names.headers[header.index()].clone()
    }

    /// Returns the named type of a variable, if its type is not a plain one.
    fn named_type(&self, var: VarId) -> Option<&'static str> {
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

    fn has_named_type(&self, var: VarId) -> bool {
        self.named_type(var).is_some()
    }

    /// Returns the expression that reads a variable.
    fn load_expr(&self, var: VarId) -> P4Expr {
        let name = self.var_name(var);
        if self.target.is_tofino() && self.p.vars[var].kind == VarKind::Intrinsic {
            return self.tofino_intrinsic_expr(var, &name);
        }
        let mut reads = vec![ExprDependency::Var(var)];
        if let VarKind::Field(header, _) = self.p.vars[var].kind {
            reads.push(ExprDependency::Header(header));
        }
        match self.named_type(var) {
            None => P4Expr::primary(name, reads),
            Some(ty) => {
                let text = format!("({}) {name}", expr::type_text(self.p, self.p.vars[var].ty));
                let named = Some((ty.to_owned(), name));
                P4Expr { named, precedence: ExprPrecedence::Prefix, ..P4Expr::primary(text, reads) }
            }
        }
    }

    /// Returns the chip's intrinsic metadata for a variable; zero if the chip has no counterpart.
    fn tofino_intrinsic_expr(&self, var: VarId, name: &str) -> P4Expr {
        let ty = expr::type_text(self.p, self.p.vars[var].ty);
        let (text, form) = match name {
            "ig_prsr_md.parser_err" => (name.to_owned(), ExprPrecedence::Primary),
            "istd.input_port" | "parser_istd.input_port" if self.p.vars[var].ty == Type::Bit(9) => {
                ("ig_intr_md.ingress_port".to_owned(), ExprPrecedence::Primary)
            }
            "istd.input_port" | "parser_istd.input_port" => {
                (format!("({ty}) ig_intr_md.ingress_port"), ExprPrecedence::Prefix)
            }
            "istd.timestamp" => (format!("({ty}) ig_prsr_md.global_tstamp"), ExprPrecedence::Prefix),
            _ => (self.zero_text(self.p.vars[var].ty), ExprPrecedence::Primary),
        };
        P4Expr { precedence: form, ..P4Expr::primary(text, vec![ExprDependency::Var(var)]) }
    }

    /// Returns a value in the type of the variable to which it is assigned.
    fn value_for_var(&self, p: &Pipeline, var: VarId, value: &P4Expr) -> String {
        let _ = p;
        match (self.named_type(var), &value.named) {
            (None, _) => value.text.clone(),
            (Some(ty), Some((known, text))) if ty == known => text.clone(),
            (Some(ty), _) => format!("({ty}) ({})", value.typed_text()),
        }
    }

    /// Returns the expression of parameter `n` of an action.
    fn param_expr(&self, action: ActionId, n: usize) -> P4Expr {
        let param = &self.p.actions[action].params[n];
        let name = self.param_name(action, n);
        let expr = match &param.type_name {
            Some(ty) if !self.target.is_tofino() && !matches!(param.ty, Type::Enum(_)) => {
                let text = format!("({}) {name}", expr::type_text(self.p, param.ty));
                P4Expr {
                    named: Some((ty.clone(), name)),
                    precedence: ExprPrecedence::Prefix,
                    ..P4Expr::primary(text, Vec::new())
                }
            }
            _ => P4Expr::primary(name, Vec::new()),
        };
        P4Expr { uses_inner_names: true, ..expr }
    }

    /// Returns the name of an action parameter: its name in the program, with a suffix if that name
    /// is reserved.
    fn param_name(&self, action: ActionId, n: usize) -> String {
        let wanted = names::to_identifier(&self.p.actions[action].params[n].name);
        if self.names.is_reserved(&wanted) {
            format!("{wanted}_of_{}", self.names.actions[action.index()])
        } else {
            wanted
        }
    }

    /// Records the expression of key `n` of a table. Returns the variable to assign before the
    /// application, if the expression differs between applications; the first difference restarts
    /// emission with such a variable. New declarations go to `decls`.
    fn record_key(
        &mut self,
        table: TableId,
        n: usize,
        key: &P4Expr,
        decls: &mut Vec<String>,
    ) -> EmitResult<Option<String>> {
        let declared = &self.p.tables[table].keys[n];
        let ty = expr::type_text(self.p, declared.ty);
        if key.uses_inner_names && self.key_vars.insert((table, n)) {
            return Err(EmitAbort::Retry);
        }
        let (text, assigned_var) = if self.key_vars.contains(&(table, n)) {
            let purpose = format!("{}_key_{n}", self.names.tables[table.index()]);
            let name = self.shared_name(&purpose);
            let decl = format!("{ty} {name};");
            if !decls.contains(&decl) {
                decls.push(decl);
            }
            (name.clone(), Some(name))
        } else {
            (key.typed_text().to_owned(), None)
        };
        let text = match &declared.type_name {
            Some(named) if !self.target.is_tofino() && !matches!(declared.ty, Type::Enum(_)) => match &key.named {
                Some((known, text)) if known == named && assigned_var.is_none() => text.clone(),
                _ => format!("({named}) ({text})"),
            },
            _ => text,
        };
        let known = self.keys.entry(table).or_default();
        if known.len() <= n {
            known.push(text);
        } else if known[n] != text {
            self.key_vars.insert((table, n));
            return Err(EmitAbort::Retry);
        }
        Ok(assigned_var)
    }

    /// Returns the index width of an object in bits, from its first use, because its declaration
    /// has no index type.
    fn index_width(&self, object: ExternId) -> Option<u32> {
        if self.p.arch == Arch::V1Model {
            return Some(32);
        }
        for control in self.p.controls.values() {
            for inst in control.body.blocks.values().flat_map(|b| &b.insts) {
                if let Inst::Extern { object: Some(of), args, .. } = &inst.inst
                    && *of == object
                    && let Some(ExternArg::Value(index)) = args.first()
                {
                    return Some(control.body.value_type(*index).width());
                }
            }
        }
        None
    }
}
