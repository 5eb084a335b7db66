//! [`XdpSocket`]: an AF_XDP socket on one queue of an interface.

use super::rings::{PacketMemory, XdpRing};
use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Size of each ring, in packets: 40 ms at 100,000 packets a second.
const RING_ENTRIES: u32 = 4096;

/// An AF_XDP socket with its rings and packet memory.
pub struct XdpSocket {
    // Dropped first, because the kernel must release the memory before it is unmapped.
    descriptor: OwnedFd,
    receive: XdpRing<XdpDesc>,
    send: XdpRing<XdpDesc>,
    fill: XdpRing<u64>,
    done: XdpRing<u64>,
    memory: PacketMemory,
    /// Free chunks for sent packets.
    free: Vec<u64>,
    zero_copy: bool,
    lost: u64,
    /// Packets that were queued and dropped by the device, but not yet reported.
    unsent: u64,
}

impl XdpSocket {
    /// Opens a socket. `chunk` is the size of a packet's chunk in bytes, 2048 or 4096. `native`
    /// says that the program is in the driver, so that zero-copy is tried before copy mode. `queue`
    /// is the receive queue of the interface.
    pub fn open(interface: u32, queue: u32, chunk: usize, native: bool) -> io::Result<XdpSocket> {
        let modes: &[SocketAddrXdpFlags] = match native {
            true => &[SocketAddrXdpFlags::XDP_ZEROCOPY, SocketAddrXdpFlags::XDP_COPY],
            false => &[SocketAddrXdpFlags::XDP_COPY],
        };
        let mut last_error = io::Error::from(io::ErrorKind::Unsupported);
        for mode in modes {
            match XdpSocket::open_bound(interface, queue, chunk, *mode) {
                Ok(socket) => return Ok(socket),
                Err(error) => last_error = error,
            }
        }
        Err(last_error)
    }

    /// Opens a socket in one mode. The first half of the chunks is for the kernel to fill with
    /// received packets, the second half for packets to send.
    fn open_bound(interface: u32, queue: u32, chunk: usize, mode: SocketAddrXdpFlags) -> io::Result<XdpSocket> {
        let memory = PacketMemory::new(2 * RING_ENTRIES, chunk)?;
        let family = AddressFamily::XDP;
        let descriptor = rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let fd = descriptor.as_fd();
        let (addr, len) = memory.address_and_len();
        let flags = XdpUmemRegFlags::empty();
        let region = XdpUmemReg { addr, len, chunk_size: chunk as u32, headroom: 0, flags, tx_metadata_len: 0 };
        sockopt::set_xdp_umem_reg(fd, region)?;
        sockopt::set_xdp_umem_fill_ring_size(fd, RING_ENTRIES)?;
        sockopt::set_xdp_umem_completion_ring_size(fd, RING_ENTRIES)?;
        sockopt::set_xdp_rx_ring_size(fd, RING_ENTRIES)?;
        sockopt::set_xdp_tx_ring_size(fd, RING_ENTRIES)?;
        let offsets = sockopt::xdp_mmap_offsets(fd)?;
        let receive = XdpRing::new(fd, XDP_PGOFF_RX_RING, offsets.rx, RING_ENTRIES)?;
        let send = XdpRing::new(fd, XDP_PGOFF_TX_RING, offsets.tx, RING_ENTRIES)?;
        let mut fill = XdpRing::new(fd, XDP_UMEM_PGOFF_FILL_RING, offsets.fr, RING_ENTRIES)?;
        let done = XdpRing::new(fd, XDP_UMEM_PGOFF_COMPLETION_RING, offsets.cr, RING_ENTRIES)?;
        // Chunks are identified by their offset in the memory, in bytes.
        let chunks = |range: std::ops::Range<u32>| range.map(|number| u64::from(number) * chunk as u64);
        fill.produce(&mut chunks(0..RING_ENTRIES));
        let address = SocketAddrXdp::new(mode | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP, interface, queue);
        rustix::net::bind(fd, &address)?;
        let zero_copy = mode == SocketAddrXdpFlags::XDP_ZEROCOPY;
        let free = chunks(RING_ENTRIES..2 * RING_ENTRIES).collect();
        Ok(XdpSocket { descriptor, receive, send, fill, done, memory, free, zero_copy, lost: 0, unsent: 0 })
    }

