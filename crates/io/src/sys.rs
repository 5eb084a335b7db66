//! Foreign function calls: AF_PACKET sockets, poll, eventfd, setns. This module wraps the unsafe
//! code in safe functions.
#![allow(unsafe_code)]

use crate::PortError;
use crate::nic_offload::{VNET_HEADER, VlanTag};
use crate::spill::{SpillBuffers, VECTOR};
use libc::{c_int, c_void, socklen_t};
use packet::Packet;
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Size of a control buffer, in bytes: one `tpacket_auxdata` message (16 + 20 bytes, aligned) and
/// reserve.
const CONTROL: usize = 64;

/// Converts the `-1` convention to a result.
pub(crate) fn check_result(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// An event counter for a poller: readable after [`EventFd::signal`], until [`EventFd::clear`].
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<EventFd> {
        // SAFETY: no pointers are passed.
        let fd = check_result(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: the call succeeded, so `fd` is open and has no other owner.
        Ok(EventFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes the descriptor readable. Ignores errors, because the only one is an overflow of the
    /// counter, and then the descriptor is readable.
    pub(crate) fn signal(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the pointer and the length describe `one`, which lives across the call.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    pub(crate) fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the pointer and the length describe `count`, which lives across the call. EAGAIN
        // for an empty counter is ignored.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits for one of several descriptors; reuses its memory between waits.
#[derive(Default)]
pub(crate) struct Poller {
    fds: Vec<libc::pollfd>,
}

impl Poller {
    /// Waits until one of `fds` is readable or in error, `timeout` has passed, or a signal arrives.
    pub(crate) fn wait<'a>(&mut self, fds: impl Iterator<Item = BorrowedFd<'a>>, timeout: Duration) -> io::Result<()> {
        self.fds.clear();
        self.fds.extend(fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }));
        let timeout = libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: the pointer and the count describe `self.fds`, which is not accessed during the
        // call; `timeout` lives across it, and the last argument is unused without a signal mask.
        let result = unsafe {
            libc::ppoll(self.fds.as_mut_ptr(), self.fds.len() as libc::nfds_t, &raw const timeout, std::ptr::null())
        };
        match check_result(result) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

/// Returns the processors on which the calling thread may run.
///
/// # Errors
/// The system's error.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: the pointer and the length describe `set`, which lives across the call.
    check_result(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) })?;
    // SAFETY: the index is within the set.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect())
}

/// Pins the calling thread, and the threads that it starts later, to these processors.
///
/// # Errors
/// None of the processors exists, or this process may not use them.
pub fn pin_current_thread(cores: &[usize]) -> io::Result<()> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    for core in cores.iter().filter(|core| **core < libc::CPU_SETSIZE as usize) {
        // SAFETY: the index is within the set.
        unsafe { libc::CPU_SET(*core, &mut set) };
    }
    // SAFETY: the pointer and the length describe `set`, which lives across the call.
    check_result(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) })?;
    Ok(())
}

/// Returns the NUMA node of a processor, if the system reports it.
pub(crate) fn numa_node_of(core: usize) -> Option<i32> {
    let folder = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{core}")).ok()?;
    let mut names = folder.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.find_map(|name| name.strip_prefix("node")?.parse().ok())
}

/// Moves the calling thread into a network namespace.
pub(crate) fn enter_network_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers are passed, and the descriptor is open for the time of the borrow.
    check_result(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
    Ok(())
}

/// Returns the network namespace of a socket (ioctl SIOCGSKNS of linux/sockios.h, Linux 4.10).
pub(crate) fn network_namespace_of(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const SIOCGSKNS: libc::c_ulong = 0x894c;
    // SAFETY: no pointers are passed, and the descriptor is open for the time of the borrow.
    let fd = check_result(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSKNS as _) })?;
    // SAFETY: the call succeeded, so `fd` is open and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Metadata of a received packet.
