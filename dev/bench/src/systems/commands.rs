//! Commands that prepare a measurement.

use crate::machine;
use anyhow::{Context, ensure};
use std::path::PathBuf;
use std::process::Command;

/// Runs a command to its end.
///
/// # Errors
/// It cannot be started, or fails; the message has what it printed.
pub(super) fn run_to_end(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// Compiles the BPF program `bpf/NAME.bpf.c` with clang. Returns the object file.
///
/// # Errors
/// clang or libbpf are missing, or the program is wrong.
pub(super) fn compile_bpf(name: &str) -> anyhow::Result<PathBuf> {
    let source = machine::root().join(format!("dev/bench/bpf/{name}.bpf.c"));
    let object = machine::results().join(format!("{name}.bpf.o"));
    std::fs::create_dir_all(machine::results())?;
    let include = format!("-I/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let mut clang = Command::new("clang");
    clang.args(["-O2", "-g", "-fno-strict-aliasing", "-target", "bpf", &include, "-c"]);
    clang.arg(&source).arg("-o").arg(&object);
    run_to_end(&mut clang).context("clang compiles the XDP program (Debian: clang, libbpf-dev)")?;
    Ok(object)
}
