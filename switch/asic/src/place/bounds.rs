//! What can be said of any placement before one is made: which stages a table can be in, how many stages it takes at least.

use super::{Half, Path, Unplaced, rows};
use crate::demand::{Match, Program, Table};
use crate::memory::{self, MemoryError};
use crate::target::{Target, Usage};
use std::cell::OnceCell;

/// Bits that a gateway compares: 4 bytes byte by byte, and 12 bits behind a hash.
const GATEWAY_BITS: u32 = 44;

/// A program on a path of a chip, prepared.
pub(super) struct Ground<'a> {
    pub target: &'a Target,
    pub program: &'a Program,
    pub path: &'a Path,
    /// What a table takes besides its memories, at its first piece: gateways of the conditions before it.
    pub overhead: Vec<Usage>,
    /// For each table those that it waits for, with the distance.
    pub before: Vec<Vec<(usize, u32)>>,
    /// For each table those that wait for it.
    pub behind: Vec<Vec<(usize, u32)>>,
    /// Entries of each table that an empty stage holds.
    pub capacity: Vec<u64>,
    /// First and last hop that each table may be on.
    pub hops: Vec<(usize, usize)>,
    /// Entries (rows) of each table.
    pub entries: Vec<u64>,
    /// How many more of them, as a share, each table has at twice the scale: 1 without spare rows, 0 without keys.
    pub growth: Vec<f64>,
    least: OnceCell<Vec<Least>>,
}

impl<'a> Ground<'a> {
    /// # Errors
    /// A table that no stage can hold a part of.
    pub fn new(target: &'a Target, program: &'a Program, path: &'a Path) -> Result<Self, Unplaced> {
        let count = program.tables.len();
        let (mut before, mut behind) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for d in program.dependencies.iter().filter(|d| d.first < d.second && d.second < count) {
            before[d.second].push((d.first, d.kind.distance()));
            behind[d.first].push((d.second, d.kind.distance()));
        }
        let overhead: Vec<Usage> = (0..count).map(|n| overhead(program, n)).collect();
        let mut capacity = Vec::new();
        for (table, overhead) in program.tables.iter().zip(&overhead) {
            capacity.push(capacity_of(target, table, overhead)?);
        }
        let hops = (0..count).map(|n| hops(program, path, n)).collect();
        let entries: Vec<u64> = program.tables.iter().map(|t| rows(t, 1.0)).collect();
        let more = program.tables.iter().map(|t| rows(t, 2.0));
        let growth = more.zip(&entries).map(|(two, one)| (two as f64 - *one as f64) / *one as f64).collect();
        Ok(Ground {
            target,
            program,
            path,
            overhead,
            before,
            behind,
            capacity,
            hops,
            entries,
            growth,
            least: OnceCell::new(),
        })
    }

    /// Stages that a table takes at least, alone.
    pub fn length(&self, n: usize, entries: u64) -> u64 {
        if self.program.tables[n].kind == Match::None { 1 } else { entries.max(1).div_ceil(self.capacity[n].max(1)) }
    }

    /// For each table, stages from its first piece to the end of the longest chain that it begins.
    pub fn tails(&self, entries: &[u64]) -> Vec<u64> {
        let mut tails = vec![0; entries.len()];
        for n in (0..entries.len()).rev() {
            let rest = self.behind[n].iter().map(|(next, distance)| u64::from(*distance) + tails[*next] - 1).max();
            tails[n] = self.length(n, entries[n]) + rest.unwrap_or(0);
        }
        tails
    }

    /// For each table, the first position (in stages over all hops) that it can begin at.
    pub fn heads(&self, entries: &[u64]) -> Vec<u64> {
        let mut heads = vec![0; entries.len()];
        for n in 0..entries.len() {
            let from = |(first, distance): &(usize, u32)| {
                heads[*first] + self.length(*first, entries[*first]) - 1 + u64::from(*distance)
            };
            heads[n] = self.before[n].iter().map(from).max().unwrap_or(0);
        }
        heads
    }

    /// The longest chain of tables, of those that end too late where there are such: its last table and the stages up to there.
    pub fn chain(&self, entries: &[u64], stages: u64) -> (usize, u64) {
        let heads = self.heads(entries);
        let end = |n: usize| heads[n] + self.length(n, entries[n]);
        let late = |n: &usize| end(*n).saturating_sub((self.hops[*n].1 as u64 + 1) * stages);
        let last = (0..entries.len()).max_by_key(|n| (late(n), end(*n)));
        last.map_or((0, 0), |n| (n, end(n)))
    }

    /// The chain of tables up to this one that makes it begin as late as it does, with what they depend on one another through.
    pub fn described(&self, mut at: usize, entries: &[u64]) -> String {
        let heads = self.heads(entries);
        let name = |n: usize| self.program.tables.get(n).map_or("", |t| t.name.as_str());
        let mut text = vec![name(at).to_owned()];
        let length = |n: usize| self.length(n, entries[n]);
        while heads.get(at).is_some_and(|h| *h > 0) {
            let from = |(n, distance): &&(usize, u32)| heads[*n] + length(*n) - 1 + u64::from(*distance);
            let Some((before, distance)) = self.before[at].iter().max_by_key(from) else { break };
            let through = self.program.dependencies.iter().find(|d| (d.first, d.second) == (*before, at));
            let through = through.filter(|_| *distance > 0).map_or(String::new(), |d| format!(" by {}", d.through));
            text.push(format!("{} ({} stages{through})", name(*before), length(*before)));
            at = *before;
        }
        text.reverse();
        text.join(", ")
    }

