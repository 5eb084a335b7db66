//! [`MemifPort`]: a memif as a port.

use super::ConnectionFault;
use super::channel::{Channel, listen_on};
use super::handshake::{Handshake, HandshakeStep};
use super::link::Link;
use super::message::{Message, RingLocation};
use super::options::{MemifOptions, MemifRole, SocketAddress};
use super::region::Region;
use crate::nic_offload::tx_drop_reason;
use crate::port_transfer::{PortCountersState, PortTransfer, TransferKind};
use crate::{Port, PortError, PortFault, Readiness, TxBatch};
use packet::{Batch, Packet, PortCounters, PortId, PortReason};
use rustix::event::epoll;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// MTU in bytes: frames of 9216 bytes, as in DPDK's memif.
const MTU: usize = 9202;
/// Interval of a client's attempts to connect.
const RETRY: Duration = Duration::from_millis(20);
/// Duration for which packets are still received after the other end has gone.
const DRAIN_TIME: Duration = Duration::from_secs(1);
/// Number of receive calls between checks of the control channel on a busy port.
const CHANNEL_CHECK_CALLS: u32 = 256;
/// Maximum number of state changes and messages per check.
const MAX_CHANGES: usize = 16;

/// One end of a memif (see [`super`]).
///
/// The port has no thread: it handles its connection while it is polled for packets or for its
/// fault.
pub struct MemifPort {
    name: String,
    options: MemifOptions,
    listener: Option<OwnedFd>,
    state: ConnectionState,
    /// Readable on any event: a packet, a message, a new connection.
    events: OwnedFd,
    counters: PortCounters,
    /// Time of a client's last attempt to connect.
    last_attempt: Option<Instant>,
    /// Whether a caller may be waiting for `events`.
    is_awaited: Cell<bool>,
    /// Number of receive calls, which wraps.
    receive_calls: u32,
    last_fault: Option<ConnectionFault>,
    /// Whether the port was transferred, so that dropping it must not change shared state.
    is_transferred: bool,
}

enum ConnectionState {
    Disconnected,
    Handshaking(Handshake),
    Connected(Channel, Link),
    /// The other end has gone. Its last packets can be received until this time.
    Draining(Link, Instant),
}

/// State of a port for another process. Its descriptors are, in order: the listening socket if
/// there is one; if connected, the control channel, the regions, and an interrupt for each ring.
#[derive(Serialize, Deserialize)]
pub(crate) struct MemifPortState {
    name: String,
    options: MemifOptions,
    listens: bool,
    /// Sizes of the regions in bytes, and the rings.
    connected: Option<(Vec<u64>, Vec<RingLocation>)>,
    counters: PortCountersState,
}

fn open_error(options: &MemifOptions, step: &'static str) -> impl Fn(io::Error) -> PortError {
    let interface = options.to_string();
    move |source| PortError::Open { interface: interface.clone(), step, source }
}

impl MemifPort {
    /// Opens an end by its device string
    /// (`memif:socket=PATH,role=server|client[,id=N][,ring=LOG2]`; a path that starts with `@` is
    /// an abstract socket). The other end need not exist yet.
    ///
    /// # Errors
    /// The string is malformed, or a server cannot listen.
    pub fn open(device: &str) -> Result<MemifPort, PortError> {
        let options = MemifOptions::parse(device)?;
        MemifPort::open_as(options.to_string(), options)
    }

    /// Opens an end with a given port name.
    ///
    /// # Errors
    /// A server cannot listen.
    pub fn open_as(name: String, options: MemifOptions) -> Result<MemifPort, PortError> {
        let listener = match options.role {
            MemifRole::Server => {
                Some(listen_on(&options.address).map_err(open_error(&options, "listen on the socket"))?)
            }
            MemifRole::Client => None,
        };
        MemifPort::new(name, options, listener, ConnectionState::Disconnected, PortCounters::default())
    }

