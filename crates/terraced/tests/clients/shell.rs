//! Runs independent clients, p4runtime-shell and the stubs of the Python package p4runtime, which
//! write and read all objects of a node: tests/shell.

use crate::python::{Compiled, Terraced, interpreter, judge, with_modules};
use std::path::Path;
use std::process::Command;

/// Runs the tests of some files on a new node. `tests` is their number; fewer mean that some were
/// not found.
fn run(files: &str, tests: usize) {
    let programs = Compiled::new(&["everything", "everything_pna", "marks"]);
    let node = Terraced::start(&[], "");
    let mut command = Command::new(interpreter());
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shell");
    command.args(["-B", "-m", "unittest", "discover", "-v", "-p", files, "-s"]).arg(suite);
    judge(&with_modules(command, &node, &programs).output().expect("python starts"), &node, tests);
}

#[test]
fn independent_clients_find_what_the_specification_says() {
    run("*_test.py", 122);
}

#[test]
fn a_node_without_a_pipeline_says_so() {
    run("fresh.py", 1);
}
