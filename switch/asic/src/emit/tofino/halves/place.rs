//! Where a control is cut: as early as may be, but behind all that decides about the packet's port.

use crate::live::{Analysis, Live, Untouched};
use ir::*;
use std::collections::{BTreeSet, HashMap, HashSet};

/// More bits than this are not carried from ingress to egress: 64 bytes in front of each packet.
const MAX_BITS: u32 = 512;

/// Larger controls than this are not cut: what lies behind each block is kept.
const MAX_BLOCKS: usize = 1 << 12;

/// Where a counter may be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counters {
    /// In one of the halves, as a chip's is.
    OneHalf,
    /// In both: what each has counted adds up.
    Anywhere,
}

/// A place in a control, with what is live there.
pub(super) struct Place {
    pub(super) block: Block,
    /// The first instruction behind it.
    pub(super) at: usize,
    pub(super) live: Live,
}

/// Where a control may be cut: first what leaves most instructions to egress, of those that leave as many where least is carried.
pub(super) fn places(
    p: &Pipeline,
    main: ControlId,
    deparser: ControlId,
    emitted: &[HeaderId],
    counters: Counters,
) -> Vec<Place> {
    let body = &p.controls[main].body;
    let Some(ways) = Ways::new(body) else { return Vec::new() };
    let progress = &Untouched;
    let end = Analysis { pipeline: p, body: &p.controls[deparser].body, progress }.entry(&Live::default());
    let analysis = Analysis { pipeline: p, body, progress };
    let begins = analysis.run(&end);
    let mut all: Vec<(usize, u32, Place)> = Vec::new();
    for block in ir::reverse_postorder(body) {
        if !ways.leaving_settles(body, block) || !ways.separate(p, body, block, counters) {
            continue;
        }
        let behind: usize = ways.behind[&block].iter().map(|b| body.blocks[*b].insts.len()).sum();
        for at in 0..=body.blocks[block].insts.len() {
            if !ways.egress_only(body, block, at) || !ways.sent(body, block, at) {
                continue;
            }
            let left = behind + body.blocks[block].insts.len() - at;
            let live = analysis.within(block, at, &end, &begins);
            if let Some(bits) = carried(p, body, &live, emitted).filter(|bits| *bits <= MAX_BITS) {
                all.push((left, bits, Place { block, at, live }));
            }
        }
    }
    all.sort_by_key(|(left, bits, _)| (std::cmp::Reverse(*left), *bits));
    all.into_iter().map(|(.., place)| place).collect()
}

/// Bits that a bridge header has for what is live; none if something is that has no place in one.
fn carried(p: &Pipeline, body: &Body, live: &Live, emitted: &[HeaderId]) -> Option<u32> {
    let local = |header: usize| !emitted.iter().any(|h| h.index() == header);
    if live.headers.ones().any(local) {
        return None;
    }
    let mut bits = 0;
    for var in live.vars.ones().map(VarId::from_index) {
        match p.vars[var].kind {
            VarKind::Field(header, _) if emitted.contains(&header) => continue,
            VarKind::Field(..) | VarKind::NextIndex(_) => return None,
            VarKind::Meta | VarKind::Local | VarKind::Intrinsic => bits += plain(p.vars[var].ty)?,
        }
    }
    for value in live.values.ones().map(Value::from_index).filter(|v| constant(body, *v).is_none()) {
        bits += plain(body.values[value])?;
    }
    Some(bits)
}

/// Bits of a type that header fields have, in whole bytes.
fn plain(ty: Type) -> Option<u32> {
    matches!(ty, Type::Bool | Type::Bit(_) | Type::Int(_)).then(|| ty.width().next_multiple_of(8))
}

/// A constant's instruction: it is made anew on the other side.
pub(super) fn constant(body: &Body, value: Value) -> Option<&InstData> {
    let found = body.definition(value)?;
    matches!(found.inst, Inst::Const(_)).then_some(found)
}

