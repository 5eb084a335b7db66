//! What an engine says of the code that was made for it, and of how packets went through it.

use crate::engine::{Jit, Way};
use crate::plan::stages::StageInfo;
use crate::program::Program;

impl Jit {
    /// How many lookups, behind the one that it leads to, are there once more for packets that came by that stretch ([`Jit::trace_bytes`]).
    pub fn trace_lookups(&self) -> usize {
        self.stages_with(|stage| stage.copied)
    }

    /// How many lookups of such packets are made where the table is applied, as long as its entries are a handful.
    pub fn in_place_lookups(&self) -> usize {
        self.program().map_or(0, |program| program.in_place)
    }

    /// How many lookups of such packets are made together with the one in front of them, of which they need nothing.
    pub fn lookups_together(&self) -> usize {
        self.stages_with(|stage| stage.together.is_some())
    }

    /// How many stages have code for eight packets at once, on this machine.
    pub fn stages_for_eight(&self) -> usize {
        self.program().map_or(0, |program| program.native.lanes().iter().flatten().count())
    }

    /// From how many packets on they are taken eight at a time, where there is code for that, whether or not that is faster: for tests. With [`usize::MAX`] they are taken one by
    /// one. Without this call, 8 packets or more go by the way that was the faster one lately.
    pub fn eights_from(&mut self, packets: usize) {
        if let Way::Native { worker, quiet, .. } = &mut self.way {
            for worker in [Some(worker), quiet.as_mut()].into_iter().flatten() {
                worker.eights_from = packets;
                worker.pace = None;
            }
        }
    }

    /// Packets that this worker has taken through stages eight at a time, a packet as often as stages did; and those of them that a stage left to code for one.
    pub fn in_eights(&self) -> [u64; 2] {
        let Way::Native { worker, quiet, .. } = &self.way else { return [0; 2] };
        let both = [Some(worker), quiet.as_ref()];
        both.into_iter().flatten().map(|worker| worker.in_eights()).fold([0; 2], |[a, b], [c, d]| [a + c, b + d])
    }

    fn stages_with(&self, which: impl Fn(&StageInfo) -> bool) -> usize {
        self.program().map_or(0, |program| program.stages.iter().filter(|stage| which(stage)).count())
    }

    /// The program as native code; `None` if it is handed to the interpreter.
    fn program(&self) -> Option<&Program> {
        match &self.way {
            Way::Native { shared, .. } => Some(&shared.program),
            Way::Handed { .. } => None,
        }
    }

    /// How many bytes packets have at least that begin the stretch of code made for the way that most take to the first lookup; `None` if there is no such stretch.
    pub fn trace_bytes(&self) -> Option<u32> {
        self.program()?.trace_bytes
    }

    /// Length of the native code in bytes; 0 if there is none.
    pub fn code_bytes(&self) -> usize {
        match &self.way {
            Way::Native { shared, .. } => {
                let programs = [Some(&shared.program), shared.quiet.as_ref()];
                programs.into_iter().flatten().map(|program| program.native.bytes()).sum()
            }
            Way::Handed { .. } => 0,
        }
    }
}
