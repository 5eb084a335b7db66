//! Sessions and resting ports, transferred to another engine: of another process with the same
//! pipeline, or of another pipeline with the same tables and pools ([`PipelineMapping`]).
//!
//! The entries are transferred before, with their idle times ([`crate::dynamic_state`]). What they
//! hold together follows here: the twin, the ports of pools, the shares of quotas. Without it, each
//! direction of a session would end alone, its port would be given to another session, and its owner
//! could exceed its limit.

use crate::engine::EngineControl;
use crate::migrate::PipelineMapping;
use entries::{ControlState, PackedKey, StoredEntry};
use interp::{OwnedPort, QuotaShare, RestingPort, SessionState};
use ir::{ExternId, TableId};
use serde::{Deserialize, Serialize};

/// Sessions and resting ports in one batch.
const BATCH: usize = 4096;

/// A port of a pool: pool, address, port, port space, subscriber.
type TransferredPort = (u32, u32, u16, u32, u32);

/// A batch of sessions and resting ports. Table and pool numbers are those of the receiving pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionBatch {
    sessions: Vec<TransferredSession>,
    /// Resting ports, with the end of the rest (ns since the Unix epoch).
    resting: Vec<(TransferredPort, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TransferredSession {
    table: u32,
    key: Vec<u64>,
    twin: Option<Vec<u64>>,
    ports: Vec<TransferredPort>,
    /// Shares of quotas: quota, owner.
    shares: Vec<(u32, u32)>,
}

/// Passes the sessions of an engine to `take` in batches, for all entries that the other pipeline
/// also has, and the resting ports of all pools. `state` has the engine's entries.
///
/// # Errors
/// Returns the error of `take`.
pub(crate) fn collect_sessions<E>(
    engine: &dyn EngineControl,
    state: &ControlState,
    matching: &PipelineMapping<'_>,
    mut take: impl FnMut(SessionBatch) -> Result<(), E>,
) -> Result<(), E> {
    let pipeline = engine.pipeline().clone();
    let mut batch = SessionBatch::default();
    for table in pipeline.tables.iter().filter(|(_, declared)| declared.add_on_miss).map(|(id, _)| id) {
        for entry in state.entries(table) {
            let session = engine.entry_session(table, entry);
            if let Some(session) = session.and_then(|session| map_session(matching, table, entry, session)) {
                batch.sessions.push(session);
                flush_batch(&mut batch, BATCH, &mut take)?;
            }
        }
    }
    for resting in engine.resting_ports() {
        if let Some(port) = map_port(matching, &resting.port) {
            batch.resting.push((port, resting.end_ns));
            flush_batch(&mut batch, BATCH, &mut take)?;
        }
    }
    flush_batch(&mut batch, 1, &mut take)
}

/// Passes a batch to `take` if it has at least `least` elements.
fn flush_batch<E>(
    batch: &mut SessionBatch,
    least: usize,
    take: &mut impl FnMut(SessionBatch) -> Result<(), E>,
) -> Result<(), E> {
    if batch.sessions.len() + batch.resting.len() < least { Ok(()) } else { take(std::mem::take(batch)) }
}

/// Converts a session to the new pipeline. A pair that holds nothing is named by one of its entries.
fn map_session(
    matching: &PipelineMapping<'_>,
    table: TableId,
    entry: &StoredEntry,
    session: SessionState,
) -> Option<TransferredSession> {
    let SessionState { twin, ports, shares } = session;
    if ports.is_empty() && shares.is_empty() && twin.as_ref().is_none_or(|twin| twin.as_slice() < entry.key()) {
        return None;
    }
    let (to, key) = matching.map_key(table, entry.key())?;
    Some(TransferredSession {
        table: to.0,
        key,
        twin: twin.and_then(|twin| matching.map_key(table, twin.as_slice())).map(|(_, key)| key),
        ports: ports.iter().filter_map(|port| map_port(matching, port)).collect(),
        shares: shares.iter().filter_map(|share| Some((matching.map_quota(share.quota)?.0, share.owner))).collect(),
    })
}

fn map_port(matching: &PipelineMapping<'_>, port: &OwnedPort) -> Option<TransferredPort> {
    let OwnedPort { pool, address, port, space, subscriber } = *port;
    Some((matching.map_pool(pool)?.0, address, port, space, subscriber))
}

fn owned_port((pool, address, port, space, subscriber): TransferredPort) -> OwnedPort {
    OwnedPort { pool: ExternId(pool), address, port, space, subscriber }
}

/// Restores sessions of an engine that has loaded all entries. Returns the number of sessions
/// that ended, because the engine has no such twin, port or owner. Ignores entries that it does not have.
pub(crate) fn restore_sessions(engine: &dyn EngineControl, batch: &SessionBatch) -> usize {
    let state = engine.with_written_state(ControlState::clone);
    let mut ended = 0;
    for session in &batch.sessions {
        let table = TableId(session.table);
        // The keys come from another process: a key of another length cannot be in this table.
        let is_key =
            |key: &Vec<u64>| state.pipeline().tables.get(table).is_some() && state.layout(table).len == key.len();
        if !is_key(&session.key) || !session.twin.as_ref().is_none_or(is_key) {
            continue;
        }
        let Some(entry) = state.get_entry(table, &session.key, 0) else { continue };
        let twin = session.twin.as_deref().map(PackedKey::from_slice);
        let ports = session.ports.iter().copied().map(owned_port).collect();
        let share = |(quota, owner): &(u32, u32)| QuotaShare { quota: ExternId(*quota), owner: *owner };
        let shares = session.shares.iter().map(share).collect();
        ended += usize::from(!engine.restore_session(table, entry, &SessionState { twin, ports, shares }));
    }
    for (port, end_ns) in &batch.resting {
        engine.restore_resting_port(&RestingPort { port: owned_port(*port), end_ns: *end_ns });
    }
    ended
}

/// Logs how many sessions ended in a transfer.
pub(crate) fn log_ended_sessions(ended: usize) {
    if ended > 0 {
        tracing::warn!(
            ended,
            "sessions end, because the program has no such ports or owners: enlarge its pools and quotas, or keep the old program"
        );
    }
}