/// What lies behind each block, and what happens on the ways from it.
pub(super) struct Ways {
    /// Blocks that a block leads to, itself not among them.
    pub(super) behind: HashMap<Block, BTreeSet<Block>>,
    /// Blocks from which each way sends the packet somewhere, or drops it.
    settles: HashSet<Block>,
    /// Blocks that no packet comes to without having been sent somewhere.
    sent: HashSet<Block>,
}

impl Ways {
    /// None for a body with loops, and for one that is too large.
    pub(super) fn new(body: &Body) -> Option<Ways> {
        (body.blocks.len() <= MAX_BLOCKS).then_some(())?;
        let mut ways = Ways { behind: behind(body)?, settles: HashSet::new(), sent: HashSet::new() };
        for block in ir::reverse_postorder(body).into_iter().rev() {
            let next = body.blocks[block].successors();
            let decides = |i: &InstData| matches!(func(&i.inst), Some(ExternFn::SendToPort | ExternFn::DropPacket));
            let later = !next.is_empty() && next.iter().all(|b| ways.settles.contains(b));
            if later || body.blocks[block].insts.iter().any(decides) {
                ways.settles.insert(block);
            }
        }
        let mut unsent: HashSet<Block> = body.entry.into_iter().collect();
        for block in ir::reverse_postorder(body) {
            if !unsent.contains(&block) {
                ways.sent.insert(block);
            }
            if !ways.sent(body, block, body.blocks[block].insts.len()) {
                unsent.extend(body.blocks[block].successors());
            }
        }
        Some(ways)
    }

    /// Whether each packet has been sent somewhere, and not been dropped behind that, before an instruction of a block. One that has not would
    /// not come to egress, and not be counted there.
    fn sent(&self, body: &Body, block: Block, at: usize) -> bool {
        body.blocks[block].insts[..at].iter().fold(self.sent.contains(&block), |sent, i| match func(&i.inst) {
            Some(ExternFn::SendToPort) => true,
            Some(ExternFn::DropPacket) => false,
            _ => sent,
        })
    }

    /// Whether nothing from that instruction on needs to be in ingress, and there is some work.
    fn egress_only(&self, body: &Body, block: Block, at: usize) -> bool {
        let rest = body.blocks[block].insts[at..].iter();
        let mut all = rest.chain(self.behind[&block].iter().flat_map(|b| &body.blocks[*b].insts));
        let applies = |b: &Block| matches!(body.blocks[*b].term, Some(TermData { term: Term::Apply { .. }, .. }));
        (applies(&block) || self.behind[&block].iter().any(applies)) && all.all(|i| func(&i.inst).is_none_or(in_egress))
    }

    /// Whether packets that never come to the block, though they might have, are sent or dropped before they end.
    fn leaving_settles(&self, body: &Body, block: Block) -> bool {
        let comes = |b: &Block| *b == block || self.behind.get(b).is_some_and(|behind| behind.contains(&block));
        let before = self.behind.keys().filter(|b| **b != block && comes(b));
        let mut leaving = before.flat_map(|b| {
            let own = body.blocks[*b].insts.iter().any(|i| func(&i.inst) == Some(ExternFn::DropPacket));
            body.blocks[*b].successors().into_iter().filter(move |_| !own)
        });
        leaving.all(|next| comes(&next) || self.settles.contains(&next))
    }

    /// Whether tables and objects are on one side of the block only.
    fn separate(&self, p: &Pipeline, body: &Body, block: Block, counters: Counters) -> bool {
        let mut before = BTreeSet::new();
        let mut todo: Vec<Block> = body.entry.into_iter().collect();
        while let Some(at) = todo.pop() {
            if before.insert(at) && at != block {
                todo.extend(body.blocks[at].successors());
            }
        }
        before.remove(&block);
        let of = |blocks: &BTreeSet<Block>| blocks.iter().flat_map(|b| things(p, &body.blocks[*b], counters)).collect();
        let (here, there): (BTreeSet<String>, BTreeSet<String>) = (of(&before), of(&self.behind[&block]));
        here.is_disjoint(&there)
    }
}

