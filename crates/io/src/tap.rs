//! [`Tap`]: a network interface of the host whose other end is this process.
#![allow(unsafe_code)]

use crate::sys::{check_result, interface_name, request_socket};
use crate::tap_device;
use libc::{c_int, c_ulong};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use thiserror::Error;

/// `TUNSETCARRIER` of linux/if_tun.h (Linux 5.0).
const TUNSETCARRIER: c_ulong = 0x4004_54e2;
/// Maximum MTU of a TAP in bytes (drivers/net/tun.c: 65,535 without the Ethernet header).
const MAX_MTU: usize = 65_521;
/// Minimum MTU of an interface with IPv6 (RFC 8200, section 5).
const MIN_MTU: usize = 1280;

/// Settings of a TAP's interface that make it answer for its own addresses only, and at once.
///
/// | setting | meaning |
/// |---|---|
/// | `arp_ignore=1` | ARP only for addresses of this interface (RFC 1122's strong host model) |
/// | `arp_announce=2` | ARP from an address of this interface |
/// | `accept_dad=0` | IPv6 addresses are usable at once, without duplicate address detection |
const SETTINGS: [(&str, &str, &str); 3] =
    [("ipv4", "arp_ignore", "1"), ("ipv4", "arp_announce", "2"), ("ipv6", "accept_dad", "0")];

