//! What stands in the way of more, in a sentence.

use super::attempt::{Settings, attempt};
use super::bounds::Ground;
use super::orders::{FEW, at_scale, tries, urgency};
use super::{Path, Placement};
use crate::demand::{Match, Program, Table};
use crate::target::{Target, Usage};
use serde::{Deserialize, Serialize};

/// The resource that binds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Binding {
    /// Its name in [`Usage`], or `stages`.
    pub resource: String,
    /// Share of it that is taken of the stages that a packet passes, from 0 to 1.
    pub taken: f64,
    /// Tables that take most of it, with their shares of what is taken, largest first.
    pub tables: Vec<(String, f64)>,
    /// All of that, and what would free it, for people.
    pub sentence: String,
}

/// What stands in the way of more entries than the placement has: what tables lack at the scale at which they no longer fit. Where nothing
/// grows, the resource of which most is taken.
pub fn binding(target: &Target, program: &Program, placement: &Placement) -> Binding {
    if let Ok(ground) = Ground::new(target, program, &placement.path)
        && let Some(scale) = too_much(&ground, placement.scale)
    {
        let mut binding = lacking(&ground, scale);
        binding.sentence = format!("at {scale:.1} times the entries {}", binding.sentence);
        return binding;
    }
    let at = (0..13).max_by(|a, b| share(target, placement, *a).total_cmp(&share(target, placement, *b))).unwrap_or(0);
    let described = Described::new(target, program, placement, at);
    let mend = described.mend(None);
    described.binding(share(target, placement, at), mend)
}

/// Share of resource number `at` that is taken of all stages.
fn share(target: &Target, placement: &Placement, at: usize) -> f64 {
    let has = f64::from(target.per_stage.fields()[at].1) * placement.stages.len() as f64;
    let taken: u64 = placement.stages.iter().map(|s| u64::from(s.usage.fields()[at].1)).sum();
    if has > 0.0 { taken as f64 / has } else { 0.0 }
}

