//! State of lowering: the pipeline being built, facts about the program, and rejected constructs.

use super::const_value::{ConstValue, ObjectInstance, ObjectInstanceId};
use super::frame::{Binding, InlineFrame, PreparedArg};
use super::storage::Storage;
use super::type_layout::TypeLayout;
use crate::diag::Diagnostic;
use crate::hir::{self, Program};
use crate::span::{SourceMap, Span};
use ir::{BodyBuilder, Pipeline, SourceLoc};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum nesting of calls of functions, actions, controls and parsers.
pub(super) const MAX_CALL_DEPTH: usize = 64;
/// Maximum total nesting of calls and the statements and expressions in them. Limits the recursion
/// of lowering.
pub(super) const MAX_DEPTH: usize = 600;
/// Maximum number of SSA values of one programmable block. A block counts as four values.
pub(super) const MAX_BODY: usize = 1 << 20;
/// Maximum number of scalar variables of a pipeline.
pub(super) const MAX_VARS: usize = 1 << 18;

/// Lowering failed; the diagnostic was already reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoweringErrorReported;

/// A result with an already reported error.
pub(super) type LowerResult<T> = Result<T, LoweringErrorReported>;

/// The table that runs the action being lowered.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableContext {
    pub(super) ir: ir::TableId,
    pub(super) hir: hir::TableId,
}

pub(super) struct Lowering<'a> {
    pub(super) hir: &'a Program,
    pub(super) sources: &'a SourceMap,
    pub(super) types: hir::Types,
    pub(super) pipeline: Pipeline,
    pub(super) builder: BodyBuilder,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) reported: HashSet<(Span, String)>,
    /// Whether a limit was hit, so that lowering stops.
    pub(super) is_stopped: bool,
    /// Nesting depth of the type being examined.
    pub(super) type_depth: usize,
    /// Current nesting of calls, statements and expressions.
    pub(super) depth: usize,
    pub(super) file_indices: HashMap<Arc<str>, u16>,

    pub(super) layouts: HashMap<hir::Ty, TypeLayout>,
    /// Number of variables in the storage of a type, and whether it contains headers.
    pub(super) storage_sizes: HashMap<hir::Ty, (usize, bool)>,
    pub(super) enums: HashMap<hir::EnumId, ir::EnumId>,
    pub(super) name_counts: HashMap<String, u32>,
    pub(super) named_types: HashSet<String>,
    /// Used control-plane names, by kind.
    pub(super) used_names: HashSet<(&'static str, String)>,
    /// Ids that the program assigns.
    pub(super) used_ids: HashSet<u32>,
    pub(super) digests: HashMap<hir::Ty, ir::ExternId>,
    /// Instances of `C.apply(...)` by source position and object.
    pub(super) direct_instances: HashMap<(Span, ObjectInstanceId), ConstValue>,

    pub(super) objects: Vec<ObjectInstance>,
    pub(super) globals: HashMap<hir::InstanceId, ConstValue>,
    /// Rejected externs that the architecture does not define.
    pub(super) unknown_externs: HashSet<String>,
    pub(super) global_actions: HashMap<hir::ActionId, ir::ActionId>,
    pub(super) anonymous_digests: u32,
    /// Actions that objects call by name, not declared yet.
    pub(super) called_actions: Vec<(ObjectInstanceId, hir::ActionId)>,

    /// The object that contains the code being lowered.
    pub(super) current_object: ObjectInstanceId,
    /// Substitution of the type parameters in scope.
    pub(super) subst: Rc<HashMap<hir::TypeParamId, hir::Ty>>,
    pub(super) locals: Vec<Option<Binding>>,
    /// Storage of locals that is currently unused.
    pub(super) free_storage: HashMap<(ObjectInstanceId, hir::LocalId, hir::Ty), Vec<Storage>>,
    pub(super) frames: Vec<InlineFrame>,
    /// Arguments of the current extern call that were evaluated before it.
    pub(super) prepared: Vec<Option<PreparedArg>>,
    pub(super) table: Option<TableContext>,
    /// Local variables that an action mentions, directly or through called actions.
    pub(super) mentions: HashMap<hir::ActionId, Rc<HashSet<hir::LocalId>>>,
    /// Dotted name prefix of new variables.
    pub(super) scope: String,
}

