//! [`Handshake`]: the handshake of a connection, from the first message to the last one before
//! packets.

use super::ConnectionFault;
use super::channel::{Channel, ReceivedMessage};
use super::link::Link;
use super::message::{Message, RingLocation, VERSION};
use super::options::{MemifOptions, MemifRole};
use super::region::Region;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum duration of a handshake.
const MAX_HANDSHAKE: Duration = Duration::from_secs(2);
/// Maximum number of regions of a client.
const MAX_REGIONS: usize = 16;

/// A connection during its handshake.
pub struct Handshake {
    channel: Channel,
    began: Instant,
    side: Side,
}

enum Side {
    Server {
        introduced: bool,
        regions: Vec<Arc<Region>>,
        rings: Vec<(RingLocation, OwnedFd)>,
    },
    Client {
        /// Created after the server's `Hello`, which contains its limits.
        link: Option<Link>,
        /// Remaining messages; one is sent after each acknowledgement.
        next: VecDeque<Message>,
    },
}

/// Result of a handshake step.
pub enum HandshakeStep {
    /// The handshake continues.
    Continue(Handshake),
    /// The connection is established.
    Done(Channel, Link),
}

impl Handshake {
    /// Starts the handshake of a server by its `Hello`.
    pub fn greet_client(channel: Channel, options: &MemifOptions) -> Result<Handshake, ConnectionFault> {
        let hello = Message::Hello {
            versions: (VERSION, VERSION),
            max_region: MAX_REGIONS as u16 - 1,
            max_to_client: 0,
            max_to_server: 0,
            max_log2_size: options.ring,
        };
        channel.send(&hello, "", None)?;
        let side = Side::Server { introduced: false, regions: Vec::new(), rings: Vec::new() };
        Ok(Handshake { channel, began: Instant::now(), side })
    }

    /// Starts the handshake of a client, which waits for the server's `Hello`.
    pub fn wait_for_hello(channel: Channel) -> Handshake {
        Handshake { channel, began: Instant::now(), side: Side::Client { link: None, next: VecDeque::new() } }
    }

    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Processes all received messages. Returns the state in which the handshake continues once
    /// further messages arrive, or the connection. `name` is the name of this end for the other
    /// one.
    ///
    /// # Errors
    /// A message is invalid, or the handshake takes too long. The other end was notified.
    pub fn advance(mut self, options: &MemifOptions, name: &str) -> Result<HandshakeStep, ConnectionFault> {
        let outcome = loop {
            match self.channel.receive() {
                Ok(None) if self.began.elapsed() > MAX_HANDSHAKE => {
                    break Err(ConnectionFault::new("the handshake took too long"));
                }
                Ok(None) => return Ok(HandshakeStep::Continue(self)),
                Ok(Some(received)) => match self.handle_message(received, options, name) {
                    Ok(None) => {}
                    Ok(Some(link)) => return Ok(HandshakeStep::Done(self.channel, link)),
                    Err(fault) => break Err(fault),
                },
                Err(fault) => break Err(fault),
            }
        };
        if let Err(fault) = &outcome {
            let _ = self.channel.send(&Message::Disconnect(fault.to_string()), name, None);
        }
        outcome
    }

    /// Processes one message and sends the reply. Returns the connection after the last one.
    fn handle_message(
        &mut self,
        received: ReceivedMessage,
        options: &MemifOptions,
        name: &str,
    ) -> Result<Option<Link>, ConnectionFault> {
        if let Message::Disconnect(why) = &received.message {
            return Err(ConnectionFault::new(format!("the other end says: {why}")));
        }
        match options.role {
            MemifRole::Server => self.handle_client_message(received, options, name),
            MemifRole::Client => self.handle_server_message(received, options, name),
        }
    }

