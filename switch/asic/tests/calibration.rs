//! Compares the model with the chip's open compiler on single tables (`calibration.csv`, one row
//! each, compiled for Tofino 1). Prints the number of rows with correct blocks and stages; fails
//! below the bounds. `CALIBRATION_PARTS=1` prints the model's parts for the rows that differ.

use asic::demand::{ActionDemand, AttachedKind, AttachedState, KeyDemand, MemoryMatchKind, TableDemand};
use asic::memory::{self, StageAllocation};
use asic::target::ChipTarget;

/// Row of the file.
#[derive(Clone, Debug)]
struct Row {
    name: String,
    table: TableDemand,
    /// Resources that the compiler used; none if it gave up.
    used: Option<Used>,
}

/// Resources of a table on a chip with enough stages.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Used {
    stages: u64,
    sram: u64,
    tcam: u64,
    map_ram: u64,
    logical: u64,
    hash_bits: u64,
    crossbar: u64,
    /// SRAM and TCAM blocks of each stage.
    each: Vec<(u64, u64)>,
}

fn keys(kind: &str, key: &str) -> Vec<KeyDemand> {
    let widths: &[u32] = match key {
        "v4" => &[32],
        "vni_v4" => &[24, 32],
        "vni_v6" => &[24, 128],
        "dig" => &[24, 8, 32],
        "mac" => &[48],
        "u16" => &[16],
        "five4" => &[32, 32, 8, 16, 16],
        "five6" => &[128, 128, 8, 16, 16],
        "vni_five4" => &[24, 32, 32, 8, 16, 16],
        "qinq" => &[12, 12, 32],
        other => panic!("calibration.csv: key {other}"),
    };
    let last = widths.len() - 1;
    let exact = |i: usize| kind == "exact" || (kind != "ternary" && i != last);
    let key = |(i, bits): (usize, &u32)| KeyDemand {
        name: format!("hdr.k.f{i}"),
        bits: *bits,
        exact: exact(i),
        range: false,
    };
    widths.iter().enumerate().map(key).collect()
}

fn table(kind: &str, key: &str, entries: u64, data: u32, counter: bool, partitions: u64) -> TableDemand {
    let action = |name: &str, params| ActionDemand { name: name.into(), params, default_only: false };
    // Data is written to header fields of 32 bits.
    let params = vec![32; data.div_ceil(32) as usize];
    let counter =
        counter.then(|| AttachedState { name: "c".into(), kind: AttachedKind::Counter, size: None, bits: 128 });
    TableDemand {
        name: "t".into(),
        id: None,
        kind: match kind {
            "exact" => MemoryMatchKind::Exact,
            "alpm" => MemoryMatchKind::Alpm { partitions },
            _ => MemoryMatchKind::Ternary,
        },
        keys: keys(kind, key),
        entries,
        actions: vec![action("set", params), action("NoAction", Vec::new())],
        attached: counter.into_iter().collect(),
    }
}

/// Parses `77/0`: SRAM and TCAM blocks of a stage.
fn of_stage(text: &str) -> (u64, u64) {
    let (sram, tcam) = text.split_once('/').expect("SRAM/TCAM");
    (sram.parse().expect("blocks"), tcam.parse().expect("blocks"))
}

fn rows() -> Vec<Row> {
    let row = |line: &str| {
        let f: Vec<&str> = line.split(',').collect();
        let n = |i: usize| f[i].parse::<u64>().unwrap_or(0);
        Row {
            name: f[..6].join(" "),
            table: table(f[0], f[1], n(2), n(3) as u32, f[4] == "1", n(5)),
            used: (f[7] == "1").then(|| Used {
                stages: n(8),
                sram: n(9),
                tcam: n(10),
                map_ram: n(11),
                logical: n(12),
                hash_bits: n(13),
                crossbar: n(14),
                each: f[15].split(' ').map(of_stage).collect(),
            }),
        }
    };
    include_str!("calibration.csv").lines().skip(1).map(row).collect()
}