impl<'a> Lowering<'a> {
    /// Creates the state for lowering the typed program `hir` to a pipeline named `name`. The
    /// architecture is set when `main` is lowered.
    pub(super) fn new(hir: &'a Program, sources: &'a SourceMap, name: &str) -> Self {
        Lowering {
            hir,
            sources,
            types: hir.types.clone(),
            pipeline: Pipeline::new(name, ir::Arch::V1Model),
            builder: BodyBuilder::new(),
            diagnostics: Vec::new(),
            reported: HashSet::new(),
            is_stopped: false,
            file_indices: HashMap::new(),
            layouts: HashMap::new(),
            storage_sizes: HashMap::new(),
            type_depth: 0,
            depth: 0,
            enums: HashMap::new(),
            name_counts: HashMap::new(),
            named_types: HashSet::new(),
            used_names: HashSet::new(),
            used_ids: HashSet::new(),
            digests: HashMap::new(),
            direct_instances: HashMap::new(),
            objects: vec![ObjectInstance::outside()],
            globals: HashMap::new(),
            unknown_externs: HashSet::new(),
            global_actions: HashMap::new(),
            anonymous_digests: 0,
            called_actions: Vec::new(),
            current_object: ObjectInstanceId::OUTSIDE,
            subst: Rc::default(),
            locals: vec![None; hir.locals.len()],
            free_storage: HashMap::new(),
            frames: Vec::new(),
            prepared: Vec::new(),
            table: None,
            mentions: HashMap::new(),
            scope: String::new(),
        }
    }

    /// Reports an error.
    pub(super) fn error<T>(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> LowerResult<T> {
        self.report(Diagnostic::error(code, span, message))
    }

    /// Reports a valid but unsupported construct.
    pub(super) fn unsupported<T>(&mut self, span: Span, what: impl std::fmt::Display) -> LowerResult<T> {
        self.error("not-supported", span, format!("not supported yet: {what}"))
    }

    /// Reports an error, once per position, because inlining can lower the same code many times.
    pub(super) fn report<T>(&mut self, diagnostic: Diagnostic) -> LowerResult<T> {
        if self.reported.insert((diagnostic.primary, diagnostic.message.clone())) {
            self.diagnostics.push(diagnostic);
        }
        Err(LoweringErrorReported)
    }

    /// Reports a warning, once per position.
    pub(super) fn report_warning(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        let diagnostic = Diagnostic::warning(code, span, message);
        if self.reported.insert((diagnostic.primary, diagnostic.message.clone())) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Reports a limit and stops lowering.
    pub(super) fn report_limit<T>(&mut self, span: Span, message: impl Into<String>) -> LowerResult<T> {
        self.is_stopped = true;
        self.error("limit", span, message)
    }

    /// Reports a limit and stops lowering if the body is too large.
    pub(super) fn check_size(&mut self, span: Span) -> LowerResult<()> {
        if self.is_stopped {
            return Err(LoweringErrorReported);
        }
        let body = self.builder.body();
        if body.values.len().max(body.blocks.len() * 4) > MAX_BODY {
            let help = "inlining duplicates code: reduce the number of calls, or replace the loop by a table";
            self.is_stopped = true;
            let message = "the program is too large once all calls are inlined";
            return self.report(Diagnostic::error("limit", span, message).help(help));
        }
        Ok(())
    }

    /// Runs `work` one level deeper.
    pub(super) fn with_depth<T>(
        &mut self,
        span: Span,
        work: impl FnOnce(&mut Self) -> LowerResult<T>,
    ) -> LowerResult<T> {
        if self.depth >= MAX_DEPTH {
            return self
                .report_limit(span, "calls, statements and expressions nest too deep once all calls are inlined");
        }
        self.depth += 1;
        let done = work(self);
        self.depth -= 1;
        done
    }

    /// Returns the IR source position of a span.
    pub(super) fn source_loc(&mut self, span: Span) -> SourceLoc {
        let Some(location) = self.sources.location(span) else { return SourceLoc::default() };
        let next = self.file_indices.len();
        let file = *self.file_indices.entry(location.file.clone()).or_insert_with(|| {
            self.pipeline.files.push(location.file.to_string());
            u16::try_from(next).unwrap_or(u16::MAX)
        });
        SourceLoc { file, line: location.line, column: u16::try_from(location.column).unwrap_or(u16::MAX) }
    }

    /// Sets the source position of the code emitted next.
    pub(super) fn set_location(&mut self, span: Span) {
        let loc = self.source_loc(span);
        self.builder.set_loc(loc);
    }

    pub(super) fn local_decl(&self, id: hir::LocalId) -> &'a hir::Local {
        &self.hir.locals[id.index()]
    }

    pub(super) fn bind_local(&mut self, id: hir::LocalId, binding: Binding) {
        self.locals[id.index()] = Some(binding);
    }
}
