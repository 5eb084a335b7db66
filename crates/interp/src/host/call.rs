//! Extern calls and their effects on the architecture.

use crate::bit_io::BitBuffer;
use crate::exec_context::ExecContext;
use crate::frame::{CopyRequest, Destination, Frame};
use crate::host::value_slot::CallSiteRecord;
use crate::host::{ChecksumState, ExternHost, SiteId};
use crate::meter::MeterColor;
use crate::program::DecodedCall;
use ir::{ExternFn, ExternKind, SourceLoc};

/// Packet data that a call can read besides its arguments.
#[derive(Clone, Copy, Debug)]
pub struct PacketContext<'a> {
    /// Arrival time of the packet in nanoseconds.
    pub now: u64,
    /// Length of the packet in bytes on arrival or recirculation, which counters and meters use.
    pub ingress_length: u32,
    /// Bytes that the parser did not consume; only read if
    /// [`crate::host::ExternCallSite::payload`].
    pub payload: &'a [u8],
    /// Index of the packet in the batch, from 0. It selects the state of checksum objects.
    pub lane: usize,
    /// Number of the entry that the packet hit last in the site's table; `None` after a miss. Hits
    /// are cleared at the start of a pass and of v1model's egress.
    pub hit: Option<u32>,
    /// v1model: last result of [`ExternHost::hit`] for the site's table; green after a miss.
    pub colour: MeterColor,
}

impl Default for PacketContext<'_> {
    fn default() -> Self {
        PacketContext { now: 0, ingress_length: 0, payload: &[], lane: 0, hit: None, colour: MeterColor::Green }
    }
}

/// Effect of a call on the architecture, which the engine carries out. The interpreter's
/// implementation is in parentheses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ArchEffect {
    /// None.
    #[default]
    None,
    /// A checksum is wrong (kept until the end of the block `VerifyChecksum`, then stored in
    /// `checksum_error`).
    ChecksumError,
    /// An `assert` or `assume` failed (the packet is dropped at once, despite other requests).
    AssertFailed,
    /// v1model: truncates the packet to this many bytes when it is sent (the last call counts).
    Truncate(u32),
    /// v1model: sets `egress_spec` to [`super::architecture::v1model::DROP_PORT`] and `mcast_grp`
    /// to 0.
    MarkToDrop,
    /// v1model: clones to this session at the end of the block, with the site's preserved variables
    /// (the last call counts).
    Clone {
        /// The session.
        session: u32,
    },
    /// v1model: restarts the received packet at the parser, with the site's preserved variables
    /// (the last call counts).
    Resubmit,
    /// v1model: restarts the deparsed packet at the parser, with the site's preserved variables
    /// (the last call counts).
    Recirculate,
    /// PNA `drop_packet` (the last of this and [`ArchEffect::SendToPort`] counts).
    Drop,
    /// PNA `send_to_port`.
    SendToPort(u32),
    /// PNA `mirror_packet` (the last call counts for each slot).
    Mirror {
        /// Mirror slot, from 0 to 3.
        slot: usize,
        /// The session.
        session: u32,
    },
    /// PNA `recirculate`.
    PnaRecirculate,
    /// PNA `add_entry`: the call has no effect and the result is false. The engine adds the entry.
    AddEntry,
}

impl ExternHost {
    /// Makes the call: reads `args` and writes all words of `results`, both in the layout of the
    /// [`crate::host::ExternCallSite`].
    ///
    /// # Panics
    /// If the site belongs to another host, or an area is shorter than the site requires.
    pub fn call(&mut self, site: SiteId, packet: &PacketContext<'_>, args: &[u64], results: &mut [u64]) -> ArchEffect {
        if self.sites[site.0 as usize].call.func == ExternFn::AddEntry {
            results[..self.sites[site.0 as usize].result_words].fill(0);
            return ArchEffect::AddEntry;
        }
        self.run(site, packet, args, |machine, frame, call| machine.call(frame, (0, 0), call, SourceLoc::default()));
        let known = &self.sites[site.0 as usize];
        let end = known.arg_words + known.result_words;
        results[..known.result_words].copy_from_slice(&self.frame.reg_words[known.arg_words..end]);
        if known.has_arch_effect { requested_effect(known.call.func, &self.frame) } else { ArchEffect::None }
    }