    /// For a server: processes one message of the client, in the order `Init`, `AddRegion`,
    /// `AddRing`, `Connect`, and acknowledges it. Returns the connection after `Connect`.
    fn handle_client_message(
        &mut self,
        received: ReceivedMessage,
        options: &MemifOptions,
        name: &str,
    ) -> Result<Option<Link>, ConnectionFault> {
        let Side::Server { introduced: has_init, regions, rings } = &mut self.side else { return Err(unexpected()) };
        match (received.message, received.descriptor) {
            (Message::Init { version, id, mode }, _) if !*has_init => {
                if version != VERSION {
                    return Err(ConnectionFault::new(format!(
                        "version {version:#06x}; only {VERSION:#06x} is supported"
                    )));
                }
                if (id, mode) != (options.id, 0) {
                    return Err(ConnectionFault::new(format!(
                        "no Ethernet interface {id} here; there is {}",
                        options.id
                    )));
                }
                *has_init = true;
            }
            (Message::AddRegion { index, size }, Some(descriptor)) if *has_init => {
                if usize::from(index) != regions.len() || regions.len() == MAX_REGIONS {
                    return Err(ConnectionFault::new(format!(
                        "unexpected region {index}; at most {MAX_REGIONS} are supported, in order"
                    )));
                }
                regions.push(Arc::new(Region::open(descriptor, size)?));
            }
            (Message::AddRing(location), Some(interrupt)) if *has_init => {
                if location.index != 0 || rings.iter().any(|(other, _)| other.to_server == location.to_server) {
                    return Err(ConnectionFault::new("a second ring of one direction; only one is supported"));
                }
                set_nonblocking(&interrupt);
                rings.push((location, interrupt));
            }
            (Message::Connect, _) if *has_init => {
                let link = Link::open(MemifRole::Server, std::mem::take(regions), std::mem::take(rings))?;
                self.channel.send(&Message::Connected, name, None)?;
                return Ok(Some(link));
            }
            (Message::AddRegion { .. } | Message::AddRing(_), None) => {
                return Err(ConnectionFault::new("a region or ring without its descriptor"));
            }
            _ => return Err(unexpected()),
        }
        self.channel.send(&Message::Ack, name, None).map(|()| None)
    }

    /// For a client: processes one message of the server. `Hello` creates the memory and the list
    /// of messages that describe it; each acknowledgement sends the next one. Returns the
    /// connection after `Connected`.
    fn handle_server_message(
        &mut self,
        received: ReceivedMessage,
        options: &MemifOptions,
        name: &str,
    ) -> Result<Option<Link>, ConnectionFault> {
        let Side::Client { link, next } = &mut self.side else { return Err(unexpected()) };
        match received.message {
            Message::Hello { versions: (min_version, max_version), max_log2_size, .. } if link.is_none() => {
                if !(min_version..=max_version).contains(&VERSION) {
                    return Err(ConnectionFault::new(format!(
                        "versions {min_version:#06x} to {max_version:#06x}; {VERSION:#06x} is supported"
                    )));
                }
                let new_link = Link::create(options.ring.min(max_log2_size))
                    .map_err(|error| ConnectionFault::new(format!("no memory for the rings: {error}")))?;
                let sizes = new_link.regions().iter().map(|region| region.len() as u64);
                next.push_back(Message::Init { version: VERSION, id: options.id, mode: 0 });
                next.extend((0..).zip(sizes).map(|(index, size)| Message::AddRegion { index, size }));
                next.extend(new_link.rings().map(|ring| Message::AddRing(ring.location())));
                next.push_back(Message::Connect);
                *link = Some(new_link);
            }
            Message::Ack if link.is_some() => {}
            Message::Connected if next.is_empty() => {
                link.iter().for_each(Link::offer_buffers);
                return Ok(link.take());
            }
            _ => return Err(unexpected()),
        }
        let (Some(link), Some(message)) = (link, next.pop_front()) else { return Ok(None) };
        let descriptor = match &message {
            Message::AddRegion { index, .. } => link.regions().get(usize::from(*index)).map(|region| region.as_fd()),
            Message::AddRing(location) => {
                link.rings().into_iter().find(|ring| ring.location() == *location).map(|ring| ring.interrupt.as_fd())
            }
            _ => None,
        };
        self.channel.send(&message, name, descriptor).map(|()| None)
    }
}

fn unexpected() -> ConnectionFault {
    ConnectionFault::new("a message that cannot come at this point")
}

/// Makes the peer's descriptor non-blocking, because it must not stop a worker.
fn set_nonblocking(descriptor: &OwnedFd) {
    if let Ok(flags) = rustix::fs::fcntl_getfl(descriptor) {
        let _ = rustix::fs::fcntl_setfl(descriptor, flags | rustix::fs::OFlags::NONBLOCK);
    }
}
