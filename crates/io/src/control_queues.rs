//! [`ControlQueues`]: receive queues of a raw port for control traffic, so that a flood of tunnels
//! that overruns the port's queue loses no BGP and no BFD.
//!
//! | queue | packets |
//! |---|---|
//! | sessions | TCP port 179 (BGP), UDP ports 3784, 3785, 4784, 6784 (BFD) |
//! | others | all but UDP to port 4789: ARP, neighbour discovery, ping |
//! | the port's own | UDP to port 4789 (VXLAN) |
//!
//! Each queue is a packet socket with a filter, and the kernel queues for each by itself. Only a port
//! whose uplink has a host side has them, because each costs a system call a round.

use crate::sys::PacketSocket;
use libc::sock_filter;
use parking_lot::Mutex;
use rustix::event::epoll;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// TCP port of BGP (RFC 4271).
const BGP: u32 = 179;
/// UDP ports of BFD (RFC 5881, RFC 5883, RFC 7130).
const BFD: [u32; 4] = [3784, 3785, 4784, 6784];
/// UDP port of VXLAN (RFC 7348).
const VXLAN: u32 = 4789;

/// A class of received packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketClass {
    Sessions,
    Others,
    Tunnels,
}

/// The queues beside a port's own one, in the order in which they are read.
pub(crate) struct ControlQueues {
    pub(crate) sockets: Vec<PacketSocket>,
    /// Readable while one of the sockets, or the port's own, has packets.
    epoll: OwnedFd,
}

impl ControlQueues {
    /// Opens the queues of an interface of the calling thread's network namespace. The sockets are
    /// in the order in which they are read: sessions of routing protocols, then other packets that
    /// are not in a tunnel.
    ///
    /// # Errors
    /// The operation that failed.
    pub(crate) fn open(interface: &str) -> Result<ControlQueues, String> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| error.to_string())?;
        let mut sockets = Vec::new();
        for class in [PacketClass::Sessions, PacketClass::Others] {
            let open_error = |failure: crate::sys::SocketOpenError| format!("{}: {}", failure.step, failure.source);
            let socket = PacketSocket::new(interface).map_err(open_error)?;
            // The filter is set before the socket is bound, so that no packet passes without it.
            socket.set_filter(&filter(class)).map_err(|error| format!("filter packets: {error}"))?;
            socket.bind(interface).map_err(open_error)?;
            sockets.push(socket);
        }
        let queues = ControlQueues { sockets, epoll };
        for socket in &queues.sockets {
            queues.watch(socket.as_fd()).map_err(|error| error.to_string())?;
        }
        Ok(queues)
    }

    /// Adds the port's own socket, which receives tunnels only from now on.
    pub(crate) fn divide(&self, own: &PacketSocket) -> io::Result<()> {
        self.watch(own.as_fd())?;
        own.set_filter(&filter(PacketClass::Tunnels))
    }

    /// Adds a socket to those that the descriptor of the queues watches.
    fn watch(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let data = epoll::EventData::new_u64(0);
        match epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN) {
            // Watched already, before a take-over that failed.
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a descriptor that is readable while a queue has packets.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Queues on their way from the thread that opens them to the port, which a worker owns.
#[derive(Default)]
pub(crate) struct ControlQueuesSlot {
    has_queues: AtomicBool,
    queues: Mutex<Option<ControlQueues>>,
}

impl ControlQueuesSlot {
    pub(crate) fn put(&self, queues: ControlQueues) {
        *self.queues.lock() = Some(queues);
        self.has_queues.store(true, Ordering::Release);
    }

    /// Takes the queues, if there are any.
    pub(crate) fn take(&self) -> Option<ControlQueues> {
        let has_queues = self.has_queues.load(Ordering::Relaxed) && self.has_queues.swap(false, Ordering::Acquire);
        if has_queues { self.queues.lock().take() } else { None }
    }
}

/// Target of a jump in a filter, before the filter is complete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Next,
    Ipv6,
    Tcp4,
    Udp4,
    Tcp6,
    Udp6,
    Udp,
    Sessions,
    Others,
    Tunnels,
}

