//! The process that sends packets, takes them back and looks at each.

use super::times::Times;
use super::{Found, WARM_UP, WORLD, open, settle};
use crate::machine;
use crate::ring::Template;
use crate::world::{Choice, Flows};
use anyhow::Context;
use io::{Outgoing, Port};
use packet::{Batch, Packet, PortId};
use std::time::{Duration, Instant};

/// Packets under way at full load.
const UNDER_WAY: u64 = 1024;

/// Packets that are sent together.
const BURST: usize = 32;

/// Where a packet carries the time it left at ([`machine::monotonic`]), in bytes: the payload of 64-byte frames.
pub(super) const STAMP: usize = 96;

/// After this long without a packet, no more are expected.
const QUIET: Duration = Duration::from_millis(300);

/// A round of the generator that takes longer than this was stopped by somebody: a full one takes a few microseconds.
const PAUSE: Duration = Duration::from_micros(20);

/// Sends for so many seconds: at `rate` packets a second, or (0) as many as come back.
pub(super) fn run(socket: &str, rate: f64, seconds: f64) -> anyhow::Result<()> {
    let mut port = open("client", socket)?;
    settle(&mut *port)?;
    let mut traffic = Traffic::new(machine::monotonic() + WARM_UP.as_nanos() as u64)?;
    let never_stopped = machine::never_stopped();
    let mut found = Found { never_stopped, ..Found::default() };
    let (start, mut batch) = (Instant::now(), Batch::new());
    let end = start + WARM_UP + Duration::from_secs_f64(seconds);
    let (mut now, mut quiet, mut paused) = (start, start, Duration::ZERO);
    let (mut offered, mut measuring) = (0, None);
    while now < end || now - quiet < QUIET {
        // What it did not send while it was stopped, and what found no room, it does not send later: that would be another load.
        let (due, so_far) = match rate > 0.0 {
            true => (((now - start - paused).as_secs_f64() * rate) as u64, offered),
            false => (found.back + UNDER_WAY, found.sent),
        };
        if now < end && due >= so_far + BURST as u64 {
            offered += BURST as u64;
            found.sent += traffic.send(&mut *port)?;
        }
        batch.clear();
        if port.receive(PortId(1), &mut batch)? > 0 {
            quiet = now;
            traffic.look(&batch, now, &mut found);
        }
        let round = now.elapsed();
        now += round;
        if round >= PAUSE {
            paused += round;
            traffic.paused_until = machine::monotonic();
            if measuring.is_some() && now < end {
                found.pauses += 1;
                found.paused += round.as_secs_f64();
                found.longest_pause = found.longest_pause.max(round.as_secs_f64());
            }
        }
        if measuring.is_none() && now - start >= WARM_UP {
            measuring = Some((found.back, machine::kept_waiting()));
        }
        if let (Some((back, waited)), true) = (measuring, now >= end && found.rate == 0.0) {
            found.rate = (found.back - back) as f64 / (now - start - WARM_UP).as_secs_f64();
            found.kept_waiting = (machine::kept_waiting() - waited).as_secs_f64();
        }
    }
    found.not_sent = port.counters().drops.total().packets;
    found.all = traffic.all.summary();
    found.timed = traffic.timed.summary();
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}

/// Packets on their way out, and what is known of those that came back.
struct Traffic {
    packets: Vec<Packet>,
    template: Template,
    flows: Flows,
    /// The server of each VM, by number.
    servers: Vec<[u8; 4]>,
    /// Packets that left before this belong to the warm-up.
    from: u64,
    /// Until when the generator was stopped last. Packets that left before may have waited for it, not for the
    /// gateway.
    paused_until: u64,
    /// Of all packets.
    all: Times,
    /// Of those that were not under way while the generator was stopped.
    timed: Times,
}

impl Traffic {
    fn new(from: u64) -> anyhow::Result<Traffic> {
        let template = Template::new(64);
        let flows = Flows::new(&WORLD, Choice::Uniform, 1 << 16, 1);
        let packet = template.packet(*flows.all().first().context("flows")?);
        let packets: Result<Vec<Packet>, _> = (0..BURST).map(|_| Packet::from_bytes(&packet)).collect();
        let servers = (0..WORLD.vms).map(|number| WORLD.vm(number).server.to_be_bytes()).collect();
        let (all, timed) = (Times::new(), Times::new());
        Ok(Traffic { packets: packets?, template, flows, servers, from, paused_until: 0, all, timed })
    }

    /// Sends the next packets, all with the time now. Returns how many the port took.
    fn send(&mut self, port: &mut dyn Port) -> anyhow::Result<u64> {
        for packet in &mut self.packets {
            self.template.write(self.flows.next_flow(), packet.bytes_mut());
        }
        let now = machine::monotonic();
        for packet in &mut self.packets {
            packet.bytes_mut()[STAMP..STAMP + 8].copy_from_slice(&now.to_be_bytes());
        }
        let packets: Vec<&Packet> = self.packets.iter().collect();
        Ok(port.send(&mut Outgoing::copies_of(&packets)) as u64)
    }

    /// Counts what came back in the round that began at `round`, and looks whether it goes to its VM's server.
    fn look(&mut self, batch: &Batch, round: Instant, found: &mut Found) {
        let now = machine::monotonic();
        if round.elapsed() >= PAUSE {
            self.paused_until = now;
        }
        for packet in batch.packets() {
            let bytes = packet.bytes();
            found.back += 1;
            let (Some(server), Some(number), Some(stamp)) =
                (bytes.get(30..34), bytes.get(68..70), bytes.get(STAMP..).and_then(<[u8]>::first_chunk::<8>))
            else {
                found.wrong += 1;
                continue;
            };
            let number = usize::from(u16::from_be_bytes([number[0], number[1]]));
            if self.servers.get(number).is_none_or(|right| right != server) {
                found.wrong += 1;
            }
            let left = u64::from_be_bytes(*stamp);
            let took = now.saturating_sub(left);
            if left >= self.from {
                self.all.add(took);
                if left > self.paused_until {
                    self.timed.add(took);
                }
            }
        }
    }
}
