//! The thread that watches the ports' links and brings the paths in accordance with them.

use super::netlink_socket::{GROUP_LINK, NetlinkSocket};
use super::watched_port::{PortCommand, WatchedPort};
use crate::config::PortSetting;
use crate::device::Node;
use crate::status::PortState;
use io::dpdk::DpdkDevice;
use io::{InterfaceProbe, Namespace, Port};
use region::PortStates;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tracing::{error, info, warn};
use underlay::DampingTimes;

/// Interval at which each interface is asked for its carrier.
const PROBE_INTERVAL: Duration = Duration::from_millis(5);
/// Interval at which a node without ports looks for some.
const IDLE_INTERVAL: Duration = Duration::from_millis(100);
/// Time after which opening a port is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Opens the port of a setting.
pub(crate) type PortOpener = Box<dyn Fn(&PortSetting) -> anyhow::Result<Box<dyn Port>> + Send>;

/// Settings of the agent.
pub(crate) struct AgentSettings {
    /// The configured ports.
    pub ports: Vec<PortSetting>,
    /// Damping of links that flap.
    pub times: DampingTimes,
    /// Opens ports whose interface was removed and made again.
    pub opener: PortOpener,
}

/// Observes all ports once. The returned agent watches them once it is started.
///
/// # Errors
/// A namespace of a port cannot be entered, or a socket cannot be opened.
pub(crate) fn observe_ports(node: &Arc<Node>, settings: AgentSettings) -> anyhow::Result<ReadyAgent> {
    node.port_states().set_settings(settings.ports);
    let (commands, orders) = channel();
    let (failures, failed) = channel();
    let mut agent = UnderlayAgent {
        times: settings.times,
        started: Instant::now(),
        namespaces: BTreeMap::new(),
        ports: BTreeMap::new(),
        settings_version: 0,
        commands,
        failed,
        retries: Vec::new(),
        has_failed: false,
    };
    agent.observe(node)?;
    Ok(ReadyAgent { agent, orders, failures, opener: settings.opener })
}

/// An agent that has observed the ports once.
pub(crate) struct ReadyAgent {
    agent: UnderlayAgent,
    orders: Receiver<PortCommand>,
    failures: Sender<u32>,
    opener: PortOpener,
}

impl ReadyAgent {
    /// Watches the ports and the kernel's routes until the node has ended, on threads that run on
    /// the processors of the calling thread.
    ///
    /// # Errors
    /// A thread cannot be created.
    pub fn start(self, node: &Arc<Node>) -> std::io::Result<()> {
        let ReadyAgent { agent, orders, failures, opener } = self;
        let [watcher, follower, owner, learner] = [(); 4].map(|()| Arc::downgrade(node));
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
        };
        spawn("port-opener", Box::new(move || run_opener(&owner, &orders, &failures, &opener)))?;
        spawn("kernel-routes", Box::new(move || super::kernel_agent::run(&follower)))?;
        if let Some(reports) = node.plane.host().path_reports().take_receiver() {
            spawn("path-mtu", Box::new(move || crate::path_mtu::run(&learner, &reports)))?;
        }
        spawn("underlay", Box::new(move || agent.run(&watcher)))
    }
}

/// What is open in one network namespace.
struct WatchedNamespace {
    probe: Arc<InterfaceProbe>,
    /// The kernel's link messages; `None` if they are not permitted.
    links: Option<NetlinkSocket>,
}

/// State of the thread.
struct UnderlayAgent {
    times: DampingTimes,
    started: Instant,
    /// By name; `None`: the namespace of the process.
    namespaces: BTreeMap<Option<String>, WatchedNamespace>,
    ports: BTreeMap<u32, WatchedPort>,
    settings_version: u64,
    commands: Sender<PortCommand>,
    /// Numbers of ports that could not be opened.
    failed: Receiver<u32>,
    /// Ports to open again, each with its time.
    retries: Vec<(Instant, u32)>,
    /// The last write of next hops failed.
    has_failed: bool,
}

impl UnderlayAgent {
    fn run(mut self, node: &Weak<Node>) {
        loop {
            self.wait();
            let Some(node) = node.upgrade() else { return };
            if let Err(why) = self.observe(&node) {
                let why = format!("{why:#}");
                error!(why, "the links of the ports cannot be watched; fix this and reload the configuration");
                std::thread::sleep(RETRY_INTERVAL);
            }
        }
    }

    /// Waits for a message of the kernel, at most until the next probe. What the messages say is not
    /// read, because the probe that follows tells more than they do.
    fn wait(&mut self) {
        let mut fds: Vec<PollFd<'_>> = self
            .namespaces
            .values()
            .filter_map(|namespace| Some(PollFd::from_borrowed_fd(namespace.links.as_ref()?.as_fd(), PollFlags::IN)))
            .collect();
        let interval = if self.ports.is_empty() { IDLE_INTERVAL } else { PROBE_INTERVAL };
        let timeout = interval.try_into().ok();
        // An interruption only makes the next probe earlier.
        let _ = poll(&mut fds, timeout.as_ref());
        for links in self.namespaces.values_mut().filter_map(|namespace| namespace.links.as_mut()) {
            // An overrun loses nothing, because the messages are only a reason to probe.
            let _ = links.read_all(|_| {});
        }
    }