/// Error: a TAP cannot be created.
#[derive(Debug, Error)]
pub enum TapError {
    /// The process lacks the privilege.
    #[error(
        "creating the interface `{name}` is not permitted: run as root, or give the service the capability CAP_NET_ADMIN"
    )]
    NotPermitted {
        /// The name.
        name: String,
    },
    /// An interface of this name exists.
    #[error(
        "the interface name `{name}` is in use: choose another name, or remove that interface (`ip link del {name}`)"
    )]
    NameInUse {
        /// The name.
        name: String,
    },
    /// The kernel has no TUN/TAP driver.
    #[error(
        "the kernel has no TUN/TAP driver (/dev/net/tun), which the interface `{name}` needs: load the module `tun`"
    )]
    NoDriver {
        /// The name.
        name: String,
    },
    /// Another error of the system.
    #[error("cannot {step} of the interface `{name}`: {source}")]
    System {
        /// The name.
        name: String,
        /// The operation that failed.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// A TAP: frames that the host sends to the interface are read here, and frames that are written
/// here arrive at the host from it. The interface exists until the last descriptor is closed. It has
/// no offloads, so frames are complete.
#[derive(Debug)]
pub struct Tap {
    name: String,
    file: std::fs::File,
}

impl Tap {
    /// Creates the interface in the calling thread's network namespace, and sets it up. `mtu` is in
    /// bytes; it is limited to what a TAP supports. Also returns the settings that the system
    /// refused, in a sentence each.
    ///
    /// # Errors
    /// Returns [`TapError`].
    pub fn create(name: &str, mac: [u8; 6], mtu: usize) -> Result<(Tap, Vec<String>), TapError> {
        let system_error = |step: &'static str| move |source: io::Error| tap_error(name, step, source);
        let file = tap_device::open_driver().map_err(|source| match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => TapError::NoDriver { name: name.to_owned() },
            _ => tap_error(name, "open the descriptor", source),
        })?;
        let in_use = Path::new("/sys/class/net").join(name).exists();
        interface_name(name).map_err(system_error("use the name"))?;
        tap_device::create(&file, name, libc::IFF_TUN_EXCL).map_err(|source| match source.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => TapError::NameInUse { name: name.to_owned() },
            // An interface of another kind.
            Some(libc::EINVAL) if in_use => TapError::NameInUse { name: name.to_owned() },
            _ => tap_error(name, "create the device", source),
        })?;
        let tap = Tap { name: name.to_owned(), file };
        let refused = SETTINGS.iter().filter_map(|setting| apply_setting(name, setting)).collect();
        tap.configure(mac, mtu)?;
        Ok((tap, refused))
    }

    /// Continues a TAP of another process, by its descriptor.
    pub fn from_descriptor(name: &str, descriptor: OwnedFd) -> Tap {
        Tap { name: name.to_owned(), file: descriptor.into() }
    }

    /// Returns a copy of the descriptor, for another process.
    ///
    /// # Errors
    /// The system provides no more descriptors.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    /// Sets MAC and MTU, and sets the interface up.
    ///
    /// # Errors
    /// Returns [`TapError`].
    pub fn configure(&self, mac: [u8; 6], mtu: usize) -> Result<(), TapError> {
        let system_error = |step: &'static str| move |source: io::Error| tap_error(&self.name, step, source);
        let socket = request_socket().map_err(system_error("open a socket for the settings"))?;
        let mut request = self.request().map_err(system_error("set the MAC address"))?;
        // SAFETY: the whole union is initialised, and every bit pattern is a valid `sockaddr`.
        let address = unsafe { &mut request.ifr_ifru.ifru_hwaddr };
        address.sa_family = libc::ARPHRD_ETHER;
        for (target, byte) in address.sa_data.iter_mut().zip(mac) {
            *target = byte as libc::c_char;
        }
        execute(&socket, libc::SIOCSIFHWADDR, &mut request).map_err(system_error("set the MAC address"))?;
        let mut request = self.request().map_err(system_error("set the MTU"))?;
        request.ifr_ifru.ifru_mtu = mtu.clamp(MIN_MTU, MAX_MTU) as c_int;
        execute(&socket, libc::SIOCSIFMTU, &mut request).map_err(system_error("set the MTU"))?;
        tap_device::bring_up(&socket, &self.name).map_err(system_error("set the state"))
    }

    fn request(&self) -> io::Result<libc::ifreq> {
        interface_name(&self.name)
    }

    /// Returns the name of the interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads the next frame that the host sent, and returns its length. Never blocks.
    ///
    /// # Errors
    /// `WouldBlock`: there is none.
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(frame)
    }

    /// Delivers a frame to the host. Never blocks.
    ///
    /// # Errors
    /// The interface is down, or the frame is too short.
    pub fn deliver(&self, frame: &[u8]) -> io::Result<()> {
        (&self.file).write(frame).map(|_| ())
    }

    /// Sets the link state that the host sees.
    ///
    /// # Errors
    /// The kernel is older than Linux 5.0, or the interface is set down.
    pub fn set_carrier(&self, is_up: bool) -> io::Result<()> {
        let value = c_int::from(is_up);
        // SAFETY: the request reads `value`, which lives across the call.
        check_result(unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETCARRIER as _, &raw const value) })?;
        Ok(())
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Executes a request about an interface (netdevice(7)).
fn execute(socket: &OwnedFd, number: c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: these requests read the name, which ends with a zero, and read and write within the
    // `ifreq`, which lives across the call.
    check_result(unsafe { libc::ioctl(socket.as_raw_fd(), number as _, &raw mut *request) })?;
    Ok(())
}

fn tap_error(name: &str, step: &'static str, source: io::Error) -> TapError {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => TapError::NotPermitted { name: name.to_owned() },
        _ => TapError::System { name: name.to_owned(), step, source },
    }
}

/// Writes a setting of the interface. Returns a sentence about a failure.
fn apply_setting(name: &str, (family, setting, value): &(&str, &str, &str)) -> Option<String> {
    let path = format!("/proc/sys/net/{family}/conf/{name}/{setting}");
    let error = std::fs::write(&path, value).err()?;
    // A kernel without IPv6 has no setting for it.
    let is_absent = error.kind() == io::ErrorKind::NotFound && *family == "ipv6";
    (!is_absent).then(|| format!("{path} could not be set to {value} ({error}): set it by `sysctl`, else the interface may answer for addresses of others"))
}
