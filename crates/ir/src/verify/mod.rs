//! The verifier: everything that the data model's documentation states, checked. It runs between all passes.
//!
//! A fault is always a bug in what made the IR, never in the program that a user wrote. Any pipeline may be verified, also one
//! that came from a text of unknown origin: nothing here panics.

mod body;
mod decl;
mod externs;
mod inst;
mod problem;
mod table;

pub use problem::Problem;

use crate::declared::Loc;
use crate::entity::Block;
use crate::pipeline::Pipeline;
use std::fmt;

/// The verifier stops at so many faults.
const MAX_FAULTS: usize = 100;

/// One thing that is wrong, with its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The declaration that it is in (`table ingress.routes`), if it is in one.
    pub declaration: Option<String>,
    /// The control whose body it is in.
    pub control: Option<String>,
    /// The block.
    pub block: Option<Block>,
    /// The number of the instruction in the block, from 0; `None` with a block means its terminator or its parameters.
    pub inst: Option<usize>,
    /// The source position that the instruction has.
    pub loc: Loc,
    /// What is wrong.
    pub problem: Problem,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(declaration) = &self.declaration {
            write!(f, "{declaration}: ")?;
        }
        if let Some(control) = &self.control {
            write!(f, "control `{control}`")?;
            if let Some(block) = self.block {
                write!(f, ", {block}")?;
            }
            if let Some(inst) = self.inst {
                write!(f, ", instruction {inst}")?;
            }
            write!(f, ": ")?;
        }
        write!(f, "{}", self.problem)
    }
}

/// A pipeline that breaks the IR's rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// What ran last: a pass, or `lowering`.
    pub after: String,
    /// What is wrong, at least one.
    pub faults: Vec<Fault>,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the IR is wrong after `{}`; this is a bug there, not in the program:", self.after)?;
        for fault in &self.faults {
            writeln!(f, "  {fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for VerifyError {}

/// Checks the pipeline.
///
/// # Errors
/// The faults, at most 100.
pub fn verify(pipeline: &Pipeline) -> Result<(), Vec<Fault>> {
    let mut verifier = Verifier { p: pipeline, faults: Vec::new() };
    verifier.declarations();
    verifier.tables();
    verifier.externs();
    verifier.controls();
    if verifier.faults.is_empty() { Ok(()) } else { Err(verifier.faults) }
}

/// Checks the pipeline, and on a fault names `after`, the pass that ran last.
///
/// # Errors
/// As [`verify`].
pub fn verify_after(after: &str, pipeline: &Pipeline) -> Result<(), VerifyError> {
    verify(pipeline).map_err(|faults| VerifyError { after: after.to_string(), faults })
}

struct Verifier<'p> {
    p: &'p Pipeline,
    faults: Vec<Fault>,
}

impl Verifier<'_> {
    fn push(&mut self, fault: Fault) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(fault);
        }
    }
    /// Records a problem with a declaration (`kind name`).
    fn declaration(&mut self, kind: &str, name: &str, problem: Problem) {
        self.push(Fault {
            declaration: Some(format!("{kind} {name}")),
            control: None,
            block: None,
            inst: None,
            loc: Loc::default(),
            problem,
        });
    }
}
