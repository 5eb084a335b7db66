//! [`Meeting`]: how two ends come together, from the first message to the one after which packets flow.

use super::Fault;
use super::channel::{Channel, Heard};
use super::link::Link;
use super::message::{Message, RingPlace, VERSION};
use super::options::{Options, Role};
use super::region::Region;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the two may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Regions that a client may have.
const REGIONS: usize = 16;

/// A connection before packets flow.
pub struct Meeting {
    channel: Channel,
    began: Instant,
    side: Side,
}

enum Side {
    Server {
        introduced: bool,
        regions: Vec<Arc<Region>>,
        rings: Vec<(RingPlace, OwnedFd)>,
    },
    Client {
        /// Made when the server has said what it can do.
        link: Option<Link>,
        /// What is still to be told, one after each answer.
        next: VecDeque<Message>,
    },
}

/// What became of a step.
pub enum Step {
    /// More is to come.
    Goes(Meeting),
    /// Packets flow from now on.
    Done(Channel, Link),
}

impl Meeting {
    /// A server greets a client.
    pub fn greet(channel: Channel, options: &Options) -> Result<Meeting, Fault> {
        let hello = Message::Hello {
            versions: (VERSION, VERSION),
            max_region: REGIONS as u16 - 1,
            max_to_client: 0,
            max_to_server: 0,
            max_log2_size: options.ring,
        };
        channel.send(&hello, "", None)?;
        let side = Side::Server { introduced: false, regions: Vec::new(), rings: Vec::new() };
        Ok(Meeting { channel, began: Instant::now(), side })
    }

    /// A client waits for what the server says.
    pub fn wait_for_hello(channel: Channel) -> Meeting {
        Meeting { channel, began: Instant::now(), side: Side::Client { link: None, next: VecDeque::new() } }
    }

    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Listens to the other end, as far as it has spoken.
    ///
    /// # Errors
    /// What it says can't be, or it has taken too long. It was told.
    pub fn step(mut self, options: &Options, name: &str) -> Result<Step, Fault> {
        let outcome = loop {
            match self.channel.receive() {
                Ok(None) if self.began.elapsed() > PATIENCE => {
                    break Err(Fault::new("it took too long to say what a connection needs"));
                }
                Ok(None) => return Ok(Step::Goes(self)),
                Ok(Some(heard)) => match self.hear(heard, options, name) {
                    Ok(None) => {}
                    Ok(Some(link)) => return Ok(Step::Done(self.channel, link)),
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

    fn hear(&mut self, heard: Heard, options: &Options, name: &str) -> Result<Option<Link>, Fault> {
        if let Message::Disconnect(why) = &heard.message {
            return Err(Fault::new(format!("the other end says: {why}")));
        }
        match options.role {
            Role::Server => self.hear_client(heard, options, name),
            Role::Client => self.hear_server(heard, options, name),
        }
    }

    fn hear_client(&mut self, heard: Heard, options: &Options, name: &str) -> Result<Option<Link>, Fault> {
        let Side::Server { introduced, regions, rings } = &mut self.side else { return Err(unexpected()) };
        match (heard.message, heard.descriptor) {
            (Message::Init { version, id, mode }, _) if !*introduced => {
                if version != VERSION {
                    return Err(Fault::new(format!("version {version:#06x}; only {VERSION:#06x} is spoken here")));
                }
                if (id, mode) != (options.id, 0) {
                    return Err(Fault::new(format!("no Ethernet interface {id} here; there is {}", options.id)));
                }
                *introduced = true;
            }
            (Message::AddRegion { index, size }, Some(descriptor)) if *introduced => {
                if usize::from(index) != regions.len() || regions.len() == REGIONS {
                    return Err(Fault::new(format!("unexpected region {index}; {REGIONS} can be, in order")));
                }
                regions.push(Arc::new(Region::open(descriptor, size)?));
            }
            (Message::AddRing(place), Some(interrupt)) if *introduced => {
                if place.index != 0 || rings.iter().any(|(other, _)| other.to_server == place.to_server) {
                    return Err(Fault::new("a second ring of one direction; one can be"));
                }
                nonblocking(&interrupt);
                rings.push((place, interrupt));
            }
            (Message::Connect, _) if *introduced => {
                let link = Link::open(Role::Server, std::mem::take(regions), std::mem::take(rings))?;
                self.channel.send(&Message::Connected, name, None)?;
                return Ok(Some(link));
            }
            (Message::AddRegion { .. } | Message::AddRing(_), None) => {
                return Err(Fault::new("a region or ring without its descriptor"));
            }
            _ => return Err(unexpected()),
        }
        self.channel.send(&Message::Ack, name, None).map(|()| None)
    }

    fn hear_server(&mut self, heard: Heard, options: &Options, name: &str) -> Result<Option<Link>, Fault> {
        let Side::Client { link, next } = &mut self.side else { return Err(unexpected()) };
        match heard.message {
            Message::Hello { versions: (least, most), max_log2_size, .. } if link.is_none() => {
                if !(least..=most).contains(&VERSION) {
                    return Err(Fault::new(format!(
                        "versions {least:#06x} to {most:#06x}; {VERSION:#06x} is spoken here"
                    )));
                }
                let made = Link::create(options.ring.min(max_log2_size))
                    .map_err(|error| Fault::new(format!("no memory for the rings: {error}")))?;
                let sizes = made.regions().iter().map(|region| region.len() as u64);
                next.push_back(Message::Init { version: VERSION, id: options.id, mode: 0 });
                next.extend((0..).zip(sizes).map(|(index, size)| Message::AddRegion { index, size }));
                next.extend(made.rings().map(|ring| Message::AddRing(ring.place())));
                next.push_back(Message::Connect);
                *link = Some(made);
            }
            Message::Ack if link.is_some() => {}
            Message::Connected if next.is_empty() => {
                link.iter().for_each(Link::offer);
                return Ok(link.take());
            }
            _ => return Err(unexpected()),
        }
        let (Some(link), Some(message)) = (link, next.pop_front()) else { return Ok(None) };
        let descriptor = match &message {
            Message::AddRegion { index, .. } => link.regions().get(usize::from(*index)).map(|region| region.as_fd()),
            Message::AddRing(place) => {
                link.rings().into_iter().find(|ring| ring.place() == *place).map(|ring| ring.interrupt.as_fd())
            }
            _ => None,
        };
        self.channel.send(&message, name, descriptor).map(|()| None)
    }
}

fn unexpected() -> Fault {
    Fault::new("a message that cannot come at this point")
}

/// A descriptor of the other end's must not stop a worker.
fn nonblocking(descriptor: &OwnedFd) {
    if let Ok(flags) = rustix::fs::fcntl_getfl(descriptor) {
        let _ = rustix::fs::fcntl_setfl(descriptor, flags | rustix::fs::OFlags::NONBLOCK);
    }
}
