//! [`MissTap`]: a TAP interface through which the tc program passes packets without a flow to this
//! process.
//!
//! The program redirects them into the TAP, so the host's network stack does not see them. The TAP
//! supports no offloads: before it, the kernel completes open checksums, cuts super-frames into
//! segments and puts VLAN tags back. So this process only receives packets as on a wire, whatever
//! the sender left to the hardware.
#![allow(unsafe_code)]

use crate::device_drops::DeviceDrops;
use packet::{Batch, MAX_LEN, PortId};
use rustix::fs::{Mode, OFlags};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Pattern of the interfaces' names; the kernel inserts a number.
const NAME: &[u8] = b"tcmiss%d";
/// Packets that wait for this process at most, as many as in a ring of an AF_XDP socket.
const QUEUE: libc::c_int = 4096;

/// A TAP interface. Dropping it removes the interface.
pub(super) struct MissTap {
    descriptor: OwnedFd,
    name: String,
    index: u32,
    drops: Option<DeviceDrops>,
    buffer: Box<[u8]>,
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns a request about the interface of this name.
fn request(name: &[u8]) -> libc::ifreq {
    // SAFETY: all-zero is a valid value of this plain structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    let most = request.ifr_name.len() - 1;
    request.ifr_name[..most].iter_mut().zip(name).for_each(|(to, byte)| *to = *byte as libc::c_char);
    request
}

impl MissTap {
    /// Creates an interface in the calling thread's network namespace. It is down, until
    /// [`MissTap::start`].
    ///
    /// # Errors
    /// There is no `/dev/net/tun`, or CAP_NET_ADMIN is missing.
    pub fn create() -> io::Result<MissTap> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
        let mut request = request(NAME);
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the request is a valid structure that lives across the call, and its name ends
        // with a zero.
        check(unsafe { libc::ioctl(descriptor.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })?;
        // SAFETY: the kernel ends the name with a zero within the array.
        let name = unsafe { CStr::from_ptr(request.ifr_name.as_ptr()) }.to_string_lossy().into_owned();
        // SAFETY: the name in the request ends with a zero.
        let index = unsafe { libc::if_nametoindex(request.ifr_name.as_ptr()) };
        let drops = DeviceDrops::of(&name);
        Ok(MissTap { descriptor, name, index, drops, buffer: vec![0; MAX_LEN + 1].into() })
    }

    /// Takes the interface up.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(&self) -> io::Result<()> {
        let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
        let mut length = request(self.name.as_bytes());
        length.ifr_ifru.ifru_metric = QUEUE;
        let mut up = request(self.name.as_bytes());
        up.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
        // SAFETY: the requests are valid structures that live across the calls.
        unsafe {
            check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFTXQLEN as _, &raw mut length))?;
            check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut up))
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn index(&self) -> u32 {
        self.index
    }

    /// Receives up to `most` packets into a batch, of at most `longest` bytes each. Calls
    /// `count` with the length of each, and whether it was received; otherwise it was too long.
    pub fn receive(
        &mut self,
        id: PortId,
        batch: &mut Batch,
        (most, longest): (usize, usize),
        mut count: impl FnMut(usize, bool),
    ) {
        let time = crate::port::now();
        for _ in 0..most {
            // One byte more than the longest packet, because the kernel cuts off what does not fit.
            let end = (longest + 1).min(self.buffer.len());
            // Errors: no packet, a signal, or an interface that was taken down.
            let Ok(len) = rustix::io::read(&self.descriptor, &mut self.buffer[..end]) else { return };
            let received = len <= longest && batch.push_bytes(&self.buffer[..len], id, time).is_ok();
            count(len, received);
        }
    }

    /// Returns the number of packets that were lost since the last call, because this process did
    /// not receive them in time.
    pub fn take_lost(&mut self) -> u64 {
        self.drops.as_mut().map_or(0, DeviceDrops::take_dropped)
    }
}

impl AsFd for MissTap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
