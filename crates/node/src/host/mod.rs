//! The host sides of uplinks: packets for the gateway itself go to the host's own network stack, and
//! the host's frames leave by the port. So ARP, neighbour discovery, BGP, BFD and ping of the
//! gateway are those of the kernel and of programs such as FRR.
//!
//! This module answers one question: *how does the host's stack use a port that belongs to the
//! gateway?*
//!
//! ```text
//! worker ── ring per kind ──▶ host thread ──▶ TAP ──▶ the host's stack
//! worker ◀── ring per port ── host thread ◀── TAP ◀── the host's stack
//! ```
//!
//! - The rings are bounded, and a full ring loses packets of its kind only. A worker does not wait.
//! - One thread serves all TAPs and is no worker, so that a busy worker does not delay BGP.
//! - Frames of the host skip the program: they are complete. VXLAN of the host is refused, because
//!   its tunnel header was checked by no program.
//! - If the host side is the port's own interface, the kernel receives the packets itself. The node
//!   only hides VXLAN from it.

mod counters;
mod frame;
mod kind;
mod link;
mod path_reports;
mod rate_limit;
mod rings;
mod settings;
mod thread;

pub use counters::HostCounts;
pub use settings::HostError;
pub(crate) use settings::{HostSetting, WantedInterface};

use io::tap::Tap;
use io::{HiddenPackets, KernelFilter, KernelFilterError, KernelInterface, Runner, RunnerWaker};
use kind::PuntKind;
use link::{HostEnd, HostLink};
use packet::{CpuReason, Packet, PortId, ReasonTable};
use parking_lot::Mutex;
use path_reports::PathReports;
use rings::HostRings;
use settings::hidden_packets;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// The host sides of all uplinks. Without one, nothing runs and nothing is open.
pub(crate) struct HostPorts {
    rings: OnceLock<Arc<HostRings>>,
    path_reports: PathReports,
    has_links: AtomicBool,
    wakers: Vec<Arc<RunnerWaker>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Ports whose interface the kernel's own stack uses too.
    kernel_interfaces: Mutex<BTreeMap<PortId, KernelInterface>>,
}

/// MTU in bytes of each open port.
pub(crate) type PortMtus = BTreeMap<u32, usize>;

/// Host sides that are open but not in force.
pub(crate) struct PreparedHost(Vec<Arc<HostLink>>);

impl HostPorts {
    /// Creates the part for workers with these wakers.
    pub fn new(wakers: Vec<Arc<RunnerWaker>>) -> HostPorts {
        let (rings, has_links) = (OnceLock::new(), AtomicBool::new(false));
        let path_reports = PathReports::default();
        HostPorts {
            rings,
            path_reports,
            has_links,
            wakers,
            thread: Mutex::default(),
            kernel_interfaces: Mutex::default(),
        }
    }

    /// Passes a packet that the program punted to the host side of its port. Returns whether it was
    /// accepted; `None` if it is not for the host.
    pub fn punt(&self, packet: &Packet, reason: CpuReason, reasons: &ReasonTable) -> Option<bool> {
        let kind = PuntKind::from_reason(&reasons.cpu_name(reason))?;
        if kind == PuntKind::IcmpError {
            self.path_reports.offer(packet);
        }
        if !self.has_links.load(Ordering::Relaxed) {
            return None;
        }
        self.rings.get()?.punt(packet, kind)
    }

    /// Returns the ICMP errors that wait for a check.
    pub fn path_reports(&self) -> &PathReports {
        &self.path_reports
    }

    /// Sends frames of the host on the ports of a worker. Returns whether more wait.
    pub fn send_frames(&self, runner: &mut Runner, frames: &mut Vec<Packet>) -> bool {
        self.rings.get().is_some_and(|rings| rings.send_frames(runner, frames))
    }

