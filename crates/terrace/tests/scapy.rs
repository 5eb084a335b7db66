//! Sends packets that an independent implementation (scapy) builds through `terrace run` with the
//! gateway and tests/regions/plain.yaml. Scapy judges the output: tests/scapy.

use std::path::Path;
use std::process::Command;

#[test]
fn scapy_agrees_with_the_gateway() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join(".venv/bin/python");
    assert!(python.exists(), "there is no .venv with scapy: run scripts/setup test");
    // -B: no __pycache__ in the tree.
    let output = Command::new(python)
        .args(["-B", "tests/scapy/run.py", env!("CARGO_BIN_EXE_terrace")])
        .current_dir(&root)
        .output()
        .expect("python starts");
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    assert!(output.status.success(), "{said}{complained}");
}
