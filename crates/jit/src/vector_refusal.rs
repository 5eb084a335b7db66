//! Reasons for which all packets of a program take the code for one packet.

use std::fmt;

/// A reason for which a program has no vector code. Packets are then processed one by one in native
/// code, which is slower.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum VectorRefusal {
    /// The machine lacks the instructions, or the code records packets.
    NotSupported,
    /// No path to the first lookup is the most common one.
    NoHotPath,
    /// The lists of values that packets carry between stages are too large.
    ListsTooLarge {
        /// Size of the lists in bytes.
        bytes: i32,
        /// The limit in bytes.
        limit: i32,
    },
    /// The headers of the hot path are too long.
    HeadersTooLong {
        /// Length of the headers in bytes.
        bytes: u32,
        /// The limit in bytes.
        limit: u32,
    },
}

impl VectorRefusal {
    /// Returns the name in counters and messages.
    pub const fn name(self) -> &'static str {
        match self {
            VectorRefusal::NotSupported => "not_supported",
            VectorRefusal::NoHotPath => "no_hot_path",
            VectorRefusal::ListsTooLarge { .. } => "lists_too_large",
            VectorRefusal::HeadersTooLong { .. } => "headers_too_long",
        }
    }

    /// Returns whether a limit was reached that a smaller program would not reach.
    pub const fn is_limit(self) -> bool {
        matches!(self, VectorRefusal::ListsTooLarge { .. } | VectorRefusal::HeadersTooLong { .. })
    }
}

impl fmt::Display for VectorRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VectorRefusal::ListsTooLarge { bytes, limit } => write!(
                f,
                "lists_too_large: what packets carry between lookups takes {bytes} bytes, and {limit} are the limit; \
                 carry less metadata over lookups, or apply fewer tables"
            ),
            VectorRefusal::HeadersTooLong { bytes, limit } => write!(
                f,
                "headers_too_long: the most common headers have {bytes} bytes, and {limit} are the limit; \
                 extract less before the first lookup"
            ),
            _ => f.write_str(self.name()),
        }
    }
}
