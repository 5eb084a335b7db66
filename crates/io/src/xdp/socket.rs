//! [`Socket`]: an AF_XDP socket on one queue of an interface.

use super::rings::{Memory, Ring};
use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Packets that wait in each direction: 40 ms of 100,000 a second.
const PLACES: u32 = 4096;

/// See the module.
pub struct Socket {
    // Dropped first: the kernel must let go of the memory before it is unmapped.
    descriptor: OwnedFd,
    receive: Ring<XdpDesc>,
    send: Ring<XdpDesc>,
    fill: Ring<u64>,
    done: Ring<u64>,
    memory: Memory,
    /// Chunks for packets to be sent.
    free: Vec<u64>,
    zero_copy: bool,
    lost: u64,
    /// Packets that were put there, did not leave, and have not been told of yet.
    unsent: u64,
}

impl Socket {
    /// Opens one. `chunk`: bytes for a packet, 2048 or 4096.
    pub fn open(interface: u32, queue: u32, chunk: usize, native: bool) -> io::Result<Socket> {
        let kinds: &[SocketAddrXdpFlags] = match native {
            true => &[SocketAddrXdpFlags::XDP_ZEROCOPY, SocketAddrXdpFlags::XDP_COPY],
            false => &[SocketAddrXdpFlags::XDP_COPY],
        };
        let mut last = io::Error::from(io::ErrorKind::Unsupported);
        for kind in kinds {
            match Socket::bound(interface, queue, chunk, *kind) {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn bound(interface: u32, queue: u32, chunk: usize, kind: SocketAddrXdpFlags) -> io::Result<Socket> {
        let memory = Memory::new(2 * PLACES, chunk)?;
        let family = AddressFamily::XDP;
        let descriptor = rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let fd = descriptor.as_fd();
        let (addr, len) = memory.place();
        let flags = XdpUmemRegFlags::empty();
        let region = XdpUmemReg { addr, len, chunk_size: chunk as u32, headroom: 0, flags, tx_metadata_len: 0 };
        sockopt::set_xdp_umem_reg(fd, region)?;
        sockopt::set_xdp_umem_fill_ring_size(fd, PLACES)?;
        sockopt::set_xdp_umem_completion_ring_size(fd, PLACES)?;
        sockopt::set_xdp_rx_ring_size(fd, PLACES)?;
        sockopt::set_xdp_tx_ring_size(fd, PLACES)?;
        let at = sockopt::xdp_mmap_offsets(fd)?;
        let receive = Ring::new(fd, XDP_PGOFF_RX_RING, at.rx, PLACES)?;
        let send = Ring::new(fd, XDP_PGOFF_TX_RING, at.tx, PLACES)?;
        let mut fill = Ring::new(fd, XDP_UMEM_PGOFF_FILL_RING, at.fr, PLACES)?;
        let done = Ring::new(fd, XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, PLACES)?;
        let chunks = |range: std::ops::Range<u32>| range.map(|number| u64::from(number) * chunk as u64);
        fill.put(&mut chunks(0..PLACES));
        let address = SocketAddrXdp::new(kind | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP, interface, queue);
        rustix::net::bind(fd, &address)?;
        let zero_copy = kind == SocketAddrXdpFlags::XDP_ZEROCOPY;
        let free = chunks(PLACES..2 * PLACES).collect();
        Ok(Socket { descriptor, receive, send, fill, done, memory, free, zero_copy, lost: 0, unsent: 0 })
    }

    /// The longest packet that it can send, in bytes.
    pub fn longest(&self) -> usize {
        self.memory.chunk()
    }

    /// Packets go without a copy.
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Gives up to `most` packets that arrived; `None` is one that lies outside of the memory.
    pub fn receive(&mut self, most: usize, mut each: impl FnMut(Option<&[u8]>)) -> usize {
        let Socket { receive, fill, memory, descriptor, .. } = self;
        // What was received goes back at once: it is copied.
        let mut back = Vec::new();
        let count = receive.take(most.min(fill.room()), |packet| {
            each(memory.read(packet.addr, packet.len as usize));
            back.push(packet.addr & !(memory.chunk() as u64 - 1));
        });
        fill.put(&mut back.into_iter());
        if fill.wants_call() {
            let _ = rustix::net::recv(&*descriptor, &mut [0u8; 0], RecvFlags::DONTWAIT);
        }
        count
    }

    /// Chunks of packets that have left are free again.
    fn reclaim(&mut self) {
        let Socket { done, free, memory, .. } = self;
        let chunk = memory.chunk() as u64;
        done.take(PLACES as usize, |at| free.push(at & !(chunk - 1)));
    }

    /// Puts a packet where the kernel takes it from; false if there is no room, or it is longer than [`Socket::longest`]. Packets that were lost while room was made
    /// are among those that the next [`Socket::flush`] tells of.
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        if self.free.is_empty() {
            self.reclaim();
        }
        if self.free.is_empty() || self.send.room() == 0 {
            self.unsent += u64::from(self.call() == Err(Errno::BUSY) && !self.zero_copy);
            self.reclaim();
        }
        let Some(addr) = self.free.pop() else { return false };
        let packet = XdpDesc { addr, len: bytes.len() as u32, options: XdpDescOptions::empty() };
        let put = self.memory.write(addr, bytes) && self.send.put(&mut std::iter::once(packet)) == 1;
        if !put {
            self.free.push(addr);
        }
        put
    }

    /// Has the kernel send what was put there; in copy mode it takes a few with each call. How many packets its device dropped, as it does without a carrier.
    pub fn flush(&mut self) -> u64 {
        let mut calls = PLACES;
        while !self.send.is_drained() && calls > 0 && (self.send.wants_call() || !self.zero_copy) {
            match self.call() {
                // The kernel has taken a packet, and its device has dropped it.
                Err(Errno::BUSY) if !self.zero_copy => {
                    self.unsent += 1;
                    calls -= 1;
                }
                Ok(()) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => calls -= 1,
                // It is down. What waits leaves when it is up again: the kernel may have looked at it, so that it cannot be taken back.
                Err(_) => break,
            }
            self.reclaim();
        }
        std::mem::take(&mut self.unsent)
    }

    fn call(&self) -> Result<(), Errno> {
        rustix::net::send(&self.descriptor, &[], SendFlags::DONTWAIT).map(drop)
    }

    /// Packets that the kernel had no room for, or that were longer than a chunk, so far.
    pub fn lost(&mut self) -> u64 {
        if let Ok(found) = sockopt::xdp_statistics(&self.descriptor) {
            self.lost = found.rx_dropped + found.rx_ring_full.unwrap_or(0);
        }
        self.lost
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
