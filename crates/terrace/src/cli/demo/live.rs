//! Runs the demo scenario in a lab: real interfaces, pings and TCP.

use super::gateway_process::GatewayProcess;
use super::name_service::{NameService, NamedConnection, ask_name};
use super::report::{KeptConnections, NamedCounter, ProbeResult, RegionChange, Stream, join_names};
use super::scenario::{
    CONNECTIONS, ExpectedResult, NAME_PORT, Probe, ProbeGroup, ProbeMethod, SERVICE, SERVICE_PORT, STRANGE_VNI,
    STRANGER, changed_region, wrong_region,
};
use super::stream::{self, StreamKind, StreamSpec};
use super::work_dir::WorkDir;
use crate::cli::engine_args::EngineArgs;
use crate::cli::failure::CommandError;
use crate::cli::io_args::IoArgs;
use crate::lab::{self, Lab, LabError, Ping, PingOutcome, Topology, exec};
use crate::run_stats::RunSummary;
use packet::Counter;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Server from which the stranger sends.
const STRANGER_SERVER: &str = "s1";
/// Machine that holds connections to the service over the region change.
const HOLDER: &str = "red-a";
/// Time that it waits for each answer.
const HOLDER_PATIENCE: Duration = Duration::from_secs(5);
/// Packets per attempt that must not arrive.
const REFUSED_PINGS: u32 = 2;

/// The lab with its gateway. Fields are dropped in this order: listeners, gateway, namespaces.
pub struct DemoLab<'a> {
    names: Option<NameService>,
    gateway: GatewayProcess,
    lab: Lab,
    stop: &'a AtomicBool,
}

