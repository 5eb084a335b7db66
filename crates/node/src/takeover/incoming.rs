//! The new process's side of a take-over.

use super::fd_channel::FdChannel;
use super::message::{FinalState, Hello, NewSideMessage, OldSideMessage, TransferredState, Welcome};
use super::{PROTOCOLS, TakeoverError};
use crate::device::{Node, NodeParts, RunningPipeline, config_from_store, load_batches};
use crate::observe::named_stats::{FlowTableCounts, NamedStats};
use crate::store::{Store, StoredConfig, StoredDigest};
use crate::{dynamic_state, migrate, session_transfer, store_format};
use entries::{ControlState, WriteBatch};
use io::memif::{MemifOptions, PREFIX};
use io::{AttachedPort, Port, PortTransfer, open_transferred};
use p4runtime::server::DigestSnapshot;
use p4runtime::{DigestConfig, PipelineConfig};
use packet::PortId;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit for each message of the old process.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the description of this program that the other process logs.
pub(super) fn program() -> String {
    format!("terraced {} (process {})", env!("CARGO_PKG_VERSION"), std::process::id())
}

/// Result of a successful take-over.
pub struct TakeoverResult {
    /// The node, which forwards with the ports that were handed over.
    pub node: Node,
    /// The listening sockets, by their addresses in the old process's configuration.
    pub listening: Vec<(String, TcpListener)>,
    /// Numbers of expected ports that were not handed over. They can be opened when the predecessor
    /// has ended, see [`Predecessor::wait`].
    pub missing: Vec<u32>,
    /// Connection to the old process, which closes when that process has released everything.
    pub line: Predecessor,
}

/// The old process while it ends.
pub struct Predecessor(FdChannel);

impl Predecessor {
    /// Waits until the old process has released everything.
    pub fn wait(mut self) {
        let _ = self.0.receive_bytes(MESSAGE_TIMEOUT);
    }
}

/// Takes over the node that waits at a socket. `parts` are the components of the new node, with
/// workers without ports. `store` is opened after the old process has closed its own. `expected`:
/// the ports of the configuration, number and device.
///
/// # Errors
/// Returns [`TakeoverError`]; the old process continues as before.
pub fn take(
    path: &Path,
    parts: NodeParts,
    store: Option<&Path>,
    expected: &[(u32, String)],
) -> Result<TakeoverResult, TakeoverError> {
    let stream = UnixStream::connect(path);
    let stream = stream.map_err(|source| TakeoverError::NotListening { path: path.to_owned(), source })?;
    let mut line = FdChannel::new(stream)?;
    negotiate_version(&mut line, parts.device_id)?;
    let (ports, listening, missing, waiting) = Default::default();
    let mut taking = IncomingTakeover {
        line,
        ports,
        listening,
        missing,
        waiting,
        held: None,
        taps: Vec::new(),
        flow_tables: BTreeMap::new(),
    };
    match taking.run_protocol(parts, store, expected) {
        Ok(node) => {
            let IncomingTakeover { line, listening, missing, .. } = taking;
            Ok(TakeoverResult { node, listening, missing, line: Predecessor(line) })
        }
        Err(error) => {
            if !matches!(error, TakeoverError::Refused(_)) {
                let _ = taking.line.send_message(&NewSideMessage::Refuses(error.to_string()));
            }
            // Releases the ports without touching them, because the old process uses them again.
            taking.ports.iter_mut().for_each(|(_, attached)| drop(attached.port.begin_transfer()));
            Err(error)
        }
    }
}

