//! [`Link`]: two rings and the memory behind them, by which packets go to the other end and come from it.

use super::Fault;
use super::message::RingPlace;
use super::options::Role;
use super::region::Region;
use super::ring::{Piece, Ring};
use crate::port::now;
use packet::{Batch, MAX_LEN, Packet, PortCounters, PortId, PortReason};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes of each buffer of a client. What is longer goes as a chain.
pub const BUFFER: u32 = 2048;

/// Both directions between two ends that are connected.
pub struct Link {
    role: Role,
    regions: Vec<Arc<Region>>,
    /// From the client to the server.
    to_server: Ring,
    to_client: Ring,
    /// The next packet that comes in: where it begins.
    next: u16,
    /// The pieces of one packet.
    pieces: Vec<Piece>,
}

/// Where a client's buffer number `index` is, counted through both rings.
fn buffer(log2_size: u8, index: usize) -> u32 {
    (2 * Ring::bytes(log2_size) + index * BUFFER as usize) as u32
}

fn nonsense(what: &str) -> Fault {
    Fault::new(format!("the other end writes nonsense into shared memory: {what}"))
}

impl Link {
    /// A client's: new memory. Its server gets the buffers with [`Link::offer`].
    pub fn create(log2_size: u8) -> io::Result<Link> {
        let count = 1usize << log2_size;
        let region = Arc::new(Region::create(buffer(log2_size, 2 * count) as usize)?);
        let ring = |to_server: bool| -> io::Result<Ring> {
            let offset = if to_server { 0 } else { Ring::bytes(log2_size) as u32 };
            let place = RingPlace { to_server, index: 0, region: 0, offset, log2_size, private: 0 };
            let flags = rustix::event::EventfdFlags::NONBLOCK | rustix::event::EventfdFlags::CLOEXEC;
            let interrupt = rustix::event::eventfd(0, flags)?;
            Ring::new(region.clone(), place, interrupt, true).map_err(io::Error::other)
        };
        Ok(Link {
            role: Role::Client,
            to_server: ring(true)?,
            to_client: ring(false)?,
            regions: vec![region],
            next: 0,
            pieces: Vec::new(),
        })
    }

    /// The server is there: it gets all buffers. Not earlier, as DPDK's begins with making all counters zero.
    pub fn offer(&self) {
        (0..self.to_client.size()).for_each(|index| self.give_back(index));
        self.to_client.set_head(self.to_client.size());
    }

    /// One whose memory another process made, or had: for a server when its client is connected, for either if the port is taken over.
    ///
    /// # Errors
    /// The rings are no rings, or missing, or are not between each other as they can be.
    pub fn open(role: Role, regions: Vec<Arc<Region>>, rings: Vec<(RingPlace, OwnedFd)>) -> Result<Link, Fault> {
        let (mut to_server, mut to_client) = (None, None);
        for (place, interrupt) in rings {
            let region = regions.get(usize::from(place.region)).ok_or_else(|| Fault::new("a ring in no region"))?;
            let ring = Ring::new(region.clone(), place, interrupt, false)?;
            // Further rings would be for further workers.
            let slot = if place.to_server { &mut to_server } else { &mut to_client };
            slot.get_or_insert(ring);
        }
        let (Some(to_server), Some(to_client)) = (to_server, to_client) else {
            return Err(Fault::new("the client has given no ring for one of the directions"));
        };
        let mut link = Link { role, regions, to_server, to_client, next: 0, pieces: Vec::new() };
        link.recall();
        Ok(link)
    }

    /// Goes on where the shared memory says that this end was: the rings say it all between two calls.
    pub fn recall(&mut self) {
        self.next = match self.role {
            Role::Server => self.to_server.tail(),
            // All that was received was given back.
            Role::Client => self.to_client.head().wrapping_sub(self.to_client.size()),
        };
    }

    pub fn regions(&self) -> &[Arc<Region>] {
        &self.regions
    }

    pub fn rings(&self) -> [&Ring; 2] {
        [&self.to_server, &self.to_client]
    }

    /// The one by which packets come in.
    pub fn inbound(&self) -> &Ring {
        if self.role == Role::Server { &self.to_server } else { &self.to_client }
    }

    fn outbound(&self) -> &Ring {
        if self.role == Role::Server { &self.to_client } else { &self.to_server }
    }

