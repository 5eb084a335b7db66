//! Turns a finished frame into a verdict: prepends the emitted headers and passes the packet to the
//! output.
#![allow(unsafe_code)]

use crate::abi::{EmittedHeader, FrameHeader, destination};
use crate::program::CompiledProgram;
use interp::host::architecture::pna;
use ir::Arch;
use packet::{
    BatchOutput, CpuReason, DropReason, EngineReason, Packet, PacketOrigin, PacketRef, PacketVerdict, PortId, ReasonId,
    Verdict,
};

/// Delivers one packet to the output, as `input` with its origin: to a port, to the CPU, or dropped
/// with a reason. `head` is the header of its finished frame, `emitted` the list of its headers,
/// `input` its place in the batch. `scratch` is reused memory for assembling headers.
///
/// Returns the origin of the packet that enters the main block again, if it does; it then has its
/// deparsed bytes, and no verdict unless it is another packet.
///
/// # Safety
/// `head` and `emitted` were written by native code for this packet, which has not changed since.
pub unsafe fn deliver_packet(
    program: &CompiledProgram,
    head: &FrameHeader,
    emitted: *const EmittedHeader,
    packet: &mut Packet,
    (input, origin): (PacketRef, PacketOrigin),
    out: &mut BatchOutput,
    scratch: &mut Vec<u8>,
) -> Option<PacketOrigin> {
    let mut emit = |verdict| out.emit(PacketVerdict { packet: input, origin, verdict });
    let (kind, high) = (head.destination as u32, head.port());
    let is_in_place = kind & destination::IN_PLACE != 0;
    let port = match kind & !(destination::IN_PLACE | destination::TRUNCATED) {
        destination::ENGINE_DROP => {
            let reason = EngineReason::ALL.get(high as usize).copied().unwrap_or(EngineReason::EngineBug);
            emit(Verdict::Drop(reason.into()));
            return None;
        }
        destination::DROP => {
            emit(Verdict::Drop(drop_reason(program, head)));
            return None;
        }
        kind if kind & destination::RECIRCULATE != 0 => None,
        destination::NOWHERE => None,
        _ => Some(high),
    };
    // SAFETY: guaranteed by the caller.
    if !is_in_place && !unsafe { assemble_packet(head, emitted, packet, scratch) } {
        emit(Verdict::Drop(EngineReason::PacketTooLong.into()));
        return None;
    }
    if kind & destination::RECIRCULATE != 0 {
        if kind & destination::DROP == 0 {
            return Some(origin);
        }
        emit(Verdict::Drop(drop_reason(program, head)));
        return Some(PacketOrigin::Generated);
    }
    let Some(port) = port else {
        emit(Verdict::Drop(EngineReason::NoDestination.into()));
        return None;
    };
    if kind & destination::TRUNCATED != 0 {
        packet.truncate((head.truncate - 1) as usize);
    }
    let is_to_cpu = match program.pipeline.arch {
        Arch::Pna => port == pna::CPU_PORT,
        Arch::V1Model => program.config.cpu_port == Some(port),
    };
    if is_to_cpu {
        let reason = match if program.code.has_cpu_reason { head.cpu_reason } else { 0 } {
            0 => CpuReason::CpuPort,
            reason => CpuReason::Program(ReasonId(reason)),
        };
        emit(Verdict::ToCpu { reason });
        return None;
    }
    if program.config.ports.as_ref().is_some_and(|ports| !ports.contains(&port)) {
        emit(Verdict::Drop(EngineReason::UnknownPort.into()));
        return None;
    }
    emit(Verdict::Forward { port: PortId(port) });
    None
}

/// Returns the reason for which the program drops a packet.
fn drop_reason(program: &CompiledProgram, head: &FrameHeader) -> DropReason {
    match if program.code.has_drop_reason { head.drop_reason } else { 0 } {
        0 => DropReason::Engine(EngineReason::ProgramDrop),
        reason => DropReason::Program(ReasonId(reason)),
    }
}

/// Prepends the emitted headers to the payload. Returns false, with the packet unchanged, if it
/// would be too long.
///
/// # Safety
/// `head` and `emitted` were written by native code for this packet, which has not changed since.
unsafe fn assemble_packet(
    head: &FrameHeader,
    emitted: *const EmittedHeader,
    packet: &mut Packet,
    scratch: &mut Vec<u8>,
) -> bool {
    if head.in_place != 0 {
        // Native code wrote the new headers into the packet's buffer; the bytes before them are
        // unused.
        let removed_bytes = head.output_start as usize - head.input.data as usize;
        return removed_bytes == 0 || packet.trim_front(removed_bytes).is_ok();
    }
    // SAFETY: the frame header holds the length of the list.
    let emitted = unsafe { std::slice::from_raw_parts(emitted, usize::from(head.emitted_count)) };
    // The last headers may already be in place, directly before the payload: they are kept.
    let mut kept_start = head.input.data as usize + head.cursor as usize;
    let mut copied = emitted.len();
    while copied > 0 && emitted[copied - 1].at as usize + emitted[copied - 1].len as usize == kept_start {
        kept_start -= emitted[copied - 1].len as usize;
        copied -= 1;
    }
    scratch.clear();
    for header in &emitted[..copied] {
        if scratch.len() + header.len as usize > 2 * packet::MAX_LEN {
            return false;
        }
        // SAFETY: native code emitted the header from the packet or its frame.
        scratch.extend_from_slice(unsafe { std::slice::from_raw_parts(header.at, header.len as usize) });
    }
    packet.replace_front(kept_start - head.input.data as usize, scratch).is_ok()
}
