//! Golden tests of lowering: IR as text after the passes, which make it short enough to read.
//! `UPDATE_EXPECT=1 cargo test -p p4 --test lower` rewrites them.

mod annotations;
mod architectures;
mod calls;
mod driver;
mod expressions;
mod externs;
mod limits;
mod loops;
mod parsers;
mod pna;
mod stacks;
mod tables;
mod used;

use expect_test::Expect;
use ir::Pipeline;
use ir::text::{PrintOptions, print_with};
use p4::compile::{Compilation, CompileOptions, compile};
use p4::preprocess::MemoryLoader;
use std::path::Path;

const CORE: &str = include_str!("../../../../programs/include/core.p4");
const V1MODEL: &str = include_str!("../../../../programs/include/v1model.p4");
const PNA: &str = include_str!("../../../../programs/include/pna.p4");
const PNA_THREE_BLOCKS: &str = include_str!("../../../../programs/include/bmv2/pna.p4");

/// Types that all programs here share.
const TYPES: &str = "
header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header tag_t { bit<3> pcp; bit<13> vid; }
header opt_t { bit<8> len; varbit<64> data; }
header_union either_t { eth_t eth; tag_t tag; }
struct hdr_t { eth_t eth; eth_t inner; tag_t[3] tags; opt_t opt; either_t either; }
";

/// Compiles one file.
fn compiled(source: &str) -> Compilation {
    let loader = MemoryLoader::new()
        .with("main.p4", source)
        .with("i/core.p4", CORE)
        .with("i/v1model.p4", V1MODEL)
        .with("i/pna.p4", PNA)
        .with("i/bmv2/pna.p4", PNA_THREE_BLOCKS)
        .with("i/found/psa.p4", "package PSA_Switch();");
    let options = CompileOptions { include_dirs: vec!["i".into()], ..CompileOptions::default() };
    compile(&loader, Path::new("main.p4"), &options)
}

/// Returns the pipeline of a program without errors.
fn pipeline(source: &str) -> Pipeline {
    let compiled = compiled(source);
    let errors: Vec<&str> = compiled.diagnostics.iter().filter(|d| d.is_error()).map(|d| d.message.as_str()).collect();
    assert!(errors.is_empty(), "{errors:#?}\nin{source}");
    compiled.pipeline.expect("a program without errors has a pipeline")
}

/// Returns a v1model program: the text before `main`, the parser's states, and the ingress
/// control's declarations and `apply`.
fn v1model_with(top: &str, meta: &str, states: &str, ingress: &str) -> String {
    format!(
        "#include <core.p4>
#define V1MODEL_VERSION 20200408
#include <v1model.p4>
{TYPES}
struct meta_t {{ {meta} }}
{top}
parser p(packet_in pkt, out hdr_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
{states}
}}
control ingress(inout hdr_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{
{ingress}
}}
control egress(inout hdr_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{ apply {{}} }}
control check(inout hdr_t hdr, inout meta_t meta) {{ apply {{}} }}
control deparse(packet_out pkt, in hdr_t hdr) {{ apply {{ pkt.emit(hdr); }} }}
V1Switch(p(), check(), ingress(), egress(), check(), deparse()) main;
"
    )
}

/// Returns a v1model program with four scalars of metadata and this ingress control.
fn v1model(top: &str, ingress: &str) -> String {
    let meta = "bit<8> a; bit<8> b; bit<16> c; bool t;";
    v1model_with(top, meta, "state start { transition accept; }", ingress)
}

/// Returns the text of one programmable block.
fn block(pipeline: &Pipeline, role: &str) -> String {
    let text = print_with(pipeline, PrintOptions { locs: false });
    let mut lines = text.lines().skip_while(|l| !(l.starts_with("control") && l.contains(&format!(" {role} "))));
    let mut out = String::new();
    for line in &mut lines {
        out.push_str(line);
        out.push('\n');
        if line == "}" {
            break;
        }
    }
    out
}

/// Compares the ingress control.
fn check_ingress(top: &str, ingress: &str, expect: Expect) {
    expect.assert_eq(&block(&pipeline(&v1model(top, ingress)), "ingress"));
}

/// Compares the parser.
fn check_parser(top: &str, states: &str, expect: Expect) {
    let source = v1model_with(top, "bit<8> a; bit<32> n;", states, "apply {}");
    expect.assert_eq(&block(&pipeline(&source), "parser"));
}

/// Compares the declarations in lines that begin with one of the words, with their indented lines.
fn check_declarations(source: &str, words: &[&str], expect: Expect) {
    let text = print_with(&pipeline(source), PrintOptions { locs: false });
    let mut out = String::new();
    let mut inside = false;
    for line in text.lines() {
        if !line.starts_with([' ', '}']) {
            inside = words.iter().any(|w| line.starts_with(&format!("{w} ")));
        }
        if inside {
            out.push_str(line);
            out.push('\n');
        }
    }
    expect.assert_eq(&out);
}

/// Compares the errors and the text at each location.
fn check_errors(source: &str, expect: Expect) {
    let compiled = compiled(source);
    assert!(compiled.pipeline.is_none(), "a program with errors has no pipeline");
    let mut out = String::new();
    for d in compiled.diagnostics.iter().filter(|d| d.is_error()) {
        let at = compiled.source_map.text(d.primary).lines().next().unwrap_or("");
        out.push_str(&format!("{} at `{at}`: {}\n", d.code, d.message));
    }
    expect.assert_eq(&out);
}
