//! The verifier: checks every rule that the documentation of the data model states. It runs before
//! the first pass and after each one.
//!
//! A violation is always a bug in the code that made the IR, never in the user's program. Any
//! pipeline may be verified, including one parsed from text of unknown origin: nothing here panics.

mod body;
mod decl;
mod externs;
mod inst;
mod table;
mod violation_kind;

pub use violation_kind::ViolationKind;

use crate::declaration::SourceLoc;
use crate::entity::Block;
use crate::pipeline::Pipeline;
use std::fmt;

/// Maximum number of violations that the verifier reports.
const MAX_VIOLATIONS: usize = 100;

/// One violation with its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifierViolation {
    /// The declaration that contains the violation (`table ingress.routes`), if any.
    pub declaration: Option<String>,
    /// The control that contains the violation in its body.
    pub control: Option<String>,
    /// The block.
    pub block: Option<Block>,
    /// The number of the instruction in the block, from 0; `None` with a block means its terminator
    /// or its parameters.
    pub inst: Option<usize>,
    /// The source position of the instruction.
    pub loc: SourceLoc,
    /// The violated rule.
    pub kind: ViolationKind,
}

impl fmt::Display for VerifierViolation {
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
        write!(f, "{}", self.kind)
    }
}

/// A pipeline that breaks the IR's rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// The step that ran last: a pass, or `lowering`.
    pub after: String,
    /// The violations, at least one.
    pub violations: Vec<VerifierViolation>,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the IR is invalid after `{}`; this is a bug there, not in the program:", self.after)?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        Ok(())
    }
}

impl std::error::Error for VerifyError {}

/// Verifies the pipeline.
///
/// # Errors
/// The violations, at most 100.
pub fn verify(pipeline: &Pipeline) -> Result<(), Vec<VerifierViolation>> {
    let mut verifier = PipelineVerifier { pipeline, violations: Vec::new() };
    verifier.verify_declarations();
    verifier.verify_tables();
    verifier.verify_externs();
    verifier.verify_controls();
    if verifier.violations.is_empty() { Ok(()) } else { Err(verifier.violations) }
}

/// Verifies the pipeline; an error names `after`, the pass that ran last.
///
/// # Errors
/// Fails as [`verify`] does.
pub fn verify_after(after: &str, pipeline: &Pipeline) -> Result<(), VerifyError> {
    verify(pipeline).map_err(|violations| VerifyError { after: after.to_string(), violations })
}

struct PipelineVerifier<'p> {
    pipeline: &'p Pipeline,
    violations: Vec<VerifierViolation>,
}

impl PipelineVerifier<'_> {
    fn push_violation(&mut self, violation: VerifierViolation) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(violation);
        }
    }
    /// Reports a violation in a declaration (`kind name`).
    fn report_declaration(&mut self, kind: &str, name: &str, violation: ViolationKind) {
        self.push_violation(VerifierViolation {
            declaration: Some(format!("{kind} {name}")),
            control: None,
            block: None,
            inst: None,
            loc: SourceLoc::default(),
            kind: violation,
        });
    }
}
