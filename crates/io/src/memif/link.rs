//! [`Link`]: the rings and shared memory of a connection, which carry packets in both directions.

use super::ConnectionFault;
use super::message::RingLocation;
use super::options::MemifRole;
use super::region::Region;
use super::ring::{Descriptor, Ring};
use crate::port::now;
use packet::{Batch, MAX_WIRE_LEN, Packet, PortCounters, PortId, PortReason};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Length of a client's buffers, in bytes. A longer packet uses several.
pub const BUFFER: u32 = 2048;

/// Both directions of a connection.
pub struct Link {
    role: MemifRole,
    regions: Vec<Arc<Region>>,
    /// Ring from the client to the server.
    to_server: Ring,
    to_client: Ring,
    /// Index of the next received packet's first descriptor.
    next: u16,
    /// Descriptors of one packet (scratch memory).
    descriptors: Vec<Descriptor>,
}

/// Returns the offset of a client's buffer in its region. `index` counts the buffers of both rings.
fn buffer_offset(log2_size: u8, index: usize) -> u32 {
    (2 * Ring::bytes(log2_size) + index * BUFFER as usize) as u32
}

fn invalid_data(what: &str) -> ConnectionFault {
    ConnectionFault::new(format!("the other end writes invalid data to shared memory: {what}"))
}

impl Link {
    /// Creates the memory and rings of a client, each with 2^`log2_size` descriptors. The region
    /// holds both rings, then a buffer for each descriptor of either. [`Link::offer_buffers`]
    /// passes the buffers to its server.
    pub fn create(log2_size: u8) -> io::Result<Link> {
        let ring_size = 1usize << log2_size;
        let region = Arc::new(Region::create(buffer_offset(log2_size, 2 * ring_size) as usize)?);
        let is_new = true;
        let ring = |to_server: bool| -> io::Result<Ring> {
            let offset = if to_server { 0 } else { Ring::bytes(log2_size) as u32 };
            let location = RingLocation { to_server, index: 0, region: 0, offset, log2_size, private: 0 };
            let flags = rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC;
            let interrupt = rustix::event::eventfd(0, flags)?;
            Ring::new(region.clone(), location, interrupt, is_new).map_err(io::Error::other)
        };
        Ok(Link {
            role: MemifRole::Client,
            to_server: ring(true)?,
            to_client: ring(false)?,
            regions: vec![region],
            next: 0,
            descriptors: Vec::new(),
        })
    }

    /// Passes all buffers to the server. Call it after the server has connected, because DPDK's
    /// server first sets all counters to zero.
    pub fn offer_buffers(&self) {
        (0..self.to_client.size()).for_each(|index| self.return_buffer(index));
        self.to_client.set_head(self.to_client.size());
    }

    /// Opens rings in memory of another process: for a server when its client connects, and for
    /// either end when a port is transferred. The descriptor of a ring is its interrupt, an
    /// eventfd.
    ///
    /// # Errors
    /// The rings are invalid, missing, or inconsistent with each other.
    pub fn open(
        role: MemifRole,
        regions: Vec<Arc<Region>>,
        rings: Vec<(RingLocation, OwnedFd)>,
    ) -> Result<Link, ConnectionFault> {
        let (mut to_server, mut to_client) = (None, None);
        let is_new = false;
        for (location, interrupt) in rings {
            let region = regions
                .get(usize::from(location.region))
                .ok_or_else(|| ConnectionFault::new("a ring in a region that does not exist"))?;
            let ring = Ring::new(region.clone(), location, interrupt, is_new)?;
            // Further rings, which would be for further workers, are ignored.
            let slot = if location.to_server { &mut to_server } else { &mut to_client };
            slot.get_or_insert(ring);
        }
        let (Some(to_server), Some(to_client)) = (to_server, to_client) else {
            return Err(ConnectionFault::new("the client has given no ring for one of the directions"));
        };
        let mut link = Link { role, regions, to_server, to_client, next: 0, descriptors: Vec::new() };
        link.resume();
        Ok(link)
    }