    /// Notes a new port, and hides its packets from the kernel if it has a host side.
    pub fn add_port(&self, port: PortId, interface: Option<KernelInterface>) {
        let mut interfaces = self.kernel_interfaces.lock();
        interfaces.remove(&port);
        let Some(interface) = interface else { return };
        let link = self.rings.get().and_then(|rings| rings.link(port));
        if let Some(link) = link {
            let hidden = hidden_packets(&link.end);
            let divided = if hidden == HiddenPackets::All { interface.divide_queues() } else { Ok(()) };
            match divided.and_then(|()| interface.hide(hidden)) {
                Ok(filter) => *link.filter.lock() = Some(filter),
                Err(error) => tracing::error!(port = port.0, %error, "the host may receive packets twice"),
            }
        }
        interfaces.insert(port, interface);
    }

    /// Lets the carrier of the port's TAP follow the port.
    pub fn set_port_state(&self, port: PortId, is_up: bool) {
        let Some(rings) = self.rings.get() else { return };
        if let Some(link) = rings.link(port) {
            link.set_up(is_up);
            rings.wake_thread();
        }
    }

    /// Opens the host sides that are not open yet. `port_mtus`: the open ports. They take effect with [`HostPorts::commit`].
    ///
    /// # Errors
    /// An interface cannot be created, or a port cannot share its interface with the kernel.
    pub fn prepare(&self, settings: &[HostSetting], port_mtus: &PortMtus) -> Result<PreparedHost, HostError> {
        let present: Vec<Arc<HostLink>> =
            self.rings.get().map(|rings| rings.links.read().values().cloned().collect()).unwrap_or_default();
        let interfaces = self.kernel_interfaces.lock();
        let mut links = Vec::new();
        for setting in settings {
            let port = PortId(setting.port);
            let mtu = port_mtus.get(&setting.port).copied();
            let interface = interfaces.get(&port);
            let end = match &setting.interface {
                WantedInterface::Tap(name) => {
                    let known = present.iter().filter_map(|link| link.end.tap()).find(|tap| tap.name() == name);
                    HostEnd::Tap(settings::open_tap(name, setting, mtu, known)?)
                }
                WantedInterface::Kernel(name) => {
                    settings::check_kernel_interface(name, setting, mtu.is_some(), interface)?;
                    HostEnd::Kernel(name.clone())
                }
            };
            let hidden = hidden_packets(&end);
            let is_same = |link: &&Arc<HostLink>| {
                link.port == port && link.end.name() == end.name() && hidden_packets(&link.end) == hidden
            };
            let before = present.iter().find(is_same).cloned();
            let link = before.unwrap_or_else(|| Arc::new(HostLink::new(port, end)));
            let mut filter = link.filter.lock();
            if let (None, Some(interface)) = (&*filter, interface) {
                *filter = hide_from_kernel(interface, hidden)?;
                if hidden == HiddenPackets::All {
                    interface.divide_queues()?;
                }
            }
            drop(filter);
            links.push(link);
        }
        Ok(PreparedHost(links))
    }

    /// Puts host sides in force, instead of all earlier ones. `rates` are the limits of the kinds of
    /// packets, in packets a second; `is_up` tells whether a port is up.
    ///
    /// # Errors
    /// The host thread cannot start.
    pub fn commit(
        &self,
        prepared: PreparedHost,
        rates: &[(&str, u32)],
        is_up: impl Fn(PortId) -> bool,
    ) -> Result<(), HostError> {
        if prepared.0.is_empty() && self.rings.get().is_none() {
            return Ok(());
        }
        let rings = self.start_thread()?;
        rings.rates.set(rates);
        let links: BTreeMap<PortId, Arc<HostLink>> = prepared.0.into_iter().map(|link| (link.port, link)).collect();
        links.values().for_each(|link| link.set_up(is_up(link.port)));
        self.has_links.store(!links.is_empty(), Ordering::Relaxed);
        let former = std::mem::replace(&mut *rings.links.write(), links);
        // Closes interfaces, which takes time, without the lock.
        drop(former);
        rings.wake_thread();
        Ok(())
    }

