//! The NAT of a gateway, as operators see it.
//!
//! This module answers two questions: *how much of the public addresses is in use, and by which machines*, and
//! *which machine had this port at that time*. The pool of ports of the gateway's program knows numbers only;
//! the region in force has the names.
//!
//! | concern | location |
//! |---|---|
//! | numbers of the pool as names and addresses of the region file | `names.rs` |
//! | use, by NAT and by machine | `usage.rs` |
//! | sentences about shortages | `notes.rs` |
//! | one address or port: which machine has it | `address.rs` |
//! | log lines of blocks that change hands | `block_log.rs`, `block_log_state.rs` |
//! | the line of the region file behind a session, for traces | `session_source.rs` |
//! | their form on the control socket | `status.rs` |

mod address;
mod block_log;
mod block_log_state;
mod names;
mod notes;
mod session_source;
mod status;
mod usage;

pub(crate) use block_log_state::BlockLog;
pub use block_log_state::BlockLogCounts;
pub(crate) use names::{NatNames, Subscriber};
pub(crate) use session_source::session_source;
pub use status::{
    AddressUse, BlockPorts, BlockUse, ForwardUse, MachineUse, NatAddressReport, NatStatus, NatUse, PortUse, SessionUse,
};

use crate::engine::EngineControl;
use interp::PoolControl;
use ir::{ExternId, ExternKind, Pipeline};

/// Name of the pool of ports in the gateway's program, without its controls.
const POOL: &str = "nat_ports";
/// Name of its table of sessions, without its controls.
pub(crate) const SESSIONS: &str = "sessions";
/// Protocols by port space of the pool (programs/gateway/nat_session.p4).
pub const PROTOCOLS: [&str; 3] = ["udp", "tcp", "icmp"];
/// Blocks of a public address.
const ADDRESS_BLOCKS: u32 = region::ADDRESS_PORTS / region::BLOCK_PORTS;

/// Returns the last part of an object's name.
pub(crate) fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Calls `ask` with the pool of ports of a gateway's engine; not if there is none.
pub(crate) fn with_pool_of(pipeline: &Pipeline, engine: &dyn EngineControl, ask: &mut dyn FnMut(&mut dyn PoolControl)) {
    if let Some(pool) = nat_pool(pipeline) {
        engine.with_port_pool(pool, ask);
    }
}

/// Returns the pool of ports of a gateway's program.
fn nat_pool(pipeline: &Pipeline) -> Option<ExternId> {
    let mut pools = pipeline.externs.iter().filter(|(_, object)| matches!(object.kind, ExternKind::PortPool { .. }));
    pools.find(|(_, object)| last_part(&object.preamble.name) == POOL).map(|(id, _)| id)
}