/// A scale, not far above the largest one that fits, at which the program does not.
fn too_much(ground: &Ground, fits: f64) -> Option<f64> {
    let fails = |scale: f64| {
        tries(ground, &at_scale(ground, scale), ground.target.stages, ground.target.per_stage, 1).is_none()
    };
    let (mut low, mut high) = (fits, fits * 2.0);
    while !fails(high) {
        if high > 1e6 {
            return None;
        }
        (low, high) = (high, high * 2.0);
    }
    for _ in 0..4 {
        let middle = (low + high) / 2.0;
        if fails(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// What keeps a program off the chip at a scale: what most tables lacked when everything was tried as well as it goes.
pub(super) fn lacking(ground: &Ground, scale: f64) -> Binding {
    let entries = at_scale(ground, scale);
    let settings = Settings {
        stages: ground.target.stages,
        caps: ground.target.per_stage,
        urgency: urgency(ground, &entries, 0),
        entries,
        diagnose: true,
        shares: None,
        grain: 0,
        whole: false,
    };
    let attempt = attempt(ground, &settings);
    let lacks = attempt.lacks;
    let left = attempt.left.clone();
    let at = (0..13).rev().max_by_key(|n| lacks[*n]).filter(|n| lacks[*n] > 0);
    let placement = attempt.placement(ground, scale);
    let Some(at) = at else { return late(ground, &left) };
    let described = Described::new(ground.target, ground.program, &placement, at);
    let largest = described.tables.first().filter(|_| scale == 1.0);
    let fewer = largest.and_then(|(n, _)| fewer(ground, *n));
    let mend = described.mend(fewer);
    described.binding(share(ground.target, &placement, at), mend)
}

/// Nothing was lacking where tables were ready: they got ready too late.
fn late(ground: &Ground, left: &[(usize, u64)]) -> Binding {
    let names: Vec<&str> = left.iter().take(3).map(|(n, _)| ground.program.tables[*n].name.as_str()).collect();
    let (last, needs) = ground.chain(&ground.entries, u64::from(ground.target.stages));
    let sentence = format!(
        "the stages are over before {} can begin: one chain takes {needs} of them ({}), {} stages on each of {} halves of pipes are there; \
         smaller tables early in the chain, or more pipes in a row, make room",
        names.join(", "),
        ground.described(last, &ground.entries),
        ground.target.stages,
        ground.path.hops.len()
    );
    Binding { resource: "stages".to_owned(), taken: 1.0, tables: Vec::new(), sentence }
}

/// The most entries of the table, everything else as it is, with which the program fits.
fn fewer(ground: &Ground, n: usize) -> Option<u64> {
    let with = |count: u64| {
        let mut entries = ground.entries.clone();
        entries[n] = count;
        tries(ground, &entries, ground.target.stages, ground.target.per_stage, FEW).is_some()
    };
    if ground.program.tables[n].kind == Match::None || !with(1) {
        return None;
    }
    let (mut low, mut high) = (1, ground.entries[n]);
    while high - low > (ground.entries[n] / 256).max(1) {
        let middle = low + (high - low) / 2;
        if with(middle) { low = middle } else { high = middle }
    }
    // Rows and entries are not the same where an entry has ranges.
    Some((u128::from(low) * u128::from(ground.program.tables[n].entries) / u128::from(ground.entries[n])) as u64)
}

/// Who takes a resource, and where.
struct Described<'a> {
    program: &'a Program,
    target: &'a Target,
    path: &'a Path,
    at: usize,
    /// Tables with what they take, largest first.
    tables: Vec<(usize, u64)>,
    full: Vec<(u32, u32)>,
}

impl<'a> Described<'a> {
    fn new(target: &'a Target, program: &'a Program, placement: &'a Placement, at: usize) -> Self {
        let taken = |usage: &Usage| u64::from(usage.fields()[at].1);
        let of = |(n, t): (usize, &super::Placed)| (n, t.pieces.iter().map(|p| taken(&p.usage)).sum::<u64>());
        let mut tables: Vec<(usize, u64)> =
            placement.tables.iter().enumerate().map(of).filter(|(_, t)| *t > 0).collect();
        tables.sort_by_key(|(n, taken)| (std::cmp::Reverse(*taken), *n));
        let has = u64::from(target.per_stage.fields()[at].1);
        // A few blocks that no part of a table fits into are not room.
        let full = placement.stages.iter().filter(|s| taken(&s.usage) * 100 >= has * 85);
        let full = full.map(|s| (s.pipe, s.stage)).collect();
        Described { program, target, path: &placement.path, at, tables, full }
    }

    fn resource(&self) -> &'static str {
        self.target.per_stage.fields()[self.at].0
    }

    fn binding(&self, taken: f64, mend: String) -> Binding {
        let all: u64 = self.tables.iter().map(|(_, t)| t).sum::<u64>().max(1);
        let share = |(n, t): &(usize, u64)| (self.program.tables[*n].name.clone(), *t as f64 / all as f64);
        let tables: Vec<(String, f64)> = self.tables.iter().take(5).map(share).collect();
        let mut sentence = format!("{} {}", self.words(), self.place());
        if let Some((name, share)) = tables.first() {
            sentence += &format!("; table {name} takes {:.0} % of what is taken", share * 100.0);
        }
        sentence += &mend;
        Binding { resource: self.resource().to_owned(), taken, tables, sentence }
    }

    fn words(&self) -> &'static str {
        match self.resource() {
            "sram" => "SRAM is",
            "tcam" => "TCAM is",
            "map_ram" => "map RAM is",
            "tables" => "the number of logical tables is",
            "ternary_tables" => "the number of ternary tables is",
            "hash_bits" => "the hash is",
            "exact_crossbar" => "the exact match crossbar is",
            "ternary_crossbar" => "the ternary match crossbar is",
            "action_bus" => "the action bus is",
            "gateways" => "the number of gateways is",
            "meter_alus" => "the number of meter and stateful ALUs is",
            "statistics_alus" => "the number of statistics ALUs is",
            _ => "the number of instructions is",
        }
    }

    fn place(&self) -> String {
        if self.full.is_empty() {
            return "what most is taken of".to_owned();
        }
        let pipes = (0..self.path.pipes()).filter_map(|pipe| {
            let stages: Vec<u32> = self.full.iter().filter(|(p, _)| *p == pipe).map(|(_, s)| *s).collect();
            (!stages.is_empty()).then(|| match self.path.pipes() {
                1 => runs(&stages),
                _ => format!("{} of pipe {pipe}", runs(&stages)),
            })
        });
        let list: Vec<String> = pipes.collect();
        format!("full in stages {}", list.join(", "))
    }

    /// What would free the resource. `fewer` are entries of the largest table with which all fits.
    fn mend(&self, fewer: Option<u64>) -> String {
        let Some((n, _)) = self.tables.first() else { return String::new() };
        let table = &self.program.tables[*n];
        let mut ways: Vec<String> = Vec::new();
        match (self.resource(), table.kind) {
            ("tcam" | "ternary_crossbar" | "ternary_tables", Match::Ternary) if prefix_like(table) => {
                ways.push("moving it to SRAM by ALPM".to_owned());
            }
            ("sram" | "exact_crossbar" | "hash_bits", Match::Exact) if table.key_bits() > 64 => {
                ways.push(format!("a digest of its {} bits of key", table.key_bits()));
            }
            _ => {}
        }
        if self.target.pipes > self.path.pipes() {
            ways.push("folding more pipes into one".to_owned());
            if matches!(self.resource(), "sram" | "tcam" | "map_ram") {
                ways.push("splitting its entries between pipes".to_owned());
            }
        }
        if let Some(fewer) = fewer {
            ways.push(format!("{} entries fewer (then {fewer})", table.entries.saturating_sub(fewer)));
        }
        if ways.is_empty() {
            return String::new();
        }
        let makes = if fewer.is_some() { "makes it fit" } else { "makes room" };
        format!("; {} {makes}", ways.join(", or "))
    }
}

/// Whether a table's masks can be prefixes: no key is a range, and one key alone is not exact.
fn prefix_like(table: &Table) -> bool {
    table.keys.iter().all(|k| !k.range) && table.keys.iter().filter(|k| !k.exact).count() == 1
}

/// `[0, 1, 2, 5]` as `0-2, 5`.
fn runs(stages: &[u32]) -> String {
    let mut list: Vec<(u32, u32)> = Vec::new();
    for &stage in stages {
        match list.last_mut() {
            Some((_, end)) if *end + 1 == stage => *end = stage,
            _ => list.push((stage, stage)),
        }
    }
    let text = |(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    list.iter().map(text).collect::<Vec<String>>().join(", ")
}