    /// Continues at the position of this end in shared memory. Between two calls, the rings contain
    /// the whole state.
    pub fn resume(&mut self) {
        self.next = match self.role {
            MemifRole::Server => self.to_server.tail(),
            // All received buffers were returned.
            MemifRole::Client => self.to_client.head().wrapping_sub(self.to_client.size()),
        };
    }

    pub fn regions(&self) -> &[Arc<Region>] {
        &self.regions
    }

    pub fn rings(&self) -> [&Ring; 2] {
        [&self.to_server, &self.to_client]
    }

    /// Returns the receive ring.
    pub fn inbound(&self) -> &Ring {
        if self.role == MemifRole::Server { &self.to_server } else { &self.to_client }
    }

    fn outbound(&self) -> &Ring {
        if self.role == MemifRole::Server { &self.to_client } else { &self.to_server }
    }

    /// Returns the number of received descriptors.
    ///
    /// # Errors
    /// The number exceeds the size of the ring.
    pub fn pending_descriptors(&self) -> Result<u16, ConnectionFault> {
        let end = if self.role == MemifRole::Server { self.to_server.head() } else { self.to_client.tail() };
        let count = end.wrapping_sub(self.next);
        let size = self.inbound().size();
        if count > size { Err(invalid_data("more packets than a ring has room for")) } else { Ok(count) }
    }

    /// Returns the number of complete packets that arrived but were not received.
    pub fn pending_packets(&self) -> u64 {
        let waiting = self.pending_descriptors().unwrap_or(0);
        let ends = |at: &u16| !self.inbound().read_descriptor(self.next.wrapping_add(*at)).more;
        (0..waiting).filter(ends).count() as u64
    }

    /// Client only: returns buffer `index` to the server.
    fn return_buffer(&self, index: u16) {
        let ring = &self.to_client;
        let number = usize::from(ring.size()) + usize::from(index & (ring.size() - 1));
        let offset = buffer_offset(ring.location().log2_size, number);
        ring.write_descriptor(index, Descriptor { more: false, region: 0, len: BUFFER, offset });
    }

    /// Returns a copy of received descriptor `index` (a counter, of which the ring uses the lower
    /// bits) after it was checked that its bytes are within a region. The copy is used from here
    /// on, because the other end can change the ring at any time.
    fn checked_inbound(&self, index: u16) -> Result<Descriptor, ConnectionFault> {
        let mut descriptor = self.inbound().read_descriptor(index);
        if self.role == MemifRole::Client {
            // The server fills buffers, but the client determines their location.
            let ring = &self.to_client;
            if descriptor.len > BUFFER {
                return Err(invalid_data("a packet longer than its buffer"));
            }
            let buffer_number = usize::from(ring.size()) + usize::from(index & (ring.size() - 1));
            (descriptor.region, descriptor.offset) = (0, buffer_offset(ring.location().log2_size, buffer_number));
        }
        let region = self
            .regions
            .get(usize::from(descriptor.region))
            .ok_or_else(|| invalid_data("a region that does not exist"))?;
        let end_offset = u64::from(descriptor.offset) + u64::from(descriptor.len);
        if end_offset > region.len() as u64 {
            Err(invalid_data("a packet outside of its region"))
        } else {
            Ok(descriptor)
        }
    }

