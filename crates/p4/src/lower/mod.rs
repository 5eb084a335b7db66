//! Lowering: the checked program, evaluated, becomes an IR pipeline.
//!
//! Evaluation in the sense of the specification (section "P4 abstract machine: evaluation"): from `main` on, packages, controls,
//! parsers and extern objects are instantiated with the constructor arguments known; then each programmable block of the
//! architecture is written out as one body, in which sub-parsers, controls, functions and actions are inlined, generics
//! substituted and aggregates flattened.
//!
//! - what exists: `instantiate` (objects), `constant` (what they are made of), `arch` (which object plays which part), `package`
//!   (annotations of `main`), `used`
//!   (what is left out), `table`, `entries`, `profiles` (what is attached to tables), `externs*`, `names`, `ids`, `p4info` (control-plane types)
//! - where data live: `types` (shapes), `place` (storage), `value` (what expressions yield), `access` (l-values)
//! - code: `expr`, `ops`, `stmt`, `switch`, `loops`, `call`, `params`, `arguments`, `apply`, `parser`, `select`, `packet`,
//!   `stack`;
//!   `walk` tells what code may do
//!
//! Code size is bounded: inlining that explodes ends in a diagnostic of code `limit`.

mod access;
mod apply;
mod arch;
mod arguments;
mod call;
mod constant;
mod entries;
mod expr;
mod externs;
mod externs_pna;
mod externs_v1model;
mod ids;
mod instantiate;
mod loops;
mod names;
mod ops;
mod p4info;
mod package;
mod packet;
mod params;
mod parser;
mod place;
mod profiles;
mod select;
mod stack;
mod stmt;
mod switch;
mod table;
mod types;
mod used;
mod value;
mod walk;

use crate::diag::Diagnostic;
use crate::hir::{self, Program};
use crate::span::{SourceMap, Span};
use call::Frame;
use constant::Known;
use instantiate::{Object, ObjectId};
use ir::{BodyBuilder, Loc, Pipeline};
use place::Place;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use types::Shape;
use value::Val;

/// How deep calls of functions, actions, controls and parsers may nest.
const MAX_CALL_DEPTH: usize = 64;
/// How deep calls, and the statements and expressions in them, may nest in all: lowering recurses as deep.
const MAX_DEPTH: usize = 600;
/// How many SSA values and blocks one programmable block may have.
const MAX_BODY: usize = 1 << 20;
/// How many scalar variables a pipeline may have.
const MAX_VARS: usize = 1 << 18;

/// The code of the finding that a program uses an extern which the architecture does not have. Such a program may be valid P4.
pub const EXTERN_WITHOUT_IMPLEMENTATION: &str = "extern-without-implementation";

/// What lowering yields.
#[derive(Debug)]
pub struct Lowered {
    /// The pipeline; `None` if there was an error.
    pub pipeline: Option<Pipeline>,
    /// What is wrong, or not supported yet.
    pub diagnostics: Vec<Diagnostic>,
}

/// Lowers a program that was checked without errors. `name` names the pipeline unless `@pkginfo` does.
pub fn lower(program: &Program, sources: &SourceMap, name: &str) -> Lowered {
    let mut lower = Lower::new(program, sources, name);
    let done = lower.program();
    let failed = done.is_err() || lower.diagnostics.iter().any(Diagnostic::is_error);
    Lowered { pipeline: (!failed).then_some(lower.p), diagnostics: lower.diagnostics }
}

/// Something was refused; the diagnostic is recorded already.
#[derive(Clone, Copy, Debug)]
struct Refused;

/// A result whose error is recorded already.
type Res<T> = Result<T, Refused>;

/// What a variable or parameter stands for at the moment.
#[derive(Clone, Debug)]
enum Binding {
    /// Storage.
    Place(Place),
    /// A value that nothing assigns to.
    Val(Val),
    /// Something known at compile time: a packet, an object.
    Known(Known),
}

/// The table on whose behalf an action is being lowered.
#[derive(Clone, Copy, Debug)]
struct TableContext {
    ir: ir::TableId,
    hir: hir::TableId,
}

struct Lower<'a> {
    hir: &'a Program,
    sources: &'a SourceMap,
    types: hir::Types,
    p: Pipeline,
    b: BodyBuilder,
    diagnostics: Vec<Diagnostic>,
    reported: HashSet<(Span, String)>,
    /// A limit was hit: nothing more is lowered.
    stopped: bool,
    /// How deep the type nests that is being looked at.
    type_depth: usize,
    /// How deep calls, statements and expressions nest at the moment.
    depth: usize,
    files: HashMap<Arc<str>, u16>,

    shapes: HashMap<hir::Ty, Shape>,
    /// Number of variables of a type's storage, and whether there are headers in it.
    sizes: HashMap<hir::Ty, (usize, bool)>,
    enums: HashMap<hir::EnumId, ir::EnumId>,
    names: HashMap<String, u32>,
    named_types: HashSet<String>,
    /// Control-plane names in use, by kind.
    taken: HashSet<(&'static str, String)>,
    /// Ids that the program gives.
    taken_ids: HashSet<u32>,
    digests: HashMap<hir::Ty, ir::ExternId>,
    /// Instances of `C.apply(...)` by place and object.
    direct: HashMap<(Span, ObjectId), Known>,

    objects: Vec<Object>,
    globals: HashMap<hir::InstanceId, Known>,
    /// Externs that were refused because the architecture does not have them.
    unknown_externs: HashSet<String>,
    global_actions: HashMap<hir::ActionId, ir::ActionId>,
    anonymous_digests: u32,
    /// Actions that objects call by name, not declared yet.
    called: Vec<(ObjectId, hir::ActionId)>,

    /// The object whose code is being lowered.
    this: ObjectId,
    /// What the type parameters in scope stand for.
    subst: Rc<HashMap<hir::TypeParamId, hir::Ty>>,
    locals: Vec<Option<Binding>>,
    /// Storage of locals that is not in use at the moment.
    pool: HashMap<(ObjectId, hir::LocalId, hir::Ty), Vec<Place>>,
    frames: Vec<Frame>,
    /// The arguments of the extern call that is being lowered, as far as they were evaluated
    /// before it.
    prepared: Vec<Option<arguments::Prepared>>,
    table: Option<TableContext>,
    /// Local variables that an action's code mentions, also through other actions.
    mentions: HashMap<hir::ActionId, Rc<HashSet<hir::LocalId>>>,
    /// Dotted prefix of the variables declared now.
    scope: String,
}

