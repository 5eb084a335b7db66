//! PHV containers that a program's headers and metadata need, and the parser resources that fill
//! them.
//!
//! This is an estimate from below of the chip's compiler. It packs fields that share bytes, slices
//! wide fields into containers, and lets metadata fields share containers if their live ranges are
//! disjoint. It ignores restrictions on the containers of an action's operands.

use crate::demand::{PhvField, ResourceDemand};
use crate::place::{Placement, bridged_fields};
use crate::target::ChipTarget;
use serde::{Deserialize, Serialize};

/// Use of the containers of one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ContainerUse {
    /// Width in bits.
    pub bits: u32,
    /// Whether they are carry-only.
    pub carry_only: bool,
    /// Containers in use.
    pub used: u32,
    /// Containers of a pipe.
    pub has: u32,
}

/// PHV containers of a pipe that the packet uses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PhvUse {
    /// Use by container type, in the target's order.
    pub containers: Vec<ContainerUse>,
    /// Bits of fields.
    pub field_bits: u32,
    /// Bits without a container. 0 if everything fits.
    pub missing_bits: u32,
}

impl PhvUse {
    /// Returns whether all fields have a container.
    pub fn fits(&self) -> bool {
        self.missing_bits == 0
    }
}

/// Parser resources that a program needs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ParserUse {
    /// Parser states of the program.
    pub states: u32,
    /// TCAM rows: needed and available.
    pub rows: (u32, u32),
    /// Maximum number of parser steps on a path. A state takes one step for each part of its
    /// extraction or match that fits one step.
    pub steps: u32,
    /// Maximum number of bytes extracted on a path through the states, and the number that ingress
    /// can read.
    pub depth_bytes: (u32, u32),
}

impl ParserUse {
    /// Returns whether the chip's parser is sufficient.
    pub fn fits(&self) -> bool {
        self.rows.0 <= self.rows.1 && self.depth_bytes.0 <= self.depth_bytes.1
    }
}

/// Run of bits that needs containers of its own.
#[derive(Clone, Copy)]
struct PhvSlice {
    bits: u32,
    used: bool,
    /// First and last table of the live range. `None` for headers, which are always live.
    alive: Option<(usize, usize)>,
}

/// Packs all fields of the program for one gress that runs the whole program.
pub fn phv_of_program(target: &ChipTarget, program: &ResourceDemand) -> PhvUse {
    let fields: Vec<(&PhvField, bool)> = program.fields.iter().map(|f| (f, f.used)).collect();
    pack_slices(target, &[slice_fields(program, &fields)])
}

/// Packs the fields of one pipe under a placement: its ingress and egress have the tables placed
/// there. Headers that no table of a gress uses are only carried. Metadata is included if a table
/// of the gress uses it or if it crosses into the gress.
pub fn phv_of_pipe(target: &ChipTarget, program: &ResourceDemand, placement: &Placement, pipe: u32) -> PhvUse {
    let bridges = bridged_fields(program, placement);
    let is_in_hop = |tables: &[usize], hop: usize| {
        tables.iter().any(|n| placement.tables.get(*n).is_some_and(|t| t.pieces.iter().any(|p| p.hop == hop)))
    };
    let hops = placement.path.hops.iter().enumerate().filter(|(_, h)| h.pipe == pipe);
    let gress_slices: Vec<Vec<PhvSlice>> = hops
        .map(|(hop, _)| {
            let crosses = |bridge: Option<usize>, name: &str| {
                bridge.and_then(|bridge| bridges.get(bridge)).is_some_and(|b| b.fields.iter().any(|f| f == name))
            };
            let fields: Vec<(&PhvField, bool)> = program
                .fields
                .iter()
                .map(|f| (f, is_in_hop(&f.written, hop) || is_in_hop(&f.read, hop)))
                .filter(|(f, used)| {
                    let is_metadata = f.header.is_none() && !f.is_validity();
                    !is_metadata || *used || crosses(hop.checked_sub(1), &f.name) || crosses(Some(hop), &f.name)
                })
                .collect();
            slice_fields(program, &fields)
        })
        .collect();

    pack_slices(target, &gress_slices)
}

