//! Compares the gateway program, transformed as the search proposes for Sailfish's entries, with
//! the original on a region's packets, while its large tables are full.

use asic::search::{SearchLimits, SearchRequest, SearchResult, TransformStep as Rewrite, find_cheapest_steps};
use asic::target::ChipTarget;
use asic::transform::{EntryMap, TableSizes, TransformedPipeline, alpm, digest, pool};
use entries::{ActionSpec, TableEntry, WriteBatch};
use fastrand::Rng;
use interp::{Interp, Outputs};
use ir::{KeyMatch, Pipeline, TableId};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use testkit::differ::case::{TestCase, TestEvent};
use testkit::differ::plan;

/// Sailfish's entries, a quarter of them IPv6.
const TABLES: [(&str, u64); 4] =
    [("route_v4", 172_032), ("route_v6", 57_344), ("vm_nc_v4", 860_160), ("vm_nc_v6", 286_720)];

fn find(pipeline: &Pipeline, name: &str) -> TableId {
    entries::find_table(pipeline, name).expect("the gateway has it")
}

fn answer(pipeline: &Arc<Pipeline>) -> SearchResult {
    let target = ChipTarget::shipped("tofino1").expect("it is shipped");
    let name = |table: &str| pipeline.tables[find(pipeline, table)].preamble.name.clone();
    let mut sizes: TableSizes = pipeline.tables.values().map(|table| (table.preamble.name.clone(), 0)).collect();
    sizes.extend(TABLES.map(|(table, entries)| (name(table), entries)));
    let tables = TABLES.map(|(table, _)| name(table)).to_vec();
    let (prefixes, accept) = (BTreeMap::new(), SearchLimits::new(0x5eed_0123_4567_89ab));
    find_cheapest_steps(&SearchRequest {
        target: &target,
        pipeline,
        sizes: &sizes,
        prefixes,
        tables,
        fold: 2,
        split: 2,
        limits: accept,
    })
    .expect("it can be searched")
}

/// Returns a random entry of one of the large tables, for a tenant without packets.
fn entry(rng: &mut Rng, pipeline: &Pipeline, table: TableId) -> TableEntry {
    let declared = &pipeline.tables[table];
    let key = |rng: &mut Rng, key: &ir::MatchKey| {
        let width = key.ty.width();
        let tenant = 0x80_0000 + rng.u32(..2000);
        let address = match width {
            32 => u128::from(0x0a00_0000 | rng.u32(..1 << 20)),
            _ => {
                0xfd00_0000_0000_0000_0000_0000_0000_0000u128 | u128::from(rng.u16(..)) << 64 | u128::from(rng.u16(..))
            }
        };
        match (key.kind, width) {
            (ir::MatchKind::Lpm, _) => {
                let prefix_len =
                    if width == 32 { rng.u32(12..=32) } else { [48, 56, 64, 64, 96, 112, 128][rng.usize(..7)] };
                let open = u128::MAX.checked_shr(128 - width + prefix_len).unwrap_or(0);
                KeyMatch::Lpm { value: (address & !open).into(), prefix_len }
            }
            (_, 24) => KeyMatch::Exact(tenant.into()),
            _ => KeyMatch::Exact(address.into()),
        }
    };
    let keys = declared.keys.iter().map(|k| key(rng, k)).collect();
    let action = declared.actions[0].action;
    let args = pipeline.actions[action]
        .params
        .iter()
        .map(|p| (rng.u64(..) & (u64::MAX >> (64 - p.ty.width().min(64)))).into());
    TableEntry::new(table, keys, ActionSpec::Call(ir::ActionCall { action, args: args.collect() }))
}

/// Returns entries that fill the table, except for those that a region will add.
fn filling(rng: &mut Rng, pipeline: &Pipeline, spare: u64) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for (name, entries) in TABLES {
        let table = find(pipeline, name);
        let mut seen = HashSet::new();
        while (seen.len() as u64) < entries / 4 - spare {
            let entry = entry(rng, pipeline, table);
            if seen.insert(entry.keys.clone()) {
                batch.insert(entry);
            }
        }
    }
    batch
}

struct Both {
    first: Interp,
    second: Interp,
    map: Box<dyn EntryMap>,
    hits: BTreeMap<String, u64>,
    packets: u64,
    sent: u64,
}

