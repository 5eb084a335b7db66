//! Unix sockets of memif's control channel: one message per packet, with at most one descriptor. No
//! call blocks.

use super::ConnectionFault;
use super::message::{MESSAGE_BYTES, Message};
use super::options::SocketAddress;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, sendmsg,
    socket_with,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?)
}

fn sockaddr(address: &SocketAddress) -> io::Result<SocketAddrUnix> {
    Ok(match address {
        SocketAddress::File(path) => SocketAddrUnix::new(path)?,
        SocketAddress::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
    })
}

/// Listens on a socket. Replaces a socket file without a listener, which a process left that was
/// killed.
pub fn listen_on(address: &SocketAddress) -> io::Result<OwnedFd> {
    let socket_address = sockaddr(address)?;
    let listener = socket()?;
    let outcome = match (bind(&listener, &socket_address), address) {
        (Err(Errno::ADDRINUSE), SocketAddress::File(path)) => {
            match connect(&socket()?, &socket_address) {
                Err(Errno::CONNREFUSED) => std::fs::remove_file(path)?,
                _ => return Err(Errno::ADDRINUSE.into()),
            }
            bind(&listener, &socket_address)
        }
        (bound, _) => bound,
    };
    outcome?;
    listen(&listener, 8)?;
    Ok(listener)
}

/// The control channel of a connection.
pub struct Channel(OwnedFd);

impl Channel {
    /// Connects to a listening server.
    pub fn connect(address: &SocketAddress) -> io::Result<Channel> {
        let socket = socket()?;
        connect(&socket, &sockaddr(address)?)?;
        Ok(Channel(socket))
    }

    /// Accepts a waiting client, if any.
    pub fn accept(listener: BorrowedFd<'_>) -> Option<Channel> {
        accept_with(listener, FLAGS).ok().map(Channel)
    }

    /// Wraps the socket of another process.
    pub fn from_descriptor(socket: OwnedFd) -> Channel {
        Channel(socket)
    }

    /// Sends one message. `name` is the name of this end, `descriptor` the file descriptor that the
    /// message passes to the other one.
    ///
    /// # Errors
    /// The other end is gone or does not read.
    pub fn send(
        &self,
        message: &Message,
        name: &str,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<(), ConnectionFault> {
        let bytes = message.encode(name);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let rights = descriptor.as_slice();
        if !rights.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(rights));
        }
        let sent = sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        match sent {
            Ok(MESSAGE_BYTES) => Ok(()),
            Ok(_) => Err(ConnectionFault::new("a message was cut short")),
            Err(error) => Err(ConnectionFault::new(format!("the control channel: {error}"))),
        }
    }

    /// Receives the next message with its descriptor. `None` if there is none.
    ///
    /// # Errors
    /// The other end is gone, or its data is no message.
    pub fn receive(&self) -> Result<Option<ReceivedMessage>, ConnectionFault> {
        let mut bytes = [0; MESSAGE_BYTES];
        // Space for more than one descriptor: extra ones are closed.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(ConnectionFault::new(format!("the control channel: {error}"))),
        };
        let mut descriptor = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                descriptor = descriptors.into_iter().last().or(descriptor);
            }
        }
        match received.bytes {
            0 => Err(ConnectionFault::new("the other end has closed the control channel")),
            MESSAGE_BYTES => Ok(Some(ReceivedMessage { message: Message::decode(&bytes)?, descriptor })),
            other => Err(ConnectionFault::new(format!("a message of {other} bytes instead of {MESSAGE_BYTES}"))),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A received message with its descriptor.
pub(super) struct ReceivedMessage {
    pub(super) message: Message,
    pub(super) descriptor: Option<OwnedFd>,
}