    /// Returns the maximum length of a sent packet, in bytes.
    pub fn max_packet(&self) -> usize {
        self.memory.chunk()
    }

    /// Returns whether packets are received and sent without a copy.
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Receives up to `max_count` packets and passes them to `handle`; `None` is a packet that is
    /// out of bounds. Returns their number.
    pub fn receive(&mut self, max_count: usize, mut handle: impl FnMut(Option<&[u8]>)) -> usize {
        let XdpSocket { receive, fill, memory, descriptor, .. } = self;
        // Chunks are returned immediately, because `handle` copies the packets.
        let mut consumed_chunks = Vec::new();
        let count = receive.consume(max_count.min(fill.free_count()), |packet| {
            handle(memory.read(packet.addr, packet.len as usize));
            // The kernel offsets the packet in its chunk; the mask gives the start of the chunk.
            consumed_chunks.push(packet.addr & !(memory.chunk() as u64 - 1));
        });
        fill.produce(&mut consumed_chunks.into_iter());
        if fill.needs_wakeup() {
            let _ = rustix::net::recv(&*descriptor, &mut [0u8; 0], RecvFlags::DONTWAIT);
        }
        count
    }

    /// Frees the chunks of sent packets.
    fn reclaim(&mut self) {
        let XdpSocket { done, free, memory, .. } = self;
        let chunk = memory.chunk() as u64;
        done.consume(RING_ENTRIES as usize, |at| free.push(at & !(chunk - 1)));
    }

    /// Queues a packet. Returns false if there is no free chunk, or the packet is longer than
    /// [`XdpSocket::max_packet`]. Packets that the device drops in this call are reported by the
    /// next [`XdpSocket::flush`].
    pub fn enqueue(&mut self, bytes: &[u8]) -> bool {
        if self.free.is_empty() {
            self.reclaim();
        }
        if self.free.is_empty() || self.send.free_count() == 0 {
            self.unsent += u64::from(self.kick() == Err(Errno::BUSY) && !self.zero_copy);
            self.reclaim();
        }
        let Some(addr) = self.free.pop() else { return false };
        let packet = XdpDesc { addr, len: bytes.len() as u32, options: XdpDescOptions::empty() };
        let is_queued = self.memory.write(addr, bytes) && self.send.produce(&mut std::iter::once(packet)) == 1;
        if !is_queued {
            self.free.push(addr);
        }
        is_queued
    }

    /// Makes the kernel send the queued packets; in copy mode, each call sends a few. Returns the
    /// number of packets that the device dropped, as it does without a carrier.
    pub fn flush(&mut self) -> u64 {
        let mut calls = RING_ENTRIES;
        while !self.send.is_drained() && calls > 0 && (self.send.needs_wakeup() || !self.zero_copy) {
            match self.kick() {
                // The kernel consumed a packet, and its device dropped it.
                Err(Errno::BUSY) if !self.zero_copy => {
                    self.unsent += 1;
                    calls -= 1;
                }
                Ok(()) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => calls -= 1,
                // The interface is down. The queued packets are sent when it is up again; they
                // cannot be removed, because the kernel may have read them.
                Err(_) => break,
            }
            self.reclaim();
        }
        std::mem::take(&mut self.unsent)
    }

    fn kick(&self) -> Result<(), Errno> {
        rustix::net::send(&self.descriptor, &[], SendFlags::DONTWAIT).map(drop)
    }

    /// Returns the total number of packets that the kernel dropped because the ring was full or the
    /// packet was longer than a chunk.
    pub fn lost(&mut self) -> u64 {
        if let Ok(statistics) = sockopt::xdp_statistics(&self.descriptor) {
            self.lost = statistics.rx_dropped + statistics.rx_ring_full.unwrap_or(0);
        }
        self.lost
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