    /// How many descriptors have come in.
    ///
    /// # Errors
    /// More than there are.
    pub fn waiting(&self) -> Result<u16, Fault> {
        let end = if self.role == Role::Server { self.to_server.head() } else { self.to_client.tail() };
        let count = end.wrapping_sub(self.next);
        let size = self.inbound().size();
        if count > size { Err(nonsense("more packets than a ring has room for")) } else { Ok(count) }
    }

    /// How many whole packets have come in and were not received.
    pub fn left(&self) -> u64 {
        let waiting = self.waiting().unwrap_or(0);
        let ends = |at: &u16| !self.inbound().piece(self.next.wrapping_add(*at)).more;
        (0..waiting).filter(ends).count() as u64
    }

    /// Client only: buffer `index` is the server's again.
    fn give_back(&self, index: u16) {
        let ring = &self.to_client;
        let number = usize::from(ring.size()) + usize::from(index & (ring.size() - 1));
        let offset = buffer(ring.place().log2_size, number);
        ring.set_piece(index, Piece { more: false, region: 0, len: BUFFER, offset });
    }

    /// The piece that came in as descriptor `index`, as far as it can be believed.
    fn arrived(&self, index: u16) -> Result<Piece, Fault> {
        let mut piece = self.inbound().piece(index);
        if self.role == Role::Client {
            // The server fills buffers; it does not say where they are.
            let ring = &self.to_client;
            if piece.len > BUFFER {
                return Err(nonsense("a packet longer than its buffer"));
            }
            let number = usize::from(ring.size()) + usize::from(index & (ring.size() - 1));
            (piece.region, piece.offset) = (0, buffer(ring.place().log2_size, number));
        }
        let region = self.regions.get(usize::from(piece.region)).ok_or_else(|| nonsense("a region that is not"))?;
        let end = u64::from(piece.offset) + u64::from(piece.len);
        if end > region.len() as u64 { Err(nonsense("a packet outside of its region")) } else { Ok(piece) }
    }

    /// Receives what is there and fits into the batch. How many packets were added.
    ///
    /// # Errors
    /// The other end writes nonsense; what came before it was received.
    pub fn receive(&mut self, id: PortId, batch: &mut Batch, counters: &mut PortCounters) -> Result<usize, Fault> {
        let waiting = self.waiting()?;
        let (mut done, mut added) = (0, 0);
        let time = if waiting > 0 { now() } else { 0 };
        let mut outcome = Ok(());
        while done < waiting && batch.room() > 0 {
            match self.gather(done, waiting) {
                Ok(0) => break,
                Ok(total) => {
                    done += self.pieces.len() as u16;
                    match self.put_together(total, batch) {
                        Ok(()) => {
                            if let Some(packet) = batch.packets_mut().last_mut() {
                                (packet.ingress_port, packet.received_at) = (id, time);
                            }
                            counters.received.add(total);
                            if self.pieces.len() > 1 {
                                counters.linearised.add(total);
                            }
                            added += 1;
                        }
                        Err(reason) => counters.drops.add(reason, total),
                    }
                }
                Err(fault) => {
                    outcome = Err(fault);
                    break;
                }
            }
        }
        self.done_with(done);
        outcome.map(|()| added)
    }

    /// Finds the pieces of the packet that begins `done` after the first that waits, and returns its length in bytes. 0: it is not all there.
    fn gather(&mut self, done: u16, waiting: u16) -> Result<usize, Fault> {
        self.pieces.clear();
        let mut total = 0usize;
        for at in done..waiting {
            let piece = self.arrived(self.next.wrapping_add(at))?;
            total += piece.len as usize;
            self.pieces.push(piece);
            if !piece.more {
                return if total == 0 { Err(nonsense("a packet without bytes")) } else { Ok(total) };
            }
        }
        if waiting - done == self.inbound().size() {
            return Err(nonsense("a packet that never ends"));
        }
        Ok(0)
    }

    /// Copies the pieces into a new packet of the batch.
    fn put_together(&self, total: usize, batch: &mut Batch) -> Result<(), PortReason> {
        if total > MAX_LEN {
            return Err(if self.pieces.len() > 1 { PortReason::RxSegments } else { PortReason::RxOversize });
        }
        let slot = batch.push().map_err(|_| PortReason::RxNoBuffer)?;
        let mut rest = slot.receive_space(total).map_err(|_| PortReason::RxOversize)?;
        for piece in &self.pieces {
            let (part, others) = rest.split_at_mut((piece.len as usize).min(rest.len()));
            // `arrived` has looked that it is within.
            let _ = self.regions[usize::from(piece.region)].read(piece.offset as usize, part);
            rest = others;
        }
        slot.received(total);
        Ok(())
    }

