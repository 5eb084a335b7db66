//! The driver: stages in order, and where they stop.

use super::{CORE, V1MODEL, v1model};
use p4::compile::{Options, Stage, compile_observed};
use p4::preprocess::MemoryLoader;
use std::path::Path;

/// The names of the stages that an observer sees, passes once.
fn stages(source: &str, options: &Options) -> Vec<String> {
    let loader = MemoryLoader::new().with("main.p4", source).with("core.p4", CORE).with("v1model.p4", V1MODEL);
    let options = Options { include_dirs: vec![".".into()], ..options.clone() };
    let mut seen = Vec::new();
    compile_observed(&loader, Path::new("main.p4"), &options, &mut |stage| {
        let name = match stage {
            Stage::Tokens(..) => "tokens".to_string(),
            Stage::Syntax(..) => "syntax".to_string(),
            Stage::Typed(..) => "typed".to_string(),
            Stage::Lowered(_) => "lowered".to_string(),
            Stage::Pass(pass, ..) => format!("pass {}", pass.name),
            Stage::Done(_) => "done".to_string(),
        };
        if seen.last() != Some(&name) {
            seen.push(name);
        }
    });
    seen
}

#[test]
fn all_stages_in_order() {
    let seen = stages(&v1model("", "apply {}"), &Options::default());
    let passes = ir::passes::PASSES.iter().map(|pass| format!("pass {}", pass.name));
    let wanted: Vec<String> =
        ["tokens", "syntax", "typed", "lowered"].map(String::from).into_iter().chain(passes).collect();
    assert_eq!(seen[..seen.len() - 1], wanted);
    assert_eq!(seen.last().map(String::as_str), Some("done"));
}

#[test]
fn passes_may_be_left_out() {
    let options = Options { passes: false, ..Options::default() };
    assert_eq!(stages(&v1model("", "apply {}"), &options), ["tokens", "syntax", "typed", "lowered", "done"]);
}

#[test]
fn errors_end_it() {
    assert_eq!(stages("const bit<8> = 3;", &Options::default()), ["tokens", "syntax"]);
    assert_eq!(stages("const bit<8> x = true;", &Options::default()), ["tokens", "syntax", "typed"]);
}
