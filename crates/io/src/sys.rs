//! The foreign function calls: AF_PACKET sockets, poll, eventfd, setns. Everything unsafe of this crate is here, behind functions that
//! are safe to call.
#![allow(unsafe_code)]

use crate::PortError;
use crate::offload::{VNET_HEADER, VlanTag};
use libc::{c_int, c_void, socklen_t};
use packet::Packet;
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// The most packets per system call.
pub(crate) const VECTOR: usize = 64;

/// Room for one `tpacket_auxdata` control message (16 + 20 bytes, aligned), with some to spare.
const CONTROL: usize = 64;

/// Turns the `-1` convention into a result.
fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A counter on which a poller can wait: readable after [`EventFd::signal`], until [`EventFd::clear`].
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<EventFd> {
        // SAFETY: no pointers are passed.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
        // SAFETY: the call succeeded, so `fd` is open and belongs to nobody else.
        Ok(EventFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Cannot fail: the counter would have to overflow, and then the descriptor is readable anyhow.
    pub(crate) fn signal(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the pointer and the length describe `one`, which lives across the call.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    pub(crate) fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: the pointer and the length describe `count`, which lives across the call. An empty counter gives EAGAIN: as wanted.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits for one of several descriptors; keeps its memory between waits.
#[derive(Default)]
pub(crate) struct Poller {
    fds: Vec<libc::pollfd>,
}

impl Poller {
    /// Waits until one of `fds` is readable or in error, or `timeout` has passed, or a signal arrived.
    pub(crate) fn wait<'a>(&mut self, fds: impl Iterator<Item = BorrowedFd<'a>>, timeout: Duration) -> io::Result<()> {
        self.fds.clear();
        self.fds.extend(fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }));
        let timeout = libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: the pointer and the count describe `self.fds`, which is not touched during the call; `timeout` lives across it, and
        // without a signal mask the last argument means nothing.
        let result = unsafe {
            libc::ppoll(self.fds.as_mut_ptr(), self.fds.len() as libc::nfds_t, &raw const timeout, std::ptr::null())
        };
        match check(result) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}

/// The processors on which the calling thread may run.
///
/// # Errors
/// The system's.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    // SAFETY: the pointer and the length describe `set`, which lives across the call.
    check(unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) })?;
    // SAFETY: the index is within the set.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect())
}

/// Keeps the calling thread, and those that it starts from now on, on these processors.
///
/// # Errors
/// The system's: there are none of them, or this process may use none of them.
pub fn stay_on(cores: &[usize]) -> io::Result<()> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut set: libc::cpu_set_t = unsafe { zeroed() };
    for core in cores.iter().filter(|core| **core < libc::CPU_SETSIZE as usize) {
        // SAFETY: the index is within the set.
        unsafe { libc::CPU_SET(*core, &mut set) };
    }
    // SAFETY: the pointer and the length describe `set`, which lives across the call.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) })?;
    Ok(())
}

/// The NUMA socket of a processor, as far as the system tells.
pub(crate) fn socket_of(core: usize) -> Option<i32> {
    let folder = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{core}")).ok()?;
    let mut names = folder.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.find_map(|name| name.strip_prefix("node")?.parse().ok())
}

/// Moves the calling thread into the network namespace that `namespace` refers to.
pub(crate) fn enter_network_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers are passed, and the descriptor is open for the time of the borrow.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
    Ok(())
}

/// What the kernel says about a received packet.
pub(crate) struct Received {
    /// Its full length in bytes; when this is more than the space that was offered, the rest is lost.
    pub(crate) len: usize,
    pub(crate) vnet_header: [u8; VNET_HEADER],
    pub(crate) vlan: Option<VlanTag>,
}

/// A raw AF_PACKET socket, bound to one interface (packet(7)).
///
/// Packets are received by `recvmmsg` straight into the packets' own buffers: a ring shared with the kernel (PACKET_MMAP) would
/// save a system call per 64 packets but cost a copy of each, and its version 3 holds packets back for up to
/// a timer tick.
pub(crate) struct PacketSocket {
    fd: OwnedFd,
    index: c_int,
}

/// A step of opening that failed.
pub(crate) struct OpenFailure {
    pub(crate) step: &'static str,
    pub(crate) source: io::Error,
}

