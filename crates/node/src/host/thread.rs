//! The host thread: moves frames between the rings and the TAPs.

use super::link::HostLink;
use super::rate_limit::RateLimits;
use super::rings::{HostRings, PuntReceivers, PuntedFrame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

/// Frames that are moved from one ring or one TAP before the others get their turn.
const TURN: usize = 64;
/// Wait for a TAP whose carrier could not be set, before the next attempt.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Longest frame that is read: the maximum MTU of a TAP, the Ethernet header and a VLAN tag.
const FRAME_BYTES: usize = 65_536 + 18;

/// Runs until the rings end.
pub(super) fn run(rings: &HostRings, receivers: &PuntReceivers) {
    let mut buffer = vec![0; FRAME_BYTES];
    let mut limits = RateLimits::new();
    while !rings.has_ended() {
        let links: Vec<Arc<HostLink>> = rings.links.read().values().cloned().collect();
        // All of them are updated, also after one that does not follow.
        let carriers_follow = links.iter().filter(|link| !link.update_carrier()).count() == 0;
        rings.clear_signal();
        let mut is_busy = deliver(rings, receivers, &mut limits);
        if !rings.is_paused() {
            is_busy |= collect(rings, &links, &mut buffer);
        }
        if !is_busy {
            wait(rings, &links, carriers_follow);
        }
    }
}

/// Delivers punted packets to the TAPs, each kind up to its rate. Returns whether more may wait.
fn deliver(rings: &HostRings, receivers: &PuntReceivers, limits: &mut RateLimits) -> bool {
    let (mut is_busy, now) = (false, Instant::now());
    for (kind, receiver) in receivers {
        let mut count = 0;
        for PuntedFrame { link, bytes } in receiver.try_iter().take(TURN) {
            count += 1;
            let Some(tap) = link.end.tap() else { continue };
            if !limits.admit(*kind, &rings.rates, now) {
                link.counters.limited[*kind as usize].count_packet(bytes.len());
                continue;
            }
            if tap.deliver(&bytes).is_ok() {
                link.counters.to_host[*kind as usize].count_packet(bytes.len());
            } else if link.counters.interface_down.count_packet(bytes.len()) {
                tracing::warn!(
                    interface = link.end.name(),
                    "the interface takes no packets, which are dropped as `host_interface_down`: set it up (ip link set {} up)",
                    link.end.name()
                );
            }
        }
        is_busy |= count == TURN;
    }
    is_busy
}

/// Collects frames of the host for the ports. Returns whether more may wait.
fn collect(rings: &HostRings, links: &[Arc<HostLink>], buffer: &mut [u8]) -> bool {
    let (mut is_busy, mut accepted) = (false, false);
    for link in links {
        let Some(tap) = link.end.tap() else { continue };
        let mut count = 0;
        while count < TURN
            && let Ok(len) = tap.receive(buffer)
        {
            count += 1;
            accepted |= link.accept_from_host(&buffer[..len]);
        }
        is_busy |= count == TURN;
    }
    if accepted {
        rings.wake_workers();
    }
    is_busy
}

/// Waits for a packet or a frame.
fn wait(rings: &HostRings, links: &[Arc<HostLink>], carriers_follow: bool) {
    let event = rings.event();
    let mut descriptors = vec![PollFd::from_borrowed_fd(event, PollFlags::IN)];
    if !rings.is_paused() {
        let taps = links.iter().filter_map(|link| link.end.tap());
        descriptors.extend(taps.map(|tap| PollFd::from_borrowed_fd(tap.as_fd(), PollFlags::IN)));
    }
    let timeout = if carriers_follow { None } else { Some(&RETRY) };
    let _ = poll(&mut descriptors, timeout);
}
