//! Tests shared results: equal results of entries are stored once, and each entry still has its
//! result.

use crate::pair::{Pair, clear, never, program, sizes};
use asic::transform::alpm::{self, partition_table};
use asic::transform::digest::{self, digest_keys};
use asic::transform::pool::{pool_tables, pooled_name};
use asic::transform::share_results::{ResultOptions, results_name, share_results, value_name};
use asic::transform::split_table::split_table;
use asic::transform::{TableSizes, TransformError, TransformedPipeline};
use entries::{ActionSpec, StateUpdate, TableEntry, UpdateKind};
use ir::{ActionCall, KeyMatch, Pipeline};
use std::sync::Arc;

const TABLES: &[&str] = &["route_v4", "route_v6", "vm_v4", "host_v6", "acl"];
const ROUTES: [&str; 2] = ["ingress.route_v4", "ingress.route_v6"];
const MACHINES: [&str; 2] = ["ingress.vm_v4", "ingress.vm_v6"];

fn result_options(argument: &str, values: u64) -> ResultOptions {
    ResultOptions::for_argument(argument, Some(values))
}

fn start(first: &Arc<Pipeline>) -> TransformedPipeline {
    TransformedPipeline::unchanged(first.clone(), sizes(first))
}

/// Returns the current and the maximum number of results in the table.
fn result_counts(pair: &Pair, table: &str) -> (usize, usize) {
    let state = pair.second.state();
    let id = entries::find_table(pair.second.pipeline(), table).expect("it has results");
    (state.entry_count(id), state.peak_entries(id))
}

/// Tenants are few, so that most entries share theirs; marks all differ, so that each result comes
/// and goes with an entry.
#[test]
fn entries_that_agree_share_a_result() {
    let seed = 81;
    println!("seed {seed}");
    let first = program();
    let rewritten = start(&first)
        .then(|p, s| share_results(p, s, ROUTES[0], &result_options("vni", 8)))
        .and_then(|r| r.then(|p, s| share_results(p, s, ROUTES[1], &result_options("route", 3000))))
        .and_then(|r| r.then(|p, s| share_results(p, s, MACHINES[0], &result_options("vm", 3000))))
        .expect("all three have such arguments");
    let mut pair = Pair::new(&first, rewritten, seed, TABLES);
    for _ in 0..3 {
        pair.run(100, 40, 25, &never);
        let id = entries::find_table(pair.first.pipeline(), "route_v4").expect("the program has it");
        let entries = pair.first.state().entry_count(id);
        // Two actions have the argument, which has four values, and share them.
        let (now, most) = result_counts(&pair, &results_name(ROUTES[0]));
        assert!(entries > 50 && now > 2 && most <= 4, "{entries} entries, {now} results, {most} at most");
        assert!(result_counts(&pair, &results_name(MACHINES[0])).0 > 20);
        clear(&mut pair);
        for table in [ROUTES[0], ROUTES[1], MACHINES[0]] {
            assert_eq!(result_counts(&pair, &results_name(table)).0, 0, "{table}: results without entries");
        }
    }
    let seen = &pair.seen;
    println!("{seen:?} {:?}", pair.map.stats());
    assert!(seen.packets == 12_000 && seen.writes > 2000 && seen.sent > 3000, "compared too little: {seen:?}");
    assert!(seen.refused > 10 && seen.full == 0, "{seen:?}");
    for (table, least) in [("route_v4", 2000), ("route_v6", 2000), ("vm_v4", 300)] {
        let hits = seen.hits.get(&format!("ingress.{table}")).copied().unwrap_or(0);
        assert!(hits > least, "{table} was hit {hits} times only: {seen:?}");
    }
}

/// Several tables hold the results, and an entry names its table: all of them are used, and numbers
/// are reused.
#[test]
fn results_in_several_tables_are_the_same_table() {
    let seed = 84;
    println!("seed {seed}");
    let first = program();
    let routes = pooled_name(ROUTES[0], ROUTES[1]);
    let result_options =
        |argument: &str, values| ResultOptions { results_per_table: Some(16), ..result_options(argument, values) };
    let rewritten = start(&first)
        .then(|p, s| pool_tables(p, s, ROUTES))
        .and_then(|r| r.then(|p, s| share_results(p, s, &routes, &result_options("route", 250))))
        .and_then(|r| r.then(|p, s| share_results(p, s, MACHINES[0], &result_options("vm", 200))))
        .expect("both have such arguments");
    let tables =
        |name: &str| (0..).map_while(|n| rewritten.sizes.get(&format!("{name}_{n}"))).copied().collect::<Vec<u64>>();
    let (of_routes, of_machines) = (tables(&results_name(&routes)), tables(&results_name(MACHINES[0])));
    assert_eq!(of_routes, [vec![16; 15], vec![16]].concat());
    assert_eq!(of_machines, [vec![16; 12], vec![8]].concat());
    let mut pair = Pair::new(&first, rewritten, seed, TABLES);
    for _ in 0..3 {
        pair.run(100, 40, 25, &never);
        let used = |name: &str, count: usize| {
            (0..count).filter(|n| result_counts(&pair, &format!("{}_{n}", results_name(name))).1 > 0).count()
        };
        assert!(used(&routes, 16) > 3 && used(MACHINES[0], 13) > 1, "one table had all");
        clear(&mut pair);
        for n in 0..16 {
            assert_eq!(result_counts(&pair, &format!("{}_{n}", results_name(&routes))).0, 0, "results without entries");
        }
    }
    let seen = &pair.seen;
    println!("{seen:?}");
    assert!(seen.packets == 12_000 && seen.writes > 2000 && seen.sent > 3000, "compared too little: {seen:?}");
    for (table, least) in [("route_v4", 2000), ("route_v6", 2000), ("vm_v4", 300)] {
        let hits = seen.hits.get(&format!("ingress.{table}")).copied().unwrap_or(0);
        assert!(hits > least, "{table} was hit {hits} times only: {seen:?}");
    }
    let most = share_results(
        &first,
        &sizes(&first),
        MACHINES[0],
        &ResultOptions { results_per_table: Some(2), ..result_options("vm", 1000) },
    );
    assert!(most.map(|_| ()).is_err_and(|error| error.reason.contains("500 tables of 2")));
}