/// Instruction of a filter (`linux/filter.h`): a load, or a comparison with two targets.
enum FilterStep {
    At(Label),
    Load(u32, u32),
    Compare(u32, u32, Label, Label),
    Return(PacketClass),
}

const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_INDEXED_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
/// X = length of the IPv4 header.
const LOAD_HEADER_LENGTH: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;

/// Returns the symbolic filter that finds the class of a packet. Offsets are in bytes from the
/// start of the Ethernet header; an indexed load adds the length of the IPv4 header. Jumps are to
/// labels, which [`filter`] resolves.
fn steps() -> Vec<FilterStep> {
    use FilterStep::{At, Compare, Load, Return};
    use Label::{Ipv6, Next, Others, Sessions, Tcp4, Tcp6, Tunnels, Udp, Udp4, Udp6};
    let mut steps = vec![
        // Ethertype: IPv6, IPv4 or another one.
        Load(LOAD_HALF, 12),
        Compare(EQUAL, 0x86dd, Ipv6, Next),
        Compare(EQUAL, 0x0800, Next, Others),
        // Later fragments have no ports.
        Load(LOAD_HALF, 20),
        Compare(ANY_BIT, 0x1fff, Others, Next),
        // The protocol of IPv4 follows: UDP, TCP or another one.
        Load(LOAD_HEADER_LENGTH, 14),
        Load(LOAD_BYTE, 23),
        Compare(EQUAL, 17, Udp4, Next),
        Compare(EQUAL, 6, Tcp4, Others),
        At(Tcp4),
        // Source port, then destination port.
        Load(LOAD_INDEXED_HALF, 14),
        Compare(EQUAL, BGP, Sessions, Next),
        Load(LOAD_INDEXED_HALF, 16),
        Compare(EQUAL, BGP, Sessions, Others),
        At(Udp4),
        Load(LOAD_INDEXED_HALF, 16),
        Compare(EQUAL, VXLAN, Tunnels, Udp),
        At(Ipv6),
        // The next header of IPv6.
        Load(LOAD_BYTE, 20),
        Compare(EQUAL, 17, Udp6, Next),
        Compare(EQUAL, 6, Tcp6, Others),
        At(Tcp6),
        Load(LOAD_HALF, 54),
        Compare(EQUAL, BGP, Sessions, Next),
        Load(LOAD_HALF, 56),
        Compare(EQUAL, BGP, Sessions, Others),
        At(Udp6),
        Load(LOAD_HALF, 56),
        Compare(EQUAL, VXLAN, Tunnels, Udp),
        At(Udp),
    ];
    steps.extend(BFD.map(|port| Compare(EQUAL, port, Sessions, Next)));
    for (label, class) in
        [(Others, PacketClass::Others), (Sessions, PacketClass::Sessions), (Tunnels, PacketClass::Tunnels)]
    {
        steps.extend([At(label), Return(class)]);
    }
    steps
}

