//! What the packet carries through the stages, in containers, and what the parser needs to fill them.
//!
//! This is an estimate of the chip's compiler, from below: it packs what shares bytes, cuts wide fields into containers, and lets metadata use
//! one another's containers where they are not alive together; it does not know which containers an action's operands must be in.

use crate::demand::{Field, Program};
use crate::place::{Placement, bridged};
use crate::target::Target;
use serde::{Deserialize, Serialize};

/// Containers of one kind: how many are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Used {
    /// Width in bits.
    pub bits: u32,
    /// Whether they only carry.
    pub carry_only: bool,
    /// Containers used.
    pub used: u32,
    /// Containers there are.
    pub has: u32,
}

/// What the packet takes of a pipe's containers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Phv {
    /// By kind, in the target's order.
    pub containers: Vec<Used>,
    /// Bits of fields.
    pub field_bits: u32,
    /// Bits that found no container: 0 if everything fits.
    pub missing_bits: u32,
}

impl Phv {
    /// Whether all fields have a container.
    pub fn fits(&self) -> bool {
        self.missing_bits == 0
    }
}

/// What the parser needs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ParserUse {
    /// States of the program.
    pub states: u32,
    /// Rows of the parser's TCAM, and how many there are.
    pub rows: (u32, u32),
    /// Most steps from start to end: a state takes one for each part of what it extracts, or matches, that fits one step.
    pub steps: u32,
    /// Most bytes that are extracted on a way through the states, and how many ingress can read.
    pub depth_bytes: (u32, u32),
}

impl ParserUse {
    /// Whether the chip's parser does it.
    pub fn fits(&self) -> bool {
        self.rows.0 <= self.rows.1 && self.depth_bytes.0 <= self.depth_bytes.1
    }
}

/// Bits that want containers of their own.
#[derive(Clone, Copy)]
struct Chunk {
    bits: u32,
    used: bool,
    /// First and last table at which it is alive; headers always are.
    alive: Option<(usize, usize)>,
}

/// All fields of the program at once: what one half of a pipe takes that has the whole program.
pub fn whole(target: &Target, program: &Program) -> Phv {
    let fields: Vec<(&Field, bool)> = program.fields.iter().map(|f| (f, f.used)).collect();
    pack(target, &[chunks(program, &fields)])
}

/// What a placement takes of a pipe: its ingress and egress halves have the tables that are placed there. Headers that no table of a half
/// uses are only carried; metadata is there if it crosses into the half, or is used there.
pub fn of_pipe(target: &Target, program: &Program, placement: &Placement, pipe: u32) -> Phv {
    let bridges = bridged(program, placement);
    let on = |tables: &[usize], hop: usize| {
        tables.iter().any(|n| placement.tables.get(*n).is_some_and(|t| t.pieces.iter().any(|p| p.hop == hop)))
    };
    let hops = placement.path.hops.iter().enumerate().filter(|(_, h)| h.pipe == pipe);
    let halves: Vec<Vec<Chunk>> = hops
        .map(|(hop, _)| {
            let crosses = |at: Option<usize>, name: &str| {
                at.and_then(|at| bridges.get(at)).is_some_and(|b| b.fields.iter().any(|f| f == name))
            };
            let fields: Vec<(&Field, bool)> = program
                .fields
                .iter()
                .map(|f| (f, on(&f.written, hop) || on(&f.read, hop)))
                .filter(|(f, used)| {
                    let metadata = f.header.is_none() && !f.is_validity();
                    !metadata || *used || crosses(hop.checked_sub(1), &f.name) || crosses(Some(hop), &f.name)
                })
                .collect();
            chunks(program, &fields)
        })
        .collect();

    pack(target, &halves)
}

/// What the parser needs.
pub fn parser(target: &Target, program: &Program) -> ParserUse {
    let limits = &target.parser;
    let states = &program.parser;
    let rows = states.iter().map(|s| s.cases).fold(0, u32::saturating_add);
    let steps = |s: &crate::demand::ParserState| {
        let extract = s.extracts.div_ceil(8 * limits.extract_bytes.max(1));
        extract.max(s.selects.div_ceil(limits.match_bits.max(1))).max(1)
    };
    ParserUse {
        states: states.len() as u32,
        rows: (rows, limits.rows),
        steps: longest(program, steps),
        depth_bytes: (longest(program, |s| s.extracts).div_ceil(8), limits.ingress_depth_bytes),
    }
}

/// The largest sum over a way through the parser's states that meets none twice in a row of the graph's layers. A loop counts once.
fn longest(program: &Program, cost: impl Fn(&crate::demand::ParserState) -> u32) -> u32 {
    let count = program.parser.len();
    let mut sums = vec![None; count];
    let mut open = vec![false; count];
    // Depth first with a stack of its own: a state's sum is known when those of all states behind it are.
    let mut stack: Vec<(usize, usize)> = (0..count.min(1)).map(|n| (n, 0)).collect();
    while let Some((state, next)) = stack.pop() {
        open[state] = true;
        let behind = &program.parser[state].next;
        match behind.get(next) {
            Some(&to) => {
                stack.push((state, next + 1));
                if to < count && sums[to].is_none() && !open[to] {
                    stack.push((to, 0));
                }
            }
            None => {
                let rest = behind.iter().filter_map(|n| *sums.get(*n)?).max().unwrap_or(0);
                sums[state] = Some(cost(&program.parser[state]).saturating_add(rest));
                open[state] = false;
            }
        }
    }
    sums.first().copied().flatten().unwrap_or(0)
}

