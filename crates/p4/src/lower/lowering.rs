//! The state of lowering: the pipeline that is made, what is known of the program, and what is refused.

use super::frame::{Binding, Frame, Prepared};
use super::known::{Known, Object, ObjectId};
use super::place::Place;
use super::shape::Shape;
use crate::diag::Diagnostic;
use crate::hir::{self, Program};
use crate::span::{SourceMap, Span};
use ir::{BodyBuilder, Loc, Pipeline};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// How deep calls of functions, actions, controls and parsers may nest.
pub(super) const MAX_CALL_DEPTH: usize = 64;
/// How deep calls, and the statements and expressions in them, may nest in all: lowering recurses as deep.
pub(super) const MAX_DEPTH: usize = 600;
/// How many SSA values and blocks one programmable block may have.
pub(super) const MAX_BODY: usize = 1 << 20;
/// How many scalar variables a pipeline may have.
pub(super) const MAX_VARS: usize = 1 << 18;

/// Something was refused; the diagnostic is recorded already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused;

/// A result whose error is recorded already.
pub(super) type Res<T> = Result<T, Refused>;

/// The table on whose behalf an action is being lowered.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableContext {
    pub(super) ir: ir::TableId,
    pub(super) hir: hir::TableId,
}

pub(super) struct Lower<'a> {
    pub(super) hir: &'a Program,
    pub(super) sources: &'a SourceMap,
    pub(super) types: hir::Types,
    pub(super) p: Pipeline,
    pub(super) b: BodyBuilder,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) reported: HashSet<(Span, String)>,
    /// A limit was hit: nothing more is lowered.
    pub(super) stopped: bool,
    /// How deep the type nests that is being looked at.
    pub(super) type_depth: usize,
    /// How deep calls, statements and expressions nest at the moment.
    pub(super) depth: usize,
    pub(super) files: HashMap<Arc<str>, u16>,

    pub(super) shapes: HashMap<hir::Ty, Shape>,
    /// Number of variables of a type's storage, and whether there are headers in it.
    pub(super) sizes: HashMap<hir::Ty, (usize, bool)>,
    pub(super) enums: HashMap<hir::EnumId, ir::EnumId>,
    pub(super) names: HashMap<String, u32>,
    pub(super) named_types: HashSet<String>,
    /// Control-plane names in use, by kind.
    pub(super) taken: HashSet<(&'static str, String)>,
    /// Ids that the program gives.
    pub(super) taken_ids: HashSet<u32>,
    pub(super) digests: HashMap<hir::Ty, ir::ExternId>,
    /// Instances of `C.apply(...)` by place and object.
    pub(super) direct: HashMap<(Span, ObjectId), Known>,

    pub(super) objects: Vec<Object>,
    pub(super) globals: HashMap<hir::InstanceId, Known>,
    /// Externs that were refused because the architecture does not have them.
    pub(super) unknown_externs: HashSet<String>,
    pub(super) global_actions: HashMap<hir::ActionId, ir::ActionId>,
    pub(super) anonymous_digests: u32,
    /// Actions that objects call by name, not declared yet.
    pub(super) called: Vec<(ObjectId, hir::ActionId)>,

    /// The object whose code is being lowered.
    pub(super) this: ObjectId,
    /// What the type parameters in scope stand for.
    pub(super) subst: Rc<HashMap<hir::TypeParamId, hir::Ty>>,
    pub(super) locals: Vec<Option<Binding>>,
    /// Storage of locals that is not in use at the moment.
    pub(super) pool: HashMap<(ObjectId, hir::LocalId, hir::Ty), Vec<Place>>,
    pub(super) frames: Vec<Frame>,
    /// The arguments of the extern call that is being lowered, as far as they were evaluated
    /// before it.
    pub(super) prepared: Vec<Option<Prepared>>,
    pub(super) table: Option<TableContext>,
    /// Local variables that an action's code mentions, also through other actions.
    pub(super) mentions: HashMap<hir::ActionId, Rc<HashSet<hir::LocalId>>>,
    /// Dotted prefix of the variables declared now.
    pub(super) scope: String,
}

impl<'a> Lower<'a> {
    pub(super) fn new(hir: &'a Program, sources: &'a SourceMap, name: &str) -> Self {
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
    pub(super) fn error<T>(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> Res<T> {
        self.report(Diagnostic::error(code, span, message))
    }

    /// Records that something legal is not supported.
    pub(super) fn unsupported<T>(&mut self, span: Span, what: impl std::fmt::Display) -> Res<T> {
        self.error("not-supported", span, format!("not supported yet: {what}"))
    }

    /// Records an error, once for each place: inlining may come by many times.
    pub(super) fn report<T>(&mut self, diagnostic: Diagnostic) -> Res<T> {
        if self.reported.insert((diagnostic.primary, diagnostic.message.clone())) {
            self.diagnostics.push(diagnostic);
        }
        Err(Refused)
    }

    /// Records a warning, once for each place.
    pub(super) fn warning(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        let diagnostic = Diagnostic::warning(code, span, message);
        if self.reported.insert((diagnostic.primary, diagnostic.message.clone())) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Refuses to go on.
    pub(super) fn limit<T>(&mut self, span: Span, message: impl Into<String>) -> Res<T> {
        self.stopped = true;
        self.error("limit", span, message)
    }

    /// Refuses to go on when the body has grown out of bounds.
    pub(super) fn check_size(&mut self, span: Span) -> Res<()> {
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
    pub(super) fn deeper<T>(&mut self, span: Span, work: impl FnOnce(&mut Self) -> Res<T>) -> Res<T> {
        if self.depth >= MAX_DEPTH {
            return self.limit(span, "calls, statements and expressions nest too deep once all calls are inlined");
        }
        self.depth += 1;
        let done = work(self);
        self.depth -= 1;
        done
    }

    /// The IR's source position of a span.
    pub(super) fn loc(&mut self, span: Span) -> Loc {
        let Some(location) = self.sources.location(span) else { return Loc::default() };
        let next = self.files.len();
        let file = *self.files.entry(location.file.clone()).or_insert_with(|| {
            self.p.files.push(location.file.to_string());
            u16::try_from(next).unwrap_or(u16::MAX)
        });
        Loc { file, line: location.line, column: u16::try_from(location.column).unwrap_or(u16::MAX) }
    }

    /// What is emitted from now on comes from there.
    pub(super) fn at(&mut self, span: Span) {
        let loc = self.loc(span);
        self.b.set_loc(loc);
    }

    pub(super) fn local(&self, id: hir::LocalId) -> &'a hir::Local {
        &self.hir.locals[id.index()]
    }

    pub(super) fn bind(&mut self, id: hir::LocalId, binding: Binding) {
        self.locals[id.index()] = Some(binding);
    }
}
