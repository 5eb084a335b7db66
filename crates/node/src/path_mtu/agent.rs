//! The thread that checks reports about paths and writes the MTUs that it believes.

use super::learned::{LearnedPaths, PathMtuChange};
use super::quote::{TunnelEnds, check_too_big};
use crate::device::Node;
use crate::region::RegionTunnels;
use region::PathMtus;
use std::sync::Weak;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Interval at which old path MTUs are looked for.
const AGING_INTERVAL: Duration = Duration::from_secs(1);
/// Reports that are checked in each [`WINDOW`], so that a flood of them does not use up a processor.
const REPORTS_PER_WINDOW: u32 = 100;
const WINDOW: Duration = Duration::from_millis(100);

/// Checks reports until the node has ended.
pub(crate) fn run(node: &Weak<Node>, reports: &Receiver<Vec<u8>>) {
    let mut agent = PathMtuAgent::default();
    let started = Instant::now();
    let (mut window, mut checked, mut aged) = (started, 0, started);
    loop {
        let report = reports.recv_timeout(AGING_INTERVAL);
        let Some(node) = node.upgrade() else { return };
        match report {
            Ok(frame) => agent.check(&node, &frame, started.elapsed()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if aged.elapsed() >= AGING_INTERVAL {
            aged = Instant::now();
            agent.forget_old(started.elapsed());
        }
        agent.write(&node);
        drop(node);
        checked += 1;
        if window.elapsed() >= WINDOW {
            (window, checked) = (Instant::now(), 0);
        } else if checked >= REPORTS_PER_WINDOW {
            std::thread::sleep(WINDOW.saturating_sub(window.elapsed()));
        }
    }
}

#[derive(Default)]
struct PathMtuAgent {
    learned: LearnedPaths,
    mtus: PathMtus,
    /// The tables lack a change.
    is_dirty: bool,
    /// The last write failed, and the log says so.
    has_failed: bool,
    /// Tunnels of the region in force.
    tunnels: Option<RegionTunnels>,
}

impl PathMtuAgent {
    fn check(&mut self, node: &Node, frame: &[u8], now: Duration) {
        if self.tunnels.as_ref().is_none_or(|tunnels| tunnels.version != node.region_version()) {
            self.tunnels = node.region_tunnels();
        }
        let Some(tunnels) = &self.tunnels else { return };
        let port_mtu = node.longest_port_mtu(tunnels);
        let ends = TunnelEnds {
            vteps: &tunnels.vteps,
            port_mtu: &|address| tunnels.ends.contains(&address).then_some(port_mtu),
            floor: tunnels.min_mtu,
            flow_secret: tunnels.flow_secret,
        };
        match check_too_big(frame, &ends) {
            Ok(report) => {
                node.count_path_mtu_report(if report.is_clamped { "clamped" } else { "accepted" });
                let (destination, mtu) = (report.destination, report.mtu);
                for change in self.learned.learn(report, now) {
                    self.apply(change);
                }
                info!(%destination, mtu, "a router reports the MTU of the path to {destination}");
            }
            Err(error) => node.count_path_mtu_report(error.name()),
        }
    }

    fn forget_old(&mut self, now: Duration) {
        for change in self.learned.forget_old(now) {
            self.apply(change);
        }
    }

    fn apply(&mut self, change: PathMtuChange) {
        match change {
            PathMtuChange::Set(destination, mtu) => drop(self.mtus.insert(destination, mtu)),
            PathMtuChange::Forget(destination) => {
                info!(%destination, "the MTU of the port applies again to {destination}");
                self.mtus.remove(&destination);
            }
        }
        self.is_dirty = true;
    }

    fn write(&mut self, node: &Node) {
        if !self.is_dirty {
            return;
        }
        match node.set_path_mtus(&self.mtus) {
            Ok(()) => (self.is_dirty, self.has_failed) = (false, false),
            Err(why) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    warn!(%why, "the MTUs of paths cannot be written; trying again");
                }
            }
        }
    }
}