pub(crate) struct ReceivedMetadata {
    /// Its full length in bytes. If it exceeds the offered space, the remaining bytes are lost.
    pub(crate) len: usize,
    pub(crate) vnet_header: [u8; VNET_HEADER],
    pub(crate) vlan: Option<VlanTag>,
}

/// A raw AF_PACKET socket that is bound to one interface (packet(7)).
///
/// `recvmmsg` receives packets directly into their buffers. A ring that is shared with the kernel
/// (PACKET_MMAP) would save one system call per 64 packets but copy each packet, and its version 3
/// delays packets by up to a timer tick.
pub(crate) struct PacketSocket {
    fd: OwnedFd,
    index: c_int,
}

/// The operation that failed during opening, with its error.
pub(crate) struct SocketOpenError {
    pub(crate) step: &'static str,
    pub(crate) source: io::Error,
}

impl PacketSocket {
    /// Creates an unbound socket, which receives nothing until [`PacketSocket::bind`].
    pub(crate) fn new(interface: &str) -> Result<PacketSocket, SocketOpenError> {
        let failed = |step| move |source| SocketOpenError { step, source };
        let socket_type = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers are passed.
        let fd = check_result(unsafe { libc::socket(libc::AF_PACKET, socket_type, 0) })
            .map_err(failed("open a raw socket"))?;
        // SAFETY: the call succeeded, so `fd` is open and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let request = interface_request(&fd, interface, libc::SIOCGIFINDEX).map_err(failed("find the interface"))?;
        // SAFETY: SIOCGIFINDEX succeeded, so it has set this member of the union.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        Ok(PacketSocket { fd, index })
    }

    /// Wraps a socket that another process has bound.
    pub(crate) fn from_descriptor(fd: OwnedFd, index: c_int) -> PacketSocket {
        PacketSocket { fd, index }
    }

    /// Returns the index of its interface.
    pub(crate) fn index(&self) -> c_int {
        self.index
    }

    /// Sets all options, then binds to the interface, so that all packets are received with these
    /// options.
    ///
    /// Also queries the carrier, because this makes the kernel attach the interface's queue. If the
    /// carrier has just appeared (the peer of a pair came up), the kernel would silently drop sent
    /// packets until then.
    pub(crate) fn bind(&self, interface: &str) -> Result<(), SocketOpenError> {
        self.bind_protocol(interface, libc::ETH_P_ALL as u16)
    }

    /// Binds to the interface as [`PacketSocket::bind`] does, but receives nothing.
    pub(crate) fn bind_to_send(&self, interface: &str) -> Result<(), SocketOpenError> {
        self.bind_protocol(interface, 0)
    }

