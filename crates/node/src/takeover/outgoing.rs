//! The old process's side of a take-over.

use super::fd_channel::FdChannel;
use super::message::{FinalState, Hello, NewSideMessage, OldSideMessage, TransferredCounts, TransferredState, Welcome};
use super::{PROTOCOLS, TakeoverError, WITH_FLOW_TABLES, WITH_HOST, WITH_LEVELS, WITH_NUMBERS, WITH_SESSIONS, changes};
use crate::data_plane::PausedPort;
use crate::device::{Node, WriteGate, config_to_store};
use crate::migrate::PipelineMapping;
use crate::store::Store;
use crate::{dynamic_state, migrate, session_transfer, store_format};
use entries::ControlState;
use interp::DigestMessage;
use io::Port;
use packet::{Batch, PortId};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::{Duration, Instant};

/// Time limit for the new process's first message.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for the new process to generate code and load tables.
const LOAD_TIMEOUT: Duration = Duration::from_secs(300);
/// Time limit for each later step; packets wait during the last steps.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after a failed take-over during which opening the store is retried. Afterwards the next
/// write opens it.
const STORE_REOPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for digest messages to reach the server.
const DIGEST_SETTLE_TIMEOUT: Duration = Duration::from_secs(1);

/// A listening socket to be handed over: its address in the configuration, and the socket.
pub type ListeningSocket = (String, TcpListener);

/// Waits for new processes.
pub struct TakeoverListener {
    listener: UnixListener,
    path: PathBuf,
}

impl TakeoverListener {
    /// Listens on a socket that only this user can connect to. Replaces an existing socket at the
    /// path.
    ///
    /// # Errors
    /// Returns errors of the operating system.
    pub fn listen(path: &Path) -> std::io::Result<TakeoverListener> {
        // Renames a complete socket into place, so that a listening socket exists at any time.
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(format!(".{}", std::process::id()));
        let fresh = PathBuf::from(fresh);
        let _ = std::fs::remove_file(&fresh);
        let listener = UnixListener::bind(&fresh)?;
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&fresh, path)?;
        Ok(TakeoverListener { listener, path: path.to_owned() })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Handles new processes one after the other, and returns when one has taken over. `say` logs the
/// progress.
///
/// # Errors
/// The socket fails.
pub fn serve(
    giver: &TakeoverListener,
    node: &Weak<Node>,
    listening: &[ListeningSocket],
    say: &mut dyn FnMut(String),
) -> std::io::Result<()> {
    loop {
        let (stream, _) = giver.listener.accept()?;
        // The node is about to end if only this weak reference is left.
        let Some(node) = node.upgrade() else { return Ok(()) };
        match hand_over_node(stream, &node, listening) {
            Ok(program) => {
                say(format!("{program} has taken over; this process ends"));
                return Ok(());
            }
            Err(error) => say(format!("the take-over failed, this process continues: {error}")),
        }
    }
}

/// Hands everything over to the process at the other end. Returns that process's description. After
/// an error, this process continues as before.
fn hand_over_node(stream: UnixStream, node: &Node, listening: &[ListeningSocket]) -> Result<String, TakeoverError> {
    let successor = peer_pidfd(&stream);
    let mut line = FdChannel::new(stream)?;
    let (program, protocol) = negotiate_version(&mut line, node)?;
    node.freeze_writes();
    if !node.service().held.wait_for_arrival(DIGEST_SETTLE_TIMEOUT) {
        tracing::warn!("some digest messages are late; they stay with this process");
    }
    let mut giving = OutgoingTakeover {
        node,
        line,
        protocol,
        successor,
        listening,
        paused_ports: Vec::new(),
        pending_packets: Vec::new(),
        undelivered_digests: Vec::new(),
        store: None,
        sent_go: false,
    };
    match giving.run_protocol() {
        Ok(()) => {
            node.set_write_gate(WriteGate::TakenOver);
            giving.paused_ports.clear();
            Ok(program)
        }
        Err(error) => {
            giving.resume_forwarding(&error);
            node.service().held.thaw();
            node.set_write_gate(WriteGate::Open);
            Err(error)
        }
    }
}

fn peer_pidfd(stream: &UnixStream) -> Option<OwnedFd> {
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    if peer.pid == rustix::process::getpid() {
        return None;
    }
    rustix::process::pidfd_open(peer.pid, rustix::process::PidfdFlags::empty()).ok()
}

/// Receives the new process's greeting, and selects a protocol version that both support.
fn negotiate_version(line: &mut FdChannel, node: &Node) -> Result<(String, u32), TakeoverError> {
    let (bytes, _) = line.receive_bytes(HELLO_TIMEOUT)?;
    let hello: Hello = serde_json::from_slice(&bytes)
        .map_err(|error| TakeoverError::Unexpected(format!("its first message: {error}")))?;
    let protocol = hello.protocols.iter().copied().find(|version| PROTOCOLS.contains(version));
    let why = match protocol {
        None => Some(format!(
            "{} speaks versions {:?} of the protocol, this one {PROTOCOLS:?}",
            hello.program, hello.protocols
        )),
        Some(_) if hello.device_id != node.device_id => {
            Some(format!("device {} is here, not {}", node.device_id, hello.device_id))
        }
        Some(_) => None,
    };
    let protocol = protocol.filter(|_| why.is_none());
    let welcome = Welcome { protocol, program: super::incoming::program(), why: why.clone() };
    line.send_bytes(&serde_json::to_vec(&welcome).map_err(TakeoverError::local)?, &[])?;
    match (why, protocol) {
        (None, Some(protocol)) => Ok((hello.program, protocol)),
        (why, _) => Err(TakeoverError::Local(why.unwrap_or_default())),
    }
}

/// A take-over in progress.
struct OutgoingTakeover<'a> {
    node: &'a Node,
    line: FdChannel,
    /// The selected protocol version.
    protocol: u32,
    /// The new process.
    successor: Option<OwnedFd>,
    listening: &'a [ListeningSocket],
    paused_ports: Vec<PausedPort>,
    /// Pending packets from controllers.
    pending_packets: Vec<Vec<u8>>,
    /// Digest messages that have not reached the server.
    undelivered_digests: Vec<DigestMessage>,
    /// Path and update count of the closed store.
    store: Option<(PathBuf, u64)>,
    /// Whether the new process may already process packets.
    sent_go: bool,
}