impl PacketSocket {
    /// An unbound socket: it receives nothing until [`PacketSocket::bind`].
    pub(crate) fn new(interface: &str) -> Result<PacketSocket, OpenFailure> {
        let failed = |step| move |source| OpenFailure { step, source };
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers are passed.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) }).map_err(failed("open a raw socket"))?;
        // SAFETY: the call succeeded, so `fd` is open and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let request = interface_request(&fd, interface, libc::SIOCGIFINDEX).map_err(failed("find the interface"))?;
        // SAFETY: SIOCGIFINDEX succeeded and so has set this member of the union.
        let index = unsafe { request.ifr_ifru.ifru_ifindex };
        Ok(PacketSocket { fd, index })
    }

    /// One that another process has bound.
    pub(crate) fn from_descriptor(fd: OwnedFd, index: c_int) -> PacketSocket {
        PacketSocket { fd, index }
    }

    /// The number of its interface.
    pub(crate) fn index(&self) -> c_int {
        self.index
    }

    /// Sets all options, then binds to the interface, so that no packet is received in another form.
    ///
    /// What is sent on an interface whose carrier has just come (another end of a pair that came up) would be lost without a word
    /// until the kernel has attached its queue: up to then it has one that takes everything and drops it. Asking for the carrier
    /// makes it do so.
    pub(crate) fn bind(&self, interface: &str) -> Result<(), OpenFailure> {
        let failed = |step| move |source| OpenFailure { step, source };
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
        // Larger buffers than the system's limit need CAP_NET_ADMIN. Without it, the limit it is: a loss would be counted.
        let buffer: c_int = 8 << 20;
        for (force, plain) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
            let _ = self.set(libc::SOL_SOCKET, force, &buffer).or_else(|_| self.set(libc::SOL_SOCKET, plain, &buffer));
        }
        // SAFETY: all-zero is a valid value of this plain structure.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = self.index;
        let length = size_of_val(&address) as socklen_t;
        // SAFETY: the pointer and the length describe `address`, which lives across the call.
        let result = unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), length) };
        check(result).map_err(failed("bind the socket"))?;
        let _ = has_carrier(&self.fd, interface);
        Ok(())
    }

    /// The interface's MTU in bytes, and its ARPHRD hardware type.
    pub(crate) fn mtu_and_type(&self, interface: &str) -> io::Result<(usize, u16)> {
        let mtu = interface_request(&self.fd, interface, libc::SIOCGIFMTU)?;
        let hardware = interface_request(&self.fd, interface, libc::SIOCGIFHWADDR)?;
        // SAFETY: the two calls succeeded and so have set these members of the unions.
        let (mtu, kind) = unsafe { (mtu.ifr_ifru.ifru_mtu, hardware.ifr_ifru.ifru_hwaddr.sa_family) };
        Ok((usize::try_from(mtu).unwrap_or(0), kind))
    }

    /// How many packets the kernel dropped for lack of room since the last call.
    pub(crate) fn take_drops(&self) -> u64 {
        packet_socket_drops(&self.fd)
    }

    /// Receives up to [`VECTOR`] packets, one into each of `slots`, each up to `space` bytes; what was received is put into
    /// `received`. Never blocks: without packets the error is `WouldBlock`.
    pub(crate) fn receive(&self, slots: &mut [Packet], space: usize, received: &mut Vec<Received>) -> io::Result<()> {
        received.clear();
        let count = slots.len().min(VECTOR);
        let mut vnet_headers = [[0u8; VNET_HEADER]; VECTOR];
        let mut controls = [ControlBuffer([0; CONTROL]); VECTOR];
        // SAFETY: all-zero is a valid value of these plain structures.
        let (mut iovecs, mut headers): ([[libc::iovec; 2]; VECTOR], [libc::mmsghdr; VECTOR]) = unsafe { zeroed() };
        for index in 0..count {
            let buffer = slots[index].receive_space(space).map_err(io::Error::other)?;
            iovecs[index] = [iovec(&mut vnet_headers[index]), iovec(buffer)];
            let header = &mut headers[index].msg_hdr;
            header.msg_iov = iovecs[index].as_mut_ptr();
            header.msg_iovlen = 2;
            header.msg_control = controls[index].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
        }
        // SAFETY: the first `count` headers point to I/O vectors and control buffers on this stack frame; those vectors point to
        // `vnet_headers` and to the buffers of distinct packets in `slots`, which is mutably borrowed and not touched before
        // the call returns. All lengths are those of the memory pointed to.
        let result = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                headers.as_mut_ptr(),
                count as u32,
                (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
                std::ptr::null_mut(),
            )
        };
        let count = check(result)? as usize;
        for index in 0..count {
            let len = (headers[index].msg_len as usize).saturating_sub(VNET_HEADER);
            slots[index].received(len.min(space));
            let vlan = vlan_of(&headers[index].msg_hdr);
            received.push(Received { len, vnet_header: vnet_headers[index], vlan });
        }
        Ok(())
    }

    /// Sends up to [`VECTOR`] of `packets`, as they are, and returns how many of them, from the first on, were sent.
    pub(crate) fn send(&self, packets: &[&Packet]) -> io::Result<usize> {
        let count = packets.len().min(VECTOR);
        // All-zero: checksums are complete, and it is one segment.
        let no_offloads = [0u8; VNET_HEADER];
        // SAFETY: all-zero is a valid value of these plain structures.
        let (mut iovecs, mut headers): ([[libc::iovec; 2]; VECTOR], [libc::mmsghdr; VECTOR]) = unsafe { zeroed() };
        for index in 0..count {
            iovecs[index] = [source_iovec(&no_offloads), source_iovec(packets[index].bytes())];
            headers[index].msg_hdr.msg_iov = iovecs[index].as_mut_ptr();
            headers[index].msg_hdr.msg_iovlen = 2;
        }
        // SAFETY: the first `count` headers point to I/O vectors on this stack frame, and those to `no_offloads` and to the bytes of
        // packets that are borrowed across the call. `sendmmsg` only reads what they point to.
        let result =
            unsafe { libc::sendmmsg(self.fd.as_raw_fd(), headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT as _) };
        Ok(check(result)? as usize)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn set<T: Copy>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let pointer: *const c_void = (&raw const *value).cast();
        // SAFETY: the pointer and the length describe `value`, which lives across the call.
        check(unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, option, pointer, size_of::<T>() as socklen_t) })?;
        Ok(())
    }
}