    /// Sets all options, then binds to the interface. `protocol` is an ethertype in host order: the
    /// socket receives packets of this one only, and none at all with 0.
    fn bind_protocol(&self, interface: &str, protocol: u16) -> Result<(), SocketOpenError> {
        let failed = |step| move |source| SocketOpenError { step, source };
        let on: c_int = 1;
        self.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &on).map_err(failed("ask for offload information"))?;
        self.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &on).map_err(failed("ask for VLAN information"))?;
        self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &on)
            .map_err(failed("ignore outgoing packets (Linux 4.20 or later is needed)"))?;
        let membership = libc::packet_mreq {
            mr_ifindex: self.index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
            .map_err(failed("switch on promiscuous mode"))?;
        // Buffers above the system's limit need CAP_NET_ADMIN. Without it, use the limit; losses
        // are counted.
        let size: c_int = 8 << 20;
        for (force, limited) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
            let _ = self.set(libc::SOL_SOCKET, force, &size).or_else(|_| self.set(libc::SOL_SOCKET, limited, &size));
        }
        // SAFETY: all-zero is a valid value of this plain structure.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = self.index;
        let length = size_of_val(&address) as socklen_t;
        // SAFETY: the pointer and the length describe `address`, which lives across the call.
        let result = unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), length) };
        check_result(result).map_err(failed("bind the socket"))?;
        let _ = has_carrier(&self.fd, interface);
        Ok(())
    }

    /// Receives only packets that the classic BPF program accepts, from now on.
    pub(crate) fn set_filter(&self, code: &[libc::sock_filter]) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: u16::try_from(code.len()).map_err(io::Error::other)?,
            // The system call only reads.
            filter: code.as_ptr().cast_mut(),
        };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Receives all packets again.
    pub(crate) fn remove_filter(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
    }

    /// Returns the interface's MTU in bytes and its ARPHRD hardware type.
    pub(crate) fn mtu_and_type(&self, interface: &str) -> io::Result<(usize, u16)> {
        let mtu = interface_request(&self.fd, interface, libc::SIOCGIFMTU)?;
        let hardware = interface_request(&self.fd, interface, libc::SIOCGIFHWADDR)?;
        // SAFETY: both calls succeeded, so they have set these members of the unions.
        let (mtu, kind) = unsafe { (mtu.ifr_ifru.ifru_mtu, hardware.ifr_ifru.ifru_hwaddr.sa_family) };
        Ok((usize::try_from(mtu).unwrap_or(0), kind))
    }

    /// Returns the number of packets that the kernel dropped since the last call, because the
    /// receive buffer was full.
    pub(crate) fn take_drops(&self) -> u64 {
        packet_socket_drops(&self.fd)
    }

    /// Receives up to [`VECTOR`] packets, one into each of `slots`, and stores their metadata in
    /// `received`. Never blocks: without packets the error is `WouldBlock`.
    ///
    /// The first bytes of a packet, `space` or more, go to its slot. The bytes after them go to a
    /// buffer of `spill`, from which they are appended to the packet ([`SpillBuffers`]).
    pub(crate) fn receive(
        &self,
        slots: &mut [Packet],
        space: usize,
        spill: &mut SpillBuffers,
        received: &mut Vec<ReceivedMetadata>,
    ) -> io::Result<()> {
        received.clear();
        let count = slots.len().min(VECTOR);
        let mut vnet_headers = [[0u8; VNET_HEADER]; VECTOR];
        let mut controls = [ControlBuffer([0; CONTROL]); VECTOR];
        let mut capacities = [0usize; VECTOR];
        // SAFETY: all-zero is a valid value of these plain structures.
        let (mut iovecs, mut headers): ([[libc::iovec; 3]; VECTOR], [libc::mmsghdr; VECTOR]) = unsafe { zeroed() };
        for index in 0..count {
            let (capacity, spill_bytes) = spill.space_of(index, space);
            capacities[index] = capacity;
            let buffer = slots[index].receive_space(capacity).map_err(io::Error::other)?;
            // The kernel fills the three parts in this order.
            iovecs[index] = [iovec(&mut vnet_headers[index]), iovec(buffer), iovec(spill_bytes)];
            let header = &mut headers[index].msg_hdr;
            header.msg_iov = iovecs[index].as_mut_ptr();
            header.msg_iovlen = 3;
            header.msg_control = controls[index].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
        }
        // SAFETY: the first `count` headers point to I/O vectors and control buffers on this stack
        // frame. Those vectors point to `vnet_headers`, to the buffers of distinct packets in
        // `slots` and to distinct parts of `spill`, which are mutably borrowed and not accessed
        // before the call returns. All lengths are those of the memory pointed to.
        let result = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                count as u32,
                // With MSG_TRUNC, the reported length is that of the whole packet.
                (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
                std::ptr::null_mut(),
            )
        };
        let count = check_result(result)? as usize;
        for index in 0..count {
            let len = (headers[index].msg_len as usize).saturating_sub(VNET_HEADER);
            let capacity = capacities[index];
            slots[index].set_received_len(len.min(capacity));
            if len > capacity {
                let (_, spill_bytes) = spill.space_of(index, space);
                let spill_bytes = &spill_bytes[..(len - capacity).min(spill_bytes.len())];
                slots[index].append(spill_bytes).map_err(io::Error::other)?;
            }
            let vlan = vlan_of(&headers[index].msg_hdr);
            received.push(ReceivedMetadata { len, vnet_header: vnet_headers[index], vlan });
        }
        Ok(())
    }

    /// Sends up to [`VECTOR`] of `packets`, each with its `virtio_net_hdr`. Returns the number of
    /// sent packets, from the first.
    pub(crate) fn send(&self, packets: &[&Packet], vnet_headers: &[[u8; VNET_HEADER]]) -> io::Result<usize> {
        let count = packets.len().min(vnet_headers.len()).min(VECTOR);
        // SAFETY: all-zero is a valid value of these plain structures.
        let (mut iovecs, mut headers): ([[libc::iovec; 2]; VECTOR], [libc::mmsghdr; VECTOR]) = unsafe { zeroed() };
        for index in 0..count {
            iovecs[index] = [source_iovec(&vnet_headers[index]), source_iovec(packets[index].bytes())];
            headers[index].msg_hdr.msg_iov = iovecs[index].as_mut_ptr();
            headers[index].msg_hdr.msg_iovlen = 2;
        }
        // SAFETY: the first `count` headers point to I/O vectors on this stack frame, and those to
        // `vnet_headers` and to the bytes of packets, which are borrowed across the call.
        // `sendmmsg` only reads this memory.
        let result =
            unsafe { libc::sendmmsg(self.fd.as_raw_fd(), headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT as _) };
        Ok(check_result(result)? as usize)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn set<T: Copy>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let pointer: *const c_void = (&raw const *value).cast();
        // SAFETY: the pointer and the length describe `value`, which lives across the call.
        check_result(unsafe {
            libc::setsockopt(self.fd.as_raw_fd(), level, option, pointer, size_of::<T>() as socklen_t)
        })?;
        Ok(())
    }
}

