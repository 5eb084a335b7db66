//! [`NetlinkSocket`]: the kernel's messages about links, addresses, neighbours and routes.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use underlay::{DumpKind, KernelMessage, Messages, ReceivedMessage};

/// Receive buffer in bytes. The default holds some 500 route messages, and a router sends thousands
/// at once.
const RECEIVE_BUFFER: usize = 32 << 20;
/// Longest datagram: the kernel fills dumps up to 32 KiB.
const MAX_DATAGRAM: usize = 64 << 10;

/// Time limit for the kernel's response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Messages about links (rtnetlink(7)): RTNLGRP_LINK.
pub(super) const GROUP_LINK: u32 = 1 << 0;

/// A socket for rtnetlink(7), in the network namespace in which it was opened.
pub(super) struct NetlinkSocket {
    socket: OwnedFd,
    buffer: Vec<u8>,
    /// Number of the last request.
    sequence: u32,
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
        Ok(NetlinkSocket { socket, buffer: vec![0; MAX_DATAGRAM], sequence: 0 })
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Requests a dump and adds its messages to `dump`. Returns whether it is consistent; otherwise
    /// the tables have changed meanwhile.
    pub fn dump(&mut self, kind: DumpKind, dump: &mut Vec<KernelMessage>) -> io::Result<bool> {
        self.sequence += 1;
        let request = underlay::dump_request(kind, self.sequence);
        let mut is_consistent = true;
        self.exchange(&request, |received| {
            is_consistent &= !received.is_interrupted;
            match received.message {
                KernelMessage::Done => ControlFlow::Break(0),
                KernelMessage::Response(error) => ControlFlow::Break(error),
                message => {
                    dump.push(message);
                    ControlFlow::Continue(())
                }
            }
        })?;
        Ok(is_consistent)
    }

    /// Lets the kernel ask a neighbour for its MAC address.
    pub fn resolve(&mut self, interface: u32, address: IpAddr, is_managed: bool) -> io::Result<()> {
        self.sequence += 1;
        let request = underlay::resolve_request(interface, address, is_managed, self.sequence);
        self.exchange(&request, |received| match received.message {
            KernelMessage::Response(error) => ControlFlow::Break(error),
            _ => ControlFlow::Continue(()),
        })
    }

    /// Sends a request, and passes the messages of its response to `visit` until that returns the
    /// number of an error, or 0.
    fn exchange(
        &mut self,
        request: &[u8],
        mut visit: impl FnMut(ReceivedMessage) -> ControlFlow<i32>,
    ) -> io::Result<()> {
        rustix::net::send(&self.socket, request, SendFlags::empty())?;
        let (sequence, deadline) = (self.sequence, Instant::now() + RESPONSE_TIMEOUT);
        loop {
            let mut end = None;
            self.read_all(|datagram| {
                let responses = Messages::of(datagram).filter(|received| received.sequence == sequence);
                for received in responses {
                    if end.is_none()
                        && let ControlFlow::Break(error) = visit(received)
                    {
                        end = Some(error);
                    }
                }
            })?;
            match end {
                Some(0) => return Ok(()),
                Some(error) => return Err(io::Error::from_raw_os_error(error)),
                None if Instant::now() >= deadline => return Err(Errno::TIMEDOUT.into()),
                None => {
                    let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
                    let _ = poll(&mut fds, RESPONSE_TIMEOUT.try_into().ok().as_ref());
                }
            }
        }
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
