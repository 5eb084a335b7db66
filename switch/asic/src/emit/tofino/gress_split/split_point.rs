//! Choice of the split point: the earliest one after the port decision.

use crate::live::{LiveSet, LivenessAnalysis, NothingExecuted};
use ir::*;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Maximum number of bits that bridge headers carry: 64 bytes per packet.
const MAX_BITS: u32 = 512;

/// Maximum number of blocks of a control that is split, because the set of reachable blocks is
/// stored for each block.
const MAX_BLOCKS: usize = 1 << 12;

/// Gresses that may use a counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CounterUse {
    /// One gress, as on a chip.
    OneHalf,
    /// Both gresses; their counts are added.
    Anywhere,
}

/// Split point of a control with its live state.
pub(super) struct SplitPoint {
    pub(super) block: Block,
    /// Index of the first instruction after the split point.
    pub(super) at: usize,
    pub(super) live: LiveSet,
}

/// Returns the possible split points. Those with more instructions in egress come first, then those
/// with fewer carried bits. `emitted` has the headers that the deparser emits.
pub(super) fn split_points(
    p: &Pipeline,
    main: ControlId,
    deparser: ControlId,
    emitted: &[HeaderId],
    counters: CounterUse,
) -> Vec<SplitPoint> {
    let body = &p.controls[main].body;
    let Some(split_analysis) = SplitAnalysis::new(body) else { return Vec::new() };
    let progress = &NothingExecuted;
    let end =
        LivenessAnalysis { pipeline: p, body: &p.controls[deparser].body, progress }.live_at_entry(&LiveSet::default());
    let analysis = LivenessAnalysis { pipeline: p, body, progress };
    let begins = analysis.solve_block_starts(&end);
    let mut points: Vec<(usize, u32, SplitPoint)> = Vec::new();
    for block in ir::reverse_postorder(body) {
        if !split_analysis.leaving_packets_are_decided(body, block)
            || !split_analysis.uses_disjoint_objects(p, body, block, counters)
        {
            continue;
        }
        let later_insts: usize = split_analysis.reachable[&block].iter().map(|b| body.blocks[*b].insts.len()).sum();
        for index in 0..=body.blocks[block].insts.len() {
            if !split_analysis.can_run_in_egress(body, block, index)
                || !split_analysis.is_sent_before(body, block, index)
            {
                continue;
            }
            let egress_insts = later_insts + body.blocks[block].insts.len() - index;
            let live = analysis.live_before_inst(block, index, &end, &begins);
            if let Some(bits) = bridge_bits(p, body, &live, emitted).filter(|bits| *bits <= MAX_BITS) {
                points.push((egress_insts, bits, SplitPoint { block, at: index, live }));
            }
        }
    }
    points.sort_by_key(|(egress_insts, bits, _)| (std::cmp::Reverse(*egress_insts), *bits));
    points.into_iter().map(|(.., point)| point).collect()
}

/// Returns the number of bits in bridge headers for live state. `None` if some of it cannot be
/// carried.
fn bridge_bits(p: &Pipeline, body: &Body, live: &LiveSet, emitted: &[HeaderId]) -> Option<u32> {
    let local = |header: usize| !emitted.iter().any(|h| h.index() == header);
    if live.headers.ones().any(local) {
        return None;
    }
    let mut bits = 0;
    for var in live.vars.ones().map(VarId::from_index) {
        match p.vars[var].kind {
            VarKind::Field(header, _) if emitted.contains(&header) => continue,
            VarKind::Field(..) | VarKind::NextIndex(_) => return None,
            VarKind::Meta | VarKind::Local | VarKind::Intrinsic => bits += bridged_bits(p.vars[var].ty)?,
        }
    }
    for value in live.values.ones().map(Value::from_index).filter(|v| constant_inst(body, *v).is_none()) {
        bits += bridged_bits(body.values[value])?;
    }
    Some(bits)
}

/// Returns the width of a type in bits, rounded up to bytes. `None` if header fields cannot have
/// it.
fn bridged_bits(ty: Type) -> Option<u32> {
    matches!(ty, Type::Bool | Type::Bit(_) | Type::Int(_)).then(|| ty.width().next_multiple_of(8))
}

/// Returns the instruction of a constant, which egress recomputes.
pub(super) fn constant_inst(body: &Body, value: Value) -> Option<&InstData> {
    let found = body.defining_inst(value)?;
    matches!(found.inst, Inst::Const(_)).then_some(found)
}

