//! [`MemifPort`].

use super::Fault;
use super::channel::{Channel, listen_on};
use super::link::Link;
use super::meeting::{Meeting, Step};
use super::message::{Message, RingPlace};
use super::options::{Address, Options, Role};
use super::region::Region;
use crate::hand_over::{CountersForm, HandOver, Kind};
use crate::offload::unsendable;
use crate::{Outgoing, Port, PortError, Readiness, Trouble};
use packet::{Batch, Packet, PortCounters, PortId, PortReason};
use rustix::event::epoll;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most bytes of a packet after its Ethernet header: frames of 9216 bytes, as DPDK's memif has them.
const MTU: usize = 9202;
/// How often a client without a server tries to connect.
const RETRY: Duration = Duration::from_millis(20);
/// How long packets are still received from memory whose owner has gone.
const LEGACY: Duration = Duration::from_secs(1);
/// A busy port looks at its control channel each time it has been asked for packets this often.
const LOOK: u32 = 256;
/// Messages that are read at one go, at most.
const AT_ONCE: usize = 16;

/// One end of a memif: see [`super`].
///
/// Nothing here runs by itself: the port meets its other end while it is asked for packets, or for its trouble.
pub struct MemifPort {
    name: String,
    options: Options,
    listener: Option<OwnedFd>,
    stage: Stage,
    /// Readable when there is something to do: a packet, a message, somebody who connects.
    events: OwnedFd,
    counters: PortCounters,
    /// A client's last try to connect.
    tried: Option<Instant>,
    /// Somebody may wait for `events`.
    awaited: Cell<bool>,
    asked: u32,
    last_fault: Option<Fault>,
    /// Another process may have it: what this one leaves must stay as it is.
    given: bool,
}

enum Stage {
    Alone,
    Meeting(Meeting),
    Connected(Channel, Link),
    /// The other end has gone; what it sent before may still be received until this moment.
    Bereft(Link, Instant),
}

/// What another process needs to know of a port, beside its descriptors. These are in order: the listening socket if there is one; if it is connected,
/// the control channel, the regions, and an interrupt for each ring.
#[derive(Serialize, Deserialize)]
pub(crate) struct Described {
    name: String,
    options: Options,
    listens: bool,
    /// The sizes of the regions in bytes, and the rings.
    connected: Option<(Vec<u64>, Vec<RingPlace>)>,
    counters: CountersForm,
}

fn open_error(options: &Options, step: &'static str) -> impl Fn(io::Error) -> PortError {
    let interface = options.to_string();
    move |source| PortError::Open { interface: interface.clone(), step, source }
}

impl MemifPort {
    /// Opens an end by its device string (`memif:socket=PATH,role=server|client[,id=N][,ring=LOG2]`; a path that begins with `@` is a name without a
    /// file). The other end need not be there.
    ///
    /// # Errors
    /// The string is no such, or a server cannot listen.
    pub fn open(device: &str) -> Result<MemifPort, PortError> {
        let options = Options::parse(device)?;
        MemifPort::open_as(options.to_string(), options)
    }

    /// Opens an end under a name of its own.
    ///
    /// # Errors
    /// A server cannot listen.
    pub fn open_as(name: String, options: Options) -> Result<MemifPort, PortError> {
        let listener = match options.role {
            Role::Server => Some(listen_on(&options.address).map_err(open_error(&options, "listen on the socket"))?),
            Role::Client => None,
        };
        MemifPort::new(name, options, listener, Stage::Alone, PortCounters::default())
    }