fn negotiate_version(line: &mut FdChannel, device_id: u64) -> Result<(), TakeoverError> {
    let hello = Hello { protocols: PROTOCOLS.to_vec(), program: program(), device_id };
    line.send_bytes(&serde_json::to_vec(&hello).map_err(TakeoverError::local)?, &[])?;
    let (bytes, _) = line.receive_bytes(MESSAGE_TIMEOUT)?;
    let welcome: Welcome = serde_json::from_slice(&bytes)
        .map_err(|error| TakeoverError::Unexpected(format!("its first message: {error}")))?;
    match welcome.protocol {
        Some(version) if PROTOCOLS.contains(&version) => Ok(()),
        Some(version) => Err(TakeoverError::Unexpected(format!("version {version} of the protocol"))),
        None => Err(TakeoverError::Refused(welcome.why.unwrap_or_else(|| "no reason was given".into()))),
    }
}

/// Returns whether a port of this name matches a device of the configuration.
fn is_device(name: &str, device: &str) -> bool {
    let memif =
        || device.starts_with(PREFIX) && MemifOptions::parse(device).is_ok_and(|options| options.to_string() == name);
    name == device || memif()
}

/// Releases the ports without touching them after a worker has failed, because the old process uses
/// them again.
fn release_ports(node: &Node, error: crate::DataPlaneError) -> TakeoverError {
    let parked = node.plane.pause().unwrap_or_default();
    parked.into_iter().for_each(|mut parked| drop(parked.port.attached.port.begin_transfer()));
    TakeoverError::local(error)
}

/// Stores the numbers of a region's objects in the node and in its store.
fn store_region_numbers(node: &Node, numbers: Vec<u8>) -> Result<(), TakeoverError> {
    let mut inner = node.lock_state();
    if let Some(store) = &mut inner.store {
        store.save_region_numbers(&numbers).map_err(TakeoverError::local)?;
    }
    inner.region_numbers = numbers;
    Ok(())
}

struct IncomingTakeover {
    line: FdChannel,
    /// Ports that were handed over, with their workers.
    ports: Vec<(usize, AttachedPort)>,
    listening: Vec<(String, TcpListener)>,
    missing: Vec<u32>,
    /// Batches that wait for `COMMIT`.
    waiting: Vec<WriteBatch>,
    held: Option<TransferredState>,
    /// TAPs of the host sides of ports.
    taps: Vec<(PortId, String, OwnedFd)>,
    /// Counts of tables to which packets add entries.
    flow_tables: BTreeMap<String, FlowTableCounts>,
}

impl IncomingTakeover {
    fn receive_message(&mut self) -> Result<(OldSideMessage, Vec<OwnedFd>), TakeoverError> {
        match self.line.receive_message(MESSAGE_TIMEOUT)? {
            (OldSideMessage::Refuses(why), _) => Err(TakeoverError::Refused(why)),
            heard => Ok(heard),
        }
    }

    fn run_protocol(
        &mut self,
        parts: NodeParts,
        store: Option<&Path>,
        expected: &[(u32, String)],
    ) -> Result<Node, TakeoverError> {
        let workers = parts.seats.len();
        let node = Node::start(parts).map_err(TakeoverError::local)?;
        self.receive_tables(&node)?;
        self.line.send_message(&NewSideMessage::Ready)?;
        self.open_store(&node, store)?;
        self.line.send_message(&NewSideMessage::StoreOpen)?;
        let last = self.receive_ports(&node, workers, expected)?;
        node.set_predecessor_counts(last.counts.into_worker_counts());
        let flow_tables = std::mem::take(&mut self.flow_tables);
        node.lock_state().past_stats = NamedStats { flow_tables, ..last.tallied };
        self.restore_server_state(&node)?;
        for packet in last.packets {
            let _ = node.plane.packet_out(&packet);
        }
        self.line.send_message(&NewSideMessage::Prepared)?;
        let (OldSideMessage::Go, _) = self.receive_message()? else {
            return Err(TakeoverError::Unexpected("no `go`".into()));
        };
        if let Some(current) = &node.lock_state().current {
            current.engine.hold_idle(false);
        }
        let mut seats: Vec<Vec<AttachedPort>> = (0..workers).map(|_| Vec::new()).collect();
        self.ports.drain(..).for_each(|(worker, attached)| seats[worker].push(attached));
        for (port, name, descriptor) in self.taps.drain(..) {
            if let Err(error) = node.plane.host().inherit(port, &name, descriptor) {
                tracing::error!(port = port.0, interface = name, %error, "the host side is closed");
            }
        }
        for (worker, ports) in seats.into_iter().enumerate() {
            // All at once: a packet from the first port may leave by the last one.
            node.plane.attach(worker, ports).map_err(|error| release_ports(&node, error))?;
        }
        if let Some(current) = &mut node.lock_state().current {
            node.update_links(&mut *current.engine);
        }
        self.line.send_message(&NewSideMessage::Confirmed)?;
        Ok(node)
    }

