//! Creates TAP interfaces (linux/if_tun.h). Each user sets its own offloads and attributes.
#![allow(unsafe_code)]

use crate::sys::{check_result, interface_name, interface_request};
use libc::{c_int, c_short, c_ulong};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;

const TUNSETIFF: c_ulong = 0x4004_54ca;

/// Opens the TUN/TAP driver. Reads and writes do not block.
///
/// # Errors
/// The kernel has no driver, or access is not permitted.
pub(crate) fn open_driver() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")
}

/// Makes the open driver a TAP in the calling thread's network namespace, with `IFF_NO_PI` and
/// further flags. A `%d` in `name` is replaced by a number. The interface exists until the last
/// descriptor is closed. Returns its name.
///
/// # Errors
/// CAP_NET_ADMIN is missing, the name is invalid or in use.
pub(crate) fn create(driver: &impl AsFd, name: &str, flags: c_int) -> io::Result<String> {
    let mut request = interface_name(name)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | flags) as c_short;
    // SAFETY: the request reads the name, which ends with a zero, and the flags, and writes within
    // the `ifreq`, which lives across the call.
    check_result(unsafe { libc::ioctl(driver.as_fd().as_raw_fd(), TUNSETIFF as _, &raw mut request) })?;
    Ok(name_in(&request))
}

/// Returns the interface's name in a request.
pub(crate) fn name_in(request: &libc::ifreq) -> String {
    let name = request.ifr_name.iter().take_while(|byte| **byte != 0);
    name.map(|byte| char::from(*byte as u8)).collect()
}

/// Sets an interface up. `socket` is any socket of its network namespace.
///
/// # Errors
/// The interface does not exist, or CAP_NET_ADMIN is missing.
pub(crate) fn bring_up(socket: impl AsFd, name: &str) -> io::Result<()> {
    let mut request = interface_request(socket.as_fd(), name, libc::SIOCGIFFLAGS)?;
    // SAFETY: SIOCGIFFLAGS succeeded, so it has set this member of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as c_short;
    // SAFETY: the request reads the name, which ends with a zero, and the flags.
    check_result(unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) })?;
    Ok(())
}