    /// The number of stages that no placement can do with less of.
    pub fn fewest(&self, entries: &[u64]) -> u64 {
        let count = self.path.hops.len().max(1) as u64;
        let tails = self.tails(entries);
        let heads = self.heads(entries);
        // A table that must be on certain hops has the chain before it on the hops up to there, and that behind it on those from there.
        let sided = (0..entries.len()).map(|n| {
            let (first, last) = self.hops[n];
            let up_to = (heads[n] + self.length(n, entries[n])).div_ceil(last as u64 + 1);
            up_to.max(tails[n].div_ceil(count - (first as u64).min(count - 1)))
        });
        sided.max().unwrap_or(0).max(self.volume(entries, &self.target.per_stage)).max(1)
    }

    /// What each table takes at the least. It is found once: it takes many looks at the memory model.
    pub fn least(&self) -> &[Least] {
        self.least.get_or_init(|| {
            let tables = self.program.tables.iter().zip(&self.overhead);
            tables.map(|(t, overhead)| least(self.target, t, overhead)).collect()
        })
    }

    /// Stages of each pipe whose memories, `caps` of each, together could hold everything.
    pub fn volume(&self, entries: &[u64], caps: &Usage) -> u64 {
        let need = self.needs(entries);
        let has = memories(caps).map(|m| f64::from(m) * f64::from(self.path.pipes().max(1)));
        let stages = need.iter().zip(has).map(|(need, has)| match (need > &1e-9, has > 0.0) {
            (true, true) => (need / has - 1e-9).ceil() as u64,
            (true, false) => u64::MAX,
            _ => 0,
        });
        stages.max().unwrap_or(0)
    }
}

impl Ground<'_> {
    /// The least share of memories that some stage must have taken: all blocks spread evenly, or one table's smallest part.
    pub fn least_share(&self) -> f64 {
        let places = f64::from(self.path.pipes().max(1)) * f64::from(self.target.stages.max(1));
        let has = memories(&self.target.per_stage).map(f64::from);
        let need = self.needs(&self.entries);
        let even = need.iter().zip(has).map(|(need, has)| if has > 0.0 { need / has / places } else { 0.0 });
        let parts = self.least().iter().map(|l| super::fullness(&l.part, &self.target.per_stage));
        even.chain(parts).fold(0.0, f64::max).min(1.0)
    }

    /// The largest scale at which all blocks would be taken of all stages.
    pub fn most_scale(&self) -> f64 {
        let places = f64::from(self.path.pipes().max(1)) * f64::from(self.target.stages.max(1));
        let has = memories(&self.target.per_stage).map(|m| f64::from(m) * places);
        let fixed: Vec<u64> =
            self.entries.iter().zip(&self.growth).map(|(e, g)| (*e as f64 * (1.0 - g).max(0.0)) as u64).collect();
        let growing: Vec<u64> = self.entries.iter().zip(&self.growth).map(|(e, g)| (*e as f64 * g) as u64).collect();
        let needs = self.needs(&fixed).into_iter().zip(self.needs(&growing));
        let most =
            needs.zip(has).map(|((fixed, each), has)| if each > 0.0 { (has - fixed) / each } else { f64::INFINITY });
        // Entries are whole: a scale can be a little larger without one more of them.
        most.fold(f64::INFINITY, f64::min) * (1.0 + 1e-6)
    }

    /// Blocks of SRAM, map RAM and TCAM that so many entries take at the least.
    fn needs(&self, entries: &[u64]) -> [f64; 3] {
        let mut need = [0.0f64; 3];
        for (least, entries) in self.least().iter().zip(entries) {
            need.iter_mut().zip(least.entry).for_each(|(sum, slope)| *sum += slope * *entries as f64);
        }
        need
    }
}

/// SRAM, map RAM and TCAM blocks.
pub(super) fn memories(usage: &Usage) -> [u32; 3] {
    [usage.sram, usage.map_ram, usage.tcam]
}

/// What a table takes at the least, whatever parts it is in.
pub(super) struct Least {
    /// Blocks of SRAM, map RAM and TCAM for an entry; 0 for tables without keys.
    pub entry: [f64; 3],
    /// What any part takes.
    pub part: Usage,
    /// Entries of parts with what they take: the most for each amount of a memory.
    parts: Vec<(u64, Usage)>,
}

impl Least {
    /// The most entries that so much of a stage holds, in a part or in two, as two halves of a pipe may each have one; none if not even a part fits.
    pub fn most(&self, caps: &Usage) -> Option<u64> {
        let single = self.parts.iter().filter(|(_, usage)| usage.fits(caps));
        single
            .map(|(entries, usage)| {
                let free = caps.minus(*usage);
                let other = self.parts.iter().filter(|(_, usage)| usage.fits(&free)).map(|(entries, _)| *entries).max();
                entries + other.unwrap_or(0)
            })
            .max()
    }
}

