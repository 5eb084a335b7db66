//! Compares P4Runtime with independent implementations: PyPI's packages, in the `.venv` that
//! `scripts/setup test` makes.

mod agreement;
mod all_kinds;
mod descriptors;
mod p4info;
mod values;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the output of a script of tests/p4runtime. Panics with its error output if it fails.
fn python(script: &str, arguments: &[&Path]) -> String {
    let python = root().join(".venv/bin/python");
    assert!(python.exists(), "there is no .venv with p4runtime: run scripts/setup test");
    let mut command = Command::new(python);
    // -B: no __pycache__ in the tree.
    command.arg("-B").arg(Path::new("tests/p4runtime").join(script)).args(arguments).current_dir(root());
    let output = command.output().expect("python starts");
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{complained}");
    said.into_owned()
}
