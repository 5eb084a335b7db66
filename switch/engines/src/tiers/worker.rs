//! [`TiersWorker`]: a packet's way through the tiers of a process.

use super::flow::flow_hash;
use super::links::Links;
use super::moved::Moved;
use super::reports::{Outbox, Reports};
use super::spread::Spread;
use node::explain::{Came, Followed, Record, Spent};
use offload::cut::{BACK, HELLO, HITS, wire};
use packet::{
    Batch, Emission, Engine, EngineReason, MAX_BATCH, Origin, Output, Packet, PacketRef, PortId, ReasonTable, Verdict,
};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What all workers of a process know.
pub struct Wiring {
    /// Writers have it while they change both halves.
    pub gate: RwLock<()>,
    pub key: u32,
    pub down_port: u32,
    /// Bytes of a bridge header.
    pub bridge: usize,
    pub links: Links,
    /// By what flows are spread over them, if not by addresses and ports.
    pub spread: Option<Spread>,
    /// Ports to the switch.
    pub up: Vec<u32>,
    pub moved: Moved,
    /// Packets with marks.
    pub followed: Followed,
    /// What tiers below say of hits.
    pub reports: Reports,
    /// What the switch is to be told of hits here.
    pub outbox: Outbox,
    /// When the newest packet came, in nanoseconds.
    pub clock: AtomicU64,
}

impl Wiring {
    /// Which flow a packet belongs to by its addresses and ports, where there are links to choose among.
    pub fn flow(&self, packet: &[u8]) -> u64 {
        if self.links.is_empty() { 0 } else { flow_hash(self.links.seed(), packet) }
    }

    /// Which one by what the bridge header has, if flows are spread by that.
    pub fn by_value(&self, frame: &[u8]) -> Option<u64> {
        self.spread.as_ref()?.hash(self.links.seed(), frame)
    }
}

/// Packets on their way to a half, with whose packet each one is.
#[derive(Default)]
struct Leg {
    batch: Batch,
    out: Output,
    of: Vec<Of>,
    /// What an engine said, so that packets can be moved meanwhile.
    said: Vec<Emission>,
}

/// Whose packet it is.
#[derive(Clone, Copy)]
struct Of {
    /// Index in the batch that the worker was given.
    input: u16,
    origin: Origin,
    /// The port to the switch by which it came, if it did.
    up: Option<PortId>,
    /// The length with which it came to the first tier.
    length: u32,
    flow: u64,
    /// By which it is followed; 0 if it is not.
    mark: u16,
}

pub struct TiersWorker {
    wiring: Arc<Wiring>,
    above: Option<Box<dyn Engine>>,
    below: Option<Box<dyn Engine>>,
    reasons: ReasonTable,
    /// To the upper half; to the lower one; back to the upper one.
    legs: [Leg; 3],
    /// Which inputs have their first answer already: further ones need a packet of their own.
    taken: [bool; MAX_BATCH],
    /// What becomes of packets, with the input that each is of: said in the order in which those came.
    ends: Vec<(u16, Emission)>,
    /// The packets of the batch that have marks, with the input that each is.
    marked: Vec<(u16, Record)>,
    /// Those of the ports to the switch that are this worker's: where something came from.
    own_up: Vec<u32>,
}

const UP: usize = 0;
const DOWN: usize = 1;
const HOME: usize = 2;

impl TiersWorker {
    pub fn new(
        wiring: Arc<Wiring>,
        above: Option<Box<dyn Engine>>,
        below: Option<Box<dyn Engine>>,
        reasons: ReasonTable,
    ) -> TiersWorker {
        TiersWorker {
            wiring,
            above,
            below,
            reasons,
            legs: Default::default(),
            taken: [false; MAX_BATCH],
            ends: Vec::new(),
            marked: Vec::new(),
            own_up: Vec::new(),
        }
    }

