//! What becomes of a packet: its headers are put in front of what the parser left, and the engine says where it goes.
#![allow(unsafe_code)]

use crate::abi::{Emitted, Head, destination};
use crate::program::Program;
use interp::host::architecture::pna;
use ir::Arch;
use packet::{CpuReason, DropReason, EngineReason, Output, Packet, PacketRef, PortId, ReasonId};

/// How packets are told that leave as they lie there, if there is nothing else to look at.
#[derive(Clone, Copy)]
pub struct Plain {
    /// What a verdict's low half is then.
    kind: u32,
    /// A port that is none.
    cpu_port: u32,
}

impl Plain {
    /// Of a program's packets.
    pub fn new(program: &Program) -> Plain {
        // Where ports are to be looked at, no verdict is plain.
        let kind = if program.any_port { destination::PORT | destination::AS_IT_LIES } else { u32::MAX };
        Plain { kind, cpu_port: program.cpu_port }
    }

    /// The packet's port.
    #[inline(always)]
    pub fn port(self, head: &Head) -> Option<u32> {
        let (kind, port) = (head.destination as u32, (head.destination >> 32) as u32);
        (kind == self.kind && port != self.cpu_port).then_some(port)
    }
}

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
    let (kind, high) = (head.destination as u32, (head.destination >> 32) as u32);
    let as_it_lies = kind & destination::AS_IT_LIES != 0;
    let port = match kind & !destination::AS_IT_LIES {
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
    if program.truncates && head.truncate != 0 {
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
    let data = head.arrival.data as usize;
    let mut place = data + head.cursor as usize;
    let mut moved = emitted.len();
    while moved > 0 && emitted[moved - 1].at as usize + emitted[moved - 1].len as usize == place {
        place -= emitted[moved - 1].len as usize;
        moved -= 1;
    }
    let moved = &emitted[..moved];
    let Some(bytes) = moved.iter().try_fold(0, |sum, header| Some(sum + header.len).filter(|sum| *sum <= LONGEST))
    else {
        return false;
    };
    let within = data..data + usize::from(head.arrival.len);
    let apart = moved.iter().all(|header| !within.contains(&(header.at as usize)));
    if apart {
        let Ok(space) = packet.front_space(place - data, bytes as usize) else { return false };
        // SAFETY: headers that native code emitted, of the packet's frame, and so many bytes altogether.
        unsafe { copy_all(moved, space) };
        return true;
    }
    // What is written first may be what is still to be read.
    scratch.resize(bytes as usize, 0);
    // SAFETY: headers that native code emitted, of the packet or of its frame, and so many bytes altogether.
    unsafe { copy_all(moved, scratch) };
    packet.replace_front(place - data, scratch).is_ok()
}

/// The most bytes of headers that are put in front of a packet.
const LONGEST: u64 = 2 * packet::MAX_LEN as u64;

/// Copies headers, one behind the other.
///
/// # Safety
/// The headers are there, apart from `to`, and `to` is as long as they are.
unsafe fn copy_all(headers: &[Emitted], to: &mut [u8]) {
    let mut to = to.as_mut_ptr();
    for header in headers {
        let len = header.len as usize;
        // SAFETY: as promised to this function: from 8 bytes on, the last word ends with the header.
        unsafe {
            if len < 8 {
                std::ptr::copy_nonoverlapping(header.at, to, len);
            } else {
                let word = |at: usize| {
                    to.add(at).cast::<u64>().write_unaligned(header.at.add(at).cast::<u64>().read_unaligned())
                };
                (0..len - 8).step_by(8).for_each(word);
                word(len - 8);
            }
            to = to.add(len);
        }
    }
}
