//! Calls.

use crate::frame::{Destination, Frame, Request};
use crate::host::place::Known;
use crate::host::{ExternHost, Lane, SiteId};
use crate::machine::Machine;
use crate::meter::Colour;
use crate::program::Call;
use crate::wire::BitBuffer;
use ir::{ExternFn, ExternKind, Loc};

/// What a call may look at besides its arguments.
#[derive(Clone, Copy, Debug)]
pub struct PacketContext<'a> {
    /// When the packet came in, in nanoseconds.
    pub now: u64,
    /// The packet's length in bytes when it came in or was recirculated: what counters and meters use.
    pub ingress_length: u32,
    /// The bytes that the parser did not take; only looked at if [`crate::host::Site::payload`].
    pub payload: &'a [u8],
    /// Which packet of the batch it is, from 0: tells apart what checksum objects keep for each.
    pub lane: usize,
    /// The number of the entry that the packet hit last in the site's table; `None` after a miss. Hits are forgotten where a pass
    /// begins, and where v1model's egress does.
    pub hit: Option<u32>,
    /// v1model: what [`ExternHost::hit`] gave for the site's table last; green after a miss.
    pub colour: Colour,
}

impl Default for PacketContext<'_> {
    fn default() -> Self {
        PacketContext { now: 0, ingress_length: 0, payload: &[], lane: 0, hit: None, colour: Colour::Green }
    }
}

/// What a call asks of the architecture. Carrying it out is the engine's part; the interpreter's way is in brackets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Effect {
    /// Nothing.
    #[default]
    None,
    /// A checksum is wrong (remembered until the end of the block `VerifyChecksum`, then put in `checksum_error`).
    ChecksumError,
    /// An `assert` or `assume` failed (the packet is dropped at once, whatever it asked for).
    AssertFailed,
    /// v1model: the packet is cut to this many bytes when it leaves (the last call counts).
    Truncate(u32),
    /// v1model: `egress_spec` becomes [`super::architecture::v1model::DROP_PORT`] and `mcast_grp` 0.
    MarkToDrop,
    /// v1model: a copy for this session at the end of the block, with the site's preserved variables (the last call counts).
    Clone {
        /// The session.
        session: u32,
    },
    /// v1model: once more from the start, with the site's preserved variables (the last call counts).
    Resubmit,
    /// v1model: as [`Effect::Resubmit`], after the deparser.
    Recirculate,
    /// PNA `drop_packet` (the last of this and [`Effect::SendToPort`] counts).
    Drop,
    /// PNA `send_to_port`.
    SendToPort(u32),
    /// PNA `mirror_packet` (the last call counts for each slot).
    Mirror {
        /// From 0 to 3.
        slot: usize,
        /// The session.
        session: u32,
    },
    /// PNA `recirculate`.
    PnaRecirculate,
    /// PNA `add_entry`: nothing was done and the result is false, call [`ExternHost::add_entry`].
    AddEntry,
}

impl ExternHost {
    /// Makes the call: reads `args`, writes all words of `results`, both laid out as the [`crate::host::Site`] says.
    ///
    /// # Panics
    /// If the site is not this host's, or an area is shorter than the site says: bugs of the engine.
    pub fn call(&mut self, site: SiteId, packet: &PacketContext<'_>, args: &[u64], results: &mut [u64]) -> Effect {
        if self.sites[site.0 as usize].call.func == ExternFn::AddEntry {
            results[..self.sites[site.0 as usize].result_words].fill(0);
            return Effect::AddEntry;
        }
        self.run(site, packet, args, |machine, frame, call| machine.call(frame, (0, 0), call, Loc::default()));
        let known = &self.sites[site.0 as usize];
        let end = known.arg_words + known.result_words;
        results[..known.result_words].copy_from_slice(&self.frame.slots[known.arg_words..end]);
        if known.asks { effect(known.call.func, &self.frame) } else { Effect::None }
    }

