//! What can go wrong with a lab.

use super::topology::TopologyError;
use std::io::Error as IoError;
use std::path::PathBuf;
use thiserror::Error;

/// A lab could not be built, used or removed.
#[derive(Debug, Error)]
pub enum LabError {
    /// The lab cannot be built like this.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A program is not installed.
    #[error("the program `{tool}` is not installed; install it with `apt-get install {package}`")]
    Missing {
        /// The program.
        tool: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A command failed.
    #[error("`{command}` failed: {stderr}{}", mend.map(|mend| format!("; {mend}")).unwrap_or_default())]
    Command {
        /// The command, as it could be typed.
        command: String,
        /// What it said.
        stderr: String,
        /// What may help.
        mend: Option<&'static str>,
    },
    /// A command could not be started, or a kernel parameter not be set.
    #[error("cannot do `{command}`")]
    Start {
        /// The command, as it could be typed.
        command: String,
        /// The system's error.
        source: IoError,
    },
    /// Something of the lab is there already.
    #[error(
        "a lab called `{name}` is up, or was left behind; remove it with `terrace lab down --name {name}`, or choose another name"
    )]
    Exists {
        /// The lab's name.
        name: String,
    },
    /// There is no such lab.
    #[error("there is no lab called `{name}`; `terrace lab up` makes one")]
    NotUp {
        /// The lab's name.
        name: String,
    },
    /// The user stopped it.
    #[error("stopped; everything made so far was removed")]
    Stopped,
    /// The file with the lab's state cannot be read or written.
    #[error("cannot {action} the lab's state in `{}`", path.display())]
    State {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: IoError,
    },
    /// This machine does not allow what a lab needs.
    #[error("a lab cannot run here: {reason}")]
    NotPermitted {
        /// What is not allowed, and the mend.
        reason: String,
    },
    /// Something could not be removed.
    #[error("not everything of the lab could be removed: {}; run `terrace lab down` again", problems.join("; "))]
    Remains {
        /// What is left, and why.
        problems: Vec<String>,
    },
    /// A namespace cannot be entered.
    #[error(transparent)]
    Namespace(#[from] ::io::NamespaceError),
    /// A port cannot be opened.
    #[error(transparent)]
    Port(#[from] ::io::PortError),
}
