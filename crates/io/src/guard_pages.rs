//! Packets between inaccessible pages: an access beyond a packet ends the process. For tests of
//! engines that use packet memory directly.

#![allow(unsafe_code)]

use packet::{ExternalBuf, ExternalBufOwner, Packet};
use std::io;
use std::ptr::null_mut;

/// Side of the packet that abuts a guard page. Both sides do if the packet's length is a multiple
/// of the page size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GuardSide {
    /// The first byte.
    Front,
    /// The last byte.
    Back,
}

static LENDER: ExternalBufOwner = ExternalBufOwner::new("guarded", release);

/// A mapping: first byte, length in bytes.
struct GuardedMapping(*mut libc::c_void, usize);

fn release(token: usize) {
    // SAFETY: the token is the box of a mapping that `fill` created, and is released once.
    let mapping = unsafe { Box::from_raw(token as *mut GuardedMapping) };
    // SAFETY: mapped by `fill`; the buffer was released, so no reference into it exists.
    unsafe { libc::munmap(mapping.0, mapping.1) };
}

/// Replaces `packet` by a copy of `bytes` in memory of exactly this length, between guard pages.
/// Port and time are unchanged. `edge` is the side at which the packet touches a guard page; at the
/// other side, bytes up to a whole page lie between.
///
/// # Errors
/// The system has no memory, or the packet exceeds the maximum length.
pub fn fill_guarded(packet: &mut Packet, bytes: &[u8], edge: GuardSide) -> io::Result<()> {
    // SAFETY: only queries a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
    let inner_len = bytes.len().next_multiple_of(page).max(page);
    let total_len = inner_len + 2 * page;
    let (no_access, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address that the system chooses.
    let start = unsafe { libc::mmap(null_mut(), total_len, no_access, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let token = Box::into_raw(Box::new(GuardedMapping(start, total_len))) as usize;
    let inner_start = start.wrapping_byte_add(page);
    // SAFETY: within the mapping above.
    if unsafe { libc::mprotect(inner_start, inner_len, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
        let error = io::Error::last_os_error();
        release(token);
        return Err(error);
    }
    let packet_start = match edge {
        GuardSide::Front => inner_start,
        GuardSide::Back => inner_start.wrapping_byte_add(inner_len - bytes.len()),
    };
    // SAFETY: readable, writable, zeroed, and referenced only by this buffer.
    let buffer: &'static mut [u8] = unsafe { std::slice::from_raw_parts_mut(packet_start.cast(), bytes.len()) };
    buffer.copy_from_slice(bytes);
    packet.attach_external(ExternalBuf::new(buffer, token, &LENDER), 0, bytes.len()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::{GuardSide, fill_guarded};
    use packet::Packet;

    #[test]
    fn a_packet_is_what_it_is_filled_with() {
        for len in [0, 1, 60, 4095, 4096, 4097, 9216] {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            for edge in [GuardSide::Front, GuardSide::Back] {
                let mut packet = Packet::new();
                fill_guarded(&mut packet, &bytes, edge).expect("there is memory");
                assert_eq!(packet.bytes(), bytes);
                assert_eq!((packet.headroom(), packet.tailroom()), (0, 0));
                // The packet outgrows its memory and is copied to its own buffer.
                packet.prepend(3).expect("it is short enough");
                assert_eq!(&packet.bytes()[3..], bytes);
            }
        }
    }

    /// Reads one byte beyond a packet in a child process, which must not survive it.
    #[test]
    fn nobody_reads_beyond() {
        for (edge, beyond) in [(GuardSide::Back, 60isize), (GuardSide::Front, -1)] {
            let mut packet = Packet::new();
            fill_guarded(&mut packet, &[7; 60], edge).expect("there is memory");
            let place = packet.bytes().as_ptr().wrapping_offset(beyond);
            // SAFETY: the child only reads and exits, without running the parent's code.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: none; the test expects that the read ends the process.
                unsafe {
                    libc::signal(libc::SIGSEGV, libc::SIG_DFL);
                    std::ptr::read_volatile(place);
                    libc::_exit(0);
                }
            }
            let mut status = 0;
            // SAFETY: waits for the child that was created above.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFSIGNALED(status), "{edge:?}: the read beyond the packet was allowed");
        }
    }
}
