//! Limits on the production of read responses.

/// Target length of a part of a response in bytes; it can be exceeded by one entity.
pub(super) const PART: usize = 32 * 1024;

/// Maximum length in bytes of a request that waits for a permit.
pub(super) const WAITING: usize = 16 * 1024;

/// Number of threads that produce responses concurrently, for short and for long ones each. More of
/// them would delay the threads that serve all clients, and with many parts ready at once, small
/// responses would wait for large ones to be sent.
pub(super) const AT_WORK: usize = 2;