/// How many packets the kernel dropped for lack of room at a packet socket since the last call.
pub(crate) fn packet_socket_drops(socket: &OwnedFd) -> u64 {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut stats: libc::tpacket_stats = unsafe { zeroed() };
    let mut length = size_of_val(&stats) as socklen_t;
    // SAFETY: the pointers describe `stats` and `length`, which live across the call; `length` is the size of `stats`.
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

/// The index of the interface to which a descriptor is bound, if it is a packet socket.
#[cfg_attr(not(has_dpdk), allow(dead_code))]
pub(crate) fn packet_socket_interface(descriptor: RawFd) -> Option<c_int> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    let mut length = size_of_val(&address) as socklen_t;
    // SAFETY: the pointers describe `address` and `length`, which live across the call; a number that is no socket is an error.
    let result = unsafe { libc::getsockname(descriptor, (&raw mut address).cast(), &raw mut length) };
    (result == 0 && c_int::from(address.sll_family) == libc::AF_PACKET).then_some(address.sll_ifindex)
}

/// A network interface that is watched, wherever the thread that asks later is.
pub(crate) struct InterfaceWatch {
    name: String,
    /// A socket of the interface's namespace; nothing is received by it.
    fd: OwnedFd,
    index: c_int,
    mtu: usize,
}

impl InterfaceWatch {
    /// The interface's index.
    #[cfg_attr(not(has_dpdk), allow(dead_code))]
    pub(crate) fn index(&self) -> c_int {
        self.index
    }

    /// The interface of this name in the network namespace of the calling thread.
    pub(crate) fn open(name: &str) -> Result<InterfaceWatch, PortError> {
        let failed = |source: io::Error| match source.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => PortError::NoSuchInterface { interface: name.to_owned() },
            _ => PortError::Open { interface: name.to_owned(), step: "find the interface", source },
        };
        // SAFETY: no pointers are passed.
        let fd = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) });
        // SAFETY: the call succeeded, so the descriptor is open and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd.map_err(failed)?) };
        let index = interface_request(&fd, name, libc::SIOCGIFINDEX).map_err(failed)?;
        let mtu = interface_request(&fd, name, libc::SIOCGIFMTU).map_err(failed)?;
        // SAFETY: the two calls succeeded and so have set these members of the unions.
        let (index, mtu) = unsafe { (index.ifr_ifru.ifru_ifindex, mtu.ifr_ifru.ifru_mtu) };
        Ok(InterfaceWatch { name: name.to_owned(), fd, index, mtu: usize::try_from(mtu).unwrap_or(0) })
    }

    /// The interface of a socket that another process has opened, wherever that process was.
    pub(crate) fn of_socket(socket: BorrowedFd<'_>, name: &str, index: c_int) -> io::Result<InterfaceWatch> {
        Ok(InterfaceWatch { name: name.to_owned(), fd: socket.try_clone_to_owned()?, index, mtu: 0 })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// When it was opened, in bytes.
    pub(crate) fn mtu(&self) -> usize {
        self.mtu
    }

    /// Whether it is up and has a carrier; `None` when it does not exist any more. Another one of the same name is another one.
    ///
    /// The carrier is asked for at the device itself: `IFF_RUNNING` follows it up to a second later (the kernel's link watch), in
    /// both directions, and packets sent in that second do arrive.
    pub(crate) fn is_up(&self) -> Option<bool> {
        let index = interface_request(&self.fd, &self.name, libc::SIOCGIFINDEX).ok()?;
        // SAFETY: the call succeeded and so has set this member of the union.
        if unsafe { index.ifr_ifru.ifru_ifindex } != self.index {
            return None;
        }
        let flags = interface_request(&self.fd, &self.name, libc::SIOCGIFFLAGS).ok()?;
        // SAFETY: as above.
        let flags = c_int::from(unsafe { flags.ifr_ifru.ifru_flags });
        let carrier = || has_carrier(&self.fd, &self.name).unwrap_or(flags & libc::IFF_RUNNING != 0);
        Some(flags & libc::IFF_UP != 0 && carrier())
    }
}