    /// The first `count` descriptors that waited are the other end's again.
    fn done_with(&mut self, count: u16) {
        if count == 0 {
            return;
        }
        match self.role {
            Role::Server => {
                self.next = self.next.wrapping_add(count);
                self.to_server.set_tail(self.next);
            }
            Role::Client => {
                (0..count).for_each(|index| self.give_back(self.next.wrapping_add(index)));
                self.next = self.next.wrapping_add(count);
                self.to_client.set_head(self.next.wrapping_add(self.to_client.size()));
            }
        }
    }

    /// Where the next packet goes out, and how many descriptors are free.
    fn room(&self) -> Result<(u16, u16), Fault> {
        let ring = self.outbound();
        let (at, free) = match self.role {
            Role::Server => (ring.tail(), ring.head().wrapping_sub(ring.tail())),
            Role::Client => (ring.head(), ring.size().wrapping_sub(ring.head().wrapping_sub(ring.tail()))),
        };
        if free > ring.size() { Err(nonsense("more room than a ring has")) } else { Ok((at, free)) }
    }

    /// The room that descriptor `index` has for a piece of a packet.
    fn room_at(&self, index: u16) -> Result<Piece, Fault> {
        let piece = match self.role {
            Role::Server => self.outbound().piece(index),
            Role::Client => {
                let ring = &self.to_server;
                let offset = buffer(ring.place().log2_size, usize::from(index & (ring.size() - 1)));
                Piece { more: false, region: 0, len: BUFFER, offset }
            }
        };
        if piece.len == 0 { Err(nonsense("a buffer without room")) } else { Ok(piece) }
    }

