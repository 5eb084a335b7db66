//! Checking: syntax tree to typed program.
//!
//! One walk over the declarations in their order (P4 wants names declared before they are used), in which each
//! expression is resolved, typed, folded and turned into [`hir`] at once:
//!
//! | file | decides |
//! |---|---|
//! | `scope`, `names` | what a name means |
//! | `types`, `fields`, `size` | what a written type means, where it may stand, how many bits it has |
//! | `infer`, `infer_args`, `unify` | type arguments that nobody wrote |
//! | `convert`, `cast` | implicit and explicit conversions |
//! | `fold`, `fold_value` | the value of what is known at compile time |
//! | `expr`, `expr_list`, `expr_ops`, `expr_slice`, `member`, `lvalue` | expressions |
//! | `call`, `overload`, `method`, `builtin` | calls |
//! | `decl`, `function`, `returns`, `extern_decl`, `instance`, `control`, `parser` | declarations |
//! | `keyset`, `select` | key sets and transitions |
//! | `table`, `table_action`, `entry`, `entry_rules`, `same_expr`, `table_externs` | tables |
//! | `stmt`, `stmt_loop`, `switch` | statements |
//! | `limits` | how large all of this may get |
//! | `annotation`, `control_names`, `arch` | annotations, names that the control plane sees, what v1model adds |
//!
//! What is wrong becomes a [`Diagnostic`]; the walk goes on, and [`hir::TyKind::Unknown`] keeps one mistake from
//! being reported twice.

mod annotation;
mod arch;
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
use scope::Scopes;
use std::collections::HashMap;

/// How deep expressions, statements and types may be nested.
const MAX_DEPTH: u32 = 200;

/// Checks a program: resolves names, types expressions, evaluates constants.
///
/// The typed program is whole only if no diagnostic is an error; otherwise what was refused has an unknown type or
/// is left out. Diagnostics come in the order in which they were found, which is roughly that of the source.
pub fn check(program: &ast::Program, sources: &SourceMap) -> (hir::Program, Vec<Diagnostic>) {
    let mut checker = Checker::new(sources);
    for decl in &program.decls {
        checker.decl(decl);
    }
    checker.whole_program();
    (checker.prog, checker.diags)
}

/// What surrounds the code that is being checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Outside of everything.
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
    /// The body of an abstract method's implementation.
    Method,
    /// A table's properties.
    Table,
}

/// The body that is being checked.
#[derive(Clone, Debug)]
struct Body {
    place: Place,
    /// The parser or control around it.
    object: Option<TypeDeclId>,
    /// What `return` must give.
    result: Ty,
    /// How many loops surround the statement.
    loops: u32,
    /// In an initialiser block: the extern and its type arguments, for `this`.
    this: Option<(ExternId, Vec<Ty>)>,
}

/// The state of the walk.
struct Checker<'a> {
    sources: &'a SourceMap,
    prog: Program,
    diags: Vec<Diagnostic>,
    scopes: Scopes,
    /// Inference variables and what they were found to be.
    vars: Vec<Option<Ty>>,
    body: Body,
    /// The kind of object whose head is being declared.
    head_of: Option<unify::Family>,
    /// Whether the parameters being declared are those of a prototype.
    prototype: bool,
    depth: u32,
    /// How large values of the types are that were met.
    extents: HashMap<Ty, limits::Extent>,
    /// How many parts of constants were put in for names.
    copies: u64,
}

impl<'a> Checker<'a> {
    fn new(sources: &'a SourceMap) -> Self {
        Checker {
            sources,
            prog: Program::default(),
            diags: Vec::new(),
            scopes: Scopes::new(),
            vars: Vec::new(),
            body: Body { place: Place::Top, object: None, result: Types::VOID, loops: 0, this: None },
            head_of: None,
            prototype: false,
            depth: 0,
            extents: HashMap::new(),
            copies: 0,
        }
    }

    /// Reports an error.
    fn error(&mut self, diagnostic: Diagnostic) {
        self.report(diagnostic);
    }

    /// Reports an error that needs no more than a message.
    fn fail(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::error(code, span, message));
    }

    /// Runs `f` one level deeper, or gives `None`, with a diagnostic, if that is too deep.
    fn deeper<T>(&mut self, span: Span, f: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= MAX_DEPTH {
            self.fail("too-deep", span, format!("nested more than {MAX_DEPTH} levels deep, which is the limit"));
            return None;
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        Some(result)
    }

    /// Runs `f` in a scope of its own.
    fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push();
        let result = f(self);
        self.scopes.pop();
        result
    }

    /// Runs `f` as the body of something.
    fn in_body<T>(&mut self, body: Body, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.body, body);
        let result = f(self);
        self.body = outer;
        result
    }

    /// Runs `f` at another place of the same parser or control.
    fn at_place<T>(&mut self, place: Place, f: impl FnOnce(&mut Self) -> T) -> T {
        let body = Body { place, loops: 0, ..self.body.clone() };
        self.in_body(body, f)
    }

    fn kind(&self, ty: Ty) -> &TyKind {
        self.prog.types.kind(ty)
    }

    fn intern(&mut self, kind: TyKind) -> Ty {
        self.prog.types.intern(kind)
    }

    fn local(&self, id: LocalId) -> &hir::Local {
        &self.prog.locals[id.index()]
    }

    fn add_local(&mut self, local: hir::Local) -> LocalId {
        self.prog.locals.push(local);
        LocalId(self.prog.locals.len() as u32 - 1)
    }
}

/// An expression that was refused.
fn unknown(span: Span) -> Expr {
    Expr { kind: ExprKind::Default, ty: Types::UNKNOWN, span }
}
