//! [`FdChannel`]: messages between two processes over a Unix socket, with optional file
//! descriptors.

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

/// Maximum length of a message in bytes. Pipelines are much smaller.
const MAX_MESSAGE_BYTES: u32 = 256 << 20;
/// Maximum number of descriptors in a message (the kernel's limit is 253).
const MAX_DESCRIPTORS: usize = 64;
/// Time limit for the other process to read.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// One end of the channel. A message is its length in bytes (4 bytes, little-endian) followed by
/// its contents; descriptors are attached to the length.
pub struct FdChannel(UnixStream);

impl FdChannel {
    pub fn new(stream: UnixStream) -> io::Result<FdChannel> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(FdChannel(stream))
    }

    /// Returns the descriptor of the socket.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Sends a message in postcard's encoding.
    pub fn send_message(&mut self, message: &impl Serialize) -> Result<(), TakeoverError> {
        self.send_with_descriptors(message, &[])
    }

    /// Sends a message with descriptors.
    pub fn send_with_descriptors(
        &mut self,
        message: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), TakeoverError> {
        let bytes = postcard::to_stdvec(message).map_err(TakeoverError::local)?;
        self.send_bytes(&bytes, descriptors)
    }

    /// Sends raw bytes with descriptors.
    pub fn send_bytes(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), TakeoverError> {
        let too_long = || TakeoverError::Local("a message is too long, or has too many descriptors".into());
        let len = u32::try_from(bytes.len()).ok().filter(|len| *len <= MAX_MESSAGE_BYTES).ok_or_else(too_long)?;
        if descriptors.len() > MAX_DESCRIPTORS {
            return Err(too_long());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
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

    /// Receives the next message. `within` limits each read.
    pub fn receive_message<T: DeserializeOwned>(
        &mut self,
        within: Duration,
    ) -> Result<(T, Vec<OwnedFd>), TakeoverError> {
        let (bytes, descriptors) = self.receive_bytes(within)?;
        let message =
            postcard::from_bytes(&bytes).map_err(|error| TakeoverError::Unexpected(format!("no message: {error}")))?;
        Ok((message, descriptors))
    }

    /// Receives the next message as raw bytes, with its descriptors. `within` limits each read:
    /// until the message starts, and between its parts.
    pub fn receive_bytes(&mut self, within: Duration) -> Result<(Vec<u8>, Vec<OwnedFd>), TakeoverError> {
        self.0.set_read_timeout(Some(within))?;
        let mut descriptors = Vec::new();
        let mut prefix = [0; 4];
        let mut filled = 0;
        while filled < prefix.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
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
        if len > MAX_MESSAGE_BYTES {
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
