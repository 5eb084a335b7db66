//! Errors of commands and their exit codes.

use std::process::ExitCode;
use thiserror::Error;

/// Error of a command. Each variant has its own exit code, documented in docs/reference/cli.md.
#[derive(Debug, Error)]
pub enum CommandError {
    /// 1: the check failed. The details have been printed already.
    #[error("the check failed")]
    Failed,
    /// 2: the command line is invalid (clap's own usage errors exit with 2 too).
    #[error("{0}")]
    Usage(String),
    /// 3: an input was refused: a program, test, entry, region or capture file.
    #[error("{0}")]
    Refused(String),
    /// 3: an input was refused, and the details have been printed already.
    #[error("the input was refused")]
    RefusedShown,
    /// 4: the machine does not allow the operation: permissions, interfaces, sockets, files that
    /// cannot be written.
    #[error("{0}")]
    Environment(String),
    /// 5: an internal inconsistency of Terrace.
    #[error("{0}\n  this is a bug of terrace; please report it with the input")]
    Bug(String),
}

impl CommandError {
    /// Refuses an input. `error` must name location and fix.
    pub fn refused(error: impl std::fmt::Display) -> CommandError {
        CommandError::Refused(error.to_string())
    }

    /// Returns the error after Ctrl-C.
    pub fn stopped() -> CommandError {
        CommandError::Environment("stopped; everything was removed".to_owned())
    }

    /// Returns an environment error with its chain of causes.
    pub fn system(error: impl std::error::Error + Send + Sync + 'static) -> CommandError {
        CommandError::Environment(format!("{:#}", anyhow::Error::from(error)))
    }

    /// Returns an environment error. `error` must name the fix.
    pub fn environment(error: impl std::fmt::Display) -> CommandError {
        CommandError::Environment(error.to_string())
    }

    /// Returns the exit code.
    pub fn code(&self) -> u8 {
        match self {
            CommandError::Failed => 1,
            CommandError::Usage(_) => 2,
            CommandError::Refused(_) | CommandError::RefusedShown => 3,
            CommandError::Environment(_) => 4,
            CommandError::Bug(_) => 5,
        }
    }

    /// Returns the name of the error kind in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            CommandError::Failed => "failed",
            CommandError::Usage(_) => "usage",
            CommandError::Refused(_) | CommandError::RefusedShown => "refused",
            CommandError::Environment(_) => "environment",
            CommandError::Bug(_) => "bug",
        }
    }

    /// Returns whether the details have been printed already.
    pub fn is_silent(&self) -> bool {
        matches!(self, CommandError::Failed | CommandError::RefusedShown)
    }
}

impl From<&CommandError> for ExitCode {
    fn from(failure: &CommandError) -> ExitCode {
        ExitCode::from(failure.code())
    }
}

/// Table of exit codes in `--help`.
pub const EXIT_CODES: &str = "Exit codes:
  0  done; what was checked holds
  1  what was checked does not hold (a program with errors, a failed test, a ping without answer)
  2  wrong usage
  3  an input was refused (program, test, entries, region or capture file)
  4  the machine does not allow it (permissions, interfaces, sockets, files)
  5  a bug of terrace";