impl<'a> Lower<'a> {
    fn new(hir: &'a Program, sources: &'a SourceMap, name: &str) -> Self {
        Lower {
            hir,
            sources,
            types: hir.types.clone(),
            p: Pipeline::new(name, ir::Arch::V1Model),
            b: BodyBuilder::new(),
            diagnostics: Vec::new(),
            reported: HashSet::new(),
            stopped: false,
            files: HashMap::new(),
            shapes: HashMap::new(),
            sizes: HashMap::new(),
            type_depth: 0,
            depth: 0,
            enums: HashMap::new(),
            names: HashMap::new(),
            named_types: HashSet::new(),
            taken: HashSet::new(),
            taken_ids: HashSet::new(),
            digests: HashMap::new(),
            direct: HashMap::new(),
            objects: vec![Object::outside()],
            globals: HashMap::new(),
            unknown_externs: HashSet::new(),
            global_actions: HashMap::new(),
            anonymous_digests: 0,
            called: Vec::new(),
            this: ObjectId::OUTSIDE,
            subst: Rc::default(),
            locals: vec![None; hir.locals.len()],
            pool: HashMap::new(),
            frames: Vec::new(),
            prepared: Vec::new(),
            table: None,
            mentions: HashMap::new(),
            scope: String::new(),
        }
    }

    /// Records an error.
    fn error<T>(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> Res<T> {
        self.report(Diagnostic::error(code, span, message))
    }

    /// Records that something legal is not supported.
    fn unsupported<T>(&mut self, span: Span, what: impl std::fmt::Display) -> Res<T> {
        self.error("not-supported", span, format!("not supported yet: {what}"))
    }

    /// Records an error, once for each place: inlining may come by many times.
    fn report<T>(&mut self, diagnostic: Diagnostic) -> Res<T> {
        if self.reported.insert((diagnostic.primary, diagnostic.message.clone())) {
            self.diagnostics.push(diagnostic);
        }
        Err(Refused)
    }

    /// Records a warning, once for each place.
    fn warning(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        let diagnostic = Diagnostic::warning(code, span, message);
        if self.reported.insert((diagnostic.primary, diagnostic.message.clone())) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Refuses to go on.
    fn limit<T>(&mut self, span: Span, message: impl Into<String>) -> Res<T> {
        self.stopped = true;
        self.error("limit", span, message)
    }

    /// Refuses to go on when the body has grown out of bounds.
    fn check_size(&mut self, span: Span) -> Res<()> {
        if self.stopped {
            return Err(Refused);
        }
        let body = self.b.body();
        if body.values.len().max(body.blocks.len() * 4) > MAX_BODY {
            let help = "inlining multiplies code: call less from more places, or make the loop a table";
            self.stopped = true;
            let message = "the program is too large once all calls are inlined";
            return self.report(Diagnostic::error("limit", span, message).help(help));
        }
        Ok(())
    }

    /// Does something one level deeper.
    fn deeper<T>(&mut self, span: Span, work: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        if self.depth >= MAX_DEPTH {
            return self.limit(span, "calls, statements and expressions nest too deep once all calls are inlined");
        }
        self.depth += 1;
        let done = work(self);
        self.depth -= 1;
        done
    }

    /// The IR's source position of a span.
    fn loc(&mut self, span: Span) -> Loc {
        let Some(location) = self.sources.location(span) else { return Loc::default() };
        let next = self.files.len();
        let file = *self.files.entry(location.file.clone()).or_insert_with(|| {
            self.p.files.push(location.file.to_string());
            u16::try_from(next).unwrap_or(u16::MAX)
        });
        Loc { file, line: location.line, column: u16::try_from(location.column).unwrap_or(u16::MAX) }
    }

    /// What is emitted from now on comes from there.
    fn at(&mut self, span: Span) {
        let loc = self.loc(span);
        self.b.set_loc(loc);
    }

    fn local(&self, id: hir::LocalId) -> &'a hir::Local {
        &self.hir.locals[id.index()]
    }

    fn bind(&mut self, id: hir::LocalId, binding: Binding) {
        self.locals[id.index()] = Some(binding);
    }
}
