//! Generator process: sends packets, receives them back and checks each.

use super::times::LatencyHistogram;
use super::{GeneratorResult, WARM_UP, WORLD, open, wait_until_connected};
use crate::machine;
use crate::ring::Template;
use crate::workload::{FlowDistribution, Flows};
use anyhow::Context;
use io::{Port, TxBatch};
use packet::{Batch, Packet, PortId};
use std::time::{Duration, Instant};

/// Number of packets in flight at full load.
const UNDER_WAY: u64 = 1024;

/// Number of packets sent together.
const BURST: usize = 32;

/// Byte offset of the send time ([`machine::monotonic`]) in a packet: in the payload of 64-byte
/// frames.
pub(super) const STAMP: usize = 96;

/// Time without a packet after which no more are expected.
const QUIET: Duration = Duration::from_millis(300);

/// Minimum length of a round that counts as a pause of the generator. A full round takes a few
/// microseconds.
const PAUSE: Duration = Duration::from_micros(20);

/// Sends for `seconds` seconds, at `rate` packets per second, or with 0 at the rate at which
/// packets come back.
pub(super) fn run(socket: &str, rate: f64, seconds: f64) -> anyhow::Result<()> {
    let mut port = open("client", socket)?;
    wait_until_connected(&mut *port)?;
    let mut traffic = Traffic::new(machine::monotonic() + WARM_UP.as_nanos() as u64)?;
    let never_stopped = machine::set_realtime_priority();
    let mut result = GeneratorResult { never_stopped, ..GeneratorResult::default() };
    let (start, mut batch) = (Instant::now(), Batch::new());
    let end = start + WARM_UP + Duration::from_secs_f64(seconds);
    let (mut now, mut last_receive, mut paused) = (start, start, Duration::ZERO);
    let (mut offered, mut window_start) = (0, None);
    while now < end || now - last_receive < QUIET {
        // Packets that were not sent during a pause, or for lack of space, are not sent later,
        // because that would change the load.
        let (due, sent) = match rate > 0.0 {
            true => (((now - start - paused).as_secs_f64() * rate) as u64, offered),
            false => (result.back + UNDER_WAY, result.sent),
        };
        if now < end && due >= sent + BURST as u64 {
            offered += BURST as u64;
            result.sent += traffic.send(&mut *port)?;
        }
        batch.clear();
        if port.receive(PortId(1), &mut batch)? > 0 {
            last_receive = now;
            traffic.check_packets(&batch, now, &mut result);
        }
        let round_time = now.elapsed();
        // The time of this turn of the loop; a long one means that the core was taken away.
        now += round_time;
        if round_time >= PAUSE {
            paused += round_time;
            traffic.paused_until = machine::monotonic();
            if window_start.is_some() && now < end {
                result.pauses += 1;
                result.paused += round_time.as_secs_f64();
                result.longest_pause = result.longest_pause.max(round_time.as_secs_f64());
            }
        }
        if window_start.is_none() && now - start >= WARM_UP {
            window_start = Some((result.back, machine::waiting_time()));
        }
        if let (Some((back, waited)), true) = (window_start, now >= end && result.rate == 0.0) {
            result.rate = (result.back - back) as f64 / (now - start - WARM_UP).as_secs_f64();
            result.kept_waiting = (machine::waiting_time() - waited).as_secs_f64();
        }
    }
    result.not_sent = port.counters().drops.total().packets;
    result.all = traffic.all.summary();
    result.timed = traffic.timed.summary();
    println!("{}", serde_json::to_string(&result)?);
    Ok(())
}

/// Packets to send, and statistics of those that came back.
struct Traffic {
    packets: Vec<Packet>,
    template: Template,
    flows: Flows,
    /// Server of each VM, by the VM's number.
    servers: Vec<[u8; 4]>,
    /// Start of the measurement. Packets sent before belong to the warm-up.
    from: u64,
    /// End of the generator's last pause. Packets sent before may have waited for the generator
    /// instead of the gateway.
    paused_until: u64,
    /// Times of all packets.
    all: LatencyHistogram,
    /// Times of packets that were not in flight during a pause of the generator.
    timed: LatencyHistogram,
}

impl Traffic {
    fn new(from: u64) -> anyhow::Result<Traffic> {
        let template = Template::new(64);
        let flows = Flows::new(&WORLD, FlowDistribution::Uniform, 1 << 16, 1);
        let packet = template.packet(*flows.all().first().context("flows")?);
        let packets: Result<Vec<Packet>, _> = (0..BURST).map(|_| Packet::from_bytes(&packet)).collect();
        let servers = (0..WORLD.vms).map(|number| WORLD.vm(number).server.to_be_bytes()).collect();
        let (all, timed) = (LatencyHistogram::new(), LatencyHistogram::new());
        Ok(Traffic { packets: packets?, template, flows, servers, from, paused_until: 0, all, timed })
    }

    /// Sends the next packets, all with the current time. Returns the number that the port
    /// accepted.
    fn send(&mut self, port: &mut dyn Port) -> anyhow::Result<u64> {
        for packet in &mut self.packets {
            self.template.write(self.flows.next_flow(), packet.bytes_mut());
        }
        let now = machine::monotonic();
        for packet in &mut self.packets {
            packet.bytes_mut()[STAMP..STAMP + 8].copy_from_slice(&now.to_be_bytes());
        }
        let packets: Vec<&Packet> = self.packets.iter().collect();
        Ok(port.send(&mut TxBatch::copies_of(&packets)) as u64)
    }

    /// Counts the packets that came back in the round that started at `round`, and checks that each
    /// is sent to its VM's server.
    fn check_packets(&mut self, batch: &Batch, round: Instant, result: &mut GeneratorResult) {
        let now = machine::monotonic();
        if round.elapsed() >= PAUSE {
            self.paused_until = now;
        }
        for packet in batch.packets() {
            let bytes = packet.bytes();
            result.back += 1;
            let (Some(server), Some(number), Some(stamp)) =
                (bytes.get(30..34), bytes.get(68..70), bytes.get(STAMP..).and_then(<[u8]>::first_chunk::<8>))
            else {
                result.wrong += 1;
                continue;
            };
            let number = usize::from(u16::from_be_bytes([number[0], number[1]]));
            if self.servers.get(number).is_none_or(|right| right != server) {
                result.wrong += 1;
            }
            let sent_ns = u64::from_be_bytes(*stamp);
            let latency_ns = now.saturating_sub(sent_ns);
            if sent_ns >= self.from {
                self.all.add(latency_ns);
                if sent_ns > self.paused_until {
                    self.timed.add(latency_ns);
                }
            }
        }
    }
}
