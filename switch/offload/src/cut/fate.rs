//! What PNA's `send_to_port` and `drop_packet` have said in front of a stop is carried behind it.
//!
//! The last call counts, so a packet can leave for the tier below although it was sent or dropped already; but that tier has to know where it would have
//! gone. Beside each call from which a packet can come to a stop stands in two variables what it has said; they are carried as others are, and the tier below
//! says it again.

use super::code::{add_metadata, drop, send};
use ir::{Arg, Block, Body, BodyBuilder, Const, ControlId, ExternFn, Inst, InstData, Pipeline, Type, Value, VarId};
use std::collections::BTreeSet;

/// The type of [`Fate::kind`].
const KIND: Type = Type::Bit(2);
/// The packet is sent.
const SENT: u32 = 1;
/// The packet is dropped.
const DROPPED: u32 = 2;

/// The variables that say it.
pub struct Fate {
    /// 0: nothing was said.
    kind: VarId,
    /// The port of a packet that is sent.
    port: VarId,
    /// For each stop whether something may have been said in front of it.
    pub said: Vec<bool>,
}

impl Fate {
    /// Notes what calls say, if one of them is in front of a stop, where the blocks begin.
    pub fn note(pipeline: &mut Pipeline, control: ControlId, places: &[Block]) -> Option<Fate> {
        let body = &pipeline.controls[control].body;
        let calls: BTreeSet<Block> = body.blocks.keys().filter(|block| says(body, *block)).collect();
        let behind = reached(body, &calls);
        let said: Vec<bool> = places.iter().map(|place| behind.contains(place)).collect();
        said.contains(&true).then_some(())?;
        let kind = add_metadata(pipeline, "fate", KIND);
        let fate = Fate { kind, port: add_metadata(pipeline, "fate_port", Type::Bit(32)), said };
        let body = &mut pipeline.controls[control].body;
        let places: BTreeSet<Block> = places.iter().copied().collect();
        for block in calls {
            if !reached(body, &BTreeSet::from([block])).is_disjoint(&places) {
                fate.beside(body, block);
            }
        }
        Some(fate)
    }

    /// The variables.
    pub fn vars(&self) -> [VarId; 2] {
        [self.kind, self.port]
    }

    /// Notes what the calls of a block say.
    fn beside(&self, body: &mut Body, block: Block) {
        let insts = std::mem::take(&mut body.blocks[block].insts);
        for data in insts {
            let said = said(&data.inst);
            body.blocks[block].insts.push(data);
            let (number, port) = match said {
                None => continue,
                Some(Said::Sent(port)) => (SENT, Some(port)),
                Some(Said::Dropped) => (DROPPED, None),
            };
            let kind = body.values.push(KIND);
            let insts = &mut body.blocks[block].insts;
            insts.push(InstData::new(Inst::Const(Const::new(KIND, number)), vec![kind]));
            insts.push(InstData::new(Inst::Store(self.kind, kind), Vec::new()));
            insts.extend(port.map(|port| InstData::new(Inst::Store(self.port, port), Vec::new())));
        }
    }

    /// Says it again, and goes on at the block.
    pub fn again(&self, p: &Pipeline, place: Block, b: &mut BodyBuilder) {
        let kind = b.load(p, self.kind);
        let [sent, dropped] = [(); 2].map(|()| b.create_block());
        b.switch(kind, vec![(Const::new(KIND, SENT), sent), (Const::new(KIND, DROPPED), dropped)], place);
        b.switch_to(sent);
        let port = b.load(p, self.port);
        send(p, port, b);
        b.jump(place);
        b.switch_to(dropped);
        drop(p, b);
        b.jump(place);
    }
}

/// What a call says of the packet.
enum Said {
    /// It is sent to that port.
    Sent(Value),
    Dropped,
}

fn said(inst: &Inst) -> Option<Said> {
    match inst {
        Inst::Extern { func: ExternFn::DropPacket, .. } => Some(Said::Dropped),
        Inst::Extern { func: ExternFn::SendToPort, args, .. } => match args.first() {
            Some(Arg::Value(port)) => Some(Said::Sent(*port)),
            _ => None,
        },
        _ => None,
    }
}

fn says(body: &Body, block: Block) -> bool {
    body.blocks[block].insts.iter().any(|data| said(&data.inst).is_some())
}

/// The blocks behind these.
fn reached(body: &Body, from: &BTreeSet<Block>) -> BTreeSet<Block> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<Block> = from.iter().copied().collect();
    while let Some(block) = waiting.pop() {
        waiting.extend(body.blocks[block].successors().into_iter().filter(|next| found.insert(*next)));
    }
    found
}