    /// Sorts what came in by where it belongs.
    fn arrive(&mut self, batch: &mut Batch) {
        let wiring = self.wiring.clone();
        if let Some(now) = batch.packets().iter().map(|packet| packet.received_at).max() {
            wiring.clock.fetch_max(now, Relaxed);
        }
        for index in 0..batch.len() {
            let packet = &mut batch.packets_mut()[index];
            let (port, now) = (packet.ingress_port, packet.received_at);
            let (bytes, input) = (packet.bytes(), PacketRef::Input(index as u16));
            let (from_below, from_above) = (wiring.links.has(port.0), wiring.up.contains(&port.0));
            let told = wire::read(bytes, wiring.key).filter(|_| from_below || from_above);
            let refuse = |ends: &mut Vec<(u16, Emission)>, reason: EngineReason| {
                let verdict = Verdict::Drop(reason.into());
                ends.push((index as u16, Emission { packet: input, origin: Origin::Received, verdict }));
            };
            // What came over a link has its mark in the bridge header, and nothing else has one there.
            let given = std::mem::take(&mut packet.mark);
            let mark = if from_below || from_above { told.map_or(0, |told| told.mark) } else { given };
            if mark != 0 {
                self.marked.push((index as u16, record(packet, mark, from_above, from_below)));
            }
            let bytes = packet.bytes();
            let of = Of {
                input: index as u16,
                origin: Origin::Received,
                up: from_above.then_some(port),
                length: packet.len() as u32,
                flow: 0,
                mark,
            };
            match told {
                Some(told) if told.stop == HITS && from_below => {
                    wiring.links.heard(port.0, now);
                    wiring.reports.hear(bytes, port.0, now);
                    packet.truncate(0);
                    refuse(&mut self.ends, EngineReason::TierAnswer);
                }
                Some(told) if told.stop == HELLO => {
                    if from_below {
                        wiring.links.heard(port.0, now);
                    }
                    self.taken[index] = true;
                    match from_above {
                        true => {
                            if !self.own_up.contains(&port.0) {
                                self.own_up.push(port.0);
                            }
                            let verdict = Verdict::Forward { port };
                            self.ends
                                .push((index as u16, Emission { packet: input, origin: Origin::Received, verdict }));
                        }
                        // An answer, which was wanted.
                        false => {
                            packet.truncate(0);
                            refuse(&mut self.ends, EngineReason::TierAnswer);
                        }
                    }
                }
                Some(told) if from_below && told.stop == BACK => {
                    wiring.links.heard(port.0, now);
                    packet.ingress_port = PortId(wiring.down_port);
                    self.legs[HOME].take(packet, of);
                }
                Some(told) if from_above && told.stop < HITS && self.below.is_some() => {
                    packet.came_with = Some(told.length.into());
                    wiring.moved.below.fetch_add(1, Relaxed);
                    self.legs[DOWN].take(packet, Of { length: u32::from(told.length), ..of });
                }
                _ if from_below || from_above => refuse(&mut self.ends, EngineReason::NotBridged),
                _ if wire::is_bridged(bytes, wiring.key) => refuse(&mut self.ends, EngineReason::ForgedBridge),
                _ if self.above.is_some() => {
                    let flow = wiring.flow(bytes);
                    self.legs[UP].take(packet, Of { flow, ..of });
                }
                _ => refuse(&mut self.ends, EngineReason::TierDown),
            }
        }
    }

    /// Runs a half over what is on a leg, and moves on what comes out. `home`: what the upper half sends leaves.
    fn run(&mut self, leg: usize, batch: &mut Batch, out: &mut Output) {
        let mut taken = std::mem::take(&mut self.legs[leg]);
        if !taken.batch.is_empty() {
            taken.out.clear();
            let engine = if leg == DOWN { &mut self.below } else { &mut self.above };
            if let Some(engine) = engine {
                match self.marked.is_empty() {
                    true => engine.process(&mut taken.batch, &mut taken.out),
                    false => timed(&mut **engine, leg, &mut taken, &mut self.marked),
                }
            }
            taken.said.clear();
            taken.said.extend_from_slice(taken.out.emissions());
            let said = std::mem::take(&mut taken.said);
            for (at, emission) in said.iter().enumerate() {
                // Several emissions of the same bytes stand together, or are few: the last one may take the packet itself.
                let again = said[at + 1..].iter().take(MAX_BATCH).any(|later| later.packet == emission.packet);
                let mut copy = Packet::new();
                let Some(of) = taken.of_emission(emission, &said[..at]) else { continue };
                let packet = match emission.packet {
                    PacketRef::Input(index) => taken.batch.packets_mut().get_mut(usize::from(index)),
                    extra => taken.out.extra_mut(extra),
                };
                let Some(packet) = packet else { continue };
                let packet = match again {
                    true => {
                        copy.copy_from(packet);
                        &mut copy
                    }
                    false => packet,
                };
                self.step(leg, of, *emission, packet, batch, out);
            }
            taken.said = said;
        }
        taken.batch.clear();
        taken.of.clear();
        // What was put on the same leg meanwhile comes first next time; there is none, as legs go one way.
        self.legs[leg] = taken;
    }

