//! Tasks of the repository: `cargo xtask conformance --p4c DIR` compares the front-end and the
//! interpreter with p4c's own tests. `cargo xtask p4info PROGRAM P4INFO` compares one program's
//! P4Info with a text that p4c wrote. `cargo xtask tofino --p4c FILE` compiles the emitted Tofino
//! programs with the chip's open compiler. `cargo xtask tofino-tables --p4c FILE` compares the
//! model of the chip's memories with that compiler.

mod conformance;
mod p4info;
mod tofino;

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
    P4info(p4info::P4infoArgs),
    Tofino(tofino::TofinoArgs),
    TofinoTables(tofino::TablesArgs),
    #[command(hide = true)]
    ConformanceCase(conformance::CaseArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Conformance(args) => args.run(),
        Task::P4info(args) => args.run(),
        Task::Tofino(args) => args.run(),
        Task::TofinoTables(args) => args.run(),
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
