//! The `terrace` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    terrace::cli::main()
}
