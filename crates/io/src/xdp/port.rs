//! [`XdpPort`]: an interface with the kernel's flow cache attached; what that does not know arrives here.
#![allow(unsafe_code)]

use super::kernel::{Kernel, QUEUES};
use super::socket::Socket;
use super::{XdpError, form};
use crate::offload::unsendable;
use crate::port::now;
use crate::sys::ethtool;
use crate::{Outgoing, Port, PortError, RawPort, Readiness};
use aya::programs::xdp::XdpLink;
use packet::{Batch, PortCounters, PortId, PortReason};
use std::ffi::CString;
use std::os::fd::AsFd;

/// Packets that are received at once.
const VECTOR: usize = 256;
/// The longest frame that fits a small chunk, with the kernel's headroom.
const SMALL: usize = 2048 - 256 - 64;

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
    counters: PortCounters,
    below: Below,
    mode: Mode,
    /// What its owner should know.
    notes: Vec<String>,
    // The program goes before its place is given away.
    _link: XdpLink,
    _place: Place,
}

/// A port's place in the maps.
struct Place {
    kernel: Kernel,
    place: u32,
    interface: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.kernel.detach(self.place, self.interface);
    }
}

/// The number of an interface in this network namespace.
pub(super) fn index_of(interface: &str) -> Result<u32, XdpError> {
    let none = || XdpError::NoSuchInterface(interface.to_owned());
    let name = CString::new(interface).map_err(|_| none())?;
    // SAFETY: a string that ends in 0.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(none()),
        index => Ok(index),
    }
}

/// `struct ethtool_channels`.
#[repr(C)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    send: u32,
    other: u32,
    combined: u32,
}

/// How many queues an interface receives on; 1 if it does not say.
fn queues(interface: &str) -> u32 {
    const GET_CHANNELS: u32 = 0x3c;
    let mut channels = Channels { command: GET_CHANNELS, most: [0; 4], receive: 0, send: 0, other: 0, combined: 0 };
    let family = rustix::net::AddressFamily::INET;
    let Ok(socket) = rustix::net::socket(family, rustix::net::SocketType::DGRAM, None) else { return 1 };
    // SAFETY: it is the structure of this command.
    match unsafe { ethtool(socket.as_fd(), interface, &mut channels) } {
        Ok(()) => (channels.receive + channels.combined).clamp(1, QUEUES),
        Err(_) => 1,
    }
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
        let index = index_of(interface).map_err(PortError::Xdp)?;
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
        let place = Place { kernel: kernel.clone(), place, interface: index };
        let chunk = if mtu + 18 <= SMALL { 2048 } else { 4096 };
        let open = |queue: u32| -> Result<Socket, String> {
            let socket = Socket::open(index, queue, chunk, mode == Mode::Native).map_err(|error| error.to_string())?;
            kernel.add_socket(place.place, queue, socket.as_fd()).map_err(|error| error.to_string())?;
            Ok(socket)
        };
        let below = match (0..queues(interface)).map(open).collect::<Result<Vec<Socket>, String>>() {
            Ok(sockets) => Below::Sockets(sockets),
            Err(why) => {
                notes.push(format!(
                    "`{interface}`: what the kernel does not know comes by a raw socket, as AF_XDP fails: {why}"
                ));
                Below::Raw(Box::new(raw))
            }
        };
        let (name, counters) = (interface.to_owned(), PortCounters::default());
        Ok(XdpPort { name, mtu, counters, below, mode, notes, _link: link, _place: place })
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
        self._place.interface
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
            socket.receive(room, |bytes| match batch.push_bytes(bytes, id, time) {
                Ok(()) => self.counters.received.add(bytes.len()),
                Err(_) => self.counters.drops.add(PortReason::RxOversize, bytes.len()),
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
                self.counters.drops.add(reason, packet.len());
            } else if socket.put(packet.bytes()) {
                self.counters.sent.add(packet.len());
                sent += 1;
            } else {
                self.counters.drops.add(PortReason::TxQueueFull, packet.len());
            }
        }
        if socket.flush().is_err() {
            self.counters.drops.add_packets(PortReason::TxPortDown, 1);
        }
        sent
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

    fn counters(&mut self) -> &PortCounters {
        match &mut self.below {
            Below::Raw(raw) => raw.counters(),
            Below::Sockets(sockets) => {
                let lost = sockets.iter_mut().map(Socket::take_lost).sum();
                self.counters.drops.add_packets(PortReason::RxQueueFull, lost);
                &self.counters
            }
        }
    }
}

// The longest beginning of a packet that the program makes is within what a small chunk holds.
const _: () = assert!(form::WINDOW < SMALL);
