//! What becomes of a packet: its headers are put in front of what the parser left, and the engine says where it goes.
#![allow(unsafe_code)]

use crate::abi::{Emitted, Head, destination};
use crate::program::Program;
use interp::host::architecture::pna;
use ir::Arch;
use packet::{CpuReason, DropReason, EngineReason, Output, Packet, PacketRef, PortId, ReasonId};

/// Answers for one packet.
///
/// # Safety
/// `head` and `emitted` are what native code left for this packet, which has not changed since.
pub unsafe fn answer(
    program: &Program,
    head: &Head,
    emitted: *const Emitted,
    packet: &mut Packet,
    input: PacketRef,
    out: &mut Output,
    scratch: &mut Vec<u8>,
) {
    let (kind, high) = (head.destination as u32, head.port());
    let as_it_lies = kind & destination::AS_IT_LIES != 0;
    let port = match kind & !(destination::AS_IT_LIES | destination::CUT) {
        destination::GAVE_UP => {
            let reason = EngineReason::ALL.get(high as usize).copied().unwrap_or(EngineReason::EngineFault);
            return out.drop(input, reason.into());
        }
        destination::DROP => {
            let reason = match program.drop_reason {
                false => 0,
                true => head.drop_reason,
            };
            let reason = match reason {
                0 => DropReason::Engine(EngineReason::ProgramDrop),
                reason => DropReason::Program(ReasonId(reason)),
            };
            return out.drop(input, reason);
        }
        destination::NOWHERE => None,
        _ => Some(high),
    };
    // SAFETY: as promised by the caller.
    if !as_it_lies && !unsafe { assemble(head, emitted, packet, scratch) } {
        return out.drop(input, EngineReason::PacketTooLong.into());
    }
    let Some(port) = port else { return out.drop(input, EngineReason::NoDestination.into()) };
    if kind & destination::CUT != 0 {
        packet.truncate((head.truncate - 1) as usize);
    }
    let cpu = match program.pipeline.arch {
        Arch::Pna => port == pna::CPU_PORT,
        Arch::V1Model => program.config.cpu_port == Some(port),
    };
    if cpu {
        let reason = match if program.cpu_reason { head.cpu_reason } else { 0 } {
            0 => CpuReason::CpuPort,
            reason => CpuReason::Program(ReasonId(reason)),
        };
        return out.to_cpu(input, reason);
    }
    if program.config.ports.as_ref().is_some_and(|ports| !ports.contains(&port)) {
        return out.drop(input, EngineReason::UnknownPort.into());
    }
    out.forward(input, PortId(port));
}

/// Puts the emitted headers in front of the payload. False if the packet would be too long; it is then as it was.
///
/// # Safety
/// As [`answer`].
unsafe fn assemble(head: &Head, emitted: *const Emitted, packet: &mut Packet, scratch: &mut Vec<u8>) -> bool {
    if head.in_place != 0 {
        let gone = head.front as usize - head.arrival.data as usize;
        return gone == 0 || packet.trim_front(gone).is_ok();
    }
    // SAFETY: the list is as long as the head says.
    let emitted = unsafe { std::slice::from_raw_parts(emitted, usize::from(head.emitted)) };
    // The last headers may stand where they belong.
    let mut place = head.arrival.data as usize + head.cursor as usize;
    let mut moved = emitted.len();
    while moved > 0 && emitted[moved - 1].at as usize + emitted[moved - 1].len as usize == place {
        place -= emitted[moved - 1].len as usize;
        moved -= 1;
    }
    scratch.clear();
    for header in &emitted[..moved] {
        if scratch.len() + header.len as usize > 2 * packet::MAX_LEN {
            return false;
        }
        // SAFETY: a header that native code emitted, of the packet or of its frame.
        scratch.extend_from_slice(unsafe { std::slice::from_raw_parts(header.at, header.len as usize) });
    }
    packet.replace_front(place - head.arrival.data as usize, scratch).is_ok()
}
