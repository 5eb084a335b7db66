//! [`NetlinkSocket`]: the kernel's messages about links, addresses, neighbours and routes.

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, sockopt};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Receive buffer in bytes. The default holds some 500 route messages, and a router sends thousands
/// at once.
const RECEIVE_BUFFER: usize = 32 << 20;
/// Longest datagram: the kernel fills dumps up to 32 KiB.
const MAX_DATAGRAM: usize = 64 << 10;

/// Messages about links (rtnetlink(7)): RTNLGRP_LINK.
pub(super) const GROUP_LINK: u32 = 1 << 0;

/// A socket for rtnetlink(7), in the network namespace in which it was opened.
pub(super) struct NetlinkSocket {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// What a read of the waiting messages found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ReadResult {
    /// Number of datagrams.
    pub datagrams: usize,
    /// The kernel had no space for further messages, so that some are lost.
    pub is_overrun: bool,
}

impl NetlinkSocket {
    /// Opens a socket in the calling thread's network namespace that receives the messages of these
    /// groups. Reads do not block.
    pub fn open(groups: u32) -> io::Result<NetlinkSocket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Protocol 0 is NETLINK_ROUTE.
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        // Without the capability, the limit of the system applies; an overrun is noticed and repaired.
        if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
            let _ = sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER);
        }
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        Ok(NetlinkSocket { socket, buffer: vec![0; MAX_DATAGRAM] })
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Passes all waiting datagrams to `visit`.
    pub fn read_all(&mut self, mut visit: impl FnMut(&[u8])) -> io::Result<ReadResult> {
        let mut result = ReadResult::default();
        loop {
            match rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => return Ok(result),
                Ok((len, _)) => {
                    result.datagrams += 1;
                    visit(&self.buffer[..len]);
                }
                Err(Errno::AGAIN) => return Ok(result),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => result.is_overrun = true,
                Err(error) => return Err(error.into()),
            }
        }
    }
}
