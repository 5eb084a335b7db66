//! Queries an interface's driver.
#![allow(unsafe_code)]

use super::XdpError;
use super::kernel::QUEUES;
use crate::sys::ethtool_request;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

/// Returns the index of an interface in this network namespace.
pub(super) fn index_of(interface: &str) -> Result<u32, XdpError> {
    let missing = || XdpError::NoSuchInterface(interface.to_owned());
    let name = CString::new(interface).map_err(|_| missing())?;
    // SAFETY: the string ends with a zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(missing()),
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

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

fn socket() -> Option<OwnedFd> {
    rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None).ok()
}

/// Returns the number of receive queues of an interface; 1 if the driver does not report it.
pub(super) fn queue_count(interface: &str) -> u32 {
    const GET_CHANNELS: u32 = 0x3c;
    let mut channels = Channels { command: GET_CHANNELS, most: [0; 4], receive: 0, send: 0, other: 0, combined: 0 };
    let Some(socket) = socket() else { return 1 };
    // SAFETY: it is the structure of this command.
    match unsafe { ethtool_request(socket.as_fd(), interface, &mut channels) } {
        Ok(()) => (channels.receive + channels.combined).clamp(1, QUEUES),
        Err(_) => 1,
    }
}

/// Returns the name of an interface's driver, if it reports one.
pub(super) fn driver_name(interface: &str) -> Option<String> {
    const GET_DRIVER: u32 = 3;
    let mut driver = DriverInfo { command: GET_DRIVER, driver: [0; 32], rest: [0; 160] };
    let socket = socket()?;
    // SAFETY: it is the structure of this command.
    unsafe { ethtool_request(socket.as_fd(), interface, &mut driver) }.ok()?;
    let end = driver.driver.iter().position(|byte| *byte == 0)?;
    String::from_utf8(driver.driver[..end].to_vec()).ok()
}

const _: () = assert!(size_of::<DriverInfo>() == 196);