/// Cuts fields into what must be together: header fields that share a byte, runs of them that are used or carried alike; metadata one by
/// one; all validities together.
fn chunks(program: &Program, fields: &[(&Field, bool)]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let validities = fields.iter().filter(|(f, _)| f.is_validity()).count() as u32;
    chunks.push(Chunk { bits: validities, used: true, alive: None });
    let mut at = 0;
    while at < fields.len() {
        let (field, _) = fields[at];
        if field.header.is_none() {
            if !field.is_validity() {
                chunks.push(Chunk { bits: field.bits, used: true, alive: alive(program, field) });
            }
            at += 1;
            continue;
        }
        let end = at + fields[at..].iter().take_while(|(f, _)| f.header == field.header).count();
        header(&fields[at..end], &mut chunks);
        at = end;
    }
    chunks.retain(|c| c.bits > 0);
    chunks
}

fn header(fields: &[(&Field, bool)], chunks: &mut Vec<Chunk>) {
    let mut run: Option<(u32, bool)> = None;
    let (mut bits, mut used) = (0u32, false);
    for (n, (field, field_used)) in fields.iter().enumerate() {
        bits = bits.saturating_add(field.bits);
        used |= field_used;
        if !bits.is_multiple_of(8) && n + 1 < fields.len() {
            continue;
        }
        run = match run {
            Some((sum, same)) if same == used => Some((sum.saturating_add(bits), used)),
            Some((sum, other)) => {
                chunks.push(Chunk { bits: sum, used: other, alive: None });
                Some((bits, used))
            }
            None => Some((bits, used)),
        };
        (bits, used) = (0, false);
    }
    chunks.extend(run.map(|(bits, used)| Chunk { bits, used, alive: None }));
}

/// From the table that first writes a field to the one that last reads it.
fn alive(program: &Program, field: &Field) -> Option<(usize, usize)> {
    let first = if field.parsed { 0 } else { field.written.iter().copied().min()? };
    let last = if field.emitted { program.tables.len() } else { field.read.iter().copied().max()? };
    Some((first.min(last), last.max(first)))
}

/// Gives chunks containers, the wide ones first, each as few as go. Chunks that are not alive together share.
fn pack(target: &Target, halves: &[Vec<Chunk>]) -> Phv {
    let kind = |c: &crate::target::Containers| Used { bits: c.bits, carry_only: c.carry_only, used: 0, has: c.count };
    let mut phv = Phv { containers: target.phv.iter().map(kind).collect(), field_bits: 0, missing_bits: 0 };
    for chunks in halves {
        let mut own: Vec<Vec<Option<(usize, usize)>>> = vec![Vec::new(); phv.containers.len()];
        let mut sorted = chunks.clone();
        // Headers first, as they share with nobody; then metadata by their beginnings, so that what is over is taken again.
        sorted.sort_by_key(|c| (c.alive, std::cmp::Reverse(c.bits)));
        for chunk in sorted {
            phv.field_bits = phv.field_bits.saturating_add(chunk.bits);
            place(&mut phv, &mut own, chunk);
        }
        for (kind, containers) in phv.containers.iter_mut().zip(&target.phv) {
            // A group of containers is of one direction.
            let group = containers.group.max(1);
            kind.used = kind.used.div_ceil(group).saturating_mul(group).min(kind.has);
        }
    }
    phv
}

/// One chunk: widest container that it fills first; what is carried takes carrying containers while there are some.
fn place(phv: &mut Phv, own: &mut [Vec<Option<(usize, usize)>>], chunk: Chunk) {
    let mut left = chunk.bits;
    while left > 0 {
        let Some(at) = choose(phv, own, chunk, left) else {
            phv.missing_bits = phv.missing_bits.saturating_add(left);
            return;
        };
        let width = phv.containers[at].bits.max(1);
        match (chunk.alive, shared(&own[at], chunk.alive)) {
            (Some(alive), Some(slot)) => own[at][slot] = Some(alive),
            (alive, _) => {
                own[at].push(alive);
                phv.containers[at].used += 1;
            }
        }
        left = left.saturating_sub(width);
    }
}

/// A container whose field is no longer alive when this one's life begins.
fn shared(containers: &[Option<(usize, usize)>], alive: Option<(usize, usize)>) -> Option<usize> {
    let (first, _) = alive?;
    containers.iter().position(|c| c.is_some_and(|(_, last)| last < first))
}

/// The kind of container to take next: of those with room the widest that is filled, else the narrowest that holds what is left.
fn choose(phv: &Phv, own: &[Vec<Option<(usize, usize)>>], chunk: Chunk, left: u32) -> Option<usize> {
    let room = |at: &usize| {
        let kind = phv.containers[*at];
        let may = !(chunk.used && kind.carry_only);
        may && (kind.used < kind.has || shared(&own[*at], chunk.alive).is_some())
    };
    let kinds: Vec<usize> = (0..phv.containers.len()).filter(room).collect();
    let carries = |at: usize| phv.containers[at].carry_only && !chunk.used;
    let filled = kinds.iter().filter(|at| phv.containers[**at].bits <= left);
    let filled = filled.max_by_key(|at| (carries(**at), phv.containers[**at].bits));
    let holds = || {
        let holds = kinds.iter().filter(|at| phv.containers[**at].bits >= left);
        holds.min_by_key(|at| (!carries(**at), phv.containers[**at].bits))
    };
    filled.or_else(holds).copied()
}
