//! Compiles the text of generated programs.

use crate::gateway;
use ir::Pipeline;
use p4::preprocess::MemoryLoader;
use std::sync::OnceLock;

/// Returns the include files, which are read once.
fn includes() -> &'static [(String, String)] {
    static FILES: OnceLock<Vec<(String, String)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let read = |name: &str| {
            let path = gateway::root().join("programs/include").join(name);
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            (format!("include/{name}"), text)
        };
        ["core.p4", "v1model.p4", "pna.p4", "terrace.p4"].map(read).to_vec()
    })
}

/// Compiles P4 text. `passes`: whether to run the IR's passes.
///
/// # Errors
/// The diagnostics, as one text.
pub fn compile(text: &str, passes: bool) -> Result<Pipeline, String> {
    let mut loader = MemoryLoader::new().with("made.p4", text);
    for (name, text) in includes() {
        loader = loader.with(name.clone(), text.clone());
    }
    let options = p4::compile::CompileOptions { include_dirs: vec!["include".into()], passes, ..Default::default() };
    let compiled = p4::compile::compile(&loader, "made.p4".as_ref(), &options);
    let errors = compiled.diagnostics.iter().filter(|d| d.is_error());
    let errors: Vec<String> = errors.map(|d| d.render(&compiled.source_map, false)).collect();
    compiled.pipeline.ok_or_else(|| errors.join("\n"))
}

/// Returns the errors of the front-end's checker for a program for Tofino's architecture. Lowering
/// does not support that architecture, so it does not run.
pub fn tofino_errors(text: &str) -> Vec<String> {
    let mut loader = MemoryLoader::new().with("made.p4", text);
    for (name, file) in [("core.p4", "core.p4"), ("tna.p4", "tna.p4"), ("t2na.p4", "tna.p4")] {
        let path = gateway::root().join("programs/include").join(file);
        loader = loader.with(format!("include/{name}"), std::fs::read_to_string(path).unwrap_or_default());
    }
    let options = p4::preprocess::PreprocessOptions { include_dirs: vec!["include".into()], ..Default::default() };
    let parsed = p4::parse::parse_program(&loader, "made.p4".as_ref(), &options);
    let mut found = parsed.diagnostics;
    if !found.iter().any(|d| d.is_error()) {
        found.extend(p4::check::check(&parsed.program, &parsed.source_map).1);
    }
    found.iter().filter(|d| d.is_error()).map(|d| d.render(&parsed.source_map, false)).collect()
}
