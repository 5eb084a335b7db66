//! The checker: builds the typed program from the syntax tree.
//!
//! Declarations are checked in source order, because P4 requires names to be declared before use.
//! Each expression is resolved, typed, folded and converted to [`hir`] in a single walk:
//!
//! | file | checks |
//! |---|---|
//! | `scope`, `names` | meaning of names |
//! | `types`, `fields`, `size` | written types: meaning, allowed places, size in bits |
//! | `infer`, `infer_args`, `unify` | inference of type arguments |
//! | `convert`, `cast` | implicit and explicit conversions |
//! | `fold`, `fold_value` | compile-time known values |
//! | `expr`, `expr_list`, `expr_ops`, `expr_slice`, `member`, `lvalue` | expressions |
//! | `call`, `overload`, `method`, `builtin` | calls |
//! | `decl`, `function`, `returns`, `extern_decl`, `instance`, `control`, `parser` | declarations |
//! | `keyset`, `select` | key sets and transitions |
//! | `table`, `table_action`, `entry`, `entry_rules`, `same_expr`, `table_externs` | tables |
//! | `stmt`, `stmt_loop`, `switch` | statements |
//! | `limits` | size limits |
//! | `annotation`, `control_names`, `architecture_rules` | annotations, names, architectures |
//!
//! Faults become [`Diagnostic`]s and checking continues. [`hir::TyKind::Unknown`] prevents that one
//! fault is reported twice.

mod annotation;
mod architecture_rules;
mod builtin;
mod call;
mod cast;
mod control;
mod control_names;
mod convert;
mod decl;
mod entry;
mod entry_rules;
mod expr;
mod expr_list;
mod expr_ops;
mod expr_slice;
mod extern_decl;
mod fields;
mod fold;
mod fold_value;
mod function;
mod infer;
mod infer_args;
mod instance;
mod keyset;
mod limits;
mod lvalue;
mod member;
mod method;
mod names;
mod overload;
mod parser;
mod returns;
mod same_expr;
mod scope;
mod select;
mod show;
mod size;
mod stmt;
mod stmt_loop;
mod switch;
mod table;
mod table_action;
mod table_externs;
mod types;
mod unify;

use crate::ast;
use crate::diag::Diagnostic;
use crate::hir::{self, Expr, ExprKind, ExternId, LocalId, Program, Ty, TyKind, TypeDeclId, Types};
use crate::span::{SourceMap, Span};
use scope::EntityScopes;
use std::collections::HashMap;

/// Maximum nesting of expressions, statements and types.
const MAX_DEPTH: u32 = 200;

/// Checks a program: resolves names, types expressions, evaluates constants.
///
/// The typed program is complete only if no diagnostic is an error; otherwise rejected constructs
/// have an unknown type or are missing. Diagnostics are in the order in which they were found,
/// roughly the source order.
pub fn check(program: &ast::Program, sources: &SourceMap) -> (hir::Program, Vec<Diagnostic>) {
    let mut checker = Checker::new(sources);
    for decl in &program.decls {
        checker.check_decl(decl);
    }
    checker.check_whole_program();
    (checker.prog, checker.diags)
}

/// Syntactic context of the checked code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CheckContext {
    /// The top level.
    Top,
    /// Declarations of a parser.
    ParserLocals,
    /// A parser state.
    ParserState,
    /// Declarations of a control.
    ControlLocals,
    /// A control's `apply` block.
    ControlApply,
    /// An action's body.
    Action,
    /// A function's body.
    Function,
    /// The implementation of an abstract method.
    Method,
    /// A table's properties.
    Table,
}

/// The body being checked.
#[derive(Clone, Debug)]
struct BodyContext {
    context: CheckContext,
    /// The enclosing parser or control.
    object: Option<TypeDeclId>,
    /// The type that `return` must return.
    result: Ty,
    /// Number of loops around the statement.
    loops: u32,
    /// In an initialiser block: the extern and its type arguments, for `this`.
    this: Option<(ExternId, Vec<Ty>)>,
}

/// State of the checker.
struct Checker<'a> {
    sources: &'a SourceMap,
    prog: Program,
    diags: Vec<Diagnostic>,
    scopes: EntityScopes,
    /// Solutions of the inference variables; `None` if unsolved.
    type_vars: Vec<Option<Ty>>,
    body: BodyContext,
    /// Family of the object that is being declared.
    declared_family: Option<unify::ObjectFamily>,
    /// Whether the declared parameters belong to a prototype.
    is_prototype: bool,
    depth: u32,
    /// Cached extents of types.
    extents: HashMap<Ty, limits::TypeExtent>,
    /// Number of constant parts substituted for names.
    copied_parts: u64,
}

impl<'a> Checker<'a> {
    fn new(sources: &'a SourceMap) -> Self {
        Checker {
            sources,
            prog: Program::default(),
            diags: Vec::new(),
            scopes: EntityScopes::new(),
            type_vars: Vec::new(),
            body: BodyContext { context: CheckContext::Top, object: None, result: Types::VOID, loops: 0, this: None },
            declared_family: None,
            is_prototype: false,
            depth: 0,
            extents: HashMap::new(),
            copied_parts: 0,
        }
    }

    /// Reports an error.
    fn error(&mut self, diagnostic: Diagnostic) {
        self.report(diagnostic);
    }

    /// Reports an error that consists only of a message.
    fn fail(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::error(code, span, message));
    }

    /// Runs `f` one level deeper. Reports an error and returns `None` if that is too deep.
    fn with_depth<T>(&mut self, span: Span, f: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= MAX_DEPTH {
            self.fail("too-deep", span, format!("nested more than {MAX_DEPTH} levels deep, which is the limit"));
            return None;
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        Some(result)
    }

    /// Runs `f` in a new scope.
    fn in_new_scope<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push();
        let result = f(self);
        self.scopes.pop();
        result
    }

    /// Runs `f` with another body.
    fn with_body<T>(&mut self, body: BodyContext, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.body, body);
        let result = f(self);
        self.body = outer;
        result
    }

    /// Runs `f` in another context of the same parser or control.
    fn in_context<T>(&mut self, context: CheckContext, f: impl FnOnce(&mut Self) -> T) -> T {
        let body = BodyContext { context, loops: 0, ..self.body.clone() };
        self.with_body(body, f)
    }

    fn type_kind(&self, ty: Ty) -> &TyKind {
        self.prog.types.kind(ty)
    }

    fn intern(&mut self, kind: TyKind) -> Ty {
        self.prog.types.intern(kind)
    }

    fn local_decl(&self, id: LocalId) -> &hir::Local {
        &self.prog.locals[id.index()]
    }

    fn add_local(&mut self, local: hir::Local) -> LocalId {
        self.prog.locals.push(local);
        LocalId(self.prog.locals.len() as u32 - 1)
    }
}

/// Returns the placeholder of a rejected expression.
fn unknown_expr(span: Span) -> Expr {
    Expr { kind: ExprKind::Default, ty: Types::UNKNOWN, span }
}