    /// Sends packets; `sendable` says of each why it can't go. How many went.
    ///
    /// # Errors
    /// The other end writes nonsense; what `packets` still has is not sent, nor counted.
    pub fn send<'a>(
        &mut self,
        packets: &mut impl Iterator<Item = &'a Packet>,
        unsendable: impl Fn(&Packet) -> Option<PortReason>,
        counters: &mut PortCounters,
        sent: &mut usize,
    ) -> Result<(), Fault> {
        let (start, free) = self.room()?;
        let (mut used, mut outcome) = (0, Ok(()));
        let before = *sent;
        for packet in packets {
            if let Some(reason) = unsendable(packet) {
                counters.drops.add(reason, packet.len());
                continue;
            }
            match self.put(start.wrapping_add(used), free - used, packet.bytes()) {
                Ok(Some(count)) => {
                    used += count;
                    *sent += 1;
                    counters.sent.add(packet.len());
                }
                Ok(None) => counters.drops.add(PortReason::TxQueueFull, packet.len()),
                Err(fault) => {
                    counters.drops.add(PortReason::TxPortDown, packet.len());
                    outcome = Err(fault);
                    break;
                }
            }
        }
        if *sent > before {
            match self.role {
                Role::Server => self.to_client.set_tail(start.wrapping_add(used)),
                Role::Client => self.to_server.set_head(start.wrapping_add(used)),
            }
            self.outbound().interrupt();
        }
        outcome
    }

    /// Writes a packet from descriptor `at` on, of which `free` are free. How many it took; `None`: it needs more.
    fn put(&self, at: u16, free: u16, bytes: &[u8]) -> Result<Option<u16>, Fault> {
        let (mut rest, mut count) = (bytes, 0);
        while !rest.is_empty() {
            if count == free {
                return Ok(None);
            }
            let index = at.wrapping_add(count);
            let mut piece = self.room_at(index)?;
            let (part, others) = rest.split_at(rest.len().min(piece.len as usize));
            let region = self.regions.get(usize::from(piece.region)).ok_or_else(|| nonsense("a region that is not"))?;
            if !region.write(piece.offset as usize, part) {
                return Err(nonsense("a buffer outside of its region"));
            }
            (piece.len, piece.more) = (part.len() as u32, !others.is_empty());
            self.outbound().set_piece(index, piece);
            rest = others;
            count += 1;
        }
        Ok(Some(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    /// Both ends of a connection within one process.
    fn connected(log2_size: u8) -> (Link, Link) {
        let client = Link::create(log2_size).expect("memory");
        client.offer();
        let copy = |descriptor: std::os::fd::BorrowedFd<'_>| descriptor.try_clone_to_owned().expect("a descriptor");
        let region = &client.regions()[0];
        let regions = vec![Arc::new(Region::open(copy(region.as_fd()), region.len() as u64).expect("good"))];
        let rings = client.rings().map(|ring| (ring.place(), copy(ring.interrupt.as_fd())));
        let server = Link::open(Role::Server, regions, rings.into()).expect("good");
        (server, client)
    }

    fn send(link: &mut Link, frames: &[Vec<u8>]) -> Result<usize, Fault> {
        let packets: Vec<Packet> = frames.iter().map(|frame| Packet::from_bytes(frame).expect("short")).collect();
        let mut sent = 0;
        link.send(&mut packets.iter(), |_| None, &mut PortCounters::default(), &mut sent).map(|()| sent)
    }

    fn receive(link: &mut Link) -> Result<Vec<Vec<u8>>, Fault> {
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
        // The 16-bit counters go round, too.
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
                let rings =
                    link.rings().map(|ring| (ring.place(), ring.interrupt.as_fd().try_clone_to_owned().expect("fd")));
                Link::open(role, link.regions().to_vec(), rings.into()).expect("good")
            };
            (server, client) = (again(&server, Role::Server), again(&client, Role::Client));
            assert_eq!(receive(&mut server).expect("good"), [frame(60, number), frame(3000, number)]);
            assert_eq!(receive(&mut client).expect("good"), [frame(61, number), frame(3001, number)]);
        }
    }

    /// What a client that means harm can write: nothing of it may do more than end the connection.
    #[test]
    fn a_server_refuses_nonsense_by_name() {
        let good = Piece { more: false, region: 0, len: 60, offset: 1 << 14 };
        let cases: [(&str, &[Piece], u16); 6] = [
            ("more packets than", &[], 17),
            ("a region that is not", &[Piece { region: 1, ..good }], 1),
            ("outside of its region", &[Piece { offset: u32::MAX, ..good }], 1),
            ("outside of its region", &[Piece { len: u32::MAX, ..good }], 1),
            ("without bytes", &[Piece { len: 0, ..good }], 1),
            ("never ends", &[Piece { more: true, ..good }; 16], 16),
        ];
        for (why, pieces, head) in cases {
            let (mut server, client) = connected(4);
            (0..).zip(pieces).for_each(|(index, piece)| client.to_server.set_piece(index, *piece));
            client.to_server.set_head(head);
            let fault = receive(&mut server).expect_err(why).to_string();
            assert!(fault.contains(why), "{fault}");
        }
        let rooms: [(&str, Piece, u16); 4] = [
            ("more room than", good, 17),
            ("a buffer outside", Piece { offset: u32::MAX, ..good }, 1),
            ("without room", Piece { len: 0, ..good }, 1),
            ("a region that is not", Piece { region: 9, ..good }, 1),
        ];
        for (why, room, head) in rooms {
            let (mut server, client) = connected(4);
            client.to_client.set_piece(0, room);
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
        server.to_client.set_piece(0, Piece { more: false, region: 0, len: BUFFER + 1, offset: 0 });
        server.to_client.set_tail(1);
        assert!(receive(&mut client).is_err());
        // Wherever the server says the packet is: it is where the client has its buffer.
        let (mut server, mut client) = connected(4);
        assert_eq!(send(&mut server, &[frame(60, 5)]), Ok(1));
        let piece = server.to_client.piece(0);
        server.to_client.set_piece(0, Piece { region: 77, offset: 3, ..piece });
        assert_eq!(receive(&mut client).expect("good"), [frame(60, 5)]);
        let (server, mut client) = connected(4);
        server.to_server.set_tail(40_000);
        assert!(send(&mut client, &[frame(60, 5)]).is_err());
    }

    #[test]
    fn packets_longer_than_any_are_dropped_and_the_rest_goes_on() {
        let (mut server, client) = connected(8);
        let long = Piece { more: false, region: 0, len: MAX_LEN as u32 + 1, offset: 0 };
        client.to_server.set_piece(0, long);
        client.to_server.set_piece(1, Piece { len: 60, ..long });
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