/// Computes the parser resources that a program needs.
pub fn parser_use(target: &ChipTarget, program: &ResourceDemand) -> ParserUse {
    let limits = &target.parser;
    let states = &program.parser;
    let rows = states.iter().map(|s| s.cases).fold(0, u32::saturating_add);
    let steps = |s: &crate::demand::ParserStateDemand| {
        let extract = s.extracts.div_ceil(8 * limits.extract_bytes.max(1));
        extract.max(s.selects.div_ceil(limits.match_bits.max(1))).max(1)
    };
    ParserUse {
        states: states.len() as u32,
        rows: (rows, limits.rows),
        steps: max_path_sum(program, steps),
        depth_bytes: (max_path_sum(program, |s| s.extracts).div_ceil(8), limits.ingress_depth_bytes),
    }
}

/// Returns the maximum sum of `cost` over a path through the parser's states. A loop counts once.
fn max_path_sum(program: &ResourceDemand, cost: impl Fn(&crate::demand::ParserStateDemand) -> u32) -> u32 {
    let count = program.parser.len();
    let mut sums = vec![None; count];
    let mut is_open = vec![false; count];
    // Depth-first search with an explicit stack. The sum of a state is known after those of all its
    // successors.
    let mut stack: Vec<(usize, usize)> = (0..count.min(1)).map(|n| (n, 0)).collect();
    while let Some((state, next_index)) = stack.pop() {
        is_open[state] = true;
        let successors = &program.parser[state].next;
        match successors.get(next_index) {
            Some(&successor) => {
                stack.push((state, next_index + 1));
                if successor < count && sums[successor].is_none() && !is_open[successor] {
                    stack.push((successor, 0));
                }
            }
            None => {
                let max_after = successors.iter().filter_map(|n| *sums.get(*n)?).max().unwrap_or(0);
                sums[state] = Some(cost(&program.parser[state]).saturating_add(max_after));
                is_open[state] = false;
            }
        }
    }
    sums.first().copied().flatten().unwrap_or(0)
}

/// Slices fields into runs that are allocated together: header fields that share a byte, extended
/// over fields of equal use; metadata fields one by one; all validity bits together. Each field
/// comes with whether a table uses it.
fn slice_fields(program: &ResourceDemand, fields: &[(&PhvField, bool)]) -> Vec<PhvSlice> {
    let mut slices = Vec::new();
    let validities = fields.iter().filter(|(f, _)| f.is_validity()).count() as u32;
    slices.push(PhvSlice { bits: validities, used: true, alive: None });
    let mut index = 0;
    while index < fields.len() {
        let (field, _) = fields[index];
        if field.header.is_none() {
            if !field.is_validity() {
                slices.push(PhvSlice { bits: field.bits, used: true, alive: live_range(program, field) });
            }
            index += 1;
            continue;
        }
        let end = index + fields[index..].iter().take_while(|(f, _)| f.header == field.header).count();
        slice_header(&fields[index..end], &mut slices);
        index = end;
    }
    slices.retain(|c| c.bits > 0);
    slices
}

/// Appends the slices of one header: runs of whole bytes of equal use (`true`: a table uses it).
fn slice_header(fields: &[(&PhvField, bool)], slices: &mut Vec<PhvSlice>) {
    let mut open_run: Option<(u32, bool)> = None;
    let (mut bits, mut used) = (0u32, false);
    for (n, (field, field_used)) in fields.iter().enumerate() {
        bits = bits.saturating_add(field.bits);
        used |= field_used;
        if !bits.is_multiple_of(8) && n + 1 < fields.len() {
            continue;
        }
        open_run = match open_run {
            Some((sum, run_used)) if run_used == used => Some((sum.saturating_add(bits), used)),
            Some((sum, run_used)) => {
                slices.push(PhvSlice { bits: sum, used: run_used, alive: None });
                Some((bits, used))
            }
            None => Some((bits, used)),
        };
        (bits, used) = (0, false);
    }
    slices.extend(open_run.map(|(bits, used)| PhvSlice { bits, used, alive: None }));
}