impl<'a> DemoLab<'a> {
    /// Builds the lab and starts the gateway.
    pub fn start(
        name: &str,
        program: &Path,
        work: &WorkDir,
        by: (IoArgs, &EngineArgs),
        stop: &'a AtomicBool,
    ) -> Result<DemoLab<'a>, CommandError> {
        let region = region::load(&work.region()).map_err(CommandError::refused)?;
        let topology = Topology::from_region(name, &region).map_err(CommandError::system)?;
        let lab = lab::up(topology, stop, &mut |_, _| {}).map_err(|error| match error {
            LabError::Stopped => CommandError::stopped(),
            error => CommandError::system(error),
        })?;
        let gateway = GatewayProcess::start(program, name, by, work, stop)?;
        let names = Some(NameService::start(lab.topology())?);
        let live = DemoLab { names, gateway, lab, stop };
        live.add_stranger_tunnel()?;
        Ok(live)
    }

    /// Returns the topology of the lab.
    pub fn topology(&self) -> &Topology {
        self.lab.topology()
    }

    /// Returns the gateway process.
    pub fn gateway(&self) -> &GatewayProcess {
        &self.gateway
    }

    /// Ends the gateway and removes the lab.
    pub fn end(self) -> Result<(), CommandError> {
        let DemoLab { names, gateway, lab, .. } = self;
        drop(names);
        drop(gateway);
        lab.down().map(drop).map_err(CommandError::system)
    }

    /// Adds a tunnel with a VNI that no tenant has to a server.
    fn add_stranger_tunnel(&self) -> Result<(), CommandError> {
        let topology = self.topology();
        let server = topology.servers.iter().find(|server| server.name == STRANGER_SERVER);
        let server = server.ok_or_else(|| CommandError::Bug(format!("the lab has no server {STRANGER_SERVER}")))?;
        let vtep = topology.vtep_for(server.address).unwrap_or(server.address);
        let namespace = topology.namespace_of(STRANGER_SERVER);
        let (device, mac) = (format!("vx{STRANGE_VNI}"), topology.gateway.mac);
        let commands = [
            format!(
                "link add {device} type vxlan id {STRANGE_VNI} local {} remote {vtep} dstport 4789 nolearning",
                server.address
            ),
            format!("link set dev {device} up"),
            format!("address add 10.0.0.66/24 dev {device}"),
            format!("neighbour add 10.0.0.12 lladdr {mac} dev {device} nud permanent"),
        ];
        for command in commands {
            let arguments: Vec<&str> = command.split_whitespace().collect();
            let output = exec(&namespace, "ip", &arguments).output().map_err(CommandError::system)?;
            if !output.status.success() {
                let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(CommandError::Environment(format!("`ip {command}` failed in {namespace}: {message}")));
            }
        }
        Ok(())
    }

    /// Returns the namespace from which a VM, or a server itself, sends.
    fn namespace(&self, name: &str) -> Result<String, CommandError> {
        let topology = self.topology();
        if name == STRANGER {
            return Ok(topology.namespace_of(STRANGER_SERVER));
        }
        if topology.servers.iter().any(|server| server.name == name) {
            return Ok(topology.namespace_of(name));
        }
        let endpoint = topology.endpoint(name);
        endpoint
            .map(|endpoint| endpoint.namespace)
            .ok_or_else(|| CommandError::Bug(format!("the lab has no machine `{name}`")))
    }

    fn check_stop(&self) -> Result<(), CommandError> {
        if self.stop.load(Ordering::Relaxed) { Err(CommandError::stopped()) } else { Ok(()) }
    }

    /// Sends all probes that must pass: the pings at the same time. Then asks each replying VM for its name.
    pub fn send_all_probes(&self, groups: &[ProbeGroup]) -> Result<Vec<ProbeResult>, CommandError> {
        let probes: Vec<(&'static str, &Probe)> =
            groups.iter().flat_map(|group| group.probes.iter().map(|probe| (group.title, probe))).collect();
        let pinged = probes.iter().filter(|(_, probe)| probe.method == ProbeMethod::Ping);
        let pings = pinged.map(|(_, probe)| Ok(Ping::new(self.namespace(probe.from)?, probe.address())));
        let pings: Vec<Ping> = pings.collect::<Result<_, CommandError>>()?;
        let mut outcomes = lab::ping_all(&pings, &mut |_, _| {}).map_err(CommandError::system)?.into_iter();
        let mut results = Vec::new();
        for (group, probe) in probes {
            self.check_stop()?;
            let outcome = if probe.method == ProbeMethod::Ping { outcomes.next() } else { None };
            let (got, ms) = match outcome {
                Some(outcome) => (self.replying_vm(probe, &outcome)?, outcome.average_ms),
                None => (self.connected_vms(probe)?.unwrap_or_else(|| "no answer".to_owned()), None),
            };
            results.push(ProbeResult::new(group, probe, got, ms));
        }
        Ok(results)
    }

    /// Opens the TCP connections of a probe. Returns the names of the VMs that answered, if any.
    fn connected_vms(&self, probe: &Probe) -> Result<Option<String>, CommandError> {
        let (namespace, address) = (self.namespace(probe.from)?, probe.address());
        let port = probe.method.port().unwrap_or(NAME_PORT);
        let mut names = Vec::new();
        for _ in 0..probe.method.requests() {
            names.push(ask_name(&namespace, address, port)?);
        }
        let is_answered = names.iter().any(Option::is_some);
        Ok(is_answered.then(|| join_names(names.iter().map(|name| name.as_deref().unwrap_or("no answer")))))
    }

    /// Returns the name of the replying VM, in the words of the result table.
    fn replying_vm(&self, probe: &Probe, outcome: &PingOutcome) -> Result<String, CommandError> {
        if !outcome.reached() {
            return Ok("no answer".to_owned());
        }
        let name = ask_name(&self.namespace(probe.from)?, probe.address(), NAME_PORT)?;
        let name = name.unwrap_or_else(|| "ping, but no TCP".to_owned());
        Ok(match outcome.lossless() {
            true => name,
            false => format!("{name} ({} of {} answers)", outcome.received, outcome.sent),
        })
    }

    /// Sends the probes one by one and compares the gateway's counters. Every packet that does not
    /// arrive must have been dropped for the expected reason, and no other packet may have been
    /// dropped.
    pub fn send_each_probe(&self, groups: &[ProbeGroup]) -> Result<Vec<ProbeResult>, CommandError> {
        let mut results = Vec::new();
        let mut before = self.gateway.stats()?;
        for group in groups {
            for probe in group.probes {
                self.check_stop()?;
                let (answer, sent, ms) = self.send_probe(probe)?;
                let after = self.gateway.stats()?;
                let got = answer.unwrap_or_else(|| packet_outcome(&before, &after, sent));
                before = after;
                results.push(ProbeResult::new(group.title, probe, got, ms));
            }
        }
        Ok(results)
    }

    /// Sends one probe. Returns the name of the replying VM if there was a reply, the number of
    /// packets sent, and the average time in milliseconds.
    fn send_probe(&self, probe: &Probe) -> Result<(Option<String>, u64, Option<f64>), CommandError> {
        if probe.method != ProbeMethod::Ping {
            return Ok((self.connected_vms(probe)?, probe.method.requests() as u64, None));
        }
        let namespace = self.namespace(probe.from)?;
        let mut ping = Ping { timeout: Duration::from_millis(300), ..Ping::new(namespace, probe.address()) };
        if !matches!(probe.expected, ExpectedResult::Reaches(_)) {
            ping.count = REFUSED_PINGS;
        }
        let outcome = lab::ping(&ping).map_err(CommandError::system)?;
        let answer = if outcome.reached() { Some(self.replying_vm(probe, &outcome)?) } else { None };
        Ok((answer, u64::from(outcome.sent), outcome.average_ms))
    }

    /// Sends streams at the same time.
    pub fn streams(&self, plans: &[StreamSpec]) -> Result<Vec<Stream>, CommandError> {
        let running: Vec<_> =
            plans.iter().map(|plan| stream::start_stream(self.topology(), *plan)).collect::<Result<_, _>>()?;
        running.into_iter().map(|stream| stream.finish(self.stop)).collect()
    }

    /// Applies a changed region, and then an invalid one, while unaffected packets flow.
    pub fn change_under_load(&self, work: &WorkDir) -> Result<RegionChange, CommandError> {
        let before = self.gateway.stats()?;
        let running: Vec<_> =
            UNTOUCHED.iter().map(|plan| stream::start_stream(self.topology(), *plan)).collect::<Result<_, _>>()?;
        let mut held = self.open_connections()?;
        self.pause_for(Duration::from_millis(1200))?;
        let began = Instant::now();
        work.edit_region(&changed_region())?;
        let applied = self.gateway.apply()?;
        let apply_ms = began.elapsed().as_secs_f64() * 1e3;
        let applied =
            applied.map_err(|message| CommandError::Bug(format!("the changed region is refused: {message}")))?;
        self.pause_for(Duration::from_millis(500))?;
        work.edit_region(&wrong_region())?;
        let refused = match self.gateway.apply()? {
            // Paths are shown relative to the repository.
            Err(message) => message.replace(&format!("{}/", work.root().display()), ""),
            Ok(_) => String::new(),
        };
        let kept = KeptConnections {
            from: HOLDER,
            to: format!("{SERVICE} tcp {SERVICE_PORT}"),
            backends: count_by_name(&held),
            answered: held.iter_mut().map(NamedConnection::is_answered).filter(|answered| *answered).count(),
        };
        drop(held);
        let untouched = running.into_iter().map(|stream| stream.finish(self.stop)).collect::<Result<_, _>>()?;
        let after = self.gateway.stats()?;
        let dropped = counter_increases(&before.drops, &after.drops);
        let dropped = dropped.map(|(reason, count)| NamedCounter { name: reason.clone(), count }).collect();
        Ok(RegionChange {
            entries: [applied.inserted, applied.modified, applied.deleted],
            ms: apply_ms,
            refused,
            untouched,
            kept,
            dropped,
        })
    }

    /// Opens connections to the service, which stay.
    fn open_connections(&self) -> Result<Vec<NamedConnection>, CommandError> {
        let namespace = self.namespace(HOLDER)?;
        let address: IpAddr = SERVICE.parse().map_err(|_| CommandError::Bug(format!("{SERVICE} is no address")))?;
        let open = |_| {
            let opened = NamedConnection::open(&namespace, address, SERVICE_PORT, HOLDER_PATIENCE)?;
            opened.ok_or_else(|| CommandError::Environment(format!("{HOLDER} gets no connection to {SERVICE}")))
        };
        (0..CONNECTIONS).map(open).collect()
    }

    fn pause_for(&self, time: Duration) -> Result<(), CommandError> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check_stop()?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Streams that the region change must not affect. They are slow enough for a busy machine, so that
/// any loss is due to the change.
const UNTOUCHED: &[StreamSpec] = &[
    StreamSpec {
        from: "red-a",
        to: "red-b",
        address: "10.0.0.12",
        what: "iperf3",
        kind: StreamKind::PacedTcp(40),
        seconds: 3,
    },
    StreamSpec {
        from: "blue-a",
        to: "blue-b",
        address: "fd00:100::12",
        what: "iperf3",
        kind: StreamKind::Udp(5),
        seconds: 3,
    },
    StreamSpec {
        from: "red-c",
        to: "hq",
        address: "172.16.0.10",
        what: "ping",
        kind: StreamKind::Ping(200),
        seconds: 3,
    },
    StreamSpec {
        from: "red-b",
        to: "internet",
        address: "203.0.113.200",
        what: "iperf3",
        kind: StreamKind::Udp(5),
        seconds: 3,
    },
];

/// Fast streams, in rounds.
pub const FAST: &[&[StreamSpec]] = &[
    &[
        StreamSpec {
            from: "red-a",
            to: "red-b",
            address: "10.0.0.12",
            what: "same addresses,",
            kind: StreamKind::Tcp,
            seconds: 2,
        },
        StreamSpec {
            from: "blue-a",
            to: "blue-b",
            address: "10.0.0.12",
            what: "same time",
            kind: StreamKind::Tcp,
            seconds: 2,
        },
    ],
    &[StreamSpec {
        from: "red-a",
        to: "red-c",
        address: "fd00:100::13",
        what: "IPv6 in IPv6",
        kind: StreamKind::Tcp,
        seconds: 1,
    }],
    &[StreamSpec {
        from: "green-b",
        to: "red-b",
        address: "10.0.0.12",
        what: "peered VPCs",
        kind: StreamKind::Tcp,
        seconds: 1,
    }],
    &[StreamSpec {
        from: "red-a",
        to: "internet",
        address: "203.0.113.200",
        what: "through the NAT",
        kind: StreamKind::Tcp,
        seconds: 1,
    }],
];

fn count_by_name(connections: &[NamedConnection]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for connection in connections {
        *counts.entry(connection.name.clone()).or_default() += 1;
    }
    counts
}

/// Returns the increase of each counter between two snapshots.
fn counter_increases<'a>(
    before: &'a BTreeMap<String, Counter>,
    after: &'a BTreeMap<String, Counter>,
) -> impl Iterator<Item = (&'a String, Counter)> {
    after.iter().filter_map(|(reason, after)| {
        let before = before.get(reason).copied().unwrap_or_default();
        let (packets, bytes) = (after.packets - before.packets, after.bytes - before.bytes);
        (packets > 0).then_some((reason, Counter { packets, bytes }))
    })
}

