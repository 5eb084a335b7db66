//! `terrace` as a process, in the repository's root.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the command `terrace` with these arguments.
pub fn terrace(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    command.current_dir(root()).env_remove("NO_COLOR").args(arguments);
    command
}

/// Runs the command. Returns its exit code, standard output and standard error.
pub fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = terrace(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}
