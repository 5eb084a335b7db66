//! How much of an answer to a read is made at once, and by how many.

/// A part of an answer has this many bytes, or one entity more.
pub(super) const PART: usize = 32 * 1024;

/// Bytes of a request that waits for a place; a longer one is not kept so long.
pub(super) const WAITING: usize = 16 * 1024;

/// Threads that make answers at the same time, of short ones and of long ones each. With more of them the threads that serve all clients would wait
/// for the processor, and with many parts ready at once, small answers would wait for large ones to be sent.
pub(super) const AT_WORK: usize = 2;
