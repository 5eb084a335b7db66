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
//! - the state of it: `lowering`, in which `known` (what is instantiated) and `frame` (calls) say what names stand for
//! - where data live: `shape` (of a type's values), `place` (where they are stored), `value` (what expressions yield); and how
//!   they come there: `types`, `storage`, `transfer`, `access` (l-values)
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
mod extern_names;
mod externs;
mod externs_pna;
mod externs_v1model;
mod frame;
mod ids;
mod instantiate;
mod known;
mod loops;
mod lowering;
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
mod shape;
mod stack;
mod stmt;
mod storage;
mod switch;
mod table;
mod transfer;
mod types;
mod used;
mod value;
mod walk;

pub use extern_names::EXTERN_WITHOUT_IMPLEMENTATION;

use crate::diag::Diagnostic;
use crate::hir::Program;
use crate::span::SourceMap;
use ir::Pipeline;
use lowering::Lower;

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