fn least(target: &Target, table: &Table, overhead: &Usage) -> Least {
    if table.kind == Match::None {
        let part = memory::fit(target, table, table.entries, &target.per_stage.minus(*overhead));
        let part = part.map_or(Usage::default(), |p| p.usage);
        return Least { entry: [0.0; 3], part, parts: vec![(1, part)] };
    }
    let parts = options(target, table, overhead);
    let mut entry = [f64::INFINITY; 3];
    for part in &parts {
        for (entry, blocks) in entry.iter_mut().zip(memories(&part.usage)) {
            *entry = entry.min(f64::from(blocks) / part.entries.max(1) as f64);
        }
    }
    // The least of two in each resource: what `a` has more than `b` taken from `a`.
    let part = parts.iter().map(|p| p.usage).reduce(|a, b| a.minus(a.minus(b))).unwrap_or_default();
    let entry = entry.map(|e| if e.is_finite() { e } else { 0.0 });
    Least { entry, part, parts: parts.into_iter().map(|part| (part.entries, part.usage)).collect() }
}

/// Parts of a table that a stage can hold, with each possible amount of each memory left.
fn options(target: &Target, table: &Table, overhead: &Usage) -> Vec<memory::Part> {
    let empty = target.per_stage.minus(*overhead);
    let mut parts: Vec<memory::Part> = Vec::new();
    // Less than what all of a stage's entries take of a memory limits them; more of it does not.
    let Some(all) = most(target, table, &empty).map(|part| part.usage) else {
        // It is whole in one stage or nowhere.
        parts.extend(memory::fit(target, table, memory::wanted(table), &empty));
        return parts;
    };
    let limited = (1..=all.sram).map(|sram| Usage { sram, ..empty });
    let limited = limited.chain((1..=all.tcam).map(|tcam| Usage { tcam, ..empty }));
    let limited = limited.chain((1..=all.map_ram).map(|map_ram| Usage { map_ram, ..empty }));
    let limited = limited.chain([empty]);
    for free in limited {
        if let Some(part) = most(target, table, &free)
            && !parts.iter().any(|p| p.usage == part.usage && p.entries >= part.entries)
        {
            parts.push(part);
        }
    }
    parts.extend(memory::fit(target, table, 1, &empty));
    parts
}

/// The part with the most entries that fits. A layout for a number of entries may hold more than the one that is found by filling what is free.
fn most(target: &Target, table: &Table, free: &Usage) -> Option<memory::Part> {
    let mut part = memory::fit(target, table, u64::from(u32::MAX), free)?;
    while let Some(more) = memory::fit(target, table, part.entries + 1, free)
        && more.entries > part.entries
    {
        part = more;
    }
    Some(part)
}

fn capacity_of(target: &Target, table: &Table, overhead: &Usage) -> Result<u64, Unplaced> {
    let empty = target.per_stage.minus(*overhead);
    let wanted = if table.kind == Match::None { table.entries } else { u64::from(u32::MAX) };
    match memory::fit(target, table, wanted, &empty) {
        Some(part) => Ok(part.entries.max(1)),
        None => Err(Unplaced::Table(MemoryError {
            table: table.name.clone(),
            reason: format!(
                "not even a part of it fits into an empty stage of {} ({} bits of key, {} of action data{})",
                target.name,
                table.key_bits(),
                table.data_bits(),
                beside(table)
            ),
            mend: "make its key, its action data or what is attached to it smaller".to_owned(),
        })),
    }
}

fn beside(table: &Table) -> String {
    let of = |a: &crate::demand::Attached| match a.size {
        Some(size) => format!(", {} with {size} elements of {} bits", a.name, a.bits),
        None => format!(", {}", a.name),
    };
    table.attached.iter().map(of).collect()
}

/// What the conditions before a table take: a logical table has one gateway; further ones are logical tables of their own.
fn overhead(program: &Program, n: usize) -> Usage {
    let mut gateways = 0u32;
    let mut room = 0u32;
    for gateway in program.gateways.iter().filter(|g| g.table == Some(n)) {
        let bits = gateway.bits.min(GATEWAY_BITS);
        if gateways == 0 || bits > room {
            let more = (bits - room.min(bits)).div_ceil(GATEWAY_BITS).max(u32::from(gateways == 0));
            gateways += more;
            room += more * GATEWAY_BITS;
        }
        room = room.saturating_sub(bits);
    }
    Usage { gateways, tables: gateways.saturating_sub(1), ..Usage::default() }
}

fn hops(program: &Program, path: &Path, n: usize) -> (usize, usize) {
    let end = path.hops.len().saturating_sub(1);
    let turn = path.last_ingress();
    let egress = program.egress.contains(&n);
    if egress {
        return ((turn + 1).min(end), end);
    }
    let early = program.ports.contains(&n) || !program.egress.is_empty();
    debug_assert!(path.hops.get(turn).is_none_or(|h| h.half == Half::Ingress));
    (0, if early { turn } else { end })
}
