//! The Unix sockets of memif's control channel: one message each time, at most one descriptor with it. Nothing here blocks.

use super::Fault;
use super::message::{LEN, Message};
use super::options::Address;
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

fn sockaddr(address: &Address) -> io::Result<SocketAddrUnix> {
    Ok(match address {
        Address::File(path) => SocketAddrUnix::new(path)?,
        Address::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
    })
}

/// Listens. A socket file on which nobody listens any more is replaced.
pub fn listen_on(address: &Address) -> io::Result<OwnedFd> {
    let place = sockaddr(address)?;
    let listener = socket()?;
    let bound = match (bind(&listener, &place), address) {
        (Err(Errno::ADDRINUSE), Address::File(path)) => {
            match connect(&socket()?, &place) {
                Err(Errno::CONNREFUSED) => std::fs::remove_file(path)?,
                _ => return Err(Errno::ADDRINUSE.into()),
            }
            bind(&listener, &place)
        }
        (outcome, _) => outcome,
    };
    bound?;
    listen(&listener, 8)?;
    Ok(listener)
}

/// The control channel between two ends.
pub struct Channel(OwnedFd);

impl Channel {
    /// Connects to a server that listens.
    pub fn connect(address: &Address) -> io::Result<Channel> {
        let socket = socket()?;
        connect(&socket, &sockaddr(address)?)?;
        Ok(Channel(socket))
    }

    /// A client that waits at a listening socket, if one does.
    pub fn accept(listener: BorrowedFd<'_>) -> Option<Channel> {
        accept_with(listener, FLAGS).ok().map(Channel)
    }

    /// One that another process had.
    pub fn from_descriptor(socket: OwnedFd) -> Channel {
        Channel(socket)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// The other end is gone, or does not read.
    pub fn send(&self, message: &Message, name: &str, descriptor: Option<BorrowedFd<'_>>) -> Result<(), Fault> {
        let bytes = message.encode(name);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let rights = descriptor.as_slice();
        if !rights.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(rights));
        }
        let sent = sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        match sent {
            Ok(LEN) => Ok(()),
            Ok(_) => Err(Fault::new("a message was cut short")),
            Err(error) => Err(Fault::new(format!("the control channel: {error}"))),
        }
    }

    /// The next message, with what came with it.
    ///
    /// # Errors
    /// The other end is gone, or what it sends is no message.
    pub fn receive(&self) -> Result<Option<Heard>, Fault> {
        let mut bytes = [0; LEN];
        // Room for more than one: those that are not wanted are closed.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(Fault::new(format!("the control channel: {error}"))),
        };
        let mut descriptor = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                descriptor = descriptors.into_iter().last().or(descriptor);
            }
        }
        match received.bytes {
            0 => Err(Fault::new("the other end has closed the control channel")),
            LEN => Ok(Some(Heard { message: Message::decode(&bytes)?, descriptor })),
            other => Err(Fault::new(format!("a message of {other} bytes instead of {LEN}"))),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A message, and the descriptor that came with it.
pub(super) struct Heard {
    pub(super) message: Message,
    pub(super) descriptor: Option<OwnedFd>,
}