/// Returns the number of packets that the kernel dropped at a packet socket since the last call,
/// because its receive buffer was full.
pub(crate) fn packet_socket_drops(socket: &OwnedFd) -> u64 {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut stats: libc::tpacket_stats = unsafe { zeroed() };
    let mut length = size_of_val(&stats) as socklen_t;
    // SAFETY: the pointers describe `stats` and `length`, which live across the call; `length` is
    // the size of `stats`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut length,
        )
    };
    if result == 0 { u64::from(stats.tp_drops) } else { 0 }
}

/// Returns the index of the interface to which a descriptor is bound, if it is a packet socket.
#[cfg_attr(not(has_dpdk), allow(dead_code))]
pub(crate) fn packet_socket_interface(descriptor: RawFd) -> Option<c_int> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    let mut length = size_of_val(&address) as socklen_t;
    // SAFETY: the pointers describe `address` and `length`, which live across the call; a
    // descriptor that is no socket causes an error.
    let result = unsafe { libc::getsockname(descriptor, (&raw mut address).cast(), &raw mut length) };
    (result == 0 && c_int::from(address.sll_family) == libc::AF_PACKET).then_some(address.sll_ifindex)
}

/// Watches a network interface of the namespace in which it was opened, from any thread.
pub(crate) struct InterfaceWatch {
    name: String,
    /// A socket in the interface's namespace, used only for requests.
    fd: OwnedFd,
    index: c_int,
    mtu: usize,
}

impl InterfaceWatch {
    /// Returns the interface's index.
    #[cfg_attr(not(has_dpdk), allow(dead_code))]
    pub(crate) fn index(&self) -> c_int {
        self.index
    }