    fn new(
        name: String,
        options: Options,
        listener: Option<OwnedFd>,
        stage: Stage,
        counters: PortCounters,
    ) -> Result<MemifPort, PortError> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| PortError::Event(error.into()))?;
        let (awaited, tried, last_fault) = (Cell::new(true), None, None);
        let mut port = MemifPort {
            name,
            options,
            listener,
            stage,
            events,
            counters,
            tried,
            awaited,
            asked: 0,
            last_fault,
            given: false,
        };
        port.watch();
        Ok(port)
    }

    /// Takes over what [`Port::hand_over`] gave.
    ///
    /// # Errors
    /// The descriptors are not those that the description speaks of.
    pub(crate) fn take_over(described: Described, descriptors: Vec<OwnedFd>) -> Result<MemifPort, PortError> {
        let Described { name, options, listens, connected, counters } = described;
        let bad = |why: String| PortError::TakeOver { port: name.clone(), why };
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or_else(|| bad("descriptors are missing".into()));
        let listener = if listens { Some(next()?) } else { None };
        let stage = match connected {
            None => Stage::Alone,
            Some((sizes, places)) => {
                let channel = Channel::from_descriptor(next()?);
                let mut regions = Vec::new();
                for size in sizes {
                    regions.push(Arc::new(Region::open(next()?, size).map_err(|fault| bad(fault.to_string()))?));
                }
                let mut rings = Vec::new();
                for place in places {
                    rings.push((place, next()?));
                }
                let link = Link::open(options.role, regions, rings).map_err(|fault| bad(fault.to_string()))?;
                Stage::Connected(channel, link)
            }
        };
        MemifPort::new(name.clone(), options, listener, stage, counters.counters())
    }

    /// Whether packets can go through now.
    pub fn is_connected(&self) -> bool {
        matches!(self.stage, Stage::Connected(..))
    }

    /// Why the last connection, or try, ended.
    pub fn last_fault(&self) -> Option<String> {
        self.last_fault.as_ref().map(ToString::to_string)
    }

    /// Says anew what `events` is about.
    fn watch(&mut self) {
        let Ok(events) = epoll::create(epoll::CreateFlags::CLOEXEC) else { return };
        let add = |descriptor: BorrowedFd<'_>| {
            // Without it the port is slower to notice, and nothing else: it is asked again with each tick.
            let _ = epoll::add(&events, descriptor, epoll::EventData::new_u64(0), epoll::EventFlags::IN);
        };
        match &self.stage {
            Stage::Alone => self.listener.iter().for_each(|listener| add(listener.as_fd())),
            Stage::Meeting(meeting) => add(meeting.channel().as_fd()),
            Stage::Connected(channel, link) => {
                add(channel.as_fd());
                add(link.inbound().interrupt.as_fd());
            }
            Stage::Bereft(..) => {}
        }
        self.events = events;
        self.awaited.set(true);
    }

    fn set_stage(&mut self, stage: Stage) {
        self.stage = stage;
        self.watch();
    }

    /// The connection is over, by our will: the other end writes what cannot be.
    fn part(&mut self, fault: Fault) {
        if let Stage::Connected(channel, _) = &self.stage {
            let _ = channel.send(&Message::Disconnect(fault.to_string()), &self.name, None);
        }
        self.last_fault = Some(fault);
        self.set_stage(Stage::Alone);
    }

    /// Looks after the connection, or makes one.
    fn attend(&mut self) {
        for _ in 0..AT_ONCE {
            match std::mem::replace(&mut self.stage, Stage::Alone) {
                Stage::Alone => {
                    let Some(meeting) = self.begin() else { return };
                    self.set_stage(Stage::Meeting(meeting));
                }
                Stage::Meeting(meeting) => match meeting.step(&self.options, &self.name) {
                    Ok(Step::Goes(meeting)) => {
                        self.stage = Stage::Meeting(meeting);
                        return;
                    }
                    Ok(Step::Done(channel, link)) => self.set_stage(Stage::Connected(channel, link)),
                    Err(fault) => {
                        self.last_fault = Some(fault);
                        self.set_stage(Stage::Alone);
                    }
                },
                Stage::Connected(channel, link) => match channel.receive() {
                    Ok(None) => {
                        self.stage = Stage::Connected(channel, link);
                        return;
                    }
                    Ok(Some(heard)) if !matches!(heard.message, Message::Disconnect(_)) => {
                        self.stage = Stage::Connected(channel, link);
                    }
                    gone => {
                        self.last_fault = gone.err().or_else(|| Some(Fault::new("the other end has said goodbye")));
                        drop(channel);
                        self.set_stage(Stage::Bereft(link, Instant::now() + LEGACY));
                        return;
                    }
                },
                Stage::Bereft(link, until) => {
                    if Instant::now() < until && link.waiting().is_ok_and(|waiting| waiting > 0) {
                        self.stage = Stage::Bereft(link, until);
                        return;
                    }
                    // What nobody has asked for in time.
                    self.counters.drops.add_packets(PortReason::RxError, link.left());
                    self.set_stage(Stage::Alone);
                }
            }
        }
    }

    /// A new meeting, if there is somebody to meet.
    fn begin(&mut self) -> Option<Meeting> {
        let met = match &self.listener {
            Some(listener) => Meeting::greet(Channel::accept(listener.as_fd())?, &self.options),
            None => {
                if self.tried.is_some_and(|tried| tried.elapsed() < RETRY) {
                    return None;
                }
                self.tried = Some(Instant::now());
                Ok(Meeting::wait_for_hello(Channel::connect(&self.options.address).ok()?))
            }
        };
        met.map_err(|fault| self.last_fault = Some(fault)).ok()
    }

    /// Looks after the connection if it may need it.
    fn attend_now_and_then(&mut self) {
        self.asked = self.asked.wrapping_add(1);
        let woken = self.awaited.take();
        if woken && let Stage::Connected(_, link) = &self.stage {
            link.inbound().take_interrupts();
        }
        if woken || self.asked.is_multiple_of(LOOK) || !self.is_connected() {
            self.attend();
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

    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        self.attend_now_and_then();
        let before = batch.len();
        let (Stage::Connected(_, link) | Stage::Bereft(link, _)) = &mut self.stage else { return Ok(0) };
        match link.receive(id, batch, &mut self.counters) {
            Ok(0) => {}
            // While packets come, nobody has to wake anybody.
            Ok(_) => link.inbound().want_interrupts(false),
            Err(fault) => self.part(fault),
        }
        Ok(batch.len() - before)
    }

    fn send(&mut self, packets: &mut Outgoing<'_>) -> usize {
        let mut sent = 0;
        let mut packets = packets.iter();
        if let Stage::Connected(_, link) = &mut self.stage {
            let reason = |packet: &Packet| unsendable(packet.bytes(), MTU);
            if let Err(fault) = link.send(&mut packets, reason, &mut self.counters, &mut sent) {
                self.part(fault);
            }
        }
        for packet in packets {
            let reason = unsendable(packet.bytes(), MTU).unwrap_or(PortReason::TxPortDown);
            self.counters.drops.add(reason, packet.len());
        }
        sent
    }

    fn readiness(&self) -> Readiness<'_> {
        match &self.stage {
            // Somebody may come: a server is told, a client has to try.
            Stage::Alone if self.listener.is_none() => return Readiness::Poll,
            Stage::Alone | Stage::Meeting(_) => {}
            Stage::Bereft(..) => return Readiness::Now,
            Stage::Connected(_, link) => {
                link.inbound().want_interrupts(true);
                if link.waiting() != Ok(0) {
                    return Readiness::Now;
                }
            }
        }
        self.awaited.set(true);
        Readiness::Wait(self.events.as_fd())
    }

    fn counters(&mut self) -> &PortCounters {
        &self.counters
    }

    fn trouble(&mut self) -> Option<Trouble> {
        self.attend();
        match self.is_connected() {
            true => None,
            false => Some(Trouble::NoPeer { port: self.name.clone() }),
        }
    }

    fn hand_over(&mut self) -> Option<HandOver> {
        let mut descriptors = Vec::new();
        descriptors.extend(self.listener.as_ref().map(AsFd::as_fd));
        let connected = match &self.stage {
            Stage::Connected(channel, link) => {
                descriptors.push(channel.as_fd());
                descriptors.extend(link.regions().iter().map(|region| region.as_fd()));
                descriptors.extend(link.rings().map(|ring| ring.interrupt.as_fd()));
                let sizes = link.regions().iter().map(|region| region.len() as u64);
                Some((sizes.collect(), link.rings().map(|ring| ring.place()).to_vec()))
            }
            _ => None,
        };
        let described = Described {
            name: self.name.clone(),
            options: self.options.clone(),
            listens: self.listener.is_some(),
            connected,
            counters: CountersForm::of(&self.counters),
        };
        let hand_over = HandOver::new(Kind::Memif, &described, &descriptors)?;
        self.given = true;
        Some(hand_over)
    }

    fn take_back(&mut self) {
        self.given = false;
        if let Stage::Connected(_, link) = &mut self.stage {
            link.recall();
        }
        self.awaited.set(true);
    }
}

impl Drop for MemifPort {
    fn drop(&mut self) {
        if self.given {
            return;
        }
        if let Stage::Connected(channel, _) = &self.stage {
            let _ = channel.send(&Message::Disconnect("the port is closed".into()), &self.name, None);
        }
        if let (Some(_), Address::File(path)) = (&self.listener, &self.options.address) {
            let _ = std::fs::remove_file(path);
        }
    }
}
