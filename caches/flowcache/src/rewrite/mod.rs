//! What a packet did, as a rewrite of bytes: for whoever cannot run the program, as a program in the kernel.
//!
//! This module answers one question: *which packets have the same done to them as this one, and what is it, said in bytes?* The interpreter runs the packet
//! through all blocks, parser to deparser, and beside it goes a shadow ([`shadow`]) that knows of each value where its bits come from ([`sym`]). What a
//! decision, a table or a hash looks at becomes part of the flow's key; what nobody looked at may differ. Two things may differ though they are
//! computed with: lengths, as the packet's length and a constant, and one's complement sums over words of the packet. So packets of a flow share one
//! rewrite whatever their payload and length is.
//!
//! A shadow takes many times as long as the interpreter alone. But what it finds depends on the packet's *way*, all its decisions, and hardly on
//! its values: so it is found once for each way, and kept as what the way's rewrites have in common (a `Template`). Of a later packet only decisions, table applications and
//! counters are noted; with these and the packet as it leaves the template gives its rewrite. Where the shadow did look at a value that the way does not say (a
//! mask that an entry gives), it says so, and each packet of that way has a shadow of its own.
//!
//! A rewrite ([`form`]) is a key, bounds, checks, new bytes for the packet's beginning, and what is to be added to which counter. [`apply`] carries it out.
//! [`flows`] keeps rewrites, each as a row of words beside what its way's rewrites share (`layout.rs`, `row.rs`, `rows.rs`), finds them, and knows which ones a
//! change of a table makes stale; packets that hit are found and rewritten by native code where they come often (`find.rs`, `code.rs`), in plain Rust else (`key.rs`, `hot.rs`).
//! Where there is hardly room, not everybody is kept (`newcomers.rs`). [`RewriteCache`] is all of it in front of an engine, [`PerWorker`] several of them over the same tables.

mod admit;
pub mod apply;
mod arith;
mod batch;
mod calls;
mod code;
mod engine;
mod fill;
mod find;
pub mod flows;
pub mod form;
mod head;
mod hot;
mod key;
mod layout;
mod leave;
mod maker;
mod misses;
mod native;
mod newcomers;
mod noted;
mod row;
mod rows;
mod runs;
mod seat;
mod shadow;
mod stats;
mod sym;
mod template;
mod tenants;
mod ways;
mod wide;
mod window;
mod workers;

const _: () = assert!(form::WINDOW == 256, "the text of `TooDeep` says so");

pub use engine::{Answer, RewriteCache, Told};
pub use native::NativeError;
pub use runs::Runs;
pub use shadow::Known;
pub use stats::RewriteStats;
pub use workers::{Held, PerWorker, WorkerCache};

/// Why a packet's way can't be said as a rewrite.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Unrewritable {
    /// A meter marks it.
    Meter,
    /// It reads or writes a register.
    Register,
    /// A random number, or a number that each packet gets another one of.
    Random,
    /// It looks at the time.
    Time,
    /// It sends a message to the control plane.
    Digest,
    /// It adds an entry, or misses in a table that packets add entries to.
    AddEntry,
    /// It sets the idle time of an entry.
    Timer,
    /// A member of a group acts.
    Group,
    /// It is copied, or goes through the program again.
    Copies,
    /// A checksum that is wrong, or that something else depends on than a checksum field.
    Checksum,
    /// A checksum over the payload.
    Payload,
    /// It is cut.
    Truncate,
    /// It goes to the node's CPU port.
    ToCpu,
    /// The engine gave up.
    Aborted,
    /// What is looked at, or written, lies too far from the start.
    TooDeep,
    /// More checks, sums or lengths than a rewrite holds.
    TooMuch,
    /// There are as many different sets of bits in keys as can be tried.
    Shapes,
    /// There is no room for more flows.
    NoRoom,
}

impl Unrewritable {
    /// In a sentence.
    pub fn why(self) -> &'static str {
        match self {
            Unrewritable::Meter => "a meter marks it",
            Unrewritable::Register => "it reads or writes a register",
            Unrewritable::Random => "it draws a random number, or takes a number of its own",
            Unrewritable::Time => "it looks at the time",
            Unrewritable::Digest => "it sends a message to the control plane",
            Unrewritable::AddEntry => "it adds an entry, or misses in a table that packets add entries to",
            Unrewritable::Timer => "it sets the idle time of an entry",
            Unrewritable::Group => "a member of a group is chosen for it",
            Unrewritable::Copies => "it is copied, or goes through the program again",
            Unrewritable::Checksum => "a checksum is wrong, or decides more than whether it is right",
            Unrewritable::Payload => "a checksum is over the payload",
            Unrewritable::Truncate => "it is cut",
            Unrewritable::ToCpu => "it goes to the CPU port",
            Unrewritable::Aborted => "the engine gave up on it",
            Unrewritable::TooDeep => "what decides, or changes, lies more than 256 bytes behind its start",
            Unrewritable::TooMuch => "it takes more sums or lengths than a rewrite holds",
            Unrewritable::Shapes => "there are too many different kinds of flows",
            Unrewritable::NoRoom => "there is no room for more flows",
        }
    }

    /// For metrics.
    pub fn name(self) -> &'static str {
        match self {
            Unrewritable::Meter => "meter",
            Unrewritable::Register => "register",
            Unrewritable::Random => "random",
            Unrewritable::Time => "time",
            Unrewritable::Digest => "digest",
            Unrewritable::AddEntry => "adds_entry",
            Unrewritable::Timer => "timer",
            Unrewritable::Group => "group",
            Unrewritable::Copies => "copies",
            Unrewritable::Checksum => "checksum",
            Unrewritable::Payload => "payload_checksum",
            Unrewritable::Truncate => "truncate",
            Unrewritable::ToCpu => "to_cpu",
            Unrewritable::Aborted => "aborted",
            Unrewritable::TooDeep => "too_deep",
            Unrewritable::TooMuch => "too_much",
            Unrewritable::Shapes => "shapes_full",
            Unrewritable::NoRoom => "flows_full",
        }
    }
}