    /// Where a packet goes that a half has done with.
    fn step(&mut self, leg: usize, of: Of, said: Emission, packet: &mut Packet, batch: &mut Batch, out: &mut Output) {
        let wiring = self.wiring.clone();
        let of = Of { origin: if said.origin == Origin::Received { of.origin } else { said.origin }, ..of };
        match (leg, said.verdict) {
            (UP, Verdict::Forward { port }) if port.0 == wiring.down_port => self.descend(of, packet, batch, out),
            (DOWN, Verdict::Forward { port }) => {
                let Ok(header) = packet.prepend(wiring.bridge) else {
                    return self.deliver(of, Verdict::Drop(EngineReason::PacketTooLong.into()), packet, batch, out);
                };
                wire::back(header, wiring.key, port.0, of.mark);
                wiring.moved.back.fetch_add(1, Relaxed);
                match of.up {
                    Some(port) => self.deliver(of, Verdict::Forward { port }, packet, batch, out),
                    None => {
                        packet.ingress_port = PortId(wiring.down_port);
                        packet.came_with = None;
                        if self.legs[HOME].batch.room() == 0 {
                            self.run(HOME, batch, out);
                        }
                        self.legs[HOME].take(packet, of);
                    }
                }
            }
            (_, verdict) => {
                if leg == UP {
                    wiring.moved.above.fetch_add(1, Relaxed);
                }
                self.deliver(of, verdict, packet, batch, out);
            }
        }
    }

    /// A packet leaves the upper half with a bridge header: to a link, or to the lower half that is here.
    fn descend(&mut self, of: Of, packet: &mut Packet, batch: &mut Batch, out: &mut Output) {
        let wiring = self.wiring.clone();
        let length = u16::try_from(of.length).unwrap_or(0);
        let port = batch.packets().get(usize::from(of.input)).map_or(0, |input| input.ingress_port.0);
        let Some(told) = wire::stamp(packet.bytes_mut(), wiring.key, port, length, of.mark) else {
            // The program itself has sent it to that port, which is none for it.
            return self.deliver(of, Verdict::Drop(EngineReason::UnknownPort.into()), packet, batch, out);
        };
        wiring.moved.down.fetch_add(1, Relaxed);
        let flow = wiring.by_value(packet.bytes()).unwrap_or(of.flow);
        if let Some(port) = wiring.links.choose(flow, packet.received_at) {
            return self.deliver(of, Verdict::Forward { port: PortId(port) }, packet, batch, out);
        }
        if self.below.is_none() {
            return self.deliver(of, Verdict::Drop(EngineReason::TierDown.into()), packet, batch, out);
        }
        packet.came_with = Some(told.length.into());
        packet.ingress_port = PortId(wiring.down_port);
        if self.legs[DOWN].batch.room() == 0 {
            self.run(DOWN, batch, out);
        }
        wiring.moved.below.fetch_add(1, Relaxed);
        self.legs[DOWN].take(packet, of);
    }

    /// The switch is told of hits.
    fn report(&self, now: u64, out: &mut Output) {
        for port in &self.own_up {
            for frame in self.wiring.outbox.take(*port) {
                let Some((reference, slot)) = out.add() else { return };
                slot.received_at = now;
                if slot.set_bytes(&frame).is_ok() {
                    let verdict = Verdict::Forward { port: PortId(*port) };
                    out.emit(Emission { packet: reference, origin: Origin::Generated, verdict });
                }
            }
        }
    }

    /// What became of the packets with marks is kept for whoever asks.
    #[cold]
    fn keep_marked(&mut self, batch: &Batch, out: &Output) {
        for (input, record) in &mut self.marked {
            let of_it = self.ends.iter().filter(|(of, _)| of == input);
            of_it.for_each(|(_, emission)| record.note(emission, batch, out));
        }
        self.wiring.followed.keep(self.marked.drain(..).map(|(_, record)| record), io::now());
    }

    /// The end of a packet's way here.
    fn deliver(&mut self, of: Of, verdict: Verdict, packet: &mut Packet, batch: &mut Batch, out: &mut Output) {
        let (input, index) = (PacketRef::Input(of.input), usize::from(of.input));
        // A port may give the packet on as it is.
        packet.mark = 0;
        if matches!(verdict, Verdict::Drop(_)) {
            return self.ends.push((of.input, Emission { packet: input, origin: of.origin, verdict }));
        }
        let slot = match (batch.packets_mut().get_mut(index), self.taken.get_mut(index)) {
            (Some(slot), Some(taken)) if !*taken => {
                *taken = true;
                Some((input, slot))
            }
            _ => out.add(),
        };
        let Some((reference, slot)) = slot else {
            let verdict = Verdict::Drop(EngineReason::ReplicationLimit.into());
            return self.ends.push((of.input, Emission { packet: input, origin: of.origin, verdict }));
        };
        std::mem::swap(slot, packet);
        self.ends.push((of.input, Emission { packet: reference, origin: of.origin, verdict }));
    }
}

