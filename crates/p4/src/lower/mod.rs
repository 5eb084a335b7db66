//! Lowering: evaluates the checked program and builds an IR pipeline.
//!
//! Evaluation follows the specification (section "P4 abstract machine: evaluation"). Starting at
//! `main`, packages, controls, parsers and extern objects are instantiated with known constructor
//! arguments. Then each programmable block of the architecture becomes one body: sub-parsers,
//! controls, functions and actions are inlined, generics substituted and aggregates flattened.
//!
//! - Declarations: `instantiate` (objects), `constant` (their arguments), `arch` (blocks of the
//!   architecture), `package` (annotations of `main`), `used` (removal of unused declarations),
//!   `table`, `entries`, `profiles` (externs attached to tables), `externs*`, `names`, `ids`,
//!   `p4info` (control-plane types)
//! - State: `lowering`, with `const_value` (instantiated objects) and `frame` (inlined calls)
//! - Data: `type_layout` (structure of a type's values), `storage` (variables of a value), `value`
//!   (results of expressions); `types`, `allocation`, `transfer`, `lvalue` operate on them
//! - Code: `expr`, `ops`, `stmt`, `switch`, `loops`, `call`, `params`, `arguments`, `apply`,
//!   `parser`, `select`, `packet`, `stack`; `effects` analyses side effects
//!
//! Code size is limited: excessive inlining ends in a diagnostic with code `limit`.

mod added_entries;
mod allocation;
mod apply;
mod arch;
mod arguments;
mod call;
mod const_value;
mod constant;
mod effects;
mod entries;
mod expr;
mod extern_names;
mod externs;
mod externs_pna;
mod externs_v1model;
mod frame;
mod ids;
mod instantiate;
mod loops;
mod lowering;
mod lvalue;
mod names;
mod ops;
mod p4info;
mod package;
mod packet;
mod params;
mod parser;
mod profiles;
mod select;
mod stack;
mod stmt;
mod storage;
mod switch;
mod table;
mod transfer;
mod type_layout;
mod types;
mod used;
mod value;

pub use extern_names::EXTERN_WITHOUT_IMPLEMENTATION;

use crate::diag::Diagnostic;
use crate::hir::Program;
use crate::span::SourceMap;
use ir::Pipeline;
use lowering::Lowering;

/// Result of lowering.
#[derive(Debug)]
pub struct Lowered {
    /// The pipeline; `None` if there was an error.
    pub pipeline: Option<Pipeline>,
    /// Errors, warnings and unsupported constructs.
    pub diagnostics: Vec<Diagnostic>,
}

/// Lowers a program that was checked without errors. `name` is the name of the pipeline unless
/// `@pkginfo` sets one.
pub fn lower(program: &Program, sources: &SourceMap, name: &str) -> Lowered {
    let mut lower = Lowering::new(program, sources, name);
    let done = lower.lower_program();
    let failed = done.is_err() || lower.diagnostics.iter().any(Diagnostic::is_error);
    Lowered { pipeline: (!failed).then_some(lower.pipeline), diagnostics: lower.diagnostics }
}