    /// Creates a port in this state of its connection, and watches the state's descriptors.
    fn new(
        name: String,
        options: MemifOptions,
        listener: Option<OwnedFd>,
        state: ConnectionState,
        counters: PortCounters,
    ) -> Result<MemifPort, PortError> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| PortError::Event(error.into()))?;
        let (is_awaited, last_attempt, last_fault) = (Cell::new(true), None, None);
        let mut port = MemifPort {
            name,
            options,
            listener,
            state,
            events,
            counters,
            last_attempt,
            is_awaited,
            receive_calls: 0,
            last_fault,
            is_transferred: false,
        };
        port.watch_descriptors();
        Ok(port)
    }

    /// Continues a port from the result of [`Port::begin_transfer`]. Takes the descriptors in the
    /// order that [`MemifPortState`] describes.
    ///
    /// # Errors
    /// The descriptors do not match the description.
    pub(crate) fn from_transfer(
        transferred: MemifPortState,
        descriptors: Vec<OwnedFd>,
    ) -> Result<MemifPort, PortError> {
        let MemifPortState { name, options, listens, connected, counters } = transferred;
        let invalid = |why: String| PortError::TakeOver { port: name.clone(), why };
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or_else(|| invalid("descriptors are missing".into()));
        let listener = if listens { Some(next()?) } else { None };
        let state = match connected {
            None => ConnectionState::Disconnected,
            Some((sizes, locations)) => {
                let channel = Channel::from_descriptor(next()?);
                let mut regions = Vec::new();
                for size in sizes {
                    regions.push(Arc::new(Region::open(next()?, size).map_err(|fault| invalid(fault.to_string()))?));
                }
                let mut rings = Vec::new();
                for location in locations {
                    rings.push((location, next()?));
                }
                let link = Link::open(options.role, regions, rings).map_err(|fault| invalid(fault.to_string()))?;
                ConnectionState::Connected(channel, link)
            }
        };
        MemifPort::new(name.clone(), options, listener, state, counters.into_counters())
    }

    /// Returns whether the other end is connected.
    pub fn is_connected(&self) -> bool {
        matches!(self.state, ConnectionState::Connected(..))
    }

    /// Returns why the last connection or attempt ended.
    pub fn last_fault(&self) -> Option<String> {
        self.last_fault.as_ref().map(ToString::to_string)
    }

    /// Makes `events` watch the descriptors of the present state: the listener, the channel, or the
    /// channel and the interrupt of the receive ring. Each state gets a new epoll set, because
    /// descriptors that stay open would remain in the old one.
    fn watch_descriptors(&mut self) {
        let Ok(events) = epoll::create(epoll::CreateFlags::CLOEXEC) else { return };
        let watch = |descriptor: BorrowedFd<'_>| {
            // On an error, the port reacts later, because each tick checks the connection.
            let _ = epoll::add(&events, descriptor, epoll::EventData::new_u64(0), epoll::EventFlags::IN);
        };
        match &self.state {
            ConnectionState::Disconnected => self.listener.iter().for_each(|listener| watch(listener.as_fd())),
            ConnectionState::Handshaking(handshake) => watch(handshake.channel().as_fd()),
            ConnectionState::Connected(channel, link) => {
                watch(channel.as_fd());
                watch(link.inbound().interrupt.as_fd());
            }
            ConnectionState::Draining(..) => {}
        }
        self.events = events;
        self.is_awaited.set(true);
    }

    fn set_state(&mut self, state: ConnectionState) {
        self.state = state;
        self.watch_descriptors();
    }

    /// Closes the connection because the other end wrote invalid data.
    fn disconnect(&mut self, fault: ConnectionFault) {
        if let ConnectionState::Connected(channel, _) = &self.state {
            let _ = channel.send(&Message::Disconnect(fault.to_string()), &self.name, None);
        }
        self.last_fault = Some(fault);
        self.set_state(ConnectionState::Disconnected);
    }

    /// Advances the connection by the messages that have arrived, at most [`MAX_CHANGES`] steps.
    /// The state is taken out and put back, because a step consumes the handshake or the link.
    fn advance_connection(&mut self) {
        for _ in 0..MAX_CHANGES {
            match std::mem::replace(&mut self.state, ConnectionState::Disconnected) {
                ConnectionState::Disconnected => {
                    let Some(handshake) = self.start_handshake() else { return };
                    self.set_state(ConnectionState::Handshaking(handshake));
                }
                ConnectionState::Handshaking(handshake) => match handshake.advance(&self.options, &self.name) {
                    Ok(HandshakeStep::Continue(handshake)) => {
                        self.state = ConnectionState::Handshaking(handshake);
                        return;
                    }
                    Ok(HandshakeStep::Done(channel, link)) => self.set_state(ConnectionState::Connected(channel, link)),
                    Err(fault) => {
                        self.last_fault = Some(fault);
                        self.set_state(ConnectionState::Disconnected);
                    }
                },
                ConnectionState::Connected(channel, link) => match channel.receive() {
                    Ok(None) => {
                        self.state = ConnectionState::Connected(channel, link);
                        return;
                    }
                    Ok(Some(received)) if !matches!(received.message, Message::Disconnect(_)) => {
                        self.state = ConnectionState::Connected(channel, link);
                    }
                    closed => {
                        self.last_fault =
                            closed.err().or_else(|| Some(ConnectionFault::new("the other end has disconnected")));
                        drop(channel);
                        self.set_state(ConnectionState::Draining(link, Instant::now() + DRAIN_TIME));
                        return;
                    }
                },
                ConnectionState::Draining(link, deadline) => {
                    if Instant::now() < deadline && link.pending_descriptors().is_ok_and(|pending| pending > 0) {
                        self.state = ConnectionState::Draining(link, deadline);
                        return;
                    }
                    // Packets that were not received in time.
                    self.counters.drops.count_drops(PortReason::RxError, link.pending_packets());
                    self.set_state(ConnectionState::Disconnected);
                }
            }
        }
    }

    /// Starts a handshake if the other end is available.
    fn start_handshake(&mut self) -> Option<Handshake> {
        let handshake = match &self.listener {
            Some(listener) => Handshake::greet_client(Channel::accept(listener.as_fd())?, &self.options),
            None => {
                if self.last_attempt.is_some_and(|last_attempt| last_attempt.elapsed() < RETRY) {
                    return None;
                }
                self.last_attempt = Some(Instant::now());
                Ok(Handshake::wait_for_hello(Channel::connect(&self.options.address).ok()?))
            }
        };
        handshake.map_err(|fault| self.last_fault = Some(fault)).ok()
    }

    /// Advances the connection after an event, and once per [`CHANNEL_CHECK_CALLS`] calls.
    fn maybe_advance_connection(&mut self) {
        self.receive_calls = self.receive_calls.wrapping_add(1);
        let woken = self.is_awaited.take();
        if woken && let ConnectionState::Connected(_, link) = &self.state {
            link.inbound().clear_interrupts();
        }
        if woken || self.receive_calls.is_multiple_of(CHANNEL_CHECK_CALLS) || !self.is_connected() {
            self.advance_connection();
        }
    }
}

