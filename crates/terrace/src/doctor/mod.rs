//! `terrace doctor`: examines whether a machine suits a gateway, and says what to change.
//!
//! [`facts`] reads the machine, and [`requirements`] what the node needs of it. The checks are pure
//! functions of both, so that tests run them on machines that do not exist here. Each check returns
//! findings with what was seen and the command that changes it.

mod facts;
mod interfaces;
mod kernel;
mod machine;
mod requirements;
#[cfg(test)]
mod tests;

pub use facts::{CpuFacts, EthtoolFacts, InterfaceFacts, MachineFacts, MemoryFacts};
pub use requirements::{PortRequirement, Requirements};

use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Suits the node.
    Ok,
    /// Works; another setting is faster, or a feature is not available on this machine.
    Note,
    /// Packets are lost or delayed under some condition.
    Warning,
    /// The node does not start, or a port carries no packets.
    Error,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable name of the check, for scripts.
    pub check: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What was examined: `machine`, or the name of an interface or device.
    pub subject: String,
    /// What was seen, and its effect.
    pub observation: String,
    /// The command or setting that changes it; `None` if nothing has to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    /// Creates a finding that needs no change.
    fn ok(check: &'static str, subject: &str, observation: impl Into<String>) -> Finding {
        Finding {
            check,
            severity: Severity::Ok,
            subject: subject.to_owned(),
            observation: observation.into(),
            fix: None,
        }
    }

    /// Creates a finding with the change that it asks for.
    fn problem(
        severity: Severity,
        check: &'static str,
        subject: &str,
        observation: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding { severity, fix: Some(fix.into()), ..Finding::ok(check, subject, observation) }
    }
}

/// Subject of findings about the whole machine.
const MACHINE: &str = "machine";

/// Runs all checks. The findings are in the order of the checks: the machine first, then each port.
pub fn examine(facts: &MachineFacts, needed: &Requirements) -> Vec<Finding> {
    let mut findings = kernel::check(facts, needed);
    findings.extend(machine::check(facts, needed));
    findings.extend(needed.ports.iter().flat_map(|port| interfaces::check(facts, needed, port)));
    findings
}
