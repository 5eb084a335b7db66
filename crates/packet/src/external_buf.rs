//! External buffers: packet buffers that belong to an owner outside the packet, such as a network
//! card's driver (DPDK: external buffer).
//!
//! Packets move from a port through an engine to another port without a copy. The receiving port
//! attaches the buffer into which the device wrote, the engine rewrites the packet in it, and the
//! sending port takes the buffer back or passes it on to its device. Nothing here is unsafe: the
//! code that creates an [`ExternalBuf`] guarantees exclusive access to the bytes until they are
//! released.

use std::fmt;
use std::mem;

/// Owner that external buffers are released to. Make one `static` for each kind of buffer, because
/// owners are compared by address.
pub struct ExternalBufOwner {
    name: &'static str,
    release: fn(usize),
}

impl ExternalBufOwner {
    /// Creates an owner. `release` is called with the token of each dropped buffer, on the thread
    /// that dropped it. It must not panic.
    pub const fn new(name: &'static str, release: fn(usize)) -> ExternalBufOwner {
        ExternalBufOwner { name, release }
    }
}

/// The bytes of one external buffer. The buffer is released when this value is dropped, or taken
/// back by [`ExternalBuf::take_token`].
pub struct ExternalBuf {
    /// Leaves this structure only as a borrow, because the bytes are invalid once the buffer is
    /// released.
    bytes: &'static mut [u8],
    token: usize,
    owner: &'static ExternalBufOwner,
}

impl ExternalBuf {
    /// Wraps `bytes`. `token` identifies the buffer to its owner and has no other meaning.
    ///
    /// The caller guarantees that no other code reads or writes these bytes until the token is
    /// returned.
    pub fn new(bytes: &'static mut [u8], token: usize, owner: &'static ExternalBufOwner) -> ExternalBuf {
        ExternalBuf { bytes, token, owner }
    }

    /// Returns the token if the buffer belongs to `owner`. The buffer is then the owner's again,
    /// and `release` is not called.
    ///
    /// # Errors
    /// The buffer belongs to another owner; it is returned unchanged.
    pub fn take_token(self, owner: &'static ExternalBufOwner) -> Result<usize, ExternalBuf> {
        if !std::ptr::eq(self.owner, owner) {
            return Err(self);
        }
        let token = self.token;
        mem::forget(self);
        Ok(token)
    }

    /// Reports whether the buffer belongs to `owner`.
    pub fn is_owned_by(&self, owner: &'static ExternalBufOwner) -> bool {
        std::ptr::eq(self.owner, owner)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

impl Drop for ExternalBuf {
    fn drop(&mut self) {
        // The reference ends before the bytes are released.
        self.bytes = &mut [];
        (self.owner.release)(self.token);
    }
}

impl fmt::Debug for ExternalBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExternalBuf({} bytes of {})", self.bytes.len(), self.owner.name)
    }
}