/// Control messages start with a length that must be aligned.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct ControlBuffer([u8; CONTROL]);

fn iovec(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

/// For sending only: the system call does not write through the pointer, whatever its type says.
fn source_iovec(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// A request about an interface (netdevice(7)); names that are too long do not exist.
fn interface_name(interface: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut argument: libc::ifreq = unsafe { zeroed() };
    if interface.len() >= argument.ifr_name.len() || interface.is_empty() || interface.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (place, byte) in argument.ifr_name.iter_mut().zip(interface.bytes()) {
        *place = byte as libc::c_char;
    }
    Ok(argument)
}

/// Asks about an interface, with a request whose answer stands in the `ifreq` itself.
fn interface_request(fd: &OwnedFd, interface: &str, request: libc::c_ulong) -> io::Result<libc::ifreq> {
    let mut argument = interface_name(interface)?;
    // SAFETY: the requests used here read the name, which ends with a zero, and write within the `ifreq` that is passed.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, &raw mut argument) })?;
    Ok(argument)
}

/// What the device says of its link (ethtool's ETHTOOL_GLINK); an error where its driver does not say.
///
/// Before the answer, the kernel does at once what its link watch would do later: where the carrier has just come, it attaches the
/// device's queue.
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
    unsafe { ethtool(fd.as_fd(), interface, &mut value) }?;
    Ok(value.data != 0)
}

/// Asks an interface's driver (SIOCETHTOOL); `question` becomes the answer.
///
/// # Safety
/// `question` must be the structure, as linux/ethtool.h has it, of the command that its first four bytes name, and one of fixed size.
pub(crate) unsafe fn ethtool<T>(fd: BorrowedFd<'_>, interface: &str, question: &mut T) -> io::Result<()> {
    let mut request = interface_name(interface)?;
    request.ifr_ifru.ifru_data = (&raw mut *question).cast();
    // SAFETY: the request reads the name, which ends with a zero, and reads and writes `question`, which is as large as the command takes it
    // to be, and lives across the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) })?;
    Ok(())
}

/// The VLAN tag from the PACKET_AUXDATA control message of a received packet.
fn vlan_of(header: &libc::msghdr) -> Option<VlanTag> {
    // SAFETY: `header` was filled by the kernel, and its control buffer is alive: this is called while its owner's frame is. The
    // CMSG functions stay within `msg_controllen`, which the kernel set to what it wrote.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: not null, so it points to a whole `cmsghdr` inside the control buffer, which is aligned for it.
        let current = unsafe { &*message };
        let whole = size_of::<libc::cmsghdr>() + size_of::<libc::tpacket_auxdata>();
        if current.cmsg_level == libc::SOL_PACKET
            && current.cmsg_type == libc::PACKET_AUXDATA
            && current.cmsg_len as usize >= whole
        {
            // SAFETY: the message is long enough for this structure by its own length, which the kernel wrote; read unaligned, and
            // every bit pattern is a valid value.
            let data: libc::tpacket_auxdata =
                unsafe { libc::CMSG_DATA(message).cast::<libc::tpacket_auxdata>().read_unaligned() };
            if data.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
                return None;
            }
            let known = data.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let tpid = if known { data.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
            return Some(VlanTag { tpid, tci: data.tp_vlan_tci });
        }
        // SAFETY: as for CMSG_FIRSTHDR.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    None
}
