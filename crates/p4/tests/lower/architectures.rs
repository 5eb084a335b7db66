//! Tests architectures: PNA with three blocks, and the messages for programs of other
//! architectures.

use super::{TYPES, block, check_errors, compiled, pipeline, v1model};
use expect_test::{Expect, expect};

/// Returns a program for PNA as in its current specification.
fn three_blocks(top: &str, main: &str, deparser: &str) -> String {
    format!(
        "#include <core.p4>
#include <bmv2/pna.p4>
{TYPES}
struct meta_t {{ bit<8> a; bit<8> b; bool again; }}
{top}
parser main_parser(packet_in pkt, out hdr_t hdr, inout meta_t meta, in pna_main_parser_input_metadata_t istd) {{
    state start {{ meta.again = istd.recirculated; pkt.extract(hdr.eth); transition accept; }}
}}
control main_control(inout hdr_t hdr, inout meta_t meta, in pna_main_input_metadata_t istd,
                     inout pna_main_output_metadata_t ostd) {{
{main}
}}
control deparser(packet_out pkt, inout hdr_t hdr, in meta_t meta, in pna_main_output_metadata_t ostd) {{
    apply {{ {deparser} }}
}}
PNA_NIC(main_parser(), main_control(), deparser()) main;
"
    )
}

/// Compares all findings of a program, including fixes.
fn check_findings(source: &str, expect: Expect) {
    let mut out = String::new();
    for d in compiled(source).diagnostics {
        let line = source.get(..d.primary.lo as usize).unwrap_or("").matches('\n').count() + 1;
        let help = d.help.unwrap_or_default();
        out.push_str(&format!("{} {line}: {}\n  {help}\n", d.severity.as_str(), d.message));
    }
    expect.assert_eq(&out);
}

/// Engines set a pass number, from which the blocks first compute `recirculated`.
#[test]
fn recirculated_is_made_of_the_pass_number() {
    let p = pipeline(&three_blocks("", "apply { send_to_port((PortId_t) 1); }", "pkt.emit(hdr.eth);"));
    assert!(p.intrinsics.contains_key("parser_istd.pass") && !p.intrinsics.contains_key("istd.recirculated"));
    expect![[r#"
        control "pre_control" pre_control {
          entry block0
        block0:
          return
        }
        control "main_parser" main_parser {
          entry block0
          state "start" block1
        block0:
          v0: bit<3> = load $parser_istd.pass
          v1: bit<3> = const 0:bit<3>
          v2: bool = eq v0, v1
          v3: bool = logical_not v2
          jump block1
        block1:
          store $meta.again, v3
          extract $hdr.eth
          return
        }
    "#]]
    .assert_eq(&["pre_control", "main_parser"].map(|role| block(&p, role)).concat());
}

#[test]
fn another_number_of_blocks_names_the_other_form() {
    let source = three_blocks("", "apply { }", "").replace("<bmv2/pna.p4>", "<pna.p4>");
    let source = source.replace("istd.recirculated", "istd.pass != (PassNumber_t)(PassNumberUint_t) 0");
    check_findings(
        &source,
        expect![[r#"
        error 22: `PNA_NIC` takes 4 blocks (main_parser, pre_control, main_control, main_deparser), and 3 are given
          today's PNA, without a pre control, is declared by `#include <bmv2/pna.p4>` (docs/reference/architectures.md)
    "#]],
    );
}

/// For a package of the right name with other blocks, the message has the program's own names.
#[test]
fn other_blocks_than_the_architecture_has() {
    let source = "#include <core.p4>
        struct h_t {} struct m_t {}
        parser MainParserT<H, M>(packet_in pkt, out H hdr, inout M meta);
        control EdgeT<H, M>(inout H hdr, inout M meta);
        package PNA_NIC<H, M>(MainParserT<H, M> main_parser, EdgeT<H, M> edge);
        parser p(packet_in pkt, out h_t hdr, inout m_t meta) { state start { transition accept; } }
        control e(inout h_t hdr, inout m_t meta) { apply { } }
        PNA_NIC(p(), e()) main;";
    check_findings(
        source,
        expect![[r#"
        error 8: not supported: `PNA_NIC` with the blocks main_parser, edge
          Terrace knows it with 3 (main_parser, main_control, main_deparser) or 4 (main_parser, pre_control, main_control, main_deparser): docs/reference/architectures.md
    "#]],
    );
}

/// One message for a program of another architecture, whether its file is found or not.
#[test]
fn other_architectures_are_named() {
    let body = "
        parser p(packet_in b, out headers h, in psa_ingress_parser_input_metadata_t i) { state start { transition accept; } }
        PSA_Switch(IngressPipeline(p()), PacketReplicationEngine()) main;";
    for include in ["psa.p4", "found/psa.p4", "tna.p4", "dpdk/pna.p4", "ebpf_model.p4", "mine.p4"] {
        let source = format!("#include <core.p4>\n#include <{include}>\n{body}");
        assert_eq!(compiled(&source).diagnostics.len(), 1, "{include}: {:#?}", compiled(&source).diagnostics);
    }
    check_findings(
        &format!("#include <core.p4>\n#include <psa.p4>\n{body}"),
        expect![[r#"
        error 2: there is no file `psa.p4`
          this is PSA, the Portable Switch Architecture, which Terrace does not run: write the program for v1model or PNA (docs/reference/architectures.md)
    "#]],
    );
    check_findings(
        &format!("#include <core.p4>\n#include <found/psa.p4>\n{body}"),
        expect![[r#"
        error 2: the program is written for PSA, the Portable Switch Architecture
          Terrace runs programs whose `main` is a `V1Switch` (v1model) or a `PNA_NIC` (PNA): docs/reference/architectures.md; `terrace check --language-only` checks the language alone
    "#]],
    );
}

#[test]
fn packages_of_other_architectures_are_named() {
    check_errors(
        "control c(); package ubpf(c only); control mine() { apply { } } ubpf(mine()) main;",
        expect![[r#"
            unsupported-architecture at `ubpf(mine()) main`: not supported: the architecture of `ubpf` (p4c's uBPF model)
        "#]],
    );
}

/// An extern that the program declares is refused once, however often it is used.
#[test]
fn externs_of_the_program_are_refused_once() {
    let top = "extern widget { widget(); void turn(); } extern bit<8> magic(in bit<8> x);";
    let body = "widget() w; apply { w.turn(); w.turn(); meta.a = magic(1); meta.b = magic(2); }";
    check_findings(
        &v1model(top, body),
        expect![[r#"
        error 17: not supported: extern `widget`, which v1model does not define
          docs/reference/architectures.md lists the externs that Terrace implements
    "#]],
    );
}