    /// Receives packets up to the capacity of the batch. Returns the number of added packets. A
    /// packet whose last descriptor has not arrived yet stays in the ring.
    ///
    /// # Errors
    /// The other end wrote invalid data. All packets before it were received.
    pub fn receive(
        &mut self,
        id: PortId,
        batch: &mut Batch,
        counters: &mut PortCounters,
    ) -> Result<usize, ConnectionFault> {
        let pending = self.pending_descriptors()?;
        let (mut consumed, mut added) = (0, 0);
        let time = if pending > 0 { now() } else { 0 };
        let mut outcome = Ok(());
        while consumed < pending && batch.remaining_capacity() > 0 {
            match self.collect_descriptors(consumed, pending) {
                Ok(0) => break,
                Ok(packet_len) => {
                    consumed += self.descriptors.len() as u16;
                    match self.copy_packet(packet_len, batch) {
                        Ok(()) => {
                            if let Some(packet) = batch.packets_mut().last_mut() {
                                (packet.ingress_port, packet.rx_time_ns) = (id, time);
                            }
                            counters.received.count_packet(packet_len);
                            if self.descriptors.len() > 1 {
                                counters.linearised.count_packet(packet_len);
                            }
                            added += 1;
                        }
                        Err(reason) => counters.drops.count_drop(reason, packet_len),
                    }
                }
                Err(fault) => {
                    outcome = Err(fault);
                    break;
                }
            }
        }
        self.release_descriptors(consumed);
        outcome.map(|()| added)
    }

    /// Collects in `descriptors` those of the packet that starts `consumed` after the first pending
    /// one; `pending` is the number of all. Returns the packet's length in bytes, or 0 if its last
    /// descriptor has not arrived yet.
    fn collect_descriptors(&mut self, consumed: u16, pending: u16) -> Result<usize, ConnectionFault> {
        self.descriptors.clear();
        let mut packet_len = 0usize;
        for number in consumed..pending {
            let descriptor = self.checked_inbound(self.next.wrapping_add(number))?;
            packet_len += descriptor.len as usize;
            self.descriptors.push(descriptor);
            if !descriptor.more {
                return if packet_len == 0 { Err(invalid_data("a packet without bytes")) } else { Ok(packet_len) };
            }
        }
        if pending - consumed == self.inbound().size() {
            return Err(invalid_data("a packet that never ends"));
        }
        Ok(0)
    }

    /// Copies the bytes of the collected descriptors, `packet_len` together, to a new packet of the
    /// batch. The error is the reason of a drop.
    fn copy_packet(&self, packet_len: usize, batch: &mut Batch) -> Result<(), PortReason> {
        if packet_len > MAX_WIRE_LEN {
            return Err(if self.descriptors.len() > 1 { PortReason::RxSegments } else { PortReason::RxOversize });
        }
        let slot = batch.push().map_err(|_| PortReason::RxNoBuffer)?;
        let mut remaining = slot.receive_space(packet_len).map_err(|_| PortReason::RxOversize)?;
        for descriptor in &self.descriptors {
            let (part, next_remaining) = remaining.split_at_mut((descriptor.len as usize).min(remaining.len()));
            // In bounds, because `checked_inbound` has checked it.
            let _ = self.regions[usize::from(descriptor.region)].read(descriptor.offset as usize, part);
            remaining = next_remaining;
        }
        slot.set_received_len(packet_len);
        Ok(())
    }

    /// Returns the first `count` pending descriptors to the other end. The server advances the tail
    /// of the ring; a client restores the descriptors of its buffers and advances the head, so that
    /// the server can fill a whole ring again.
    fn release_descriptors(&mut self, count: u16) {
        if count == 0 {
            return;
        }
        match self.role {
            MemifRole::Server => {
                self.next = self.next.wrapping_add(count);
                self.to_server.set_tail(self.next);
            }
            MemifRole::Client => {
                (0..count).for_each(|index| self.return_buffer(self.next.wrapping_add(index)));
                self.next = self.next.wrapping_add(count);
                self.to_client.set_head(self.next.wrapping_add(self.to_client.size()));
            }
        }
    }

    /// Returns the index of the next descriptor to send, and the number of free descriptors.
    fn tx_space(&self) -> Result<(u16, u16), ConnectionFault> {
        let ring = self.outbound();
        let (next, free) = match self.role {
            MemifRole::Server => (ring.tail(), ring.head().wrapping_sub(ring.tail())),
            MemifRole::Client => (ring.head(), ring.size().wrapping_sub(ring.head().wrapping_sub(ring.tail()))),
        };
        if free > ring.size() { Err(invalid_data("more room than a ring has")) } else { Ok((next, free)) }
    }