    /// Receives pipeline and tables, and generates code.
    fn receive_tables(&mut self, node: &Node) -> Result<(), TakeoverError> {
        let (OldSideMessage::Configs { running, saved }, _) = self.receive_message()? else {
            return Err(TakeoverError::Unexpected("no pipeline".into()));
        };
        let config = |kept: Option<StoredConfig>| -> Result<Option<PipelineConfig>, TakeoverError> {
            kept.map(config_from_store).transpose().map_err(|refusal| TakeoverError::Local(refusal.message))
        };
        let saved = config(saved)?;
        let current = match config(running)? {
            Some(config) => {
                let refused = |refusal: p4runtime::P4RuntimeError| TakeoverError::Local(refusal.message);
                let mut engine = node.load_engine(&config.pipeline).map_err(refused)?;
                // The idle times arrive with the dynamic state.
                engine.hold_idle(true);
                let loaded = load_batches(&mut *engine, &mut std::iter::from_fn(|| self.receive_batch().transpose()))?;
                loaded.map_err(TakeoverError::local)?;
                Some(RunningPipeline { config, engine })
            }
            None => match self.receive_batch()? {
                None => None,
                Some(_) => return Err(TakeoverError::Unexpected("tables without a pipeline".into())),
            },
        };
        // Switches the workers while the old process still forwards; they see later changes of the
        // tables.
        if let Some(current) = &current {
            node.switch_engine(&*current.engine).map_err(TakeoverError::local)?;
        }
        let mut inner = node.lock_state();
        (inner.current, inner.saved) = (current, saved);
        Ok(())
    }

    /// Receives the next batch; `None` after the last.
    fn receive_batch(&mut self) -> Result<Option<WriteBatch>, TakeoverError> {
        match self.receive_message()?.0 {
            OldSideMessage::Batch(bytes) => store_format::decode_batch(&bytes).map(Some).map_err(TakeoverError::local),
            OldSideMessage::Tables => Ok(None),
            other => Err(TakeoverError::Unexpected(format!("{other:?} among the tables"))),
        }
    }

    /// Opens the store. If it is the old process's store, it has all acknowledged writes; otherwise
    /// it is rewritten.
    fn open_store(&mut self, node: &Node, path: Option<&Path>) -> Result<(), TakeoverError> {
        let (OldSideMessage::StoreClosed(theirs), _) = self.receive_message()? else {
            return Err(TakeoverError::Unexpected("nothing about its store".into()));
        };
        let Some(path) = path else { return Ok(()) };
        let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
        let same = theirs.is_some_and(|theirs| whole(&theirs) == whole(path));
        let mut store = Store::open(path).map_err(TakeoverError::local)?;
        let mut inner = node.lock_state();
        if !same {
            if let Some(current) = &inner.current {
                let state = current.engine.with_state(ControlState::clone);
                let batches = migrate::state_to_batches(&state).map_err(TakeoverError::local)?;
                store
                    .replace_config(&crate::device::config_to_store(&current.config), batches)
                    .map_err(TakeoverError::local)?;
            }
            if let Some(saved) = &inner.saved {
                store.save_config(&crate::device::config_to_store(saved)).map_err(TakeoverError::local)?;
            }
        }
        inner.store = Some(store);
        Ok(())
    }

