//! Reasons for running a pipeline on the interpreter.

use std::fmt;

/// A feature that native code does not support. The name is that of the counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum FallbackReason {
    /// A header that is not a whole number of bytes.
    HeaderBits,
    /// A varbit that is not the last field, or that the program reads.
    Varbit,
    /// A copy of a header with a varbit.
    VarbitCopy,
    Clone,
    Resubmit,
    Recirculate,
    Mirror,
    Multicast,
    /// A table is applied in a loop.
    TableInLoop,
    /// More headers, actions or variables than native code supports.
    TooLarge,
    AddOnMiss,
    IdleTimeout,
    /// A table has both an action profile and counters, meters or idle timeouts of its entries.
    ProfileWithEntryState,
    /// A step limit below the minimum that native code requires.
    InstructionLimit,
    /// A loop in a control.
    LoopInControl,
    /// The machine's instruction set, or making code executable.
    Machine,
}

impl FallbackReason {
    /// Returns the name in counters and messages.
    pub const fn name(self) -> &'static str {
        match self {
            FallbackReason::HeaderBits => "header_not_whole_bytes",
            FallbackReason::Varbit => "varbit_value",
            FallbackReason::VarbitCopy => "varbit_copy",
            FallbackReason::Clone => "clone",
            FallbackReason::Resubmit => "resubmit",
            FallbackReason::Recirculate => "recirculate",
            FallbackReason::Mirror => "mirror",
            FallbackReason::Multicast => "multicast",
            FallbackReason::TableInLoop => "table_in_loop",
            FallbackReason::TooLarge => "too_large",
            FallbackReason::AddOnMiss => "add_on_miss",
            FallbackReason::IdleTimeout => "idle_timeout",
            FallbackReason::ProfileWithEntryState => "profile_with_entry_state",
            FallbackReason::InstructionLimit => "instruction_limit",
            FallbackReason::LoopInControl => "loop_in_control",
            FallbackReason::Machine => "machine",
        }
    }
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
