//! Tests text emitted for Tofino: the front end's checker accepts it (names, types, calls, with
//! `programs/include/tna.p4`), the tables are those of the program, and constructs that cannot be
//! expressed are named with their location.

mod carries;
mod forms;
mod halves;
mod laid_out;
mod rules;
mod same;
mod ways_out;

use asic::emit::{EmitTarget, EmittedProgram, emit};
use asic::transform::TableSizes;
use ir::Pipeline;
use std::collections::BTreeSet;
use testkit::differ::compile::{compile, tofino_errors as check};
use testkit::gateway;

fn emitted(pipeline: &Pipeline, sizes: &TableSizes) -> EmittedProgram {
    emit(pipeline, EmitTarget::Tna, sizes).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn the_gateway_has_a_form() {
    let pipeline = gateway::switch_pipeline().expect("the gateway");
    let sizes = TableSizes::from([("gateway.routing.route_v4".to_owned(), 4321)]);
    let emitted = emitted(&pipeline, &sizes);
    let errors = check(&emitted.text);
    assert!(errors.is_empty(), "{}\n{}", errors.join("\n"), emitted.text);
    assert!(emitted.text.contains("size = 4321;"), "{}", emitted.text);
    // The switch has no second pass of packets, and so none of its tables, no VLANs of ports, no NAT, no
    // services and no security groups, of which `v4` and `v6` are tables.
    let blocks = pipeline.controls.values().flat_map(|control| control.body.blocks.values());
    let applied: BTreeSet<_> = blocks.filter_map(ir::BlockData::applied_table).collect();
    let (applied, others): (Vec<_>, Vec<_>) = pipeline.tables.iter().partition(|(id, _)| applied.contains(id));
    let others: BTreeSet<&str> =
        others.iter().filter_map(|(_, table)| table.preamble.name.rsplit('.').next()).collect();
    let expected = [
        "backends",
        "datagram_limits",
        "datagrams_v4",
        "datagrams_v6",
        "flows_v4",
        "flows_v6",
        "forwards",
        "group_vlan",
        "icmp_limits",
        "members",
        "nat64_source",
        "nat64_vm",
        "nat_refused",
        "nat_source",
        "own_subnet",
        "own_vlan",
        "refused",
        "public_arp",
        "services",
        "sessions",
        "slots",
        "sources",
        "subnet_gateway_v4",
        "subnet_gateway_v6",
        "v4",
        "v6",
        "vpc_prefix",
    ];
    assert_eq!(others, BTreeSet::from(expected));
    for (_, table) in applied {
        let last = table.preamble.name.rsplit('.').next().unwrap_or_default();
        assert!(
            emitted.text.contains(&table.preamble.name) || emitted.text.contains(&format!("table {last}")),
            "{last} is missing"
        );
    }
    let left_out: Vec<String> = emitted.left_out.iter().map(ToString::to_string).collect();
    assert!(left_out.iter().any(|what| what.contains("packet's length")), "{left_out:?}");
    assert!(left_out.iter().any(|what| what.contains("counter `drops`")), "{left_out:?}");
    assert!(left_out.iter().all(|what| what.contains(".p4:")), "each has a place: {left_out:?}");
}

/// Constructs that a chip does not support are named; all others are kept.
#[test]
fn what_has_no_form_is_named() {
    let text = "#include <core.p4>\n#include <pna.p4>\n
header h_t { bit<16> a; bit<16> b; bit<64> c; }
struct headers_t { h_t h; }
struct metadata_t { bit<16> x; }
parser parse(packet_in p, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start { p.extract(hdr.h); transition accept; }
}
control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) { apply { } }
control main_block(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd) {
    action set(bit<16> v) { hdr.h.b = v; }
    table t { key = { hdr.h.a: exact; } actions = { set; NoAction; } }
    apply {
        hdr.h.a = hdr.h.a * 3;
        hdr.h.c = hdr.h.c + 1;
        hdr.h.b = hdr.h.b >> (bit<8>) hdr.h.a;
        t.apply();
        send_to_port((PortId_t) 32w1);
    }
}
control deparse(packet_out p, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) { apply { p.emit(hdr.h); } }
PNA_NIC(parse(), pre(), main_block(), deparse()) main;\n";
    let pipeline = compile(text, true).unwrap_or_else(|error| panic!("{error}"));
    let emitted = emitted(&pipeline, &TableSizes::new());
    let left_out: Vec<String> = emitted.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(left_out.len(), 3, "{left_out:?}");
    for (what, line) in [("multiplication", 15), ("more than 32 bits", 16), ("at run time", 17)] {
        let found = left_out.iter().any(|l| l.contains(what) && l.contains(&format!("made.p4:{line}:")));
        assert!(found, "{what} in line {line}: {left_out:?}");
    }
    assert!(check(&emitted.text).is_empty(), "{:?}\n{}", check(&emitted.text), emitted.text);
    assert!(emitted.text.contains("hdr.h.b = v;"), "{}", emitted.text);
}

/// v1model programs are rejected with a message.
#[test]
fn other_architectures_are_refused() {
    let mut pipeline = (*gateway::switch_pipeline().expect("the gateway")).clone();
    pipeline.arch = ir::Arch::V1Model;
    let error = emit(&pipeline, EmitTarget::Tna, &TableSizes::new()).expect_err("a refusal").to_string();
    assert!(error.contains("v1model"), "{error}");
}