/// Returns the classic BPF program (packet(7), `SO_ATTACH_FILTER`) that accepts one class of
/// packets. The first pass finds the instruction index of each label, the second replaces labels by
/// distances.
fn filter(wanted: PacketClass) -> Vec<sock_filter> {
    let steps = steps();
    let mut labels = Vec::new();
    let mut count: usize = 0;
    for step in &steps {
        match step {
            FilterStep::At(label) => labels.push((*label, count)),
            _ => count += 1,
        }
    }
    // The number of instructions to skip; a jump to `Next` skips none.
    let distance = |from: usize, to: Label| -> u8 {
        let target = labels.iter().find(|(label, _)| *label == to).map_or(from + 1, |(_, target)| *target);
        // All jumps are forward, and the filter is shorter than 256 instructions.
        (target - from - 1) as u8
    };
    let mut code = Vec::with_capacity(count);
    for step in &steps {
        let index = code.len();
        let (operation, jt, jf, k) = match step {
            FilterStep::At(_) => continue,
            FilterStep::Load(operation, offset) => (*operation, 0, 0, *offset),
            FilterStep::Compare(operation, k, yes, no) => (*operation, distance(index, *yes), distance(index, *no), *k),
            FilterStep::Return(class) => {
                (libc::BPF_RET | libc::BPF_K, 0, 0, if *class == wanted { u32::MAX } else { 0 })
            }
        };
        code.push(sock_filter { code: operation as u16, jt, jf, k });
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter, as the kernel does, on the instructions that it consists of.
    fn accepts(code: &[sock_filter], packet: &[u8]) -> bool {
        let (mut a, mut x, mut at) = (0u32, 0u32, 0usize);
        let byte = |at: u32| packet.get(at as usize).copied().map(u32::from);
        let half = |at: u32| Some(byte(at)? << 8 | byte(at + 1)?);
        loop {
            let step = code[at];
            at += 1;
            let operation = u32::from(step.code);
            let loaded = match operation {
                LOAD_HALF => half(step.k),
                LOAD_BYTE => byte(step.k),
                LOAD_INDEXED_HALF => half(x + step.k),
                LOAD_HEADER_LENGTH => {
                    let Some(first) = byte(step.k) else { return false };
                    x = 4 * (first & 15);
                    continue;
                }
                EQUAL | ANY_BIT => {
                    let is_so = if operation == EQUAL { a == step.k } else { a & step.k != 0 };
                    at += usize::from(if is_so { step.jt } else { step.jf });
                    continue;
                }
                _ => return step.k != 0,
            };
            // A load behind the end of the packet rejects it.
            let Some(value) = loaded else { return false };
            a = value;
        }
    }

    fn v4(protocol: u8, fragment: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut packet = [&[2; 12][..], &[8, 0], &[0; 20]].concat();
        (packet[14], packet[21], packet[23]) = (0x45, fragment, protocol);
        packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        packet
    }

    fn v6(protocol: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut packet = [&[2; 12][..], &[0x86, 0xdd], &[0; 40]].concat();
        packet[20] = protocol;
        packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        packet
    }

    #[test]
    fn each_packet_is_in_one_queue() {
        let classes = [PacketClass::Sessions, PacketClass::Others, PacketClass::Tunnels];
        let arp = [&[255; 12][..], &[8, 6], &[0; 28]].concat();
        for (packet, class) in [
            (v4(6, 0, [40000, 179]), PacketClass::Sessions),
            (v4(6, 0, [179, 40000]), PacketClass::Sessions),
            (v4(17, 0, [49152, 3784]), PacketClass::Sessions),
            (v4(17, 0, [49152, 4784]), PacketClass::Sessions),
            (v6(6, [40000, 179]), PacketClass::Sessions),
            (v6(17, [49152, 6784]), PacketClass::Sessions),
            (v4(17, 0, [49152, 4789]), PacketClass::Tunnels),
            (v6(17, [49152, 4789]), PacketClass::Tunnels),
            // A later fragment, ping, TCP and UDP to other ports, ARP.
            (v4(17, 1, [49152, 4789]), PacketClass::Others),
            (v4(1, 0, [0x800, 0]), PacketClass::Others),
            (v4(6, 0, [40000, 22]), PacketClass::Others),
            (v6(17, [49152, 53]), PacketClass::Others),
            (v6(58, [0x8700, 0]), PacketClass::Others),
            (arp, PacketClass::Others),
        ] {
            let found: Vec<PacketClass> =
                classes.into_iter().filter(|class| accepts(&filter(*class), &packet)).collect();
            assert_eq!(found, [class], "{packet:02x?}");
        }
    }
}
