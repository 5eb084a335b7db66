//! Which packets leave as they lie.

use crate::abi::{Head, destination, port};
use interp::Config;
use interp::host::architecture::pna;
use ir::Arch;

/// How packets are told that leave as they lie there, if there is nothing else to look at.
#[derive(Clone, Copy)]
pub struct Plain {
    /// What a verdict's low half is then.
    kind: u32,
    /// The port that stands for the CPU; one that no packet names if there is none.
    cpu_port: u32,
}

impl Plain {
    /// Of a program for that architecture.
    pub fn new(config: &Config, arch: Arch) -> Plain {
        // Where ports are to be looked at, no verdict is plain.
        let any_port = config.ports.is_none();
        let kind = if any_port { destination::PORT | destination::AS_IT_LIES } else { u32::MAX };
        let cpu_port = match arch {
            Arch::Pna => pna::CPU_PORT,
            // A port of v1model has 9 bits.
            Arch::V1Model => config.cpu_port.unwrap_or(u32::MAX),
        };
        Plain { kind, cpu_port }
    }

    /// Whether the packet leaves so, to [`Head::port`].
    #[inline(always)]
    pub fn leaves(self, head: &Head) -> bool {
        self.leaves_to(head.destination)
    }

    /// Whether a packet leaves so whose head has that [`Head::destination`].
    #[inline(always)]
    pub fn leaves_to(self, destination: u64) -> bool {
        destination as u32 == self.kind && port(destination) != self.cpu_port
    }

    /// The port that stands for the CPU.
    pub fn cpu_port(self) -> u32 {
        self.cpu_port
    }
}
