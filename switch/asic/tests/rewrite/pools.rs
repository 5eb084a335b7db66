//! Tests pooling and pieces, alone and combined with the other transformations in either order.

use crate::pair::{Pair, clear, never, program, sizes};
use asic::transform::alpm::{self, partition_table};
use asic::transform::digest::{self, digest_keys};
use asic::transform::pool::{pool_tables, pooled_name};
use asic::transform::split_table::split_table;
use asic::transform::{TableSizes, TransformError, TransformedPipeline};
use ir::Pipeline;
use std::sync::Arc;

const TABLES: &[&str] = &["route_v4", "route_v6", "vm_v4", "host_v6", "acl"];
const ROUTES: [&str; 2] = ["ingress.route_v4", "ingress.route_v6"];
const MACHINES: [&str; 2] = ["ingress.vm_v4", "ingress.vm_v6"];

type Step = Box<dyn Fn(&Arc<Pipeline>, &TableSizes) -> Result<TransformedPipeline, TransformError>>;

fn rewritten(first: &Arc<Pipeline>, steps: Vec<Step>) -> TransformedPipeline {
    let start = TransformedPipeline::unchanged(first.clone(), sizes(first));
    steps.into_iter().fold(start, |done, step| done.then(|p, s| step(p, s)).unwrap_or_else(|error| panic!("{error}")))
}

