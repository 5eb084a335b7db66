//! Tests the driver: stages in order, and where they stop.

use super::{CORE, V1MODEL, v1model};
use p4::compile::{CompileOptions, CompileStage, compile_observed};
use p4::preprocess::MemoryLoader;
use std::path::Path;

/// Returns the names of the stages that an observer sees, with passes once.
fn stages(source: &str, options: &CompileOptions) -> Vec<String> {
    let loader = MemoryLoader::new().with("main.p4", source).with("core.p4", CORE).with("v1model.p4", V1MODEL);
    let options = CompileOptions { include_dirs: vec![".".into()], ..options.clone() };
    let mut seen = Vec::new();
    compile_observed(&loader, Path::new("main.p4"), &options, &mut |stage| {
        let name = match stage {
            CompileStage::Tokens(..) => "tokens".to_string(),
            CompileStage::Syntax(..) => "syntax".to_string(),
            CompileStage::Typed(..) => "typed".to_string(),
            CompileStage::Lowered(_) => "lowered".to_string(),
            CompileStage::Pass(pass, ..) => format!("pass {}", pass.name),
            CompileStage::Finished(_) => "done".to_string(),
        };
        if seen.last() != Some(&name) {
            seen.push(name);
        }
    });
    seen
}

#[test]
fn all_stages_in_order() {
    let seen = stages(&v1model("", "apply {}"), &CompileOptions::default());
    let passes = ir::passes::PASSES.iter().map(|pass| format!("pass {}", pass.name));
    let wanted: Vec<String> =
        ["tokens", "syntax", "typed", "lowered"].map(String::from).into_iter().chain(passes).collect();
    assert_eq!(seen[..seen.len() - 1], wanted);
    assert_eq!(seen.last().map(String::as_str), Some("done"));
}

#[test]
fn passes_may_be_left_out() {
    let options = CompileOptions { passes: false, ..CompileOptions::default() };
    assert_eq!(stages(&v1model("", "apply {}"), &options), ["tokens", "syntax", "typed", "lowered", "done"]);
}

#[test]
fn errors_end_it() {
    assert_eq!(stages("const bit<8> = 3;", &CompileOptions::default()), ["tokens", "syntax"]);
    assert_eq!(stages("const bit<8> x = true;", &CompileOptions::default()), ["tokens", "syntax", "typed"]);
}
