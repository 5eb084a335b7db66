//! [`Limits`]: how much clients may ask for; [`Counters`]: what that has cost them.

use super::outbox::OutboxBounds;
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
    /// Requests (not streams) that are worked on at a time; more wait.
    pub requests: usize,
    /// `Read`s at a time, each with a thread; more wait.
    pub reads: usize,
    /// The longest message that is taken, in bytes; 4 MiB at least, as the specification has it.
    pub message_bytes: usize,
    /// What may wait to be sent on one stream.
    pub outbox: OutboxBounds,
    /// Packets and notifications of the device that wait to be sent out.
    pub events: usize,
    /// How long a request may take until its answer begins.
    pub request_time: Duration,
    /// How long a client may take to read the next part of an answer; a second at most while other reads wait for a place.
    pub stall_time: Duration,
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
            streams_per_connection: 64,
            streams: 256,
            roles: 64,
            clients_per_role: 64,
            requests: 64,
            reads: 16,
            message_bytes: 64 << 20,
            outbox: OutboxBounds { messages: 4096, bytes: 8 << 20 },
            events: 8192,
            request_time: Duration::from_secs(60),
            stall_time: Duration::from_secs(30),
            handshake_time: Duration::from_secs(10),
            keep_alive: Duration::from_secs(30),
            keep_alive_time: Duration::from_secs(20),
            shutdown_time: Duration::from_secs(5),
        }
    }
}