/// A packet with a mark, as it came.
#[cold]
fn record(packet: &Packet, mark: u16, from_above: bool, from_below: bool) -> Record {
    let came = match (from_above, from_below) {
        (true, _) => Came::Above,
        (_, true) => Came::Below,
        _ => Came::Front,
    };
    let bytes = if came == Came::Front { Vec::new() } else { packet.bytes().to_vec() };
    let (port, at) = (packet.ingress_port.0, packet.received_at);
    Record { mark, came, bytes, port, at, spent: Vec::new(), fates: Vec::new(), more: 0 }
}

/// Runs a half over a leg on which there may be packets with marks.
#[cold]
fn timed(engine: &mut dyn Engine, leg: usize, taken: &mut Leg, marked: &mut [(u16, Record)]) {
    let began = io::now();
    engine.process(&mut taken.batch, &mut taken.out);
    let done = io::now();
    let told = engine.told();
    for of in taken.of.iter().filter(|of| of.mark != 0) {
        let told = told.iter().find(|(mark, _)| *mark == of.mark).map(|(_, told)| told.clone());
        let Some((_, record)) = marked.iter_mut().find(|(input, _)| *input == of.input) else { continue };
        // Copies of a packet come back together.
        if record.spent.last().is_none_or(|last| last.began != began) {
            record.spent.push(Spent { lower: leg == DOWN, engine: engine.name().to_owned(), began, done, told });
        }
    }
}

impl Leg {
    /// Puts a packet on the leg; what was its place is left with an empty one. There is room.
    fn take(&mut self, packet: &mut Packet, of: Of) {
        packet.mark = of.mark;
        let (port, at, came_with) = (packet.ingress_port, packet.received_at, packet.came_with);
        if self.batch.push_swap(packet).is_ok() {
            self.of.push(of);
        }
        // Who asks where the packet came from asks its place.
        (packet.ingress_port, packet.received_at, packet.came_with) = (port, at, came_with);
    }

    /// Whose packet an emission is about: of one that the engine made, the input whose emission came before it.
    fn of_emission(&self, emission: &Emission, before: &[Emission]) -> Option<Of> {
        let index = match emission.packet {
            PacketRef::Input(index) => index,
            PacketRef::Extra(_) => before.iter().rev().find_map(|earlier| match earlier.packet {
                PacketRef::Input(index) => Some(index),
                PacketRef::Extra(_) => None,
            })?,
        };
        self.of.get(usize::from(index)).copied()
    }
}

impl Engine for TiersWorker {
    fn name(&self) -> &str {
        "tiers"
    }

    fn reasons(&self) -> &ReasonTable {
        &self.reasons
    }

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        let wiring = self.wiring.clone();
        let _gate = wiring.gate.read();
        self.taken = [false; MAX_BATCH];
        self.arrive(batch);
        for leg in [UP, DOWN, HOME] {
            self.run(leg, batch, out);
        }
        // Who went further comes later, and leaves in its order all the same.
        self.ends.sort_by_key(|(input, _)| *input);
        if !self.marked.is_empty() {
            self.keep_marked(batch, out);
        }
        self.ends.drain(..).for_each(|(_, emission)| out.emit(emission));
    }

    fn tick(&mut self, now: u64, out: &mut Output) {
        let wiring = self.wiring.clone();
        let _gate = wiring.gate.read();
        for engine in [&mut self.above, &mut self.below].into_iter().flatten() {
            engine.tick(now, out);
        }
        wiring.links.tick(now);
        self.report(now, out);
        if !wiring.links.is_empty() && wiring.links.must_ask(now) {
            for port in wiring.links.ports() {
                let Some((reference, slot)) = out.add() else { break };
                slot.received_at = now;
                if let Ok(header) = slot.prepend(wiring.bridge.max(60)) {
                    wire::hello(header, wiring.key);
                    out.emit(Emission {
                        packet: reference,
                        origin: Origin::Generated,
                        verdict: Verdict::Forward { port: PortId(port) },
                    });
                }
            }
        }
    }

    fn rest(&mut self) {
        for engine in [&mut self.above, &mut self.below].into_iter().flatten() {
            engine.rest();
        }
    }
}