    /// Asks for all links, and applies what has changed.
    fn observe(&mut self, node: &Node) -> anyhow::Result<()> {
        if let Some(settings) = node.port_states().settings_since(&mut self.settings_version) {
            self.watch_ports(settings)?;
        }
        self.retry_failed();
        let (now, links) = (self.started.elapsed(), node.plane.links());
        let before: Vec<PortState> = self.ports.values().map(|port| port.status(now).state).collect();
        for (number, port) in &mut self.ports {
            let attached = links.get(number).map(|link| link.is_up);
            for command in port.observe(attached, now) {
                // The receiver ends only with the node.
                let _ = self.commands.send(command);
            }
        }
        let statuses: BTreeMap<_, _> = self.ports.iter().map(|(number, port)| (*number, port.status(now))).collect();
        let after: Vec<PortState> = statuses.values().map(|status| status.state).collect();
        node.port_states().publish(statuses);
        let mut states = PortStates::default();
        for (number, port) in &self.ports {
            states.set_port(*number, port.link_use(), port.mtu_bytes());
        }
        let began = Instant::now();
        let outcome = node.set_port_states(states);
        let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        for ((number, port), (old, new)) in self.ports.iter().zip(before.into_iter().zip(after)) {
            if old != new {
                log_change(node, *number, &port.setting.device, new, us);
            }
        }
        // Another process has taken over, or the store has failed. The next observation tries again.
        let has_failed = outcome.is_err();
        if let Err(why) = outcome
            && !self.has_failed
        {
            warn!(%why, "the next hops are not in accordance with the links; trying again");
        }
        self.has_failed = has_failed;
        Ok(())
    }

    /// Watches these ports and no others. A port whose setting is unchanged keeps its state.
    fn watch_ports(&mut self, settings: Vec<PortSetting>) -> anyhow::Result<()> {
        let mut former = std::mem::take(&mut self.ports);
        for setting in settings {
            let kept = former.remove(&setting.number).filter(|port| port.setting == setting);
            let port = match kept {
                Some(port) => port,
                None => {
                    let probe = if is_interface(&setting.device) { Some(self.probe(&setting.netns)?) } else { None };
                    WatchedPort::new(setting, probe, self.times)
                }
            };
            self.ports.insert(port.setting.number, port);
        }
        Ok(())
    }

    /// Returns the probe of a namespace, which it opens if necessary.
    fn probe(&mut self, netns: &Option<String>) -> anyhow::Result<Arc<InterfaceProbe>> {
        if let Some(namespace) = self.namespaces.get(netns) {
            return Ok(namespace.probe.clone());
        }
        let open = || Ok::<_, std::io::Error>((InterfaceProbe::open()?, NetlinkSocket::open(GROUP_LINK)));
        let (probe, links) = match netns {
            Some(name) => Namespace::open(name)?.run(open)?,
            None => open(),
        }?;
        let probe = Arc::new(probe);
        let links = links
            .inspect_err(|why| {
                warn!(netns, %why, "the kernel's link messages are not permitted; links are asked for every 5 ms instead");
            })
            .ok();
        self.namespaces.insert(netns.clone(), WatchedNamespace { probe: probe.clone(), links });
        Ok(probe)
    }

    /// Tries again to open ports that could not be opened.
    fn retry_failed(&mut self) {
        let now = Instant::now();
        self.retries.extend(self.failed.try_iter().map(|number| (now + RETRY_INTERVAL, number)));
        let (due, later): (Vec<_>, Vec<_>) = self.retries.drain(..).partition(|(at, _)| *at <= now);
        self.retries = later;
        for (_, number) in due {
            if let Some(port) = self.ports.get_mut(&number) {
                port.retry();
            }
        }
    }
}

/// Returns whether a device is a network interface, by the same rule as [`io::open_port`].
fn is_interface(device: &str) -> bool {
    !device.starts_with(io::memif::PREFIX) && !DpdkDevice::recognise(device)
}

/// Logs a change with what it costs. `us`: microseconds from the observation until no packet uses
/// the path any more.
fn log_change(node: &Node, port: u32, device: &str, state: PortState, us: u64) {
    let paths = node.count_paths().map_or_else(String::new, |(left, all)| format!(": {left} of {all} paths left"));
    match state {
        PortState::Up => info!(port, device, us, "{device} up{paths}"),
        PortState::Held => info!(port, device, "{device} up again; it is used when it was up for the hold time"),
        PortState::Down => warn!(port, device, us, "{device} down{paths}"),
        PortState::Missing => warn!(
            port,
            device,
            us,
            "{device} missing{paths}; there is no interface of this name; the port is opened when there is one"
        ),
    }
}

/// Executes the commands of the agent until the node has ended.
fn run_opener(node: &Weak<Node>, orders: &Receiver<PortCommand>, failures: &Sender<u32>, opener: &PortOpener) {
    for command in orders {
        let Some(node) = node.upgrade() else { return };
        match command {
            PortCommand::Detach(setting) => match node.detach_port(setting.number) {
                Ok(_) => {
                    info!(port = setting.number, device = setting.device, "a port was closed: its interface has gone")
                }
                Err(error) => error!(port = setting.number, %error, "a port whose interface has gone cannot be closed"),
            },
            PortCommand::Open(setting) => {
                match opener(&setting).and_then(|port| Ok(node.attach_port(setting.number, port)?)) {
                    Ok(()) => info!(
                        port = setting.number,
                        device = setting.device,
                        "a port was opened: its interface is there"
                    ),
                    Err(error) => {
                        let why = format!("{error:#}");
                        warn!(
                            port = setting.number,
                            device = setting.device,
                            why,
                            "a port cannot be opened; trying again"
                        );
                        let _ = failures.send(setting.number);
                    }
                }
            }
        }
    }
}
