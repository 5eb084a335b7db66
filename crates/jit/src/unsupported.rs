//! Why a pipeline, or a packet, is handed to the interpreter.

use std::fmt;

/// Something that native code does not do. The name is that of the counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Unsupported {
    /// A header that is not a whole number of bytes.
    HeaderBits,
    /// A varbit that is not the last field, or whose value is used.
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
    /// More headers, actions or variables than native code is made for.
    TooLarge,
    AddOnMiss,
    IdleTimeout,
    /// A table has both an action profile and counters, meters or idle times of its entries.
    ProfileWithEntryState,
    /// A limit of steps that is lower than native code counts.
    StepLimit,
    /// A loop in a control.
    LoopInControl,
    /// The machine's instruction set, or making code executable.
    Machine,
}

impl Unsupported {
    /// The name in counters and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Unsupported::HeaderBits => "header_not_whole_bytes",
            Unsupported::Varbit => "varbit_value",
            Unsupported::VarbitCopy => "varbit_copy",
            Unsupported::Clone => "clone",
            Unsupported::Resubmit => "resubmit",
            Unsupported::Recirculate => "recirculate",
            Unsupported::Mirror => "mirror",
            Unsupported::Multicast => "multicast",
            Unsupported::TableInLoop => "table_in_loop",
            Unsupported::TooLarge => "too_large",
            Unsupported::AddOnMiss => "add_on_miss",
            Unsupported::IdleTimeout => "idle_timeout",
            Unsupported::ProfileWithEntryState => "profile_with_entry_state",
            Unsupported::StepLimit => "step_limit",
            Unsupported::LoopInControl => "loop_in_control",
            Unsupported::Machine => "machine",
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
