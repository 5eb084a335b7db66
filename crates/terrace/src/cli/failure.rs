//! How a command ends when it does not end well, and the exit codes.

use std::process::ExitCode;
use thiserror::Error;

/// Why a command did not do what it was asked. Each kind has an exit code of its own, documented in docs/cli.md.
#[derive(Debug, Error)]
pub enum Failure {
    /// 1: the thing that was checked does not hold. What is wrong has been shown already.
    #[error("the check failed")]
    Failed,
    /// 2: the command line asks for something impossible (clap's own usage errors end with 2, too).
    #[error("{0}")]
    Usage(String),
    /// 3: an input was refused: a program, test, entry, region or capture file.
    #[error("{0}")]
    Refused(String),
    /// 3: as `Refused`, when what is wrong has been shown already.
    #[error("the input was refused")]
    RefusedShown,
    /// 4: the machine does not allow it: permissions, interfaces, sockets, files that cannot be written.
    #[error("{0}")]
    Environment(String),
    /// 5: Terrace contradicted itself.
    #[error("{0}\n  this is a bug of terrace; please report it with the input")]
    Bug(String),
}

impl Failure {
    /// Refuses an input; `error` names place and mend.
    pub fn refused(error: impl std::fmt::Display) -> Failure {
        Failure::Refused(error.to_string())
    }

    /// The user pressed Ctrl-C.
    pub fn stopped() -> Failure {
        Failure::Environment("stopped; everything was removed".to_owned())
    }

    /// Blames the machine for an error, and tells its causes.
    pub fn system(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
        Failure::Environment(format!("{:#}", anyhow::Error::from(error)))
    }

    /// Blames the machine; `error` names what to do.
    pub fn environment(error: impl std::fmt::Display) -> Failure {
        Failure::Environment(error.to_string())
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Failure::Failed => 1,
            Failure::Usage(_) => 2,
            Failure::Refused(_) | Failure::RefusedShown => 3,
            Failure::Environment(_) => 4,
            Failure::Bug(_) => 5,
        }
    }

    /// The kind's name in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::Failed => "failed",
            Failure::Usage(_) => "usage",
            Failure::Refused(_) | Failure::RefusedShown => "refused",
            Failure::Environment(_) => "environment",
            Failure::Bug(_) => "bug",
        }
    }

    /// Whether there is something left to be said.
    pub fn is_silent(&self) -> bool {
        matches!(self, Failure::Failed | Failure::RefusedShown)
    }
}

impl From<&Failure> for ExitCode {
    fn from(failure: &Failure) -> ExitCode {
        ExitCode::from(failure.code())
    }
}

/// The table of exit codes as `--help` shows it.
pub const EXIT_CODES: &str = "Exit codes:
  0  done; what was checked holds
  1  what was checked does not hold (a program with errors, a failed test, a ping without answer)
  2  wrong usage
  3  an input was refused (program, test, entries, region or capture file)
  4  the machine does not allow it (permissions, interfaces, sockets, files)
  5  a bug of terrace";