/// Without a free number an entry is rejected, and its batch has no effect.
#[test]
fn what_there_is_no_room_for_is_refused() {
    let seed = 82;
    println!("seed {seed}");
    let first = program();
    let rewritten = start(&first)
        .then(|p, s| share_results(p, s, MACHINES[0], &result_options("vm", 40)))
        .and_then(|r| r.then(|p, s| share_results(p, s, ROUTES[0], &result_options("route", 20))))
        .expect("both have such arguments");
    let mut pair = Pair::new(&first, rewritten, seed, TABLES);
    for _ in 0..3 {
        pair.run(200, 20, 9, &never);
        clear(&mut pair);
    }
    assert!(pair.seen.full > 20 && pair.seen.sent > 1000, "results were never full: {:?}", pair.seen);
    // Rejected batches have used up no numbers: all of them can be allocated in one batch.
    let pipeline = pair.first.pipeline().clone();
    let table = entries::find_table(&pipeline, "vm_v4").expect("the program has it");
    let named = |(_, action): &(ir::ActionId, &ir::Action)| action.preamble.name == "ingress.at";
    let (action, _) = pipeline.actions.iter().find(named).expect("the program has it");
    let entry = |n: u64| {
        let call = ActionCall { action, args: vec![n.into()] };
        let keys = vec![KeyMatch::Exact(1u32.into()), KeyMatch::Exact(n.into())];
        StateUpdate::Entry(UpdateKind::Insert, TableEntry::new(table, keys, ActionSpec::Call(call)))
    };
    assert!(pair.apply(&(0..40).map(entry).collect()), "numbers are lost");
    assert_eq!(
        (result_counts(&pair, &results_name(MACHINES[0])).1, result_counts(&pair, &results_name(ROUTES[0])).1),
        (40, 20),
        "not filled to the last one"
    );
}

/// After and before all other transformations.
#[test]
fn results_go_with_all_other_steps() {
    let seed = 83;
    println!("seed {seed}");
    let first = program();
    let (routes, machines) = (pooled_name(ROUTES[0], ROUTES[1]), pooled_name(MACHINES[0], MACHINES[1]));
    let shape = alpm::AlpmOptions::Fitted { depth: 8, target: 5, fill: 0.5 };
    type Step<'a> = &'a dyn Fn(&Arc<Pipeline>, &TableSizes) -> Result<TransformedPipeline, TransformError>;
    let steps: [Step; 8] = [
        &|p, s| digest_keys(p, s, MACHINES[1], &digest::DigestOptions::new(4711)),
        &|p, s| pool_tables(p, s, MACHINES),
        &|p, s| share_results(p, s, &machines, &result_options("vm", 4000)),
        &|p, s| pool_tables(p, s, ROUTES),
        &|p, s| share_results(p, s, &routes, &result_options("vni", 8)),
        &|p, s| partition_table(p, s, &routes, &shape),
        &|p, s| split_table(p, s, &machines, &[40, 9000]),
        &|p, s| split_table(p, s, &results_name(&machines), &[30, 4000]),
    ];
    let done = steps
        .iter()
        .fold(start(&first), |done, step| done.then(|p, s| step(p, s)).unwrap_or_else(|error| panic!("{error}")));
    let mut pair = Pair::new(&first, done, seed, TABLES);
    for _ in 0..3 {
        pair.run(100, 40, 25, &never);
        clear(&mut pair);
    }
    let seen = &pair.seen;
    assert!(seen.packets == 12_000 && seen.writes > 2000 && seen.sent > 3000, "compared too little: {seen:?}");
    for (table, least) in [("route_v4", 2000), ("route_v6", 2000), ("vm_v4", 300), ("vm_v6", 3)] {
        let hits = seen.hits.get(&format!("ingress.{table}")).copied().unwrap_or(0);
        assert!(hits > least, "{table} was hit {hits} times only: {seen:?}");
    }
}

#[test]
fn as_many_as_the_sizes_say() {
    let first = program();
    let mut known = sizes(&first);
    known.insert(value_name("ingress.at", "vm"), 300);
    let unknown = ResultOptions::for_argument("vm", None);
    let made = share_results(&first, &known, MACHINES[0], &unknown).expect("the sizes say it");
    assert_eq!(made.sizes[&results_name(MACHINES[0])], 300);
    let index = |pipeline: &Pipeline| {
        let table = entries::find_table(pipeline, MACHINES[0]).expect("it is there");
        let found = pipeline.tables[table].actions[0].action;
        pipeline.actions[found].params[0].ty.width()
    };
    assert_eq!(index(&made.pipeline), 9);
    let said = |table: &str, options: &ResultOptions| {
        share_results(&first, &sizes(&first), table, options).err().expect("refused").to_string()
    };
    assert!(said(MACHINES[0], &unknown).contains("say how many there are"));
    assert!(
        said(MACHINES[0], &result_options("mark", 4))
            .contains("no action of its entries has an argument mark; there are vm")
    );
    assert!(said("ingress.host_v6", &result_options("vm", 4)).contains("a default action has no result"));
    assert!(said("ingress.nowhere", &result_options("vm", 4)).contains("no such table"));
    assert!(said(MACHINES[0], &result_options("vm", 1 << 30)).contains("there can be 1 to"));
}
