//! [`Line`]: messages between two processes, each with descriptors if need be, over a Unix socket.

use super::TakeoverError;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The most bytes of a message: a pipeline is far shorter.
const MAX: u32 = 256 << 20;
/// The most descriptors that go with a message (the kernel takes 253).
const DESCRIPTORS: usize = 64;
/// How long the other end may take to read.
const SEND: Duration = Duration::from_secs(30);

/// One end. A message is its length in bytes (4 bytes, little-endian) and its bytes; its descriptors go with the length.
pub struct Line(UnixStream);

impl Line {
    pub fn new(stream: UnixStream) -> io::Result<Line> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(SEND))?;
        Ok(Line(stream))
    }

    /// The socket.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Sends a message in postcard's form.
    pub fn say(&mut self, message: &impl Serialize) -> Result<(), TakeoverError> {
        self.say_with(message, &[])
    }

    /// Sends a message, with descriptors.
    pub fn say_with(&mut self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> Result<(), TakeoverError> {
        let bytes = postcard::to_stdvec(message).map_err(TakeoverError::here)?;
        self.send(&bytes, descriptors)
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), TakeoverError> {
        let too_long = || TakeoverError::Here("a message is too long, or has too many descriptors".into());
        let len = u32::try_from(bytes.len()).ok().filter(|len| *len <= MAX).ok_or_else(too_long)?;
        if descriptors.len() > DESCRIPTORS {
            return Err(too_long());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let prefix = len.to_le_bytes();
        let sent =
            sendmsg(&self.0, &[IoSlice::new(&prefix)], &mut control, SendFlags::NOSIGNAL).map_err(io::Error::from)?;
        self.0.write_all(&prefix[sent..])?;
        self.0.write_all(bytes)?;
        Ok(())
    }

    /// The next message, which comes within a time.
    pub fn hear<T: DeserializeOwned>(&mut self, within: Duration) -> Result<(T, Vec<OwnedFd>), TakeoverError> {
        let (bytes, descriptors) = self.receive(within)?;
        let message =
            postcard::from_bytes(&bytes).map_err(|error| TakeoverError::Unexpected(format!("no message: {error}")))?;
        Ok((message, descriptors))
    }

    /// The next message's bytes, and its descriptors. `within` is the time to its beginning, and between its parts.
    pub fn receive(&mut self, within: Duration) -> Result<(Vec<u8>, Vec<OwnedFd>), TakeoverError> {
        self.0.set_read_timeout(Some(within))?;
        let mut descriptors = Vec::new();
        let mut prefix = [0; 4];
        let mut filled = 0;
        while filled < prefix.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let into = &mut [IoSliceMut::new(&mut prefix[filled..])];
            let received = recvmsg(&self.0, into, &mut control, RecvFlags::CMSG_CLOEXEC).map_err(io::Error::from)?;
            if received.bytes == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            filled += received.bytes;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    descriptors.extend(rights);
                }
            }
        }
        let len = u32::from_le_bytes(prefix);
        if len > MAX {
            return Err(TakeoverError::Unexpected(format!("a message of {len} bytes")));
        }
        let mut bytes = Vec::new();
        let read = (&mut self.0).take(u64::from(len)).read_to_end(&mut bytes)?;
        if read < len as usize {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok((bytes, descriptors))
    }
}
