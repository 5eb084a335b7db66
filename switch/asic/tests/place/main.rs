//! Tests programs' demand for resources of a chip, and the placement of their tables.

mod demand;
mod exact;
mod placement;
mod proofs;
mod random;

use std::path::{Path, PathBuf};

/// Returns the repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a program of the repository; none if the front end rejects it.
fn compile(path: &Path) -> Option<ir::Pipeline> {
    let options =
        p4::compile::CompileOptions { include_dirs: vec![root().join("programs/include")], ..Default::default() };
    p4::compile::compile(&p4::preprocess::DiskLoader, path, &options).pipeline
}

/// Returns the gateway program.
fn gateway() -> ir::Pipeline {
    let pipeline = compile(&root().join("programs/gateway/gateway.p4")).expect("the gateway compiles");
    std::sync::Arc::unwrap_or_clone(ir::passes::without_recirculation(&std::sync::Arc::new(pipeline)))
}

/// Returns all programs of the corpus.
fn corpus() -> Vec<PathBuf> {
    let folders =
        std::fs::read_dir(root().join("tests/corpus")).expect("the corpus is there").flatten().map(|e| e.path());
    let files = folders.filter(|f| f.is_dir()).flat_map(|f| std::fs::read_dir(f).expect("a folder").flatten());
    let mut programs: Vec<PathBuf> =
        files.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "p4")).collect();
    programs.sort();
    programs
}
