//! The scenario in a lab: real interfaces, real pings, real TCP.

use super::gateway_process::GatewayProcess;
use super::name_service::{NameService, ask_name};
use super::report::{Change, Named, ProbeResult, Stream};
use super::scenario::{
    DENIED_PORT, Expected, Group, Means, NAME_PORT, Probe, STRANGE_VNI, STRANGER, changed_region, wrong_region,
};
use super::stream::{self, Kind, Plan};
use super::work_dir::WorkDir;
use crate::cli::engine_args::EngineArgs;
use crate::cli::failure::Failure;
use crate::cli::io_args::IoArgs;
use crate::lab::{self, Lab, LabError, Ping, PingOutcome, Topology, exec};
use crate::run_stats::Stats;
use packet::Counter;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The server from which the stranger sends.
const STRANGER_SERVER: &str = "s1";
/// Packets that must not arrive, for each attempt.
const REFUSED_PINGS: u32 = 2;

/// The lab with its gateway. Fields are dropped in this order: the listeners, the gateway, the namespaces.
pub struct Live<'a> {
    names: Option<NameService>,
    gateway: GatewayProcess,
    lab: Lab,
    stop: &'a AtomicBool,
}

impl<'a> Live<'a> {
    /// Builds the lab and starts the gateway.
    pub fn start(
        name: &str,
        program: &Path,
        work: &WorkDir,
        by: (IoArgs, &EngineArgs),
        stop: &'a AtomicBool,
    ) -> Result<Live<'a>, Failure> {
        let region = region::load(&work.region()).map_err(Failure::refused)?;
        let topology = Topology::from_region(name, &region).map_err(Failure::system)?;
        let lab = lab::up(topology, stop, &mut |_, _| {}).map_err(|error| match error {
            LabError::Stopped => Failure::stopped(),
            error => Failure::system(error),
        })?;
        let gateway = GatewayProcess::start(program, name, by, work, stop)?;
        let names = Some(NameService::start(lab.topology())?);
        let live = Live { names, gateway, lab, stop };
        live.let_a_stranger_in()?;
        Ok(live)
    }

    /// What the lab consists of.
    pub fn topology(&self) -> &Topology {
        self.lab.topology()
    }

    /// The gateway.
    pub fn gateway(&self) -> &GatewayProcess {
        &self.gateway
    }

    /// Ends everything.
    pub fn end(self) -> Result<(), Failure> {
        let Live { names, gateway, lab, .. } = self;
        drop(names);
        drop(gateway);
        lab.down().map(drop).map_err(Failure::system)
    }

    /// A tunnel on a server with a VNI that no tenant has.
    fn let_a_stranger_in(&self) -> Result<(), Failure> {
        let topology = self.topology();
        let server = topology.servers.iter().find(|server| server.name == STRANGER_SERVER);
        let server = server.ok_or_else(|| Failure::Bug(format!("the lab has no server {STRANGER_SERVER}")))?;
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
            let output = exec(&namespace, "ip", &arguments).output().map_err(Failure::system)?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(Failure::Environment(format!("`ip {command}` failed in {namespace}: {said}")));
            }
        }
        Ok(())
    }

    /// The namespace from which a machine sends.
    fn namespace(&self, name: &str) -> Result<String, Failure> {
        if name == STRANGER {
            return Ok(self.topology().namespace_of(STRANGER_SERVER));
        }
        let endpoint = self.topology().endpoint(name);
        endpoint
            .map(|endpoint| endpoint.namespace)
            .ok_or_else(|| Failure::Bug(format!("the lab has no machine `{name}`")))
    }

    fn check_stop(&self) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) { Err(Failure::stopped()) } else { Ok(()) }
    }

    /// Tries what is to pass, all of it at the same time; then asks everybody who answered for the name.
    pub fn try_together(&self, groups: &[Group]) -> Result<Vec<ProbeResult>, Failure> {
        let probes: Vec<(&'static str, &Probe)> =
            groups.iter().flat_map(|group| group.probes.iter().map(|probe| (group.title, probe))).collect();
        let pings = probes.iter().map(|(_, probe)| Ok(Ping::new(self.namespace(probe.from)?, probe.address())));
        let pings: Vec<Ping> = pings.collect::<Result<_, Failure>>()?;
        let outcomes = lab::ping_all(&pings, &mut |_, _| {}).map_err(Failure::system)?;
        let mut results = Vec::new();
        for ((group, probe), outcome) in probes.into_iter().zip(outcomes) {
            self.check_stop()?;
            results.push(ProbeResult::new(group, probe, self.who(probe, &outcome)?, outcome.average_ms));
        }
        Ok(results)
    }

    /// Who answered, in the words of the table.
    fn who(&self, probe: &Probe, outcome: &PingOutcome) -> Result<String, Failure> {
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

    /// Tries one after the other, and watches the gateway's counters: what does not arrive must have been dropped for the reason that is
    /// expected, every packet of it, and nothing else must have been dropped.
    pub fn try_each(&self, groups: &[Group]) -> Result<Vec<ProbeResult>, Failure> {
        let mut results = Vec::new();
        let mut before = self.gateway.stats()?;
        for group in groups {
            for probe in group.probes {
                self.check_stop()?;
                let (answer, sent, ms) = self.try_one(probe)?;
                let after = self.gateway.stats()?;
                let got = answer.unwrap_or_else(|| what_became(&before, &after, sent));
                before = after;
                results.push(ProbeResult::new(group.title, probe, got, ms));
            }
        }
        Ok(results)
    }

    /// Who answered, if anybody, and how many packets were sent.
    fn try_one(&self, probe: &Probe) -> Result<(Option<String>, u64, Option<f64>), Failure> {
        let namespace = self.namespace(probe.from)?;
        if probe.means == Means::Tcp {
            return Ok((ask_name(&namespace, probe.address(), DENIED_PORT)?, 1, None));
        }
        let mut ping = Ping { timeout: Duration::from_millis(300), ..Ping::new(namespace, probe.address()) };
        if !matches!(probe.expected, Expected::Reaches(_)) {
            ping.count = REFUSED_PINGS;
        }
        let outcome = lab::ping(&ping).map_err(Failure::system)?;
        let answer = if outcome.reached() { Some(self.who(probe, &outcome)?) } else { None };
        Ok((answer, u64::from(outcome.sent), outcome.average_ms))
    }

    /// Sends streams at the same time.
    pub fn streams(&self, plans: &[Plan]) -> Result<Vec<Stream>, Failure> {
        let running: Vec<_> =
            plans.iter().map(|plan| stream::start(self.topology(), *plan)).collect::<Result<_, _>>()?;
        running.into_iter().map(|stream| stream.finish(self.stop)).collect()
    }

    /// Applies a changed region, and then a wrong one, while packets flow that neither concerns.
    pub fn change_under_load(&self, work: &WorkDir) -> Result<Change, Failure> {
        let before = self.gateway.stats()?;
        let running: Vec<_> =
            UNTOUCHED.iter().map(|plan| stream::start(self.topology(), *plan)).collect::<Result<_, _>>()?;
        self.pause(Duration::from_millis(1200))?;
        let began = Instant::now();
        work.edit_region(&changed_region())?;
        let applied = self.gateway.apply()?;
        let ms = began.elapsed().as_secs_f64() * 1e3;
        let applied = applied.map_err(|message| Failure::Bug(format!("the changed region is refused: {message}")))?;
        self.pause(Duration::from_millis(500))?;
        work.edit_region(&wrong_region())?;
        let refused = match self.gateway.apply()? {
            // The place as it would be named in the repository.
            Err(message) => message.replace(&format!("{}/", work.root().display()), ""),
            Ok(_) => String::new(),
        };
        let untouched = running.into_iter().map(|stream| stream.finish(self.stop)).collect::<Result<_, _>>()?;
        let after = self.gateway.stats()?;
        let dropped = more(&before.drops, &after.drops);
        let dropped = dropped.map(|(reason, count)| Named { name: reason.clone(), count }).collect();
        Ok(Change { entries: [applied.inserted, applied.modified, applied.deleted], ms, refused, untouched, dropped })
    }

    fn pause(&self, time: Duration) -> Result<(), Failure> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check_stop()?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Streams that the change of the region does not concern. They are slow enough for a busy machine: what is lost, is lost by the change.
const UNTOUCHED: &[Plan] = &[
    Plan { from: "red-a", to: "red-b", address: "10.0.0.12", what: "iperf3", kind: Kind::PacedTcp(40), seconds: 3 },
    Plan { from: "blue-a", to: "blue-b", address: "fd00:100::12", what: "iperf3", kind: Kind::Udp(5), seconds: 3 },
    Plan { from: "red-c", to: "hq", address: "172.16.0.10", what: "ping", kind: Kind::Ping(200), seconds: 3 },
];

/// Fast streams, in rounds.
pub const FAST: &[&[Plan]] = &[
    &[
        Plan { from: "red-a", to: "red-b", address: "10.0.0.12", what: "same addresses,", kind: Kind::Tcp, seconds: 2 },
        Plan { from: "blue-a", to: "blue-b", address: "10.0.0.12", what: "same time", kind: Kind::Tcp, seconds: 2 },
    ],
    &[Plan { from: "red-a", to: "red-c", address: "fd00:100::13", what: "IPv6 in IPv6", kind: Kind::Tcp, seconds: 1 }],
    &[Plan { from: "green-b", to: "red-b", address: "10.0.0.12", what: "peered VPCs", kind: Kind::Tcp, seconds: 1 }],
];

/// What was counted between two looks at the counters.
fn more<'a>(
    before: &'a BTreeMap<String, Counter>,
    after: &'a BTreeMap<String, Counter>,
) -> impl Iterator<Item = (&'a String, Counter)> {
    after.iter().filter_map(|(reason, after)| {
        let before = before.get(reason).copied().unwrap_or_default();
        let (packets, bytes) = (after.packets - before.packets, after.bytes - before.bytes);
        (packets > 0).then_some((reason, Counter { packets, bytes }))
    })
}

/// What the gateway did with `sent` packets that nobody answered, by its own counters.
fn what_became(before: &Stats, after: &Stats, sent: u64) -> String {
    let mut became: BTreeMap<String, u64> = BTreeMap::new();
    for (word, before, after) in
        [("dropped", &before.drops, &after.drops), ("to the CPU", &before.to_cpu, &after.to_cpu)]
    {
        became.extend(more(before, after).map(|(reason, count)| (format!("{word}: {reason}"), count.packets)));
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
        let with = |entries: &[(&str, u64)]| Stats {
            drops: entries
                .iter()
                .map(|(name, packets)| (name.to_string(), Counter { packets: *packets, bytes: 0 }))
                .collect(),
            ..Stats::default()
        };
        let before = with(&[("no_route", 3)]);
        assert_eq!(what_became(&before, &with(&[("no_route", 5)]), 2), "dropped: no_route");
        assert_eq!(what_became(&before, &with(&[("no_route", 4)]), 2), "dropped: no_route (1 of 2 packets)");
        assert_eq!(what_became(&before, &before, 2), "no answer, and the gateway saw nothing");
        let both = with(&[("no_route", 5), ("unknown_vm", 1)]);
        assert_eq!(what_became(&before, &both, 2), "dropped: no_route, dropped: unknown_vm (1 of 2 packets)");
        let punted = Stats { to_cpu: both.drops.clone(), ..before.clone() };
        assert!(what_became(&before, &punted, 5).contains("to the CPU: no_route"));
    }
}