    /// A packet enters a block of the architecture: its checksum objects begin anew, as they do in the interpreter.
    pub fn begin_block(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.sums.fill(0);
            lane.checksums.iter_mut().filter(|sum| sum.bit_len() != 0).for_each(BitBuffer::clear);
        }
    }

    /// Whether the pipeline has objects that keep something while a packet is in a block.
    pub fn keeps_packet_state(&self) -> bool {
        let keeps = |kind: &ExternKind| matches!(kind, ExternKind::Checksum { .. } | ExternKind::InternetChecksum);
        self.pipeline.externs.values().any(|object| keeps(&object.kind))
    }

    /// Fills the frame for a call and lends the parts of the interpreter.
    pub(super) fn run<R>(
        &mut self,
        site: SiteId,
        packet: &PacketContext<'_>,
        args: &[u64],
        act: impl FnOnce(&mut Machine<'_, ()>, &mut Frame, &Call) -> R,
    ) -> R {
        self.advance(packet.now);
        let known = &self.sites[site.0 as usize];
        load(&mut self.frame, known, packet, args);
        if known.lane {
            let objects = self.program.externs;
            if packet.lane >= self.lanes.len() {
                let empty = Lane { sums: vec![0; objects], checksums: vec![BitBuffer::default(); objects] };
                self.lanes.resize(packet.lane + 1, empty);
            }
            swap(&mut self.lanes[packet.lane], &mut self.frame);
        }
        let mut machine = Machine::<()> {
            program: &self.program,
            pipeline: &self.pipeline,
            config: &self.config,
            memory: &mut self.memory,
            overseer: (),
            fuel: 0,
            parser_fuel: 0,
            bits: &mut self.bits,
        };
        let result = act(&mut machine, &mut self.frame, &known.call);
        if known.lane {
            swap(&mut self.lanes[packet.lane], &mut self.frame);
        }
        result
    }
}

/// Makes the frame what the interpreter's would be, as far as the call looks at it.
fn load(frame: &mut Frame, known: &Known, packet: &PacketContext<'_>, args: &[u64]) {
    let Known { arg_words, result_words, .. } = *known;
    frame.slots[..arg_words].copy_from_slice(&args[..arg_words]);
    frame.slots[arg_words..arg_words + result_words].fill(0);
    for place in &known.varbits {
        // A length beyond the type's would make the functions read what is not there.
        let length = &mut frame.slots[place.word];
        *length = (*length).min(u64::from(place.width));
    }
    frame.ingress_length = packet.ingress_length;
    if known.payload {
        frame.set_data(packet.payload);
    }
    if let Some(table) = known.table {
        frame.hits[table] = packet.hit.map_or(0, |number| number.saturating_add(1));
        frame.colours[table] = packet.colour as u8;
    }
    if known.asks {
        forget_requests(frame);
    }
}

/// What the checksum objects keep goes from the packet's lane to the frame, or back.
fn swap(lane: &mut Lane, frame: &mut Frame) {
    std::mem::swap(&mut lane.sums, &mut frame.sums);
    std::mem::swap(&mut lane.checksums, &mut frame.checksums);
}

/// What the call left in the frame.
fn effect(func: ExternFn, frame: &Frame) -> Effect {
    match func {
        ExternFn::MarkToDrop => Effect::MarkToDrop,
        _ if frame.checksum_error => Effect::ChecksumError,
        _ if frame.assert_failed => Effect::AssertFailed,
        _ if frame.pna_recirculate => Effect::PnaRecirculate,
        _ if frame.clone.wanted => Effect::Clone { session: frame.clone.session },
        _ if frame.resubmit.wanted => Effect::Resubmit,
        _ if frame.recirculate.wanted => Effect::Recirculate,
        _ => match (frame.truncate, frame.destination, mirrored(frame)) {
            (Some(length), _, _) => Effect::Truncate(length),
            (_, Destination::Drop, _) => Effect::Drop,
            (_, Destination::Port(port), _) => Effect::SendToPort(port),
            (_, _, Some((slot, session))) => Effect::Mirror { slot, session },
            _ => Effect::None,
        },
    }
}

fn mirrored(frame: &Frame) -> Option<(usize, u32)> {
    frame.mirror.iter().enumerate().find_map(|(slot, session)| session.map(|session| (slot, session)))
}

fn forget_requests(frame: &mut Frame) {
    frame.checksum_error = false;
    frame.assert_failed = false;
    frame.pna_recirculate = false;
    frame.truncate = None;
    frame.destination = Destination::None;
    frame.mirror = [None; 4];
    frame.clone = Request::default();
    frame.resubmit = Request::default();
    frame.recirculate = Request::default();
}