impl Both {
    fn new(case: &TestCase, rewritten: TransformedPipeline) -> Both {
        let engine =
            |pipeline: &Arc<Pipeline>| Interp::new(pipeline.clone(), case.setup.clone()).expect("it is verified");
        let (first, second) = (engine(&case.pipeline), engine(&rewritten.pipeline));
        Both { first, second, map: rewritten.map, hits: BTreeMap::new(), packets: 0, sent: 0 }
    }

    fn write(&mut self, batch: &WriteBatch) {
        self.first.write(batch).expect("the gateway takes it");
        let translated = self.map.translate(batch).unwrap_or_else(|error| panic!("{error}"));
        self.second.write(&translated).unwrap_or_else(|error| panic!("the rewritten gateway refuses: {error}"));
    }

    fn run(&mut self, case: &TestCase) {
        let mut found = Outputs::new();
        for step in &case.steps {
            match step {
                TestEvent::Write(batch) => self.write(batch),
                TestEvent::Tick(_) => {}
                TestEvent::Packets(packets) => {
                    for packet in packets {
                        let (expected, trace) = self.first.trace(&packet.bytes, packet.port, packet.at);
                        self.second.process_into(&packet.bytes, packet.port, packet.at, &mut found);
                        assert_eq!(expected, found, "seed {}, {packet:?}", case.seed);
                        self.packets += 1;
                        self.sent += expected.sent().count() as u64;
                        for step in trace.steps {
                            if let interp::TraceEvent::Table { table, hit: Some(_), .. } = step.event {
                                *self.hits.entry(table).or_default() += 1;
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns Sailfish's transformations: digests, both families in one table, and ALPM.
fn papers_way(name: impl Fn(&str) -> String) -> Vec<Rewrite> {
    let [route_v4, route_v6, vm_v4, vm_v6] = TABLES.map(|(table, _)| name(table));
    let routes = pool::pooled_name(&route_v4, &route_v6);
    let entries = (TABLES[0].1 + TABLES[1].1) / 4;
    vec![
        Rewrite::Digest(
            vm_v6.clone(),
            digest::DigestOptions { conflicts: Some(16_384), ..digest::DigestOptions::new(77) },
        ),
        Rewrite::Pool([vm_v4, vm_v6]),
        Rewrite::Pool([route_v4, route_v6]),
        Rewrite::Alpm(routes, alpm::AlpmOptions::with_partitions(entries, 2048)),
    ]
}

#[test]
fn the_rewritten_gateway_is_the_gateway() {
    let (mut hits, mut packets, mut sent) = (BTreeMap::<String, u64>::new(), 0, 0);
    let pipeline = testkit::gateway::switch_pipeline().expect("the gateway compiles");
    let found = answer(&pipeline).steps;
    found.iter().for_each(|step| println!("{step}"));
    let name = |table: &str| pipeline.tables[find(&pipeline, table)].preamble.name.clone();
    let share: TableSizes = TABLES.iter().map(|(table, entries)| (name(table), entries / 4)).collect();
    let papers = papers_way(name);
    for seed in 61..70 {
        println!("seed {seed}");
        let case = plan::switch_gateway_case(seed, 1500).expect("a region can be made");
        for (way, steps) in [&found, &papers].into_iter().enumerate() {
            let start = TransformedPipeline::unchanged(case.pipeline.clone(), share.clone());
            let rewritten = steps.iter().try_fold(start, |done, step| done.then(|p, s| step.apply(p, s)));
            let mut both = Both::new(&case, rewritten.expect("the steps can be applied"));
            // Once with all entries that the tables have to hold: half of them in one batch, the
            // others in smaller ones.
            if seed == 61 && way == 0 {
                let batch = filling(&mut Rng::with_seed(seed), &case.pipeline, 1000);
                let (one, rest) = batch.updates.split_at(batch.updates.len() / 2);
                both.write(&one.iter().cloned().collect());
                for part in rest.chunks(5000) {
                    both.write(&part.iter().cloned().collect());
                }
                both.map.stats().iter().for_each(|(name, value)| println!("{name}: {value}"));
            }
            both.run(&case);
            (packets, sent) = (packets + both.packets, sent + both.sent);
            both.hits.into_iter().for_each(|(table, n)| *hits.entry(table).or_default() += n);
        }
    }
    println!("{packets} packets, {sent} sent, {hits:?}");
    assert!(packets == 27_000 && sent > 2000, "compared too little: {packets} packets, {sent} sent");
    for (table, _) in TABLES {
        let of = |(name, n): (&String, &u64)| if name.ends_with(table) { *n } else { 0 };
        assert!(hits.iter().map(of).sum::<u64>() > 300, "{table} was hardly hit: {hits:?}");
    }
}