    /// Returns the interface that receives packets of a port with a punt reason, if one does.
    pub fn interface_of(&self, port: PortId, reason: &str) -> Option<String> {
        PuntKind::from_reason(reason)?;
        Some(self.rings.get()?.link(port)?.end.name().to_owned())
    }

    /// Returns the counts of the host sides by port.
    pub fn counts(&self) -> BTreeMap<u32, HostCounts> {
        let Some(rings) = self.rings.get() else { return BTreeMap::new() };
        rings.links.read().iter().map(|(port, link)| (port.0, link.counts())).collect()
    }

    /// Stops reading from the TAPs, and returns port, name and descriptor of each, for another
    /// process.
    pub fn begin_transfer(&self) -> Vec<(PortId, String, OwnedFd)> {
        let Some(rings) = self.rings.get() else { return Vec::new() };
        rings.set_paused(true);
        let links = rings.links.read();
        let of = |link: &Arc<HostLink>| {
            let tap = link.end.tap()?;
            Some((link.port, tap.name().to_owned(), tap.descriptor().ok()?))
        };
        links.values().filter_map(of).collect()
    }

    /// Continues after a take-over that failed.
    pub fn cancel_transfer(&self) {
        if let Some(rings) = self.rings.get() {
            rings.set_paused(false);
        }
    }

    /// Continues the TAP of another process at once, so that BFD does not notice the take-over. The
    /// next [`HostPorts::commit`] closes it if the region does not have it.
    ///
    /// # Errors
    /// The host thread cannot start.
    pub fn inherit(&self, port: PortId, name: &str, descriptor: OwnedFd) -> Result<(), HostError> {
        let rings = self.start_thread()?;
        let end = HostEnd::Tap(Arc::new(Tap::from_descriptor(name, descriptor)));
        let link = HostLink::new(port, end);
        link.set_up(true);
        rings.links.write().insert(port, Arc::new(link));
        self.has_links.store(true, Ordering::Relaxed);
        rings.wake_thread();
        Ok(())
    }

    /// Starts the host thread if it does not run yet.
    fn start_thread(&self) -> Result<&Arc<HostRings>, HostError> {
        let mut thread = self.thread.lock();
        if let Some(rings) = self.rings.get() {
            return Ok(rings);
        }
        let (rings, receivers) = HostRings::new(self.wakers.clone()).map_err(HostError::Thread)?;
        let rings = Arc::new(rings);
        let run = {
            let rings = rings.clone();
            move || thread::run(&rings, &receivers)
        };
        *thread = Some(std::thread::Builder::new().name("host".into()).spawn(run).map_err(HostError::Thread)?);
        Ok(self.rings.get_or_init(|| rings))
    }
}

/// Hides packets of a port from the kernel's own stack. Without the right to do so, VXLAN stays
/// visible: the kernel then answers it with port unreachable, and the gateway works nevertheless.
/// A TAP needs the filter, because else the host answers each packet twice.
///
/// # Errors
/// The kernel refuses the filter of a port with a TAP.
fn hide_from_kernel(
    interface: &KernelInterface,
    hidden: HiddenPackets,
) -> Result<Option<KernelFilter>, KernelFilterError> {
    match (interface.hide(hidden), hidden) {
        (Ok(filter), _) => Ok(Some(filter)),
        (Err(error), HiddenPackets::Vxlan) => {
            tracing::warn!(
                interface = interface.name(),
                %error,
                "the kernel answers tenants' packets with port unreachable; give the node CAP_NET_ADMIN and CAP_BPF, or drop UDP \
                 4789 at the interface's ingress (`terrace doctor` prints the command)"
            );
            Ok(None)
        }
        (Err(error), HiddenPackets::All) => Err(error),
    }
}

impl Drop for HostPorts {
    fn drop(&mut self) {
        if let Some(rings) = self.rings.get() {
            rings.end();
        }
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}
