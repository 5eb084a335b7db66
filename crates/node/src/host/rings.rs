//! [`HostRings`]: what workers and the host thread share.

use super::kind::PuntKind;
use super::link::HostLink;
use super::rate_limit::PuntRateTable;
use io::{Runner, RunnerWaker};
use packet::{Packet, PortId};
use parking_lot::RwLock;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Packets of one kind that wait for the host thread.
const TO_HOST_RING: usize = 256;
/// Frames of the host that a worker sends before it receives its next batch. At 1 us each, they
/// delay tenants' packets less than a batch does.
const FRAMES_PER_ROUND: usize = 32;

/// A packet on its way to the host.
pub(super) struct PuntedFrame {
    pub(super) link: Arc<HostLink>,
    pub(super) bytes: Box<[u8]>,
}

/// Receiving ends of the rings, by kind.
pub(super) type PuntReceivers = Vec<(PuntKind, Receiver<PuntedFrame>)>;

/// The rings between the workers and the host thread.
pub(super) struct HostRings {
    pub(super) links: RwLock<BTreeMap<PortId, Arc<HostLink>>>,
    /// Limits of the kinds of packets for the host.
    pub(super) rates: PuntRateTable,
    to_host: Vec<SyncSender<PuntedFrame>>,
    wakers: Vec<Arc<RunnerWaker>>,
    event: OwnedFd,
    is_signalled: AtomicBool,
    ends: AtomicBool,
    is_paused: AtomicBool,
}

impl HostRings {
    /// Creates the rings without host sides.
    ///
    /// # Errors
    /// The system provides no descriptor.
    pub(super) fn new(wakers: Vec<Arc<RunnerWaker>>) -> std::io::Result<(HostRings, PuntReceivers)> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let channels = PuntKind::ALL.iter().map(|_| sync_channel(TO_HOST_RING));
        let (to_host, receivers): (Vec<_>, Vec<_>) = channels.unzip();
        let rings = HostRings {
            links: RwLock::default(),
            rates: PuntRateTable::default(),
            to_host,
            wakers,
            event,
            is_signalled: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            is_paused: AtomicBool::new(false),
        };
        Ok((rings, PuntKind::ALL.iter().copied().zip(receivers).collect()))
    }

    pub(super) fn link(&self, port: PortId) -> Option<Arc<HostLink>> {
        self.links.read().get(&port).cloned()
    }

    /// Passes a packet to the host side of its port. Returns whether its ring had space; `None` if
    /// the port has no host side. Runs on a worker and does not block.
    pub(super) fn punt(&self, packet: &Packet, kind: PuntKind) -> Option<bool> {
        let link = self.link(packet.ingress_port)?;
        let index = kind as usize;
        if link.end.tap().is_none() {
            // The kernel has received the packet from its interface.
            link.counters.to_host[index].count_packet(packet.len());
            return Some(true);
        }
        let frame = PuntedFrame { link, bytes: packet.bytes().into() };
        match self.to_host[index].try_send(frame) {
            Ok(()) => {
                self.wake_thread();
                Some(true)
            }
            Err(refused) => {
                let (std::sync::mpsc::TrySendError::Full(frame) | std::sync::mpsc::TrySendError::Disconnected(frame)) =
                    refused;
                frame.link.counters.ring_full[index].count_packet(frame.bytes.len());
                Some(false)
            }
        }
    }

    /// Sends frames of the host on the ports of a worker. Returns whether more wait. `frames` is
    /// the caller's memory for them.
    pub(super) fn send_frames(&self, runner: &mut Runner, frames: &mut Vec<Packet>) -> bool {
        let mut remaining = FRAMES_PER_ROUND;
        for (port, link) in self.links.read().iter() {
            if !runner.ports().any(|attached| attached.id == *port) {
                continue;
            }
            link.take_frames(frames, remaining);
            if frames.is_empty() {
                continue;
            }
            remaining -= frames.len();
            let bytes: usize = frames.iter().map(Packet::len).sum();
            link.counters.from_host.add(frames.len() as u64, bytes as u64);
            // The port counts frames that it cannot send.
            runner.send(*port, frames);
            if remaining == 0 {
                return true;
            }
        }
        false
    }

    /// Announces frames of the host to the workers.
    pub(super) fn wake_workers(&self) {
        self.wakers.iter().for_each(|waker| waker.nudge());
    }

    /// Wakes the host thread.
    pub(super) fn wake_thread(&self) {
        if !self.is_signalled.swap(true, Ordering::AcqRel) {
            // Fails only if the counter is full, and then the descriptor is readable.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Clears the signal. Called by the host thread before it reads the rings.
    pub(super) fn clear_signal(&self) {
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
        self.is_signalled.store(false, Ordering::Release);
    }

    /// Returns a descriptor that is readable after a signal.
    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Ends the host thread.
    pub(super) fn end(&self) {
        self.ends.store(true, Ordering::Release);
        self.wake_thread();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    /// Stops reading from the TAPs, because another process reads them, or continues.
    pub(super) fn set_paused(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Release);
        self.wake_thread();
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Acquire)
    }
}
