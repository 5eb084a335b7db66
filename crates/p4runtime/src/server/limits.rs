//! [`Limits`]: how much clients may ask for; [`Counters`]: what that has cost them.

use super::outbox::OutboxBounds;
use super::{answer, read_bounds};
use crate::codec;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What limits have cost clients so far.
#[derive(Debug, Default)]
pub struct Counters {
    /// Packets and notifications of the device that no client got: it reads too slowly, or there is no primary for them.
    pub lost_messages: AtomicU64,
    /// Connections that were closed at once, because there were too many.
    pub refused_connections: AtomicU64,
}

/// Bounds of what one server gives to all its clients, so that none can take it from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; more are closed as soon as they are made.
    pub connections: usize,
    /// Requests and streams of one connection at a time.
    pub streams_per_connection: u32,
    /// `StreamChannel`s at a time.
    pub streams: usize,
    /// Roles.
    pub roles: usize,
    /// Live clients of each role.
    pub clients_per_role: usize,
    /// Requests (not streams) that are worked on at a time, from when their message is there; more wait.
    pub requests: usize,
    /// Messages of more than [`Limits::large_message_bytes`] that are taken in and worked on at a time; more wait.
    pub large_messages: usize,
    /// What a large message is.
    pub large_message_bytes: usize,
    /// `Read`s at a time, each with a thread; more wait, and who has the fewest is next. Those with short answers need none.
    pub reads: usize,
    /// `Read`s of one connection at a time, until their answers have been taken; more wait.
    pub reads_per_connection: usize,
    /// Bytes of answers that the client of one connection has not yet taken in: its streams are not asked for more. (One piece of an answer more
    /// may be there: 64 KiB, or one message if that is longer.)
    pub unsent_bytes: usize,
    /// The longest message that is taken, in bytes; 4 MiB at least, as the specification has it.
    pub message_bytes: usize,
    /// What may wait to be sent on one stream.
    pub outbox: OutboxBounds,
    /// Packets and notifications of the device that wait to be sent out.
    pub events: usize,
    /// How long a request may take until its answer begins.
    pub request_time: Duration,
    /// How long a client may take to read the next part of an answer.
    pub stall_time: Duration,
    /// The same while other reads wait for a place.
    pub stall_time_beside_others: Duration,
    /// How long a new connection may take until its first request can be read.
    pub handshake_time: Duration,
    /// A connection without traffic is asked for a sign of life this often.
    pub keep_alive: Duration,
    /// How long it may take to give one.
    pub keep_alive_time: Duration,
    /// How long clients have to end when the server ends.
    pub shutdown_time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 256,
            streams_per_connection: 16,
            streams: 256,
            roles: 64,
            clients_per_role: 64,
            requests: 16,
            large_messages: 2,
            large_message_bytes: 256 << 10,
            reads: 16,
            reads_per_connection: 2,
            unsent_bytes: 1 << 20,
            message_bytes: 64 << 20,
            outbox: OutboxBounds { messages: 4096, bytes: 1 << 20 },
            events: 8192,
            request_time: Duration::from_secs(60),
            stall_time: Duration::from_secs(30),
            stall_time_beside_others: Duration::from_secs(1),
            handshake_time: Duration::from_secs(10),
            keep_alive: Duration::from_secs(30),
            keep_alive_time: Duration::from_secs(20),
            shutdown_time: Duration::from_secs(5),
        }
    }
}

/// What HTTP/2 takes in for a connection before anybody asks for it (hyper's window), and what else a connection has: TLS, frames, tasks.
const RECEIVED: usize = (1 << 20) + (256 << 10);
/// How much longer an entity is before it is packed, about.
const SPREAD: usize = 12;

impl Limits {
    /// The most memory that all clients together can make a server take, in bytes, beside what they write to the device: what is allowed to be there at
    /// the same time, added up. Allocators add something to it.
    pub fn memory(&self) -> usize {
        let part = read_bounds::PART * SPREAD;
        // A piece that is sent is a part, and what was there when it was added; its buffer may have grown to twice that.
        let reads = self.reads_per_connection * (part + read_bounds::WAITING);
        let connection = 2 * (self.unsent_bytes + 2 * read_bounds::PART) + reads + RECEIVED;
        let small = self.large_message_bytes + codec::SMALL + codec::UNPACKED * self.large_message_bytes;
        let large = self.message_bytes + codec::LARGEST;
        let primary = SPREAD * self.outbox.bytes;
        self.connections * connection
            + self.requests * small
            + self.large_messages * large
            + self.reads * (2 * (answer::WAITING + 2) * part + codec::LARGEST_OF_READ)
            + self.streams * codec::LARGEST_OF_STREAM
            + self.roles * primary
    }
}