fn used(parts: &[StageAllocation]) -> Used {
    let sum = |f: fn(&StageAllocation) -> u32| parts.iter().map(|p| u64::from(f(p))).sum();
    Used {
        stages: parts.len() as u64,
        sram: sum(|p| p.usage.sram),
        tcam: sum(|p| p.usage.tcam),
        map_ram: sum(|p| p.usage.map_ram),
        logical: sum(|p| p.usage.tables),
        hash_bits: sum(|p| p.usage.hash_bits),
        crossbar: sum(|p| p.usage.exact_crossbar + p.usage.ternary_crossbar),
        each: parts.iter().map(|p| (p.usage.sram.into(), p.usage.tcam.into())).collect(),
    }
}

/// Measure: its name, the number of rows that meet it, and the required share.
struct Bar {
    name: &'static str,
    met: usize,
    of: usize,
    must: f64,
}

impl Bar {
    fn share(&self) -> f64 {
        100.0 * self.met as f64 / self.of as f64
    }
}

fn within(ours: u64, theirs: u64, percent: f64, blocks: u64) -> bool {
    let off = ours.abs_diff(theirs);
    off <= blocks || off as f64 <= theirs as f64 * percent / 100.0
}

fn bars(target: &ChipTarget, pairs: &[(Row, Option<Used>)]) -> Vec<Bar> {
    let stages = u64::from(target.stages);
    let both: Vec<(Used, Used)> =
        pairs.iter().filter_map(|(row, ours)| Some((row.used.clone()?, ours.clone()?))).collect();
    let of = pairs.iter().filter(|(row, _)| row.used.is_some()).count();
    let count = |f: &dyn Fn(&Used, &Used) -> bool| both.iter().filter(|(theirs, ours)| f(theirs, ours)).count();
    let bar = |name, must, f: &dyn Fn(&Used, &Used) -> bool| Bar { name, met: count(f), of, must };
    let fits = |used: &Option<Used>| used.as_ref().is_some_and(|u| u.stages <= stages);
    let right = pairs.iter().filter(|(row, ours)| fits(&row.used) == fits(ours)).count();
    vec![
        bar("TCAM blocks equal", 97.0, &|t, o| t.tcam == o.tcam),
        bar("SRAM blocks within 5 % or 2 blocks", 90.0, &|t, o| within(o.sram, t.sram, 5.0, 2)),
        bar("SRAM blocks within 15 %", 100.0, &|t, o| within(o.sram, t.sram, 15.0, 0)),
        bar("SRAM blocks equal", 98.0, &|t, o| t.sram == o.sram),
        bar("SRAM and TCAM blocks equal in each stage", 98.0, &|t, o| t.each == o.each),
        bar("map RAM blocks equal", 98.0, &|t, o| t.map_ram == o.map_ram),
        bar("logical tables equal", 98.0, &|t, o| t.logical == o.logical),
        bar("crossbar bytes equal", 99.0, &|t, o| t.crossbar == o.crossbar),
        bar("hash bits equal", 98.0, &|t, o| t.hash_bits == o.hash_bits),
        bar("stages equal", 85.0, &|t, o| t.stages == o.stages),
        bar("stages within one", 98.0, &|t, o| t.stages.abs_diff(o.stages) <= 1),
        Bar { name: "fits or does not fit", met: right, of: pairs.len(), must: 98.0 },
    ]
}

#[test]
fn blocks_and_stages_are_those_of_the_compiler() {
    let target = ChipTarget::shipped("tofino1").expect("shipped");
    let pairs: Vec<(Row, Option<Used>)> = rows()
        .into_iter()
        .map(|row| {
            let parts = memory::allocate_alone(&target, &row.table);
            let ours = parts.as_ref().ok().map(|p| used(p));
            if let (Some(theirs), Some(ours)) = (&row.used, &ours)
                && theirs != ours
            {
                println!("{:32} compiler {theirs:?}\n{:32}    model {ours:?}", row.name, "");
                if std::env::var_os("CALIBRATION_PARTS").is_some() {
                    for part in parts.iter().flatten() {
                        println!("      {:5} {} {}", part.entries, part.usage.sram, part.layout.description);
                    }
                }
            }
            (row, ours)
        })
        .collect();
    let bars = bars(&target, &pairs);
    for bar in &bars {
        println!("{:40} {:3} of {:3} = {:5.1} % (at least {:.0} %)", bar.name, bar.met, bar.of, bar.share(), bar.must);
    }
    for bar in &bars {
        assert!(bar.share() >= bar.must, "{}: {:.1} %, but at least {} % must", bar.name, bar.share(), bar.must);
    }
}