impl Port for MemifPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn mtu(&self) -> usize {
        MTU
    }

    /// Receives packets from the link, also while a connection that has ended drains. Invalid data
    /// of the other end closes the connection.
    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        self.maybe_advance_connection();
        let before = batch.len();
        let (ConnectionState::Connected(_, link) | ConnectionState::Draining(link, _)) = &mut self.state else {
            return Ok(0);
        };
        match link.receive(id, batch, &mut self.counters) {
            Ok(0) => {}
            // No interrupts are needed while packets arrive.
            Ok(_) => link.inbound().want_interrupts(false),
            Err(fault) => self.disconnect(fault),
        }
        Ok(batch.len() - before)
    }

    /// Sends packets on the link. Without a connection, or after it was closed for invalid data,
    /// the remaining packets are dropped.
    fn send(&mut self, packets: &mut TxBatch<'_>) -> usize {
        let mut sent = 0;
        let mut packets = packets.iter();
        if let ConnectionState::Connected(_, link) = &mut self.state {
            let reason = |packet: &Packet| tx_drop_reason(packet, MTU);
            if let Err(fault) = link.send(&mut packets, reason, &mut self.counters, &mut sent) {
                self.disconnect(fault);
            }
        }
        for packet in packets {
            let reason = tx_drop_reason(packet, MTU).unwrap_or(PortReason::TxPortDown);
            self.counters.drops.count_drop(reason, packet.len());
        }
        sent
    }

    /// Returns how to wait for packets. Enables interrupts first and checks the ring after that,
    /// because a packet that arrived before causes no interrupt.
    fn readiness(&self) -> Readiness<'_> {
        match &self.state {
            // A server is notified of a new client, but a client must retry.
            ConnectionState::Disconnected if self.listener.is_none() => return Readiness::Poll,
            ConnectionState::Disconnected | ConnectionState::Handshaking(_) => {}
            ConnectionState::Draining(..) => return Readiness::Now,
            ConnectionState::Connected(_, link) => {
                link.inbound().want_interrupts(true);
                if link.pending_descriptors() != Ok(0) {
                    return Readiness::Now;
                }
            }
        }
        self.is_awaited.set(true);
        Readiness::Wait(self.events.as_fd())
    }

    fn counters(&mut self) -> &PortCounters {
        &self.counters
    }

    fn port_fault(&mut self) -> Option<PortFault> {
        self.advance_connection();
        match self.is_connected() {
            true => None,
            false => Some(PortFault::NoPeer { port: self.name.clone() }),
        }
    }

    /// Describes the port for another process, with its descriptors in the order of
    /// [`MemifPortState`]. A handshake is not transferred: the other process starts it again.
    fn begin_transfer(&mut self) -> Option<PortTransfer> {
        let mut descriptors = Vec::new();
        descriptors.extend(self.listener.as_ref().map(AsFd::as_fd));
        let connected = match &self.state {
            ConnectionState::Connected(channel, link) => {
                descriptors.push(channel.as_fd());
                descriptors.extend(link.regions().iter().map(|region| region.as_fd()));
                descriptors.extend(link.rings().map(|ring| ring.interrupt.as_fd()));
                let sizes = link.regions().iter().map(|region| region.len() as u64);
                Some((sizes.collect(), link.rings().map(|ring| ring.location()).to_vec()))
            }
            _ => None,
        };
        let state = MemifPortState {
            name: self.name.clone(),
            options: self.options.clone(),
            listens: self.listener.is_some(),
            connected,
            counters: PortCountersState::of(&self.counters),
        };
        let transfer = PortTransfer::new(TransferKind::Memif, &state, &descriptors)?;
        self.is_transferred = true;
        Some(transfer)
    }

    fn cancel_transfer(&mut self) {
        self.is_transferred = false;
        if let ConnectionState::Connected(_, link) = &mut self.state {
            link.resume();
        }
        self.is_awaited.set(true);
    }
}

impl Drop for MemifPort {
    /// Closes the connection and removes the socket file, unless another process continues the
    /// port.
    fn drop(&mut self) {
        if self.is_transferred {
            return;
        }
        if let ConnectionState::Connected(channel, _) = &self.state {
            let _ = channel.send(&Message::Disconnect("the port is closed".into()), &self.name, None);
        }
        if let (Some(_), SocketAddress::File(path)) = (&self.listener, &self.options.address) {
            let _ = std::fs::remove_file(path);
        }
    }
}