    /// Returns the buffer of descriptor `index` for a sent packet.
    fn tx_buffer_at(&self, index: u16) -> Result<Descriptor, ConnectionFault> {
        let piece = match self.role {
            MemifRole::Server => self.outbound().read_descriptor(index),
            MemifRole::Client => {
                let ring = &self.to_server;
                let offset = buffer_offset(ring.location().log2_size, usize::from(index & (ring.size() - 1)));
                Descriptor { more: false, region: 0, len: BUFFER, offset }
            }
        };
        if piece.len == 0 { Err(invalid_data("a buffer without room")) } else { Ok(piece) }
    }

    /// Sends packets, and adds the number of sent ones to `sent`. `unsendable` returns a reason to
    /// drop a packet.
    ///
    /// # Errors
    /// The other end wrote invalid data. The packets that remain in `packets` are neither sent nor
    /// counted.
    pub fn send<'a>(
        &mut self,
        packets: &mut impl Iterator<Item = &'a Packet>,
        unsendable: impl Fn(&Packet) -> Option<PortReason>,
        counters: &mut PortCounters,
        sent: &mut usize,
    ) -> Result<(), ConnectionFault> {
        let (first, free) = self.tx_space()?;
        let (mut used, mut outcome) = (0, Ok(()));
        let before = *sent;
        for packet in packets {
            if let Some(reason) = unsendable(packet) {
                counters.drops.count_drop(reason, packet.len());
                continue;
            }
            match self.write_packet(first.wrapping_add(used), free - used, packet.bytes()) {
                Ok(Some(count)) => {
                    used += count;
                    *sent += 1;
                    counters.sent.count_packet(packet.len());
                }
                Ok(None) => counters.drops.count_drop(PortReason::TxQueueFull, packet.len()),
                Err(fault) => {
                    counters.drops.count_drop(PortReason::TxPortDown, packet.len());
                    outcome = Err(fault);
                    break;
                }
            }
        }
        if *sent > before {
            // In both rings, the client advances the head and the server the tail.
            match self.role {
                MemifRole::Server => self.to_client.set_tail(first.wrapping_add(used)),
                MemifRole::Client => self.to_server.set_head(first.wrapping_add(used)),
            }
            self.outbound().interrupt();
        }
        outcome
    }

    /// Writes a packet to the descriptors from index `first` on, of which `free` are free. Returns
    /// the number of used descriptors, or `None` if there are too few; descriptors that were
    /// written until then are not published.
    fn write_packet(&self, first: u16, free: u16, bytes: &[u8]) -> Result<Option<u16>, ConnectionFault> {
        let (mut remaining, mut used) = (bytes, 0);
        while !remaining.is_empty() {
            if used == free {
                return Ok(None);
            }
            let index = first.wrapping_add(used);
            let mut descriptor = self.tx_buffer_at(index)?;
            let (part, next_remaining) = remaining.split_at(remaining.len().min(descriptor.len as usize));
            let region = self
                .regions
                .get(usize::from(descriptor.region))
                .ok_or_else(|| invalid_data("a region that does not exist"))?;
            if !region.write(descriptor.offset as usize, part) {
                return Err(invalid_data("a buffer outside of its region"));
            }
            (descriptor.len, descriptor.more) = (part.len() as u32, !next_remaining.is_empty());
            self.outbound().write_descriptor(index, descriptor);
            remaining = next_remaining;
            used += 1;
        }
        Ok(Some(used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    /// Returns both ends of a connection within one process.
    fn connected(log2_size: u8) -> (Link, Link) {
        let client = Link::create(log2_size).expect("memory");
        client.offer_buffers();
        let copy = |descriptor: std::os::fd::BorrowedFd<'_>| descriptor.try_clone_to_owned().expect("a descriptor");
        let region = &client.regions()[0];
        let regions = vec![Arc::new(Region::open(copy(region.as_fd()), region.len() as u64).expect("good"))];
        let rings = client.rings().map(|ring| (ring.location(), copy(ring.interrupt.as_fd())));
        let server = Link::open(MemifRole::Server, regions, rings.into()).expect("good");
        (server, client)
    }

    fn send(link: &mut Link, frames: &[Vec<u8>]) -> Result<usize, ConnectionFault> {
        let packets: Vec<Packet> = frames.iter().map(|frame| Packet::from_bytes(frame).expect("short")).collect();
        let mut sent = 0;
        link.send(&mut packets.iter(), |_| None, &mut PortCounters::default(), &mut sent).map(|()| sent)
    }

    fn receive(link: &mut Link) -> Result<Vec<Vec<u8>>, ConnectionFault> {
        let mut batch = Batch::new();
        link.receive(PortId(1), &mut batch, &mut PortCounters::default())?;
        Ok(batch.packets().iter().map(|packet| packet.bytes().to_vec()).collect())
    }

    fn frame(len: usize, number: usize) -> Vec<u8> {
        (0..len).map(|index| (index * 7 + number) as u8 ^ (index >> 8) as u8).collect()
    }

    #[test]
    fn packets_of_all_lengths_go_round_the_ring_both_ways() {
        let (mut server, mut client) = connected(4);
        // The 16-bit counters wrap, too.
        for number in 0..40_000 {
            let frames = [frame(14 + number % 9000, number), frame(1 + number % 2049, number)];
            for (from, to) in [(&mut client, true), (&mut server, false)] {
                assert_eq!(send(from, &frames), Ok(2), "{number} {to}");
            }
            assert_eq!(receive(&mut server).expect("good"), frames);
            assert_eq!(receive(&mut client).expect("good"), frames);
        }
    }

    #[test]
    fn a_full_ring_takes_no_more_and_goes_on_when_there_is_room() {
        let (mut server, mut client) = connected(4);
        let frames: Vec<Vec<u8>> = (0..20).map(|number| frame(100, number)).collect();
        assert_eq!(send(&mut client, &frames), Ok(16));
        assert_eq!(send(&mut server, &frames), Ok(16));
        assert_eq!(receive(&mut server).expect("good"), frames[..16]);
        assert_eq!(receive(&mut client).expect("good"), frames[..16]);
        assert_eq!(
            send(&mut client, &[frame(9000, 0), frame(9000, 1), frame(9000, 2), frame(9000, 3)]),
            Ok(3),
            "5 buffers each"
        );
        assert_eq!(receive(&mut server).expect("good"), [frame(9000, 0), frame(9000, 1), frame(9000, 2)]);
    }

    #[test]
    fn another_link_on_the_same_memory_goes_on_where_the_first_stopped() {
        let (mut server, mut client) = connected(4);
        for number in 0..50 {
            assert_eq!(send(&mut client, &[frame(60, number), frame(3000, number)]), Ok(2));
            assert_eq!(send(&mut server, &[frame(61, number), frame(3001, number)]), Ok(2));
            let again = |link: &Link, role| {
                let rings = link
                    .rings()
                    .map(|ring| (ring.location(), ring.interrupt.as_fd().try_clone_to_owned().expect("fd")));
                Link::open(role, link.regions().to_vec(), rings.into()).expect("good")
            };
            (server, client) = (again(&server, MemifRole::Server), again(&client, MemifRole::Client));
            assert_eq!(receive(&mut server).expect("good"), [frame(60, number), frame(3000, number)]);
            assert_eq!(receive(&mut client).expect("good"), [frame(61, number), frame(3001, number)]);
        }
    }

    /// Data that a malicious client can write: it must end the connection and have no other effect.
    #[test]
    fn a_server_refuses_nonsense_by_name() {
        let good = Descriptor { more: false, region: 0, len: 60, offset: 1 << 14 };
        let cases: [(&str, &[Descriptor], u16); 6] = [
            ("more packets than", &[], 17),
            ("a region that does not exist", &[Descriptor { region: 1, ..good }], 1),
            ("outside of its region", &[Descriptor { offset: u32::MAX, ..good }], 1),
            ("outside of its region", &[Descriptor { len: u32::MAX, ..good }], 1),
            ("without bytes", &[Descriptor { len: 0, ..good }], 1),
            ("never ends", &[Descriptor { more: true, ..good }; 16], 16),
        ];
        for (why, descriptors, head) in cases {
            let (mut server, client) = connected(4);
            (0..).zip(descriptors).for_each(|(index, piece)| client.to_server.write_descriptor(index, *piece));
            client.to_server.set_head(head);
            let fault = receive(&mut server).expect_err(why).to_string();
            assert!(fault.contains(why), "{fault}");
        }
        let rooms: [(&str, Descriptor, u16); 4] = [
            ("more room than", good, 17),
            ("a buffer outside", Descriptor { offset: u32::MAX, ..good }, 1),
            ("without room", Descriptor { len: 0, ..good }, 1),
            ("a region that does not exist", Descriptor { region: 9, ..good }, 1),
        ];
        for (why, room, head) in rooms {
            let (mut server, client) = connected(4);
            client.to_client.write_descriptor(0, room);
            client.to_client.set_head(head);
            let fault = send(&mut server, &[frame(60, 0)]).expect_err(why).to_string();
            assert!(fault.contains(why), "{fault}");
        }
    }

    #[test]
    fn a_client_refuses_nonsense_and_keeps_its_buffers() {
        let (server, mut client) = connected(4);
        server.to_client.set_tail(17);
        assert!(receive(&mut client).is_err());
        let (server, mut client) = connected(4);
        server.to_client.write_descriptor(0, Descriptor { more: false, region: 0, len: BUFFER + 1, offset: 0 });
        server.to_client.set_tail(1);
        assert!(receive(&mut client).is_err());
        // The client uses the location of its own buffer, not the one that the server writes.
        let (mut server, mut client) = connected(4);
        assert_eq!(send(&mut server, &[frame(60, 5)]), Ok(1));
        let piece = server.to_client.read_descriptor(0);
        server.to_client.write_descriptor(0, Descriptor { region: 77, offset: 3, ..piece });
        assert_eq!(receive(&mut client).expect("good"), [frame(60, 5)]);
        let (server, mut client) = connected(4);
        server.to_server.set_tail(40_000);
        assert!(send(&mut client, &[frame(60, 5)]).is_err());
    }

    #[test]
    fn packets_longer_than_any_are_dropped_and_the_rest_goes_on() {
        let (mut server, client) = connected(8);
        let long = Descriptor { more: false, region: 0, len: MAX_WIRE_LEN as u32 + 1, offset: 0 };
        client.to_server.write_descriptor(0, long);
        client.to_server.write_descriptor(1, Descriptor { len: 60, ..long });
        client.to_server.set_head(2);
        let (mut batch, mut counters) = (Batch::new(), PortCounters::default());
        assert_eq!(server.receive(PortId(1), &mut batch, &mut counters), Ok(1));
        assert_eq!(counters.drops.get(PortReason::RxOversize).packets, 1);
        assert_eq!(batch.packets()[0].len(), 60);
    }

    #[test]
    fn bytes_at_random_in_shared_memory_do_no_harm() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..300 {
            let (mut server, mut client) = connected(4);
            for _ in 0..20 {
                let end = 2 * Ring::bytes(4);
                let noise = [random.u8(..), random.u8(..)];
                let _ = client.regions()[0].write(random.usize(0..end - 2), &noise[..random.usize(1..3)]);
                let frames = [frame(60, 1), frame(5000, 2)];
                let _ = (
                    send(&mut server, &frames),
                    receive(&mut client),
                    send(&mut client, &frames),
                    receive(&mut server),
                );
            }
        }
    }
}
