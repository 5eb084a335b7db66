//! Finds out whether the kernel delivers packets of an interface that were never on a wire.
#![allow(unsafe_code)]

use crate::sys::ethtool_request;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// `struct ethtool_drvinfo` of linux/ethtool.h.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    remainder: [u8; 64],
}

const _: () = assert!(size_of::<DriverInfo>() == 196);

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

const GET_DRIVER: u32 = 0x03;
const GET_GRO: u32 = 0x2b;
const GET_FLAGS: u32 = 0x25;
/// `ETH_FLAG_LRO`.
const LRO: u32 = 1 << 15;

/// Returns the reason why the kernel delivers packets of this interface with open checksums or as
/// super-frames, as a sentence's end. `None` if it does not, or if the interface does not exist.
pub(crate) fn offload_source(interface: &str) -> Option<String> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None).ok()?;
    let socket = socket.as_fd();
    let (driver, bus) = match driver_and_bus(socket, interface) {
        Ok(names) => names,
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => ("unknown".to_owned(), String::new()),
        Err(_) => return None,
    };
    // Only an address with a colon is that of a card (PCI), whose packets were on a wire.
    if bus.is_empty() || !bus.contains(':') {
        return Some(format!("the kernel leaves checksums and segmentation open on it (driver {driver})"));
    }
    let (gro, lro) = (ask(socket, interface, GET_GRO)? != 0, ask(socket, interface, GET_FLAGS)? & LRO != 0);
    let merger = match (gro, lro) {
        (false, false) => return None,
        (true, _) => "GRO",
        (false, true) => "LRO",
    };
    Some(format!("the kernel merges its packets ({merger} is on)"))
}

/// Returns the names of the driver and of the bus address. Interfaces without hardware have no
/// address on a bus, and virtio's has no colon (`virtio0`).
fn driver_and_bus(socket: BorrowedFd<'_>, interface: &str) -> io::Result<(String, String)> {
    let mut info = DriverInfo {
        command: GET_DRIVER,
        driver: [0; 32],
        version: [0; 32],
        firmware: [0; 32],
        bus: [0; 32],
        remainder: [0; 64],
    };
    // SAFETY: it is the structure of this command.
    unsafe { ethtool_request(socket, interface, &mut info) }?;
    let text =
        |bytes: &[u8]| String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or(&[])).into_owned();
    Ok((text(&info.driver), text(&info.bus)))
}

/// Returns the number with which the driver responds to a request.
fn ask(socket: BorrowedFd<'_>, interface: &str, command: u32) -> Option<u32> {
    let mut value = Value { command, data: 0 };
    // SAFETY: it is the structure of this command.
    unsafe { ethtool_request(socket, interface, &mut value) }.ok()?;
    Some(value.data)
}