    /// Resets the checksum objects of a packet that enters a programmable block, as the interpreter
    /// does.
    pub fn begin_block(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.sums.fill(0);
            lane.checksums.iter_mut().filter(|sum| sum.bit_len() != 0).for_each(BitBuffer::clear);
        }
    }

    /// Returns whether the pipeline has objects with state while a packet is in a block.
    pub fn keeps_packet_state(&self) -> bool {
        let keeps = |kind: &ExternKind| matches!(kind, ExternKind::Checksum { .. } | ExternKind::InternetChecksum);
        self.pipeline.externs.values().any(|object| keeps(&object.kind))
    }

    /// Fills the frame for a call and runs `act` with the interpreter's execution context.
    pub(super) fn run<R>(
        &mut self,
        site: SiteId,
        packet: &PacketContext<'_>,
        args: &[u64],
        act: impl FnOnce(&mut ExecContext<'_, ()>, &mut Frame, &DecodedCall) -> R,
    ) -> R {
        self.advance(packet.now);
        let known = &self.sites[site.0 as usize];
        load_frame(&mut self.frame, known, packet, args);
        if known.uses_checksum_state {
            let objects = self.program.externs;
            if packet.lane >= self.lanes.len() {
                let empty = ChecksumState { sums: vec![0; objects], checksums: vec![BitBuffer::default(); objects] };
                self.lanes.resize(packet.lane + 1, empty);
            }
            swap_checksum_state(&mut self.lanes[packet.lane], &mut self.frame);
        }
        let mut machine = ExecContext::<()> {
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
        if known.uses_checksum_state {
            swap_checksum_state(&mut self.lanes[packet.lane], &mut self.frame);
        }
        result
    }
}

/// Sets the parts of the frame that the call reads.
fn load_frame(frame: &mut Frame, known: &CallSiteRecord, packet: &PacketContext<'_>, args: &[u64]) {
    let CallSiteRecord { arg_words, result_words, .. } = *known;
    frame.reg_words[..arg_words].copy_from_slice(&args[..arg_words]);
    frame.reg_words[arg_words..arg_words + result_words].fill(0);
    for place in &known.varbits {
        // Bounds the length, because a longer one would make the functions read beyond the value.
        let length = &mut frame.reg_words[place.first_word];
        *length = (*length).min(u64::from(place.width));
    }
    frame.ingress_len_bytes = packet.ingress_length;
    if known.payload {
        frame.set_data(packet.payload);
    }
    if let Some(table) = known.table {
        frame.hit_slots[table] = packet.hit.map_or(0, |number| number.saturating_add(1));
        frame.meter_colors[table] = packet.colour as u8;
    }
    if known.has_arch_effect {
        clear_requests(frame);
    }
}

/// Exchanges the state of checksum objects between the packet's lane and the frame.
fn swap_checksum_state(lane: &mut ChecksumState, frame: &mut Frame) {
    std::mem::swap(&mut lane.sums, &mut frame.sums);
    std::mem::swap(&mut lane.checksums, &mut frame.checksums);
}

/// Returns the request that the call left in the frame.
fn requested_effect(func: ExternFn, frame: &Frame) -> ArchEffect {
    match func {
        ExternFn::MarkToDrop => ArchEffect::MarkToDrop,
        _ if frame.checksum_error => ArchEffect::ChecksumError,
        _ if frame.assert_failed => ArchEffect::AssertFailed,
        _ if frame.pna_recirculate => ArchEffect::PnaRecirculate,
        _ if frame.clone.is_requested => ArchEffect::Clone { session: frame.clone.session },
        _ if frame.resubmit.is_requested => ArchEffect::Resubmit,
        _ if frame.recirculate.is_requested => ArchEffect::Recirculate,
        _ => match (frame.truncate_bytes, frame.destination, mirrored(frame)) {
            (Some(length), _, _) => ArchEffect::Truncate(length),
            (_, Destination::Drop, _) => ArchEffect::Drop,
            (_, Destination::Port(port), _) => ArchEffect::SendToPort(port),
            (_, _, Some((slot, session))) => ArchEffect::Mirror { slot, session },
            _ => ArchEffect::None,
        },
    }
}

fn mirrored(frame: &Frame) -> Option<(usize, u32)> {
    frame.mirror.iter().enumerate().find_map(|(slot, session)| session.map(|session| (slot, session)))
}

fn clear_requests(frame: &mut Frame) {
    frame.checksum_error = false;
    frame.assert_failed = false;
    frame.pna_recirculate = false;
    frame.truncate_bytes = None;
    frame.destination = Destination::None;
    frame.mirror = [None; 4];
    frame.clone = CopyRequest::default();
    frame.resubmit = CopyRequest::default();
    frame.recirculate = CopyRequest::default();
}