impl OutgoingTakeover<'_> {
    fn run_protocol(&mut self) -> Result<(), TakeoverError> {
        let state = self.send_tables()?;
        self.expect_message(NewSideMessage::Ready, LOAD_TIMEOUT)?;
        self.close_store()?;
        self.expect_message(NewSideMessage::StoreOpen, LOAD_TIMEOUT)?;
        self.paused_ports = self.node.plane.pause().map_err(TakeoverError::local)?;
        self.send_changes(state.as_ref())?;
        if self.protocol >= WITH_LEVELS {
            self.send_dynamic_state()?;
            self.send_server_state()?;
        }
        if self.protocol >= WITH_NUMBERS {
            let numbers = self.node.lock_state().region_numbers.clone();
            self.line.send_message(&OldSideMessage::Numbers(numbers))?;
        }
        self.send_ports()?;
        self.expect_message(NewSideMessage::Prepared, STEP_TIMEOUT)?;
        self.sent_go = true;
        self.line.send_message(&OldSideMessage::Go)?;
        self.expect_message(NewSideMessage::Confirmed, STEP_TIMEOUT)
    }

    fn expect_message(&mut self, wanted: NewSideMessage, within: Duration) -> Result<(), TakeoverError> {
        match self.line.receive_message(within)?.0 {
            NewSideMessage::Refuses(why) => Err(TakeoverError::Refused(why)),
            said if said == wanted => Ok(()),
            said => Err(TakeoverError::Unexpected(format!("{said:?} instead of {wanted:?}"))),
        }
    }

    fn send_batch(&mut self, batch: &entries::WriteBatch) -> Result<(), TakeoverError> {
        let bytes = store_format::encode_batch(batch).map_err(TakeoverError::local)?;
        self.line.send_message(&OldSideMessage::Batch(bytes))
    }

    /// Sends pipeline and current tables.
    fn send_tables(&mut self) -> Result<Option<ControlState>, TakeoverError> {
        let (running, saved, state) = {
            let inner = self.node.lock_state();
            let running = inner.current.as_ref().map(|current| config_to_store(&current.config));
            let state = inner.current.as_ref().map(|current| current.engine.with_state(ControlState::clone));
            (running, inner.saved.as_ref().map(config_to_store), state)
        };
        self.line.send_message(&OldSideMessage::Configs { running, saved })?;
        if let Some(state) = &state {
            for batch in migrate::state_to_batches(state).map_err(TakeoverError::local)? {
                self.send_batch(&batch)?;
            }
        }
        self.line.send_message(&OldSideMessage::Tables)?;
        Ok(state)
    }

    /// Closes the store. Writes are blocked, so that none is acknowledged without a store.
    fn close_store(&mut self) -> Result<(), TakeoverError> {
        let store = self.node.lock_state().store.take();
        self.store = store.as_ref().map(|store| (store.path().to_owned(), store.update_count()));
        drop(store);
        self.line.send_message(&OldSideMessage::StoreClosed(self.store.as_ref().map(|(path, _)| path.clone())))
    }

    /// Sends the changes since `earlier`. No packet is in flight.
    fn send_changes(&mut self, earlier: Option<&ControlState>) -> Result<(), TakeoverError> {
        let mut batches = Vec::new();
        if let Some(current) = &mut self.node.lock_state().current {
            self.undelivered_digests = current.engine.take_digests();
            batches = earlier.map(|earlier| changes::changes_since(earlier, &*current.engine)).unwrap_or_default();
        }
        if self.protocol < WITH_LEVELS {
            for message in self.undelivered_digests.drain(..) {
                self.node.send_event(p4runtime::DeviceEvent::Digest { digest: message.digest, values: message.values });
            }
        }
        batches.iter().try_for_each(|batch| self.send_batch(batch))
    }

    /// Sends the dynamic state of meters and entries, and the twins and ports of sessions.
    fn send_dynamic_state(&mut self) -> Result<(), TakeoverError> {
        let inner = self.node.lock_state();
        let Some(current) = &inner.current else { return Ok(()) };
        let pipeline = &current.config.pipeline;
        let (engine, line) = (&*current.engine, &mut self.line);
        let (state, matching) = (engine.with_state(ControlState::clone), PipelineMapping::new(pipeline, pipeline));
        dynamic_state::collect_dynamic_state(engine, &state, &matching, |levels| {
            line.send_message(&OldSideMessage::Levels(levels))
        })?;
        if self.protocol < WITH_SESSIONS {
            tracing::warn!("the new process knows no sessions: pairs of entries end one by one, and ports are free");
            return Ok(());
        }
        session_transfer::collect_sessions(engine, &state, &matching, |batch| {
            line.send_message(&OldSideMessage::Sessions(batch))
        })
    }

    /// Freezes and sends the state of the server.
    fn send_server_state(&mut self) -> Result<(), TakeoverError> {
        let form = self.node.service().held.freeze();
        let batches = form.uncommitted.as_ref().map(|waiting| waiting.batches.clone()).unwrap_or_default();
        for batch in batches.iter() {
            let bytes = store_format::encode_batch(batch).map_err(TakeoverError::local)?;
            self.line.send_message(&OldSideMessage::Waiting(bytes))?;
        }
        self.line
            .send_message(&OldSideMessage::Held(TransferredState::from_server_state(form, &self.undelivered_digests)))
    }

    fn send_ports(&mut self) -> Result<(), TakeoverError> {
        let cpu = self.node.plane.cpu_port();
        let mut last = FinalState::default();
        let mut handed = Vec::new();
        for parked in &mut self.paused_ports {
            let attached = &mut parked.port.attached;
            if Some(attached.id) == cpu {
                self.pending_packets.extend(drain_port(attached.id, &mut *attached.port));
                continue;
            }
            let (number, worker, name) = (attached.id.0, parked.worker as u32, attached.port.name().to_owned());
            match attached.port.begin_transfer() {
                Some(given) => {
                    handed.push(number);
                    let description = Some(given.description);
                    let descriptors: Vec<BorrowedFd<'_>> = given.descriptors.iter().map(AsFd::as_fd).collect();
                    self.line.send_with_descriptors(
                        &OldSideMessage::Port { number, worker, name, description },
                        &descriptors,
                    )?;
                }
                None => self.line.send_message(&OldSideMessage::Port { number, worker, name, description: None })?,
            }
        }
        for (address, listener) in self.listening {
            self.line.send_with_descriptors(&OldSideMessage::Listener(address.clone()), &[listener.as_fd()])?;
        }
        if self.protocol >= WITH_HOST {
            for (port, name, descriptor) in self.node.plane.host().begin_transfer() {
                let tap = OldSideMessage::HostTap { port: port.0, name };
                self.line.send_with_descriptors(&tap, &[descriptor.as_fd()])?;
            }
        }
        last.packets.clone_from(&self.pending_packets);
        last.tallied = self.node.named_stats();
        if self.protocol >= WITH_FLOW_TABLES {
            let counts = std::mem::take(&mut last.tallied.flow_tables);
            self.line.send_message(&OldSideMessage::FlowTables(counts))?;
        }
        let mut counts = self.node.counts();
        counts.push(self.node.bypass_counts());
        last.counts = TransferredCounts::from_worker_counts(&counts, &handed);
        self.line.send_message(&OldSideMessage::Last(last))
    }

    /// Restores normal operation after the new process has not taken over.
    fn resume_forwarding(&mut self, error: &TakeoverError) {
        let said = self.line.send_message(&OldSideMessage::Refuses(error.to_string()));
        if self.sent_go && !matches!(error, TakeoverError::Refused(_)) {
            self.kill_successor();
        }
        drop(said);
        let _ = rustix::net::shutdown(self.line.as_fd(), rustix::net::Shutdown::Both);
        self.node.plane.host().cancel_transfer();
        let parked = std::mem::take(&mut self.paused_ports);
        let cpu = self.node.plane.cpu_port();
        let mut back = Vec::new();
        for mut parked in parked {
            if Some(parked.port.attached.id) != cpu {
                parked.port.attached.port.cancel_transfer();
            }
            back.push(parked);
        }
        self.node.plane.resume(back);
        self.node.lock_state().deferred_digests.append(&mut self.undelivered_digests);
        for packet in self.pending_packets.drain(..) {
            let _ = self.node.plane.packet_out(&packet);
        }
        let Some((path, updates)) = self.store.take() else { return };
        // The new process closes the store when it ends.
        let deadline = Instant::now() + STORE_REOPEN_TIMEOUT;
        let store = loop {
            match Store::open(&path) {
                Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
                outcome => break outcome.ok(),
            }
        };
        let mut inner = self.node.lock_state();
        match store {
            Some(store) => inner.store = Some(store.with_update_count(updates)),
            None => inner.closed_store = Some((path, updates)),
        }
    }

    /// Kills the new process if it still runs, because two processes must not use the same ports.
    fn kill_successor(&self) {
        let Some(successor) = &self.successor else { return };
        let _ = rustix::process::pidfd_send_signal(successor, rustix::process::Signal::KILL);
        let mut polled = [rustix::event::PollFd::new(successor, rustix::event::PollFlags::IN)];
        let patience = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
        let _ = rustix::event::poll(&mut polled, Some(&patience));
    }
}

/// Receives all packets that wait in a port.
fn drain_port(id: PortId, port: &mut dyn Port) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    loop {
        let mut batch = Batch::new();
        match port.receive(id, &mut batch) {
            Ok(count) if count > 0 => packets.extend(batch.packets().iter().map(|packet| packet.bytes().to_vec())),
            _ => return packets,
        }
    }
}