/// Describes from its counters how the gateway treated `sent` packets that got no reply.
fn packet_outcome(before: &RunSummary, after: &RunSummary, sent: u64) -> String {
    let mut became: BTreeMap<String, u64> = BTreeMap::new();
    for (word, before, after) in
        [("dropped", &before.drops, &after.drops), ("to the CPU", &before.to_cpu, &after.to_cpu)]
    {
        became.extend(
            counter_increases(before, after).map(|(reason, count)| (format!("{word}: {reason}"), count.packets)),
        );
    }
    let whole = |(what, packets): (&String, &u64)| match *packets == sent {
        true => what.clone(),
        false => format!("{what} ({packets} of {sent} packets)"),
    };
    match became.len() {
        0 => "no answer, and the gateway saw nothing".to_owned(),
        _ => became.iter().map(whole).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_needs_its_reason_counted() {
        let with = |entries: &[(&str, u64)]| RunSummary {
            drops: entries
                .iter()
                .map(|(name, packets)| (name.to_string(), Counter { packets: *packets, bytes: 0 }))
                .collect(),
            ..RunSummary::default()
        };
        let before = with(&[("no_route", 3)]);
        assert_eq!(packet_outcome(&before, &with(&[("no_route", 5)]), 2), "dropped: no_route");
        assert_eq!(packet_outcome(&before, &with(&[("no_route", 4)]), 2), "dropped: no_route (1 of 2 packets)");
        assert_eq!(packet_outcome(&before, &before, 2), "no answer, and the gateway saw nothing");
        let both = with(&[("no_route", 5), ("unknown_vm", 1)]);
        assert_eq!(packet_outcome(&before, &both, 2), "dropped: no_route, dropped: unknown_vm (1 of 2 packets)");
        let punted = RunSummary { to_cpu: both.drops.clone(), ..before.clone() };
        assert!(packet_outcome(&before, &punted, 5).contains("to the CPU: no_route"));
    }
}
