//! Packets between pages that nobody may touch: whoever reads or writes beyond a packet ends the process. For tests of engines that
//! work on packet memory.

#![allow(unsafe_code)]

use packet::{Lender, Loan, Packet};
use std::io;
use std::ptr::null_mut;

/// Which end of the packet is at a forbidden page. The other end is at one as well if the packet's length is that of whole pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edge {
    /// The first byte.
    Front,
    /// The last byte.
    Back,
}

static LENDER: Lender = Lender::new("guarded", release);

/// A mapping: first byte, length in bytes.
struct Mapping(*mut libc::c_void, usize);

fn release(token: usize) {
    // SAFETY: the token is that of a mapping that `fill` has boxed, and comes back once.
    let mapping = unsafe { Box::from_raw(token as *mut Mapping) };
    // SAFETY: as mapped by `fill`; the loan has ended, so nobody has a reference into it.
    unsafe { libc::munmap(mapping.0, mapping.1) };
}

/// Makes `packet` a copy of `bytes` in memory of its own that has not one byte more than the packet, between forbidden pages.
/// Port and time stay.
///
/// # Errors
/// If the system has no memory, or the packet is longer than one can be.
pub fn fill(packet: &mut Packet, bytes: &[u8], edge: Edge) -> io::Result<()> {
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
    let inner = bytes.len().next_multiple_of(page).max(page);
    let total = inner + 2 * page;
    let (none, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at a place of the system's choice.
    let start = unsafe { libc::mmap(null_mut(), total, none, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let token = Box::into_raw(Box::new(Mapping(start, total))) as usize;
    let middle = start.wrapping_byte_add(page);
    // SAFETY: within the mapping above.
    if unsafe { libc::mprotect(middle, inner, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
        let error = io::Error::last_os_error();
        release(token);
        return Err(error);
    }
    let first = match edge {
        Edge::Front => middle,
        Edge::Back => middle.wrapping_byte_add(inner - bytes.len()),
    };
    // SAFETY: readable and writable, zeroed, and only this loan knows of it.
    let buffer: &'static mut [u8] = unsafe { std::slice::from_raw_parts_mut(first.cast(), bytes.len()) };
    buffer.copy_from_slice(bytes);
    packet.lend(Loan::new(buffer, token, &LENDER), 0, bytes.len()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::{Edge, fill};
    use packet::Packet;

    #[test]
    fn a_packet_is_what_it_is_filled_with() {
        for len in [0, 1, 60, 4095, 4096, 4097, 9216] {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            for edge in [Edge::Front, Edge::Back] {
                let mut packet = Packet::new();
                fill(&mut packet, &bytes, edge).expect("there is memory");
                assert_eq!(packet.bytes(), bytes);
                assert_eq!((packet.headroom(), packet.tailroom()), (0, 0));
                // It outgrows its memory and moves out.
                packet.prepend(3).expect("it is short enough");
                assert_eq!(&packet.bytes()[3..], bytes);
            }
        }
    }

    /// Reads one byte beyond a packet in a process of its own, which must not survive it.
    #[test]
    fn nobody_reads_beyond() {
        for (edge, beyond) in [(Edge::Back, 60isize), (Edge::Front, -1)] {
            let mut packet = Packet::new();
            fill(&mut packet, &[7; 60], edge).expect("there is memory");
            let place = packet.bytes().as_ptr().wrapping_offset(beyond);
            // SAFETY: the child only reads and ends, without running anything of the parent's.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: none: that the read ends the process is what is tested.
                unsafe {
                    libc::signal(libc::SIGSEGV, libc::SIG_DFL);
                    std::ptr::read_volatile(place);
                    libc::_exit(0);
                }
            }
            let mut status = 0;
            // SAFETY: waits for the child that was made above.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFSIGNALED(status), "{edge:?}: the read beyond the packet was allowed");
        }
    }
}
