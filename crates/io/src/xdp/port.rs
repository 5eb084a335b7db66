//! [`XdpPort`]: an interface with the kernel's flow cache attached; what that does not know arrives here.

use super::driver;
use super::form;
use super::kernel::Kernel;
use super::passage::Passage;
use super::socket::Socket;
use crate::offload::unsendable;
use crate::port::now;
use crate::sys::InterfaceWatch;
use crate::{Outgoing, Port, PortError, RawPort, Readiness, Trouble};
use aya::programs::xdp::XdpLink;
use packet::{Batch, PortCounters, PortId, PortReason};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Packets that are received at once.
const VECTOR: usize = 256;
/// The longest frame that fits a small chunk, with the kernel's headroom.
const SMALL: usize = 2048 - 256 - 64;
/// Ethernet header and one VLAN tag: what comes to a frame on top of the MTU.
const LINK_HEADERS: usize = 14 + 4;
/// How often a device that takes no packets from programs is asked whether it does now.
const PROBE: Duration = Duration::from_secs(1);

/// How the program is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In the driver.
    Native,
    /// In the stack, behind the driver: much slower.
    Generic,
}

/// What takes the packets that the program does not know.
enum Below {
    /// A socket for each queue.
    Sockets(Vec<Socket>),
    /// The kernel has no AF_XDP for the interface: it lets them pass, and they arrive as they would without a program.
    Raw(Box<RawPort>),
}

/// See the module. While it lives, the program is attached.
pub struct XdpPort {
    name: String,
    mtu: usize,
    /// Of sockets, without what the kernel did by itself.
    own: PortCounters,
    /// Of both, as of the last time somebody asked.
    counters: PortCounters,
    below: Below,
    mode: Mode,
    /// What its owner should know.
    notes: Vec<String>,
    watch: InterfaceWatch,
    /// Nothing gets through, as found out when last asked for trouble.
    cut_off: bool,
    /// What had gone through the place before.
    before: Passage,
    reach: Reach,
    // The program goes before its place is given away.
    _link: XdpLink,
    place: Place,
}

/// A port's place in the maps.
struct Place {
    kernel: Kernel,
    place: u32,
    interface: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.kernel.detach(self.place);
    }
}

/// Whether the device takes packets from programs.
struct Reach {
    refuses: bool,
    /// Packets that it has refused.
    refused: u64,
    /// When it was asked last.
    asked: Instant,
}

impl XdpPort {
    /// Attaches the kernel's flow cache to the interface of this name in the network namespace of the calling thread, as the port of that number. In the
    /// driver if that can be, else behind it, which [`XdpPort::notes`] says.
    ///
    /// # Errors
    /// It does not exist, or the program cannot be attached.
    pub fn open(kernel: &Kernel, interface: &str, number: u32) -> Result<XdpPort, PortError> {
        XdpPort::open_as(kernel, interface, number, Mode::Native)
    }

    /// As [`XdpPort::open`]; with [`Mode::Generic`] behind the driver, whatever that can: for veth ends whose peers take no packets from programs.
    ///
    /// # Errors
    /// See there.
    pub fn open_as(kernel: &Kernel, interface: &str, number: u32, wanted: Mode) -> Result<XdpPort, PortError> {
        let index = driver::index_of(interface).map_err(PortError::Xdp)?;
        let watch = InterfaceWatch::open(interface)?;
        // Also looks whether it is an Ethernet interface, and takes its place if there is no AF_XDP.
        let raw = RawPort::open(interface)?;
        let mtu = raw.mtu();
        let mut notes = Vec::new();
        let (mode, (place, link)) = match kernel.attach(interface, index, number, wanted == Mode::Native) {
            Ok(attached) => (wanted, attached),
            Err(why) if wanted == Mode::Generic => return Err(PortError::Xdp(why)),
            Err(why) => {
                let attached = kernel.attach(interface, index, number, false).map_err(PortError::Xdp)?;
                notes.push(format!("`{interface}`: XDP in generic mode, which is slower: {why}"));
                (Mode::Generic, attached)
            }
        };
        let before = kernel.passage(place);
        let place = Place { kernel: kernel.clone(), place, interface: index };
        let chunk = if mtu + LINK_HEADERS <= SMALL { 2048 } else { 4096 };
        let open = |queue: u32| -> Result<Socket, String> {
            let socket = Socket::open(index, queue, chunk, mode == Mode::Native).map_err(|error| error.to_string())?;
            kernel.add_socket(place.place, queue, socket.as_fd()).map_err(|error| error.to_string())?;
            Ok(socket)
        };
        let below = match (0..driver::queues(interface)).map(open).collect::<Result<Vec<Socket>, String>>() {
            Ok(sockets) => Below::Sockets(sockets),
            Err(why) => {
                notes.push(format!(
                    "`{interface}`: what the kernel does not know comes by a raw socket, as AF_XDP fails: {why}"
                ));
                Below::Raw(Box::new(raw))
            }
        };
        let mtu = match &below {
            Below::Sockets(_) => mtu.min(chunk - LINK_HEADERS),
            Below::Raw(_) => mtu,
        };
        let (name, own, counters) = (interface.to_owned(), PortCounters::default(), PortCounters::default());
        let reach = Reach { refuses: false, refused: 0, asked: Instant::now() };
        let mut port = XdpPort {
            name,
            mtu,
            own,
            counters,
            below,
            mode,
            notes,
            watch,
            cut_off: false,
            before,
            reach,
            _link: link,
            place,
        };
        // Other drivers have what they need with the program of this end.
        if mode == Mode::Native && driver::name(interface).as_deref() == Some("veth") {
            port.ask_device();
        }
        if port.reach.refuses {
            port.notes.push(refuses(interface));
        }
        Ok(port)
    }

