//! What is planned as it is emitted: the tables of the text, no more and no fewer, each with its keys and its size.

use crate::check;
use crate::rules::programs;
use asic::demand::{Match, Program};
use asic::emit::{Emitted, Halves, Target, emit_over, laid_out};
use asic::rewrite::apart::{apart, put_together};
use asic::rewrite::{Rewritten, Sizes, alpm, digest, pool, results};
use ir::Pipeline;
use testkit::gateway;

/// Tables of a text: how many keys each has, and its entries; sorted.
fn written(text: &str) -> Vec<(usize, u64)> {
    let (mut found, mut here, mut in_keys) = (Vec::new(), None, false);
    for line in text.lines().map(str::trim) {
        if line.starts_with("table ") {
            here = Some((0, 0));
        } else if line == "key = {" {
            in_keys = true;
        } else if in_keys && line == "}" {
            in_keys = false;
        } else if let Some((keys, entries)) = &mut here {
            *keys += usize::from(in_keys && !line.contains(": selector"));
            if let Some(size) = line.strip_prefix("size = ") {
                *entries = size.trim_end_matches(';').parse().expect("a number");
                found.extend(here.take());
            }
        }
    }
    // One without keys is its default action.
    found.retain(|(keys, _)| *keys > 0);
    found.sort_unstable();
    found
}

#[test]
fn tables_of_the_plan_are_those_of_the_text() {
    let (mut tables, mut checks, mut split) = (0, 0, 0);
    for path in programs() {
        let pipeline = gateway::compile(&path).unwrap_or_else(|error| panic!("{error}"));
        let sizes: Sizes = pipeline.tables.values().zip(100..).map(|(t, n)| (t.preamble.name.clone(), n)).collect();
        for halves in [Halves::Ingress, Halves::Both] {
            let Ok(emitted) = emit_over(&pipeline, Target::Tna, &sizes, halves) else { continue };
            let demand = same_tables(&pipeline, &sizes, halves, &emitted);
            tables += demand.tables.iter().filter(|table| table.kind != Match::None).count();
            checks += demand.tables.iter().filter(|table| table.name.contains(".check_")).count();
            split += usize::from(!demand.egress.is_empty());
        }
    }
    assert!(
        tables > 150 && checks >= 4 && split >= 1,
        "{tables} tables, {checks} of conditions, {split} over both halves"
    );
}

/// What is planned; its tables are those of the text.
fn same_tables(pipeline: &Pipeline, sizes: &Sizes, halves: Halves, emitted: &Emitted) -> Program {
    let shaped = laid_out(pipeline, Target::Tna, sizes, halves).expect("what is written is laid out");
    let demand = Program::of(&shaped, sizes).unwrap_or_else(|error| panic!("{}: {error}", pipeline.name));
    let planned = demand.tables.iter().filter(|table| table.kind != Match::None);
    // A partition's number is no key to the plan.
    let keys =
        |table: &asic::demand::Table| table.keys.len() + usize::from(matches!(table.kind, Match::Partitioned { .. }));
    let mut planned: Vec<(usize, u64)> = planned.map(|table| (keys(table), table.entries)).collect();
    planned.sort_unstable();
    assert_eq!(planned, written(&emitted.text), "{}, {halves:?}\n{}", pipeline.name, emitted.text);
    demand
}

/// All steps of compression have a form, together.
#[test]
fn a_compressed_gateway_is_written_and_planned() {
    let first = gateway::pipeline().expect("the gateway");
    let sizes: Sizes = [("route_v4", 20_000), ("route_v6", 5_000), ("vm_nc_v4", 30_000), ("vm_nc_v6", 10_000)]
        .map(|(name, n)| (entries::find_table(&first, name).expect("the gateway has it"), n))
        .map(|(id, n)| (first.tables[id].preamble.name.clone(), n))
        .into();
    let shape = alpm::Options::new(24);
    let [vm_v4, vm_v6] = ["gateway.vm_nc.vm_nc_v4", "gateway.vm_nc.vm_nc_v6"];
    let shared = results::Options { argument: "server".to_owned(), values: Some(4_000), each: Some(1024) };
    let mut done = Rewritten::unchanged(first.clone(), sizes)
        .then(|p, s| digest::digest(p, s, vm_v6, &digest::Options::new(7)))
        .and_then(|r| r.then(|p, s| pool::pool(p, s, [vm_v4, vm_v6])))
        .and_then(|r| r.then(|p, s| results::results(p, s, &pool::pooled_name(vm_v4, vm_v6), &shared)))
        .and_then(|r| r.then(|p, s| alpm::alpm(p, s, "gateway.routing.route_v4", &shape)))
        .and_then(|r| r.then(|p, s| alpm::alpm(p, s, "gateway.routing.route_v6", &shape)))
        .expect("the gateway's tables can be made smaller");
    let pivots = put_together(&done.pipeline);
    assert_eq!(pivots.len(), 2, "{pivots:?}");
    for name in pivots {
        done = done.then(|p, s| apart(p, s, &name)).expect("pivots can be taken apart");
    }
    let plain = emit_over(&first, Target::Tna, &Sizes::new(), Halves::Both).expect("the gateway has a form");
    let emitted = emit_over(&done.pipeline, Target::Tna, &done.sizes, Halves::Both).expect("it has a form, too");
    let errors = check(&emitted.text);
    assert!(errors.is_empty(), "{}\n{}", errors.join("\n"), emitted.text);
    assert_eq!(emitted.left_out.len(), plain.left_out.len(), "{:?}", emitted.left_out);
    let atcam = |text: &str| text.lines().filter(|line| line.trim().starts_with("atcam = ")).count();
    assert_eq!((atcam(&plain.text), atcam(&emitted.text)), (0, 2), "{}", emitted.text);
    for line in [
        "Hash<bit<32>>(HashAlgorithm_t.RANDOM) vm_nc_v6_digest;",
        ": atcam_partition_index @name(\"partition\");",
        ".get({ 64w7, ",
    ] {
        assert!(emitted.text.contains(line), "`{line}` is missing in\n{}", emitted.text);
    }
    let demand = same_tables(&done.pipeline, &done.sizes, Halves::Both, &emitted);
    let parted = demand.tables.iter().filter(|table| matches!(table.kind, Match::Partitioned { .. }));
    assert_eq!(parted.count(), 2);
}

#[test]
fn only_a_chip_is_planned_for() {
    let pipeline = gateway::pipeline().expect("the gateway");
    let refused = laid_out(&pipeline, Target::Pna, &Sizes::new(), Halves::Ingress).expect_err("no chip has it");
    assert!(refused.to_string().contains("no chip of this architecture"), "{refused}");
}
