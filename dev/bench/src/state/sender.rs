//! Packets of sessions: from inside, and the answers.

use crate::machine::thread_time;
use crate::ring;
use anyhow::ensure;
use jit::Jit;
use packet::{Batch, BatchOutput, Engine, PortId, Verdict};
use std::time::Duration;

/// Port of the inside hosts.
pub const INSIDE_PORT: u32 = 1;
/// Port of the Internet.
pub const OUTSIDE_PORT: u32 = 2;
/// Inside hosts; the sessions are spread over them.
pub const HOSTS: u32 = 100_000;
/// First host, 10.0.1.0. Subscribers are numbered from 10.0.0.0 on.
pub const FIRST_HOST: u32 = 0x0a00_0100;
/// The server that all sessions go to, 198.51.100.1.
const SERVER: [u8; 4] = [198, 51, 100, 1];
/// Packets of a batch.
pub const BATCH: usize = 256;
/// Batches that are made before the clock runs. They stay in the caches.
pub const READY: usize = 8;

/// Returns the packet of a session from inside: 60 bytes, UDP without a checksum.
pub fn packet(session: u32) -> [u8; 60] {
    let mut packet = [0; 60];
    packet[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    packet[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    packet[16..18].copy_from_slice(&46u16.to_be_bytes());
    (packet[22], packet[23]) = (64, 17);
    packet[26..30].copy_from_slice(&(FIRST_HOST + session % HOSTS).to_be_bytes());
    packet[30..34].copy_from_slice(&SERVER);
    packet[34..36].copy_from_slice(&((1024 + session / HOSTS) as u16).to_be_bytes());
    packet[36..38].copy_from_slice(&53u16.to_be_bytes());
    packet[38..40].copy_from_slice(&26u16.to_be_bytes());
    write_checksum(&mut packet);
    packet
}

/// Returns the answer to a packet that was sent.
pub fn answer(sent: &[u8]) -> [u8; 60] {
    let mut packet = packet(0);
    packet[26..30].copy_from_slice(&sent[30..34]);
    packet[30..34].copy_from_slice(&sent[26..30]);
    packet[34..36].copy_from_slice(&sent[36..38]);
    packet[36..38].copy_from_slice(&sent[34..36]);
    write_checksum(&mut packet);
    packet
}

fn write_checksum(packet: &mut [u8; 60]) {
    packet[24..26].fill(0);
    let sum = ring::checksum(ring::words(&packet[14..34]));
    packet[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// Sends packets to an engine. They are made before the clock runs.
pub struct Sender {
    port: PortId,
    batches: Vec<Batch>,
    out: BatchOutput,
    now_ns: u64,
}

impl Sender {
    /// Creates a sender of packets that arrive on a port.
    pub fn new(port: u32) -> Sender {
        Sender {
            port: PortId(port),
            batches: (0..READY).map(|_| Batch::new()).collect(),
            out: BatchOutput::new(),
            now_ns: 1_000_000_000,
        }
    }

    /// Returns the time of arrival of the last packets in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Sends packets. Returns the processor time, without that of making them.
    ///
    /// # Errors
    /// A packet is not forwarded.
    pub fn send<P: AsRef<[u8]>>(
        &mut self,
        engine: &mut Jit,
        packets: impl ExactSizeIterator<Item = P>,
    ) -> anyhow::Result<Duration> {
        self.now_ns += 1_000;
        let count = packets.len();
        ensure!(count <= READY * BATCH, "{count} packets are too many");
        self.batches.iter_mut().for_each(Batch::clear);
        for (number, packet) in packets.enumerate() {
            self.batches[number / BATCH].push_bytes(packet.as_ref(), self.port, self.now_ns)?;
        }
        let start = thread_time();
        let mut forwarded = 0;
        for batch in self.batches.iter_mut().take(count.div_ceil(BATCH)) {
            self.out.clear();
            engine.process(batch, &mut self.out);
            forwarded += self.out.verdicts().iter().filter(|e| matches!(e.verdict, Verdict::Forward { .. })).count();
        }
        let spent = thread_time() - start;
        ensure!(forwarded == count, "{forwarded} of {count} packets were forwarded");
        Ok(spent)
    }

    /// Returns the packets as they were sent last.
    pub fn sent(&self) -> impl Iterator<Item = &[u8]> {
        self.batches.iter().flat_map(|batch| batch.packets().iter().map(|packet| packet.bytes()))
    }
}