    /// Asks the device whether it takes packets from programs.
    fn ask_device(&mut self) {
        self.reach.asked = Instant::now();
        if let Some(takes) = self.place.kernel.probe(self.place.place) {
            self.set_refuses(!takes);
        }
    }

    /// What leaves by this port comes to this process first, or does not any more.
    fn set_refuses(&mut self, refuses: bool) {
        self.reach.refuses = refuses;
        self.place.kernel.set_refusing(self.place.place, refuses);
    }

    /// How the program is attached.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether packets get to this process without a copy.
    pub fn is_zero_copy(&self) -> bool {
        matches!(&self.below, Below::Sockets(sockets) if sockets.iter().all(Socket::is_zero_copy))
    }

    /// What its owner should know: how it is not what it could be, and why.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The interface's number.
    pub fn interface(&self) -> u32 {
        self.place.interface
    }
}

impl Port for XdpPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        let sockets = match &mut self.below {
            Below::Raw(raw) => return raw.receive(id, batch),
            Below::Sockets(sockets) => sockets,
        };
        let (before, time) = (batch.len(), now());
        for socket in sockets {
            let room = batch.room().min(VECTOR);
            socket.receive(room, |bytes| match bytes.map(|bytes| (bytes.len(), batch.push_bytes(bytes, id, time))) {
                Some((len, Ok(()))) => self.own.received.add(len),
                Some((len, Err(_))) => self.own.drops.add(PortReason::RxOversize, len),
                None => self.own.drops.add_packets(PortReason::RxError, 1),
            });
        }
        Ok(batch.len() - before)
    }

    fn send(&mut self, packets: &mut Outgoing<'_>) -> usize {
        let sockets = match &mut self.below {
            Below::Raw(raw) => return raw.send(packets),
            Below::Sockets(sockets) => sockets,
        };
        let Some(socket) = sockets.first_mut() else { return 0 };
        let mut sent = 0;
        for packet in packets.iter() {
            if let Some(reason) = unsendable(packet.bytes(), self.mtu) {
                self.own.drops.add(reason, packet.len());
            } else if self.cut_off {
                self.own.drops.add(PortReason::TxPortDown, packet.len());
            } else if packet.len() > socket.longest() {
                self.own.drops.add(PortReason::TxMtu, packet.len());
            } else if socket.put(packet.bytes()) {
                self.own.sent.add(packet.len());
                sent += 1;
            } else {
                self.own.drops.add(PortReason::TxQueueFull, packet.len());
            }
        }
        // They were counted as sent; how long they were the kernel does not say.
        let lost = socket.flush();
        self.own.unsend(PortReason::TxPortDown, lost);
        sent - (lost as usize).min(sent)
    }

    fn readiness(&self) -> Readiness<'_> {
        match &self.below {
            Below::Raw(raw) => raw.readiness(),
            Below::Sockets(sockets) => match &sockets[..] {
                [only] => Readiness::Wait(only.as_fd()),
                _ => Readiness::Poll,
            },
        }
    }

    /// Those of its sockets, and what the kernel did by itself. Who asks often enough has what it sends on when its device takes nothing from programs any more.
    fn counters(&mut self) -> &PortCounters {
        let passage = self.place.kernel.passage(self.place.place).since(&self.before);
        let has_sockets = match &mut self.below {
            Below::Raw(raw) => {
                self.counters.clone_from(raw.counters());
                false
            }
            Below::Sockets(sockets) => {
                self.counters.clone_from(&self.own);
                let lost: u64 = sockets.iter_mut().map(Socket::lost).sum();
                // The kernel counts both in one.
                let too_long = passage.lost.on_the_way_in().find(|(reason, _)| *reason == PortReason::RxOversize);
                let full = lost.saturating_sub(too_long.map_or(0, |(_, packets)| packets));
                self.counters.drops.add_packets(PortReason::RxQueueFull, full);
                true
            }
        };
        passage.add_to(&mut self.counters, has_sockets);
        let refused = self.counters.drops.get(PortReason::TxXdpRefused).packets;
        if std::mem::replace(&mut self.reach.refused, refused) < refused && !self.reach.refuses {
            self.reach.asked = Instant::now();
            self.set_refuses(true);
        }
        &self.counters
    }

    fn trouble(&mut self) -> Option<Trouble> {
        let port = || self.name.clone();
        let trouble = match self.watch.is_up() {
            None => Some(Trouble::InterfaceGone { port: port(), interface: port() }),
            Some(false) => Some(Trouble::LinkDown { port: port() }),
            Some(true) => None,
        };
        self.cut_off = trouble.is_some();
        if trouble.is_none() && self.reach.refuses && self.reach.asked.elapsed() >= PROBE {
            self.ask_device();
        }
        trouble
    }
}

/// What the owner of a port whose device takes no packets from programs should know.
pub fn refuses(interface: &str) -> String {
    format!(
        "`{interface}`: its device takes no packets from XDP programs, so what the kernel's flow cache sends there goes by this process, which is slower; the far end of \
         a veth pair needs receive offload (`ethtool -K END gro on` there), or an XDP program of its own"
    )
}

// The longest beginning of a packet that the program makes is within what a small chunk holds.
const _: () = assert!(form::WINDOW < SMALL);
