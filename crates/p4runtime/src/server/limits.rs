//! [`Limits`]: limits on the resources of clients; [`Counters`]: their effects.

use super::outbox::OutboxBounds;
use super::{read_bounds, response_stream};
use crate::codec;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Counters of the effects of limits.
#[derive(Debug, Default)]
pub struct Counters {
    /// Packets and notifications of the device that no client received, because the client reads
    /// too slowly or no primary is eligible.
    pub lost_messages: AtomicU64,
    /// Connections closed at once because there were too many.
    pub refused_connections: AtomicU64,
}

/// Limits of one server over all its clients, so that no client can exhaust a resource of the
/// others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections; further ones are closed at once.
    pub connections: usize,
    /// Maximum number of concurrent requests and streams of one connection.
    pub streams_per_connection: u32,
    /// Maximum number of `StreamChannel`s.
    pub streams: usize,
    /// Maximum number of roles.
    pub roles: usize,
    /// Maximum number of live clients of each role.
    pub clients_per_role: usize,
    /// Maximum number of requests (without streams) processed concurrently, from the arrival of
    /// their message; further ones wait.
    pub requests: usize,
    /// Maximum number of messages longer than [`Limits::large_message_bytes`] that are received and
    /// processed concurrently; further ones wait.
    pub large_messages: usize,
    /// Length in bytes beyond which a message is large.
    pub large_message_bytes: usize,
    /// Maximum number of concurrent `Read`s with long responses, each with a thread. Further ones
    /// wait, and the client with the fewest is served next.
    pub reads: usize,
    /// Maximum number of concurrent `Read`s of one connection, until their responses have been
    /// received; further ones wait.
    pub reads_per_connection: usize,
    /// Maximum send backlog of one connection in bytes. Beyond it, its streams produce no more.
    /// (One more piece can be added: 64 KiB, or one message if that is longer.)
    pub unsent_bytes: usize,
    /// Maximum length of a received message in bytes; at least 4 MiB, as the specification
    /// requires.
    pub message_bytes: usize,
    /// Limits of the outbox of one stream.
    pub outbox: OutboxBounds,
    /// Maximum number of queued packets and notifications of the device.
    pub events: usize,
    /// Timeout of a request until its response starts.
    pub request_time: Duration,
    /// Timeout of a client for the reception of the next part of a response.
    pub stall_time: Duration,
    /// Timeout for the next part of a response while other reads wait for a permit.
    pub stall_time_beside_others: Duration,
    /// Timeout of a new connection until its first request can be read.
    pub handshake_time: Duration,
    /// Interval of keep-alive pings on an idle connection.
    pub keep_alive: Duration,
    /// Timeout of the reply to a keep-alive ping.
    pub keep_alive_time: Duration,
    /// Time for clients to end when the server shuts down.
    pub shutdown_time: Duration,
}

impl Default for Limits {
    /// Returns the limits of a server without limits in its configuration.
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

/// Bytes that HTTP/2 receives for a connection ahead of its use (hyper's window), plus the other
/// memory of a connection: TLS, frames, tasks.
const RECEIVED: usize = (1 << 20) + (256 << 10);
/// Approximate ratio of an entity's memory to its encoded length.
const SPREAD: usize = 12;

impl Limits {
    /// Returns the maximum memory in bytes that all clients together can make a server use, besides
    /// their writes to the device. It is the sum of all concurrent uses, without the overhead of
    /// the allocator.
    pub fn memory(&self) -> usize {
        let part = read_bounds::PART * SPREAD;
        // A piece being sent consists of a part and the rest of the piece before it; its buffer can
        // have grown to twice that size.
        let reads = self.reads_per_connection * (part + read_bounds::WAITING);
        let connection = 2 * (self.unsent_bytes + 2 * read_bounds::PART) + reads + RECEIVED;
        let small = self.large_message_bytes + codec::SMALL + codec::UNPACKED * self.large_message_bytes;
        let large = self.message_bytes + codec::LARGEST;
        let primary = SPREAD * self.outbox.bytes;
        self.connections * connection
            + self.requests * small
            + self.large_messages * large
            + self.reads * (2 * (response_stream::WAITING + 2) * part + codec::LARGEST_OF_READ)
            + self.streams * codec::LARGEST_OF_STREAM
            + self.roles * primary
    }
}