/// Names of the tables and objects that a block uses; hash units and random numbers may be had twice.
fn things(p: &Pipeline, data: &BlockData, counters: Counters) -> Vec<String> {
    let mut all = Vec::new();
    let twice = |kind: &ExternKind| match kind {
        ExternKind::Hash { .. } | ExternKind::Random { .. } => true,
        ExternKind::Counter { .. } => counters == Counters::Anywhere,
        _ => false,
    };
    for inst in &data.insts {
        if let Inst::Extern { object: Some(object), .. } = inst.inst
            && !twice(&p.externs[object].kind)
        {
            all.push(p.externs[object].preamble.name.clone());
        }
    }
    if let Some(TermData { term: Term::Apply { table, .. }, .. }) = &data.term {
        all.push(p.tables[*table].preamble.name.clone());
        all.extend(p.tables[*table].implementation.map(|o| p.externs[o].preamble.name.clone()));
    }
    all
}

/// What egress may do.
fn in_egress(func: ExternFn) -> bool {
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

/// Blocks that each block leads to, itself not among them; none for a body with loops.
pub(in crate::emit::tofino) fn behind(body: &Body) -> Option<HashMap<Block, BTreeSet<Block>>> {
    let mut all: HashMap<Block, BTreeSet<Block>> = HashMap::new();
    for block in ir::reverse_postorder(body).into_iter().rev() {
        let next = body.blocks[block].successors();
        let mut own: BTreeSet<Block> = next.iter().copied().collect();
        for next in &next {
            // In this order, what has not been met leads back.
            own.extend(all.get(next)?);
        }
        all.insert(block, own);
    }
    Some(all)
}

/// The function that an instruction calls.
pub(super) fn func(inst: &Inst) -> Option<ExternFn> {
    match inst {
        Inst::Extern { func, .. } => Some(*func),
        _ => None,
    }
}

/// Blocks on the ways from one to another, both not counted.
pub(in crate::emit::tofino) fn between(
    behind: &HashMap<Block, BTreeSet<Block>>,
    from: Block,
    to: Block,
) -> impl Iterator<Item = Block> {
    let leads = move |block: &Block| behind.get(block).is_some_and(|all| all.contains(&to));
    behind[&from].iter().copied().filter(leads)
}

/// Lookups in front of which headers are asked for, at most.
const MAX_LOOKUPS: usize = 2;

/// Where it is known which of these headers a packet has when it comes to the end of a block: a block, that one or one that all its ways come by with no more than so
/// many lookups in between, and the first instruction behind all that changes them. A lookup that waits for nothing else is placed beside those.
pub(super) fn settled(p: &Pipeline, body: &Body, cut: Block, headers: &[HeaderId]) -> (Block, usize) {
    let makes = |header: &HeaderId| headers.contains(header) || p.headers[*header].union.is_some();
    let last = |block: &Block| {
        body.blocks[*block].insts.iter().rposition(|data| match &data.inst {
            Inst::SetValid(header) | Inst::SetInvalid(header) => makes(header),
            Inst::CopyHeader { dst, .. } => makes(dst),
            _ => false,
        })
    };
    let (cfg, behind) = (Cfg::new(body), behind(body));
    let (mut found, mut passed) = (cut, 0);
    while let (Some(above), None, Some(behind)) = (cfg.immediate_dominator(found), last(&found), &behind) {
        passed += usize::from(body.blocks[above].applied().is_some());
        if passed > MAX_LOOKUPS || between(behind, above, found).any(|block| last(&block).is_some()) {
            break;
        }
        found = above;
    }
    (found, last(&found).map_or(0, |at| at + 1))
}
