//! [`Loan`]: a packet's buffer that belongs to somebody else, for example to a network card's driver.
//!
//! This is how packets get from a port to an engine and on to another port without a copy: the port lends the buffer into which the device
//! wrote, the engine rewrites the packet there, and the port that sends it takes the buffer back, or gives it up to the device.
//! There is nothing unsafe here: who makes a loan promises that the bytes are nobody else's until they are given back, and does whatever
//! is needed to keep that promise.

use std::fmt;
use std::mem;

/// Who lends buffers. Make one `static` for each kind of buffer: a loan is recognised by the address of its lender.
pub struct Lender {
    name: &'static str,
    release: fn(usize),
}

impl Lender {
    /// A lender to whom buffers are given back by calling `release` with the token of the loan, on whatever thread the packet ended.
    /// It must not panic.
    pub const fn new(name: &'static str, release: fn(usize)) -> Lender {
        Lender { name, release }
    }
}

/// The bytes of one buffer until they are given back. That happens when the loan is dropped, or by [`Loan::reclaim`].
pub struct Loan {
    /// Never leaves this structure but as a borrow of it: the bytes are gone when the loan is.
    bytes: &'static mut [u8],
    token: usize,
    lender: &'static Lender,
}

impl Loan {
    /// Lends `bytes`. `token` is what the lender gets back; it means nothing to anybody else.
    ///
    /// The caller promises that nobody reads or writes these bytes until the token has come back.
    pub fn new(bytes: &'static mut [u8], token: usize, lender: &'static Lender) -> Loan {
        Loan { bytes, token, lender }
    }

    /// The token, if the loan is this lender's: the buffer is the lender's again, and `release` will not be called. Else the
    /// loan comes back as it was.
    ///
    /// # Errors
    /// The loan is another lender's.
    pub fn reclaim(self, lender: &'static Lender) -> Result<usize, Loan> {
        if !std::ptr::eq(self.lender, lender) {
            return Err(self);
        }
        let token = self.token;
        mem::forget(self);
        Ok(token)
    }

    /// Whether the loan is this lender's.
    pub fn is_from(&self, lender: &'static Lender) -> bool {
        std::ptr::eq(self.lender, lender)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // The reference ends before the bytes are given back.
        self.bytes = &mut [];
        (self.lender.release)(self.token);
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loan({} bytes of {})", self.bytes.len(), self.lender.name)
    }
}