/// Returns the live range of a field, from the table that first writes it to the table that last
/// reads it.
fn live_range(program: &ResourceDemand, field: &PhvField) -> Option<(usize, usize)> {
    let first = if field.parsed { 0 } else { field.written.iter().copied().min()? };
    let last = if field.emitted { program.tables.len() } else { field.read.iter().copied().max()? };
    Some((first.min(last), last.max(first)))
}

/// Assigns containers to slices, wide ones first, with the fewest containers for each. `gresses`
/// has the slices of each gress. Slices with disjoint live ranges share containers.
fn pack_slices(target: &ChipTarget, gresses: &[Vec<PhvSlice>]) -> PhvUse {
    let unused = |c: &crate::target::PhvContainers| ContainerUse {
        bits: c.bits,
        carry_only: c.carry_only,
        used: 0,
        has: c.count,
    };
    let mut phv = PhvUse { containers: target.phv.iter().map(unused).collect(), field_bits: 0, missing_bits: 0 };
    for slices in gresses {
        let mut taken: Vec<Vec<Option<(usize, usize)>>> = vec![Vec::new(); phv.containers.len()];
        let mut sorted = slices.clone();
        // Headers come first because they do not share. Metadata follows in order of first use, so
        // that a dead slice's container is reused.
        sorted.sort_by_key(|c| (c.alive, std::cmp::Reverse(c.bits)));
        for slice in sorted {
            phv.field_bits = phv.field_bits.saturating_add(slice.bits);
            place_slice(&mut phv, &mut taken, slice);
        }
        for (unused, containers) in phv.containers.iter_mut().zip(&target.phv) {
            // A group of containers belongs to one gress.
            let group = containers.group.max(1);
            unused.used = unused.used.div_ceil(group).saturating_mul(group).min(unused.has);
        }
    }
    phv
}

/// Allocates one slice, into the widest container that it fills first. Carried slices prefer
/// carry-only containers.
fn place_slice(phv: &mut PhvUse, own: &mut [Vec<Option<(usize, usize)>>], chunk: PhvSlice) {
    let mut left = chunk.bits;
    while left > 0 {
        let Some(at) = choose_container(phv, own, chunk, left) else {
            phv.missing_bits = phv.missing_bits.saturating_add(left);
            return;
        };
        let width = phv.containers[at].bits.max(1);
        match (chunk.alive, reusable_container(&own[at], chunk.alive)) {
            (Some(alive), Some(slot)) => own[at][slot] = Some(alive),
            (alive, _) => {
                own[at].push(alive);
                phv.containers[at].used += 1;
            }
        }
        left = left.saturating_sub(width);
    }
}

/// Returns a container whose current slice is dead before this live range begins.
fn reusable_container(containers: &[Option<(usize, usize)>], alive: Option<(usize, usize)>) -> Option<usize> {
    let (first, _) = alive?;
    containers.iter().position(|c| c.is_some_and(|(_, last)| last < first))
}

/// Chooses the next container type among those available: the widest that is filled, else the
/// narrowest that holds the remaining bits.
fn choose_container(phv: &PhvUse, own: &[Vec<Option<(usize, usize)>>], chunk: PhvSlice, left: u32) -> Option<usize> {
    let room = |at: &usize| {
        let kind = phv.containers[*at];
        let may = !(chunk.used && kind.carry_only);
        may && (kind.used < kind.has || reusable_container(&own[*at], chunk.alive).is_some())
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