/// Reachability of blocks and port decisions on their paths.
pub(super) struct SplitAnalysis {
    /// Blocks that are reachable from each block, without itself.
    pub(super) reachable: HashMap<Block, BTreeSet<Block>>,
    /// Blocks from which every path sends or drops the packet.
    decides_port: HashSet<Block>,
    /// Blocks at which every packet has been sent.
    sent: HashSet<Block>,
}

impl SplitAnalysis {
    /// Analyses a body. `None` for a body with loops or with more than `MAX_BLOCKS` blocks.
    pub(super) fn new(body: &Body) -> Option<SplitAnalysis> {
        (body.blocks.len() <= MAX_BLOCKS).then_some(())?;
        let mut analysis =
            SplitAnalysis { reachable: reachable_from(body)?, decides_port: HashSet::new(), sent: HashSet::new() };
        for block in ir::reverse_postorder(body).into_iter().rev() {
            let successors = body.blocks[block].successors();
            let decides_port =
                |i: &InstData| matches!(called_function(&i.inst), Some(ExternFn::SendToPort | ExternFn::DropPacket));
            let all_decide_later =
                !successors.is_empty() && successors.iter().all(|b| analysis.decides_port.contains(b));
            if all_decide_later || body.blocks[block].insts.iter().any(decides_port) {
                analysis.decides_port.insert(block);
            }
        }
        let mut unsent: HashSet<Block> = body.entry.into_iter().collect();
        for block in ir::reverse_postorder(body) {
            if !unsent.contains(&block) {
                analysis.sent.insert(block);
            }
            if !analysis.is_sent_before(body, block, body.blocks[block].insts.len()) {
                unsent.extend(body.blocks[block].successors());
            }
        }
        Some(analysis)
    }

    /// Returns whether every packet was sent, and not dropped afterwards, before an instruction.
    /// Other packets would not reach egress, so egress could not count them.
    fn is_sent_before(&self, body: &Body, block: Block, at: usize) -> bool {
        body.blocks[block].insts[..at].iter().fold(self.sent.contains(&block), |sent, i| {
            match called_function(&i.inst) {
                Some(ExternFn::SendToPort) => true,
                Some(ExternFn::DropPacket) => false,
                _ => sent,
            }
        })
    }

    /// Returns whether egress can execute all code from an instruction on, and this code contains a
    /// lookup.
    fn can_run_in_egress(&self, body: &Body, block: Block, at: usize) -> bool {
        let rest = body.blocks[block].insts[at..].iter();
        let mut all = rest.chain(self.reachable[&block].iter().flat_map(|b| &body.blocks[*b].insts));
        let applies =
            |b: &Block| matches!(body.blocks[*b].term, Some(TerminatorData { term: Terminator::Apply { .. }, .. }));
        (applies(&block) || self.reachable[&block].iter().any(applies))
            && all.all(|i| called_function(&i.inst).is_none_or(is_allowed_in_egress))
    }

    /// Returns whether packets that leave the paths to the block are sent or dropped afterwards.
    fn leaving_packets_are_decided(&self, body: &Body, block: Block) -> bool {
        let comes = |b: &Block| *b == block || self.reachable.get(b).is_some_and(|behind| behind.contains(&block));
        let before = self.reachable.keys().filter(|b| **b != block && comes(b));
        let mut leaving = before.flat_map(|b| {
            let own = body.blocks[*b].insts.iter().any(|i| called_function(&i.inst) == Some(ExternFn::DropPacket));
            body.blocks[*b].successors().into_iter().filter(move |_| !own)
        });
        leaving.all(|next| comes(&next) || self.decides_port.contains(&next))
    }

    /// Returns whether no table or object is used both before and after the start of the block.
    fn uses_disjoint_objects(&self, p: &Pipeline, body: &Body, block: Block, counters: CounterUse) -> bool {
        let mut before = BTreeSet::new();
        let mut todo: Vec<Block> = body.entry.into_iter().collect();
        while let Some(at) = todo.pop() {
            if before.insert(at) && at != block {
                todo.extend(body.blocks[at].successors());
            }
        }
        before.remove(&block);
        let of = |blocks: &BTreeSet<Block>| {
            blocks.iter().flat_map(|b| objects_used(p, &body.blocks[*b], counters)).collect()
        };
        let (here, there): (BTreeSet<String>, BTreeSet<String>) = (of(&before), of(&self.reachable[&block]));
        here.is_disjoint(&there)
    }
}