    /// Restores the old server's state in this node's server, which does not serve yet.
    fn restore_server_state(&mut self, node: &Node) -> Result<(), TakeoverError> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let (form, undelivered_digests) = held.into_server_state(std::mem::take(&mut self.waiting));
        let mut inner = node.lock_state();
        inner.deferred_digests = undelivered_digests;
        if let Some(store) = &mut inner.store {
            // If the store is not the old process's, it lacks the digests.
            let kept = |digest: &DigestSnapshot| {
                let DigestConfig { max_timeout_ns, max_list_size, ack_timeout_ns } = digest.config;
                (digest.number, max_timeout_ns, max_list_size, ack_timeout_ns)
            };
            let digests: Vec<StoredDigest> = form.digests.iter().map(kept).collect();
            if store.enabled_digests().map_err(TakeoverError::local)? != digests {
                store.save_digests(&digests).map_err(TakeoverError::local)?;
            }
        }
        let taken = node.service().held.restore(form, inner.saved.clone(), node);
        taken.map_err(|refusal| TakeoverError::Local(refusal.message))
    }

    /// Receives the changes made by packets, and the ports, which no process uses at this point.
    fn receive_ports(
        &mut self,
        node: &Node,
        workers: usize,
        expected: &[(u32, String)],
    ) -> Result<FinalState, TakeoverError> {
        self.missing = expected.iter().map(|(number, _)| *number).collect();
        loop {
            match self.receive_message()? {
                (OldSideMessage::Batch(bytes), _) => {
                    let batch = store_format::decode_batch(&bytes).map_err(TakeoverError::local)?;
                    let mut inner = node.lock_state();
                    let current = inner.current.as_mut();
                    let current = current.ok_or_else(|| TakeoverError::Unexpected("changes of no pipeline".into()))?;
                    current.engine.write(&batch).map_err(TakeoverError::local)?;
                }
                (OldSideMessage::Levels(some), _) => {
                    if let Some(current) = &node.lock_state().current {
                        dynamic_state::restore_dynamic_state(&*current.engine, &some);
                    }
                }
                (OldSideMessage::Sessions(batch), _) => {
                    if let Some(current) = &node.lock_state().current {
                        let ended = session_transfer::restore_sessions(&*current.engine, &batch);
                        session_transfer::log_ended_sessions(ended);
                    }
                }
                (OldSideMessage::Waiting(bytes), _) => {
                    self.waiting.push(store_format::decode_batch(&bytes).map_err(TakeoverError::local)?);
                }
                (OldSideMessage::Held(held), _) => self.held = Some(held),
                (OldSideMessage::Numbers(numbers), _) => store_region_numbers(node, numbers)?,
                (OldSideMessage::Port { number, worker, name, description }, descriptors) => {
                    let wanted = expected.iter().any(|(other, device)| *other == number && is_device(&name, device));
                    let Some(description) = description.filter(|_| wanted) else { continue };
                    let port: Box<dyn Port> =
                        open_transferred(PortTransfer { description, descriptors }).map_err(TakeoverError::local)?;
                    // With fewer workers than before, some get several ports.
                    let worker = worker as usize % workers.max(1);
                    self.ports.push((worker, AttachedPort { id: PortId(number), port }));
                    self.missing.retain(|missing| *missing != number);
                }
                (OldSideMessage::HostTap { port, name }, descriptors) => {
                    let tap = descriptors.into_iter().next();
                    self.taps.extend(tap.map(|descriptor| (PortId(port), name, descriptor)));
                }
                (OldSideMessage::FlowTables(counts), _) => self.flow_tables = counts,
                (OldSideMessage::Listener(address), descriptors) => {
                    let listener = descriptors.into_iter().next();
                    self.listening.extend(listener.map(|socket| (address, TcpListener::from(socket))));
                }
                (OldSideMessage::Last(last), _) => return Ok(last),
                (other, _) => return Err(TakeoverError::Unexpected(format!("{other:?} among the ports"))),
            }
        }
    }
}
