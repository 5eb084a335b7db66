//! Tasks of the repository: `cargo xtask conformance --p4c DIR` holds the front-end and the interpreter against p4c's own tests.

mod conformance;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Tasks of the repository.
#[derive(Parser)]
#[command(name = "xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Conformance(conformance::ConformanceArgs),
    #[command(hide = true)]
    ConformanceCase(conformance::CaseArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Conformance(args) => args.run(),
        Task::ConformanceCase(args) => args.run(),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
