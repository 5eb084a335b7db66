//! `terraced`: a node.

use std::process::ExitCode;

fn main() -> ExitCode {
    node::daemon::main()
}