    /// Opens the interface of this name in the calling thread's network namespace.
    pub(crate) fn open(name: &str) -> Result<InterfaceWatch, PortError> {
        let open_error = |source: io::Error| match source.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => PortError::NoSuchInterface { interface: name.to_owned() },
            _ => PortError::Open { interface: name.to_owned(), step: "find the interface", source },
        };
        let fd = request_socket().map_err(open_error)?;
        let index = interface_request(&fd, name, libc::SIOCGIFINDEX).map_err(open_error)?;
        let mtu = interface_request(&fd, name, libc::SIOCGIFMTU).map_err(open_error)?;
        // SAFETY: both calls succeeded, so they have set these members of the unions.
        let (index, mtu) = unsafe { (index.ifr_ifru.ifru_ifindex, mtu.ifr_ifru.ifru_mtu) };
        Ok(InterfaceWatch { name: name.to_owned(), fd, index, mtu: usize::try_from(mtu).unwrap_or(0) })
    }

    /// Watches the interface of a socket that another process has opened, in that socket's
    /// namespace.
    pub(crate) fn of_socket(socket: BorrowedFd<'_>, name: &str, index: c_int) -> io::Result<InterfaceWatch> {
        Ok(InterfaceWatch { name: name.to_owned(), fd: socket.try_clone_to_owned()?, index, mtu: 0 })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the present MTU in bytes; `None` if the interface was removed.
    pub(crate) fn current_mtu(&self) -> Option<u32> {
        let mtu = interface_request(&self.fd, &self.name, libc::SIOCGIFMTU).ok()?;
        // SAFETY: the call succeeded, so it has set this member of the union.
        u32::try_from(unsafe { mtu.ifr_ifru.ifru_mtu }).ok()
    }

    /// Returns a socket in the interface's namespace, for requests.
    #[cfg_attr(not(has_dpdk), allow(dead_code))]
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the MTU at the time of opening, in bytes.
    pub(crate) fn mtu(&self) -> usize {
        self.mtu
    }

    /// Returns whether the interface is up and has a carrier; `None` if it was removed. A new
    /// interface of the same name does not count.
    ///
    /// Queries the carrier from the device, because `IFF_RUNNING` follows it with a delay of up to
    /// a second (the kernel's link watch), and packets that are sent in that second do arrive.
    pub(crate) fn is_up(&self) -> Option<bool> {
        find_interface(&self.fd, &self.name).filter(|found| found.index == self.index).map(|found| found.is_up)
    }
}

/// Returns whether an interface is up, without regard to its carrier.
pub(crate) fn is_enabled(socket: BorrowedFd<'_>, interface: &str) -> bool {
    let flags = interface_request(socket, interface, libc::SIOCGIFFLAGS);
    // SAFETY: the call succeeded, so it has set this member of the union.
    flags.is_ok_and(|flags| c_int::from(unsafe { flags.ifr_ifru.ifru_flags }) & libc::IFF_UP != 0)
}

/// State of a network interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceState {
    /// The index, which no other interface of its namespace has or had.
    pub index: i32,
    /// Whether it is administratively up and has a carrier.
    pub is_up: bool,
    /// The longest packet after the Ethernet header, in bytes.
    pub mtu_bytes: usize,
}

/// Opens a socket of the calling thread's network namespace, for requests about interfaces.
pub(crate) fn request_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = check_result(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the call succeeded, so the descriptor is open and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns the state of the interface of this name, if there is one.
pub(crate) fn find_interface(fd: &OwnedFd, name: &str) -> Option<InterfaceState> {
    let [index, flags, mtu] = [libc::SIOCGIFINDEX, libc::SIOCGIFFLAGS, libc::SIOCGIFMTU]
        .map(|request| interface_request(fd, name, request).map(|answer| answer.ifr_ifru));
    let (index, flags, mtu) = (index.ok()?, flags.ok()?, mtu.ok()?);
    // SAFETY: the calls succeeded, so each has set the member of its request.
    let (index, flags, mtu) = unsafe { (index.ifru_ifindex, c_int::from(flags.ifru_flags), mtu.ifru_mtu) };
    let carrier = || has_carrier(fd, name).unwrap_or(flags & libc::IFF_RUNNING != 0);
    let is_up = flags & libc::IFF_UP != 0 && carrier();
    Some(InterfaceState { index, is_up, mtu_bytes: usize::try_from(mtu).unwrap_or(0) })
}

/// Buffer for control messages, aligned because they start with a length.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct ControlBuffer([u8; CONTROL]);

fn iovec(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

/// Returns an I/O vector for sending only. The system call does not write through its mutable
/// pointer.
fn source_iovec(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// Returns a request for an interface (netdevice(7)). A name that is too long does not exist.
pub(crate) fn interface_name(interface: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut argument: libc::ifreq = unsafe { zeroed() };
    if interface.len() >= argument.ifr_name.len() || interface.is_empty() || interface.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (target, byte) in argument.ifr_name.iter_mut().zip(interface.bytes()) {
        *target = byte as libc::c_char;
    }
    Ok(argument)
}

/// Executes a request with a result in the `ifreq` itself.
pub(crate) fn interface_request(fd: impl AsFd, interface: &str, request: libc::c_ulong) -> io::Result<libc::ifreq> {
    let mut argument = interface_name(interface)?;
    // SAFETY: these requests read the name, which ends with a zero, and write within the `ifreq`.
    check_result(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), request as _, &raw mut argument) })?;
    Ok(argument)
}