/// Returns the names of the tables and objects that a block uses, without those that both gresses
/// may use.
fn objects_used(p: &Pipeline, data: &BlockData, counters: CounterUse) -> Vec<String> {
    let mut names = Vec::new();
    let may_be_in_both = |kind: &ExternKind| match kind {
        ExternKind::Hash { .. } | ExternKind::Random { .. } => true,
        ExternKind::Counter { .. } => counters == CounterUse::Anywhere,
        _ => false,
    };
    for inst in &data.insts {
        if let Inst::Extern { object: Some(object), .. } = inst.inst
            && !may_be_in_both(&p.externs[object].kind)
        {
            names.push(p.externs[object].preamble.name.clone());
        }
    }
    if let Some(TerminatorData { term: Terminator::Apply { table, .. }, .. }) = &data.term {
        names.push(p.tables[*table].preamble.name.clone());
        names.extend(p.tables[*table].implementation.map(|o| p.externs[o].preamble.name.clone()));
    }
    names
}

/// Returns whether egress supports an extern function.
fn is_allowed_in_egress(func: ExternFn) -> bool {
    use ExternFn::*;
    matches!(
        func,
        DropPacket
            | CounterCount
            | DirectCounterCount
            | HashGet
            | RandomRead
            | MeterExecute
            | DirectMeterExecute
            | RegisterRead
            | RegisterWrite
            | InternetChecksumClear
            | InternetChecksumAdd
            | InternetChecksumSubtract
            | InternetChecksumGet
            | Truncate
    )
}

/// Returns the blocks that are reachable from each block, without itself; `None` for a body with
/// loops.
pub(in crate::emit::tofino) fn reachable_from(body: &Body) -> Option<HashMap<Block, BTreeSet<Block>>> {
    let mut all: HashMap<Block, BTreeSet<Block>> = HashMap::new();
    for block in ir::reverse_postorder(body).into_iter().rev() {
        let next = body.blocks[block].successors();
        let mut own: BTreeSet<Block> = next.iter().copied().collect();
        for next in &next {
            // In postorder, a successor without an entry is the target of a back edge.
            own.extend(all.get(next)?);
        }
        all.insert(block, own);
    }
    Some(all)
}

/// Returns the extern function that an instruction calls.
pub(super) fn called_function(inst: &Inst) -> Option<ExternFn> {
    match inst {
        Inst::Extern { func, .. } => Some(*func),
        _ => None,
    }
}

/// Returns the blocks on the paths between two blocks, without both.
pub(in crate::emit::tofino) fn blocks_between(
    behind: &HashMap<Block, BTreeSet<Block>>,
    from: Block,
    to: Block,
) -> impl Iterator<Item = Block> {
    let leads = move |block: &Block| behind.get(block).is_some_and(|all| all.contains(&to));
    behind[&from].iter().copied().filter(leads)
}

/// Maximum number of lookups before which the valid headers are encoded early.
const MAX_LOOKUPS: usize = 2;

/// Returns the earliest point at which the validity of these headers at the end of `cut` is known:
/// a block that dominates `cut` with at most `MAX_LOOKUPS` lookups in between, and the index after
/// the last instruction that changes it. A lookup there has no further dependencies, so it shares a
/// stage with the skipped lookups.
pub(super) fn earliest_known_validity(p: &Pipeline, body: &Body, cut: Block, headers: &[HeaderId]) -> (Block, usize) {
    let is_relevant = |header: &HeaderId| headers.contains(header) || p.headers[*header].union.is_some();
    let last_change = |block: &Block| {
        body.blocks[*block].insts.iter().rposition(|data| match &data.inst {
            Inst::SetValid(header) | Inst::SetInvalid(header) => is_relevant(header),
            Inst::CopyHeader { dst, .. } => is_relevant(dst),
            _ => false,
        })
    };
    let (cfg, reachable) = (Cfg::new(body), reachable_from(body));
    let (mut point, mut lookups) = (cut, 0);
    while let (Some(dominator), None, Some(reachable)) =
        (cfg.immediate_dominator(point), last_change(&point), &reachable)
    {
        lookups += usize::from(body.blocks[dominator].applied_table().is_some());
        if lookups > MAX_LOOKUPS
            || blocks_between(reachable, dominator, point).any(|block| last_change(&block).is_some())
        {
            break;
        }
        point = dominator;
    }
    (point, last_change(&point).map_or(0, |index| index + 1))
}