fn pooled(names: [&'static str; 2]) -> Step {
    Box::new(move |p, s| pool_tables(p, s, names))
}

fn digested(table: String) -> Step {
    Box::new(move |p, s| digest_keys(p, s, &table, &digest::DigestOptions::new(4711)))
}

fn parted(table: String) -> Step {
    Box::new(move |p, s| partition_table(p, s, &table, &alpm::AlpmOptions::Fitted { depth: 8, target: 5, fill: 0.5 }))
}

fn cut(table: String, room: &'static [u64]) -> Step {
    Box::new(move |p, s| split_table(p, s, &table, room))
}

fn compare(seed: u64, steps: Vec<Step>) -> Pair {
    println!("seed {seed}");
    let first = program();
    let mut pair = Pair::new(&first, rewritten(&first, steps), seed, TABLES);
    for _ in 0..3 {
        pair.run(100, 40, 25, &never);
        clear(&mut pair);
    }
    println!("{:?} {:?}", pair.seen, pair.map.stats());
    let seen = &pair.seen;
    assert!(seen.packets == 12_000 && seen.writes > 2000 && seen.sent > 3000, "compared too little: {seen:?}");
    assert!(seen.refused > 10, "no batch was refused: {seen:?}");
    for (table, least) in [("route_v4", 2000), ("route_v6", 2000), ("vm_v4", 300), ("vm_v6", 3), ("host_v6", 100)] {
        let hits = seen.hits.get(&format!("ingress.{table}")).copied().unwrap_or(0);
        assert!(hits > least, "{table} was hit {hits} times only: {seen:?}");
    }
    pair
}

#[test]
fn two_tables_in_one() {
    let pair = compare(41, vec![pooled(ROUTES), pooled(MACHINES)]);
    let pipeline = pair.second.pipeline();
    assert_eq!(pipeline.tables.len(), pair.first.pipeline().tables.len() - 2);
    let table =
        entries::find_table(pipeline, &pooled_name(MACHINES[0], MACHINES[1])).expect("the pooled table is there");
    let widths: Vec<u32> = pipeline.tables[table].keys.iter().map(|key| key.ty.width()).collect();
    assert_eq!(widths, [1, 24, 128]);
}

/// Sailfish's own combination: digests, then both families in one table; routes pooled, then
/// partitioned.
#[test]
fn digests_pooled_and_pools_parted() {
    let routes = pooled_name(ROUTES[0], ROUTES[1]);
    let digests = digested(MACHINES[1].to_owned());
    let pair = compare(42, vec![digests, pooled(MACHINES), pooled(ROUTES), parted(routes)]);
    let pipeline = pair.second.pipeline();
    let table =
        entries::find_table(pipeline, &pooled_name(MACHINES[0], MACHINES[1])).expect("the pooled table is there");
    assert_eq!(pipeline.tables[table].keys.iter().map(|key| key.ty.width()).sum::<u32>(), 57);
}

#[test]
fn pieces_of_all_kinds() {
    let pair = compare(
        43,
        vec![
            cut("ingress.route_v4".to_owned(), &[15, 10, 4080]),
            cut("ingress.host_v6".to_owned(), &[6, 10, 4100]),
            cut("ingress.acl".to_owned(), &[20, 1100]),
        ],
    );
    let held = pair.second.state();
    let most = |name: &str| held.peak_entries(entries::find_table(pair.second.pipeline(), name).expect("a piece"));
    for piece in ["route_v4_0", "route_v4_1", "route_v4", "host_v6_0", "host_v6_1", "host_v6", "acl_0", "acl"] {
        assert!(most(piece) > 5, "{piece} never held more than {}", most(piece));
    }
}

/// Pieces with the total size of the table: the last insert that fits moves entries between pieces.
#[test]
fn pieces_fill_to_the_last_entry() {
    let first = program();
    let mut few = sizes(&first);
    for table in ["ingress.route_v6", "ingress.vm_v4"] {
        few.insert(table.to_owned(), 90);
    }
    let rewritten = TransformedPipeline::unchanged(first.clone(), few)
        .then(|p, s| split_table(p, s, "ingress.route_v6", &[30, 20, 40]))
        .and_then(|r| r.then(|p, s| split_table(p, s, "ingress.vm_v4", &[30, 20, 40])))
        .expect("both can be cut");
    let mut pair = Pair::new(&first, rewritten, 44, &["route_v6", "vm_v4"]);
    for _ in 0..4 {
        pair.run(300, 15, 9, &never);
        clear(&mut pair);
    }
    assert!(pair.seen.full > 20, "the pieces were never full: {:?}", pair.seen);
    for table in ["route_v6_0", "route_v6_1", "route_v6", "vm_v4_0", "vm_v4_1", "vm_v4"] {
        let id = entries::find_table(pair.second.pipeline(), table).expect("a piece");
        let size = pair.second.pipeline().tables[id].size.expect("pieces have sizes");
        assert_eq!(pair.second.state().peak_entries(id) as u64, size, "{table} was never full");
    }
}

#[test]
fn all_of_it_together() {
    let (routes, machines) = (pooled_name(ROUTES[0], ROUTES[1]), pooled_name(MACHINES[0], MACHINES[1]));
    let steps = vec![
        pooled(ROUTES),
        parted(routes.clone()),
        digested(MACHINES[1].to_owned()),
        pooled(MACHINES),
        cut(machines, &[40, 9000]),
        digested("ingress.host_v6".to_owned()),
        cut("ingress.host_v6".to_owned(), &[30, 4100]),
        cut(format!("{routes}_pivots"), &[10, 20_000]),
    ];
    compare(45, steps);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let first = program();
    let said = |names| pool_tables(&first, &sizes(&first), names).err().expect("refused").to_string();
    assert!(said(["ingress.vm_v4", "ingress.host_v6"]).contains("other actions"));
    assert!(said(["ingress.route_v4", "ingress.vm_v4"]).contains("other actions"));
    assert!(said(["ingress.route_v4", "ingress.nowhere"]).contains("no such table"));
    let said =
        |room: &[u64]| split_table(&first, &sizes(&first), "ingress.vm_v4", room).err().expect("refused").to_string();
    assert!(said(&[5000]).contains("two or more"));
    assert!(said(&[50, 50]).contains("hold 100 entries"));
}

/// Counts the lookups of colliding keys that have the digest's computation before them.
fn asked_beside(pipeline: &Pipeline) -> usize {
    let blocks = pipeline.controls.values().flat_map(|control| control.body.blocks.values());
    let collide = |data: &&ir::BlockData| {
        data.applied_table().is_some_and(|table| pipeline.tables[table].preamble.name.ends_with("_conflicts"))
    };
    let hashes = |data: &ir::InstData| matches!(data.inst, ir::Inst::Extern { func: ir::ExternFn::Hash, .. });
    blocks.filter(collide).filter(|data| data.insts.iter().any(hashes)).count()
}

/// In the form for a chip, digests and the keys of pooled tables are computed before the lookup of
/// colliding keys.
#[test]
fn digests_are_there_when_it_is_known_that_a_key_does_not_collide() {
    let in_few_steps: Step = Box::new(|p, s| {
        let mut pipeline = (**p).clone();
        asic::emit::run_tofino_passes(&mut pipeline);
        Ok(TransformedPipeline::unchanged(Arc::new(pipeline), s.clone()))
    });
    let smaller = || vec![digested(MACHINES[1].to_owned()), pooled(MACHINES), digested("ingress.host_v6".to_owned())];
    assert_eq!(asked_beside(&rewritten(&program(), smaller()).pipeline), 0);
    let pair = compare(46, smaller().into_iter().chain([in_few_steps]).collect());
    assert_eq!(asked_beside(pair.second.pipeline()), 2, "{}", ir::text::print(pair.second.pipeline()));
}