/// Returns the link state that the device reports (ethtool's ETHTOOL_GLINK). An error if its driver
/// does not report it.
///
/// Before it responds, the kernel does the pending work of its link watch: if the carrier has just
/// appeared, it attaches the device's queue.
fn has_carrier(fd: &OwnedFd, interface: &str) -> io::Result<bool> {
    /// `struct ethtool_value` of linux/ethtool.h.
    #[repr(C)]
    struct EthtoolValue {
        command: u32,
        data: u32,
    }
    const ETHTOOL_GLINK: u32 = 0x0a;
    let mut value = EthtoolValue { command: ETHTOOL_GLINK, data: 0 };
    // SAFETY: it is the structure of this command.
    unsafe { ethtool_request(fd.as_fd(), interface, &mut value) }?;
    Ok(value.data != 0)
}

/// Sends a request to an interface's driver (SIOCETHTOOL). The result replaces `question`.
///
/// # Safety
/// `question` must be the structure, as in linux/ethtool.h, of the command in its first four bytes,
/// and that structure must have a fixed size.
pub(crate) unsafe fn ethtool_request<T>(fd: BorrowedFd<'_>, interface: &str, question: &mut T) -> io::Result<()> {
    let mut request = interface_name(interface)?;
    request.ifr_ifru.ifru_data = (&raw mut *question).cast();
    // SAFETY: the request reads the name, which ends with a zero, and reads and writes `question`,
    // which has the size of the command's structure and lives across the call.
    check_result(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) })?;
    Ok(())
}

/// Returns the VLAN tag from the PACKET_AUXDATA control message of a received packet. `None` for an
/// untagged packet. A kernel that does not report the tag's type means 802.1Q.
fn vlan_of(header: &libc::msghdr) -> Option<VlanTag> {
    // SAFETY: the kernel filled `header`, and its control buffer is alive, because this is called
    // within its owner's frame. The CMSG functions stay within `msg_controllen`, which the kernel
    // set to the written length.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: not null, so it points to a whole `cmsghdr` inside the control buffer, which is
        // aligned for it.
        let current = unsafe { &*message };
        let min_len = size_of::<libc::cmsghdr>() + size_of::<libc::tpacket_auxdata>();
        if current.cmsg_level == libc::SOL_PACKET
            && current.cmsg_type == libc::PACKET_AUXDATA
            && current.cmsg_len as usize >= min_len
        {
            // SAFETY: by its length, which the kernel wrote, the message contains this structure.
            // It is read unaligned, and every bit pattern is a valid value.
            let auxdata: libc::tpacket_auxdata =
                unsafe { libc::CMSG_DATA(message).cast::<libc::tpacket_auxdata>().read_unaligned() };
            if auxdata.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
                return None;
            }
            let has_tpid = auxdata.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let tpid = if has_tpid { auxdata.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
            return Some(VlanTag { tpid, tci: auxdata.tp_vlan_tci });
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    None
}
