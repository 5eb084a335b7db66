//! Errors of labs.

use super::topology::TopologyError;
use std::io::Error as IoError;
use std::path::PathBuf;
use thiserror::Error;

/// Error when a lab is built, used or removed.
#[derive(Debug, Error)]
pub enum LabError {
    /// The topology is invalid.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A program is not installed.
    #[error("the program `{tool}` is not installed; install it with `apt-get install {package}`")]
    Missing {
        /// Name of the program.
        tool: String,
        /// Debian package that contains it.
        package: &'static str,
    },
    /// A command failed.
    #[error("`{command}` failed: {stderr}{}", help.map(|help| format!("; {help}")).unwrap_or_default())]
    Command {
        /// The command line.
        command: String,
        /// Its error output.
        stderr: String,
        /// Hint for a fix.
        help: Option<&'static str>,
    },
    /// A command could not be started, or a kernel parameter could not be set.
    #[error("cannot do `{command}`")]
    Start {
        /// The command line.
        command: String,
        /// Error of the operating system.
        source: IoError,
    },
    /// A part of the lab exists already.
    #[error(
        "a lab called `{name}` is up, or was left behind; remove it with `terrace lab down --name {name}`, or choose another name"
    )]
    Exists {
        /// Name of the lab.
        name: String,
    },
    /// The lab does not exist.
    #[error("there is no lab called `{name}`; `terrace lab up` makes one")]
    NotUp {
        /// Name of the lab.
        name: String,
    },
    /// The user stopped the operation.
    #[error("stopped; everything made so far was removed")]
    Stopped,
    /// The state file of the lab cannot be read or written.
    #[error("cannot {action} the lab's state in `{}`", path.display())]
    State {
        /// Operation that failed.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: IoError,
    },
    /// The machine does not allow an operation that a lab needs.
    #[error("a lab cannot run here: {reason}")]
    NotPermitted {
        /// The refused operation, and the fix.
        reason: String,
    },
    /// Parts of the lab could not be removed.
    #[error("not everything of the lab could be removed: {}; run `terrace lab down` again", problems.join("; "))]
    Remains {
        /// The remaining parts, each with its reason.
        problems: Vec<String>,
    },
    /// A namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] ::io::NamespaceError),
    /// A port cannot be opened.
    #[error(transparent)]
    Port(#[from] ::io::PortError),
}
