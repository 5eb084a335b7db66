//! Tests that the planned tables are exactly those of the emitted text, each with its keys and
//! size.

use crate::check;
use crate::rules::programs;
use asic::demand::{MemoryMatchKind, ResourceDemand};
use asic::emit::{EmitTarget, EmittedProgram, GressUse, emit_with_gresses, pipeline_for_planning};
use asic::transform::split_prefix::{split_prefix_key, tables_with_concatenated_prefix};
use asic::transform::{TableSizes, TransformedPipeline, alpm, digest, pool, share_results};
use ir::Pipeline;
use testkit::gateway;

/// Returns the tables of a text, sorted: number of keys, and number of entries.
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
    // A table without keys is its default action.
    found.retain(|(keys, _)| *keys > 0);
    found.sort_unstable();
    found
}

#[test]
fn tables_of_the_plan_are_those_of_the_text() {
    let (mut tables, mut checks, mut split) = (0, 0, 0);
    for path in programs() {
        let pipeline = gateway::compile(&path).unwrap_or_else(|error| panic!("{error}"));
        let pipeline = ir::passes::without_recirculation(&std::sync::Arc::new(pipeline));
        let sizes: TableSizes =
            pipeline.tables.values().zip(100..).map(|(t, n)| (t.preamble.name.clone(), n)).collect();
        for halves in [GressUse::Ingress, GressUse::Both] {
            let Ok(emitted) = emit_with_gresses(&pipeline, EmitTarget::Tna, &sizes, halves) else { continue };
            let demand = same_tables(&pipeline, &sizes, halves, &emitted);
            tables += demand.tables.iter().filter(|table| table.kind != MemoryMatchKind::None).count();
            checks += demand.tables.iter().filter(|table| table.name.contains(".check_")).count();
            split += usize::from(!demand.egress.is_empty());
        }
    }
    assert!(
        tables > 150 && checks >= 4 && split >= 1,
        "{tables} tables, {checks} of conditions, {split} over both halves"
    );
}

/// Compares the planned tables with those of the text.
fn same_tables(pipeline: &Pipeline, sizes: &TableSizes, halves: GressUse, emitted: &EmittedProgram) -> ResourceDemand {
    let shaped = pipeline_for_planning(pipeline, EmitTarget::Tna, sizes, halves).expect("what is written is laid out");
    let demand =
        ResourceDemand::from_pipeline(&shaped, sizes).unwrap_or_else(|error| panic!("{}: {error}", pipeline.name));
    let planned = demand.tables.iter().filter(|table| table.kind != MemoryMatchKind::None);
    // A partition's number is not a key in the plan.
    let keys = |table: &asic::demand::TableDemand| {
        table.keys.len() + usize::from(matches!(table.kind, MemoryMatchKind::Partitioned { .. }))
    };
    let mut planned: Vec<(usize, u64)> = planned.map(|table| (keys(table), table.entries)).collect();
    planned.sort_unstable();
    assert_eq!(planned, written(&emitted.text), "{}, {halves:?}\n{}", pipeline.name, emitted.text);
    demand
}

/// All compression steps together can be emitted.
#[test]
fn a_compressed_gateway_is_written_and_planned() {
    let first = gateway::switch_pipeline().expect("the gateway");
    let sizes: TableSizes = [("route_v4", 20_000), ("route_v6", 5_000), ("vm_nc_v4", 30_000), ("vm_nc_v6", 10_000)]
        .map(|(name, n)| (entries::find_table(&first, name).expect("the gateway has it"), n))
        .map(|(id, n)| (first.tables[id].preamble.name.clone(), n))
        .into();
    let shape = alpm::AlpmOptions::new(24);
    let [vm_v4, vm_v6] = ["gateway.vm_nc.vm_nc_v4", "gateway.vm_nc.vm_nc_v6"];
    let shared = share_results::ResultOptions {
        argument: "server".to_owned(),
        values: Some(4_000),
        results_per_table: Some(1024),
    };
    let mut done = TransformedPipeline::unchanged(first.clone(), sizes)
        .then(|p, s| digest::digest_keys(p, s, vm_v6, &digest::DigestOptions::new(7)))
        .and_then(|r| r.then(|p, s| pool::pool_tables(p, s, [vm_v4, vm_v6])))
        .and_then(|r| r.then(|p, s| share_results::share_results(p, s, &pool::pooled_name(vm_v4, vm_v6), &shared)))
        .and_then(|r| r.then(|p, s| alpm::partition_table(p, s, "gateway.routing.route_v4", &shape)))
        .and_then(|r| r.then(|p, s| alpm::partition_table(p, s, "gateway.routing.route_v6", &shape)))
        .expect("the gateway's tables can be made smaller");
    let pivots = tables_with_concatenated_prefix(&done.pipeline);
    assert_eq!(pivots.len(), 2, "{pivots:?}");
    for name in pivots {
        done = done.then(|p, s| split_prefix_key(p, s, &name)).expect("pivots can be taken apart");
    }
    let plain =
        emit_with_gresses(&first, EmitTarget::Tna, &TableSizes::new(), GressUse::Both).expect("the gateway has a form");
    let emitted =
        emit_with_gresses(&done.pipeline, EmitTarget::Tna, &done.sizes, GressUse::Both).expect("it has a form, too");
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
    let demand = same_tables(&done.pipeline, &done.sizes, GressUse::Both, &emitted);
    let parted = demand.tables.iter().filter(|table| matches!(table.kind, MemoryMatchKind::Partitioned { .. }));
    assert_eq!(parted.count(), 2);
}

#[test]
fn only_a_chip_is_planned_for() {
    let pipeline = gateway::switch_pipeline().expect("the gateway");
    let refused = pipeline_for_planning(&pipeline, EmitTarget::Pna, &TableSizes::new(), GressUse::Ingress)
        .expect_err("no chip has it");
    assert!(refused.to_string().contains("no chip of this architecture"), "{refused}");
}
