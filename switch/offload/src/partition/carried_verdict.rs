//! Verdicts of PNA's `send_to_port` and `drop_packet` that are decided before a cut point.
//!
//! The last call determines the verdict. A packet can go to the lower tier after it was sent or
//! dropped, and that tier must know the verdict. Each call from which a cut point is reachable
//! therefore stores its verdict in two variables. They are carried like other variables, and the
//! lower tier repeats the call.

use super::code::{add_metadata, drop_packet, send_to_port};
use super::cut_point::CutBlock;
use ir::{
    Block, Body, BodyBuilder, Const, ControlId, ExternArg, ExternFn, Inst, InstData, Pipeline, Type, Value, VarId,
};
use std::collections::BTreeSet;

/// Type of [`CarriedVerdict::verdict`].
const KIND: Type = Type::Bit(2);
/// Verdict: sent.
const SENT: u32 = 1;
/// Verdict: dropped.
const DROPPED: u32 = 2;

/// Variables of the carried verdict.
pub struct CarriedVerdict {
    /// Verdict; 0: undecided.
    verdict: VarId,
    /// Port of a sent packet.
    port: VarId,
    /// For each cut point, whether the verdict can be decided before it.
    pub may_be_decided: Vec<bool>,
}

impl CarriedVerdict {
    /// Records the verdicts of calls in metadata, if one of them precedes a cut point at which
    /// packets continue. `None` if no verdict is decided before one.
    pub fn record_early_verdicts(
        pipeline: &mut Pipeline,
        control: ControlId,
        cut_blocks: &[CutBlock],
    ) -> Option<CarriedVerdict> {
        let body = &pipeline.controls[control].body;
        let calls: BTreeSet<Block> = body.blocks.keys().filter(|block| has_early_verdict(body, *block)).collect();
        let after_call = blocks_after(body, &calls);
        let may_be_decided: Vec<bool> =
            cut_blocks.iter().map(|cut| !cut.is_restart() && after_call.contains(&cut.block)).collect();
        may_be_decided.contains(&true).then_some(())?;
        let verdict_var = add_metadata(pipeline, "fate", KIND);
        let verdict = CarriedVerdict {
            verdict: verdict_var,
            port: add_metadata(pipeline, "fate_port", Type::Bit(32)),
            may_be_decided,
        };
        let body = &mut pipeline.controls[control].body;
        let cut_blocks: BTreeSet<Block> =
            cut_blocks.iter().filter(|cut| !cut.is_restart()).map(|cut| cut.block).collect();
        for block in calls {
            if !blocks_after(body, &BTreeSet::from([block])).is_disjoint(&cut_blocks) {
                verdict.record_in_block(body, block);
            }
        }
        Some(verdict)
    }

    /// Returns the variables.
    pub fn vars(&self) -> [VarId; 2] {
        [self.verdict, self.port]
    }

    /// Records the verdicts of the calls in a block.
    fn record_in_block(&self, body: &mut Body, block: Block) {
        let insts = std::mem::take(&mut body.blocks[block].insts);
        for data in insts {
            let said = early_verdict(&data.inst);
            body.blocks[block].insts.push(data);
            let (number, port) = match said {
                None => continue,
                Some(EarlyVerdict::Sent(port)) => (SENT, Some(port)),
                Some(EarlyVerdict::Dropped) => (DROPPED, None),
            };
            let kind = body.values.push(KIND);
            let insts = &mut body.blocks[block].insts;
            insts.push(InstData::new(Inst::Const(Const::new(KIND, number)), vec![kind]));
            insts.push(InstData::new(Inst::Store(self.verdict, kind), Vec::new()));
            insts.extend(port.map(|port| InstData::new(Inst::Store(self.port, port), Vec::new())));
        }
    }

    /// Emits the repetition of the verdict, followed by a jump to the block.
    pub fn replay_verdict(&self, p: &Pipeline, place: Block, b: &mut BodyBuilder) {
        let kind = b.load(p, self.verdict);
        let [sent, dropped] = [(); 2].map(|()| b.create_block());
        b.switch(kind, vec![(Const::new(KIND, SENT), sent), (Const::new(KIND, DROPPED), dropped)], place);
        b.switch_to(sent);
        let port = b.load(p, self.port);
        send_to_port(p, port, b);
        b.jump(place);
        b.switch_to(dropped);
        drop_packet(p, b);
        b.jump(place);
    }
}

/// Verdict of a call.
enum EarlyVerdict {
    /// Sent to this port.
    Sent(Value),
    Dropped,
}

fn early_verdict(inst: &Inst) -> Option<EarlyVerdict> {
    match inst {
        Inst::Extern { func: ExternFn::DropPacket, .. } => Some(EarlyVerdict::Dropped),
        Inst::Extern { func: ExternFn::SendToPort, args, .. } => match args.first() {
            Some(ExternArg::Value(port)) => Some(EarlyVerdict::Sent(*port)),
            _ => None,
        },
        _ => None,
    }
}

fn has_early_verdict(body: &Body, block: Block) -> bool {
    body.blocks[block].insts.iter().any(|data| early_verdict(&data.inst).is_some())
}

/// Returns the blocks that are reachable from these.
fn blocks_after(body: &Body, from: &BTreeSet<Block>) -> BTreeSet<Block> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<Block> = from.iter().copied().collect();
    while let Some(block) = waiting.pop() {
        waiting.extend(body.blocks[block].successors().into_iter().filter(|next| found.insert(*next)));
    }
    found
}
