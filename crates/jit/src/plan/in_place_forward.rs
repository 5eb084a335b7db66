//! Packets that leave unchanged in their buffer.

use crate::abi::{FrameHeader, destination, port};
use interp::Config;
use interp::host::architecture::pna;
use ir::Arch;

/// Recognises packets that leave unchanged in their buffer and need no further check.
#[derive(Clone, Copy)]
pub struct InPlaceForward {
    /// Low half of the destination of such packets.
    kind: u32,
    /// CPU port; a port that no packet can have if there is none.
    cpu_port: u32,
}

impl InPlaceForward {
    /// Makes the condition for an architecture.
    pub fn new(config: &Config, arch: Arch) -> InPlaceForward {
        // If ports must be checked, no packet matches.
        let any_port = config.ports.is_none();
        let kind = if any_port { destination::PORT | destination::IN_PLACE } else { u32::MAX };
        let cpu_port = match arch {
            Arch::Pna => pna::CPU_PORT,
            // A port of v1model has 9 bits.
            Arch::V1Model => config.cpu_port.unwrap_or(u32::MAX),
        };
        InPlaceForward { kind, cpu_port }
    }

    /// Returns whether the packet leaves unchanged, to [`FrameHeader::port`].
    #[inline(always)]
    pub fn matches_header(self, head: &FrameHeader) -> bool {
        self.matches_destination(head.destination)
    }

    /// Returns whether a packet with this [`FrameHeader::destination`] leaves unchanged.
    #[inline(always)]
    pub fn matches_destination(self, destination: u64) -> bool {
        destination as u32 == self.kind && port(destination) != self.cpu_port
    }

    /// Returns the CPU port.
    pub fn cpu_port(self) -> u32 {
        self.cpu_port
    }
}
