//! Compares docs/reference/ir.md with the code.

use ir::text::{parse, print};
use ir::*;

const DOCUMENT: &str = include_str!("../../../../docs/reference/ir.md");

#[test]
fn the_example_is_valid() {
    let (_, rest) = DOCUMENT.split_once("```ir\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let pipeline = parse(example).unwrap_or_else(|e| panic!("{e:#?}"));
    verify::verify_after("writing", &pipeline).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(parse(&print(&pipeline)), Ok(pipeline));
}

#[test]
fn all_passes_and_extern_functions_are_listed() {
    let passes = passes::PASSES.iter().map(|p| p.name);
    for name in passes.chain(ExternFn::ALL.iter().map(|f| f.name())) {
        assert!(DOCUMENT.contains(&format!("`{name}`")), "{name} is missing in docs/reference/ir.md");
    }
}

#[test]
fn passes_are_listed_in_their_order() {
    let (_, section) = DOCUMENT.split_once("## The passes").expect("a section");
    let places: Vec<_> = passes::PASSES.iter().map(|p| section.find(&format!("`{}`", p.name))).collect();
    assert!(places.is_sorted(), "{places:?}");
}
