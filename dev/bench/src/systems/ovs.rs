//! Open vSwitch on DPDK, from Debian's package: VXLAN in, OpenFlow tables for routes and VMs, VXLAN
//! out; packets from a capture file.
//!
//! It runs with its own database and folder in its own network namespace, so that another Open
//! vSwitch on the machine is not affected. Caches and limits are Debian's defaults. Its windows run
//! consecutively without other entrants between, because a polling thread does not share its core,
//! and a thread that is stopped for a while loses its flows (Open vSwitch takes the pause for
//! overload). Its time is the processor time of that thread, so that other work on the core is not
//! counted.

use crate::check::{self, ExpectedOutput};
use crate::external_resources::{ExternalResource, Process, ResourceGuard};
use crate::machine;
use crate::ring::Template;
use crate::run::CallResult;
use crate::systems::commands::run_to_end;
use crate::systems::{capture, threads};
use crate::workload::{Flow, GATEWAY, OWN_MAC, ROUTER_MAC, Workload};
use anyhow::{Context, bail, ensure};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Path of Debian's build with DPDK.
pub const VSWITCHD: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

/// Default maximum number of flows in its datapath.
const FLOW_LIMIT: usize = 200_000;

/// Address of the router to all servers.
const ROUTER: &str = "192.0.2.254";

/// Bytes that Open vSwitch chooses itself: the outer source port comes from its own hash.
const OWN_CHOICE: &[(usize, usize)] = &[(34, 36)];

/// A running Open vSwitch with a workload's flows.
pub struct Ovs {
    folder: PathBuf,
    namespace: String,
    /// The switch and its database. They are ended in this order, and before the resources that
    /// they use are removed.
    switch: Option<Process>,
    database: Option<Process>,
    ports: u32,
    /// Cores for work that is not measured.
    beside: String,
    _removed: [ResourceGuard; 2],
}

impl Ovs {
    /// Starts Open vSwitch on `core`, and loads a workload's flows. Takes about 90 s for a million
    /// VMs.
    ///
    /// # Errors
    /// If it is not installed, or a step fails; the message has the last lines of its log.
    pub fn start(world: Workload, core: usize) -> anyhow::Result<Ovs> {
        ensure!(Path::new(VSWITCHD).exists(), "{VSWITCHD} is missing (Debian: openvswitch-switch-dpdk)");
        let namespace = format!("terrace-bench-{}", std::process::id());
        let folder = std::env::temp_dir().join(&namespace);
        let removed = [ExternalResource::Path(folder.clone()), ExternalResource::Namespace(namespace.clone())]
            .map(ResourceGuard::new);
        fs::create_dir_all(&folder)?;
        let beside = (if core == 0 { machine::cores() - 1 } else { 0 }).to_string();
        let mut ovs = Ovs { folder, namespace, switch: None, database: None, ports: 0, beside, _removed: removed };
        let done = ovs.set_up(core).and_then(|()| ovs.load_flows(world));
        match done {
            Ok(()) => Ok(ovs),
            Err(error) => match ovs.log_tail() {
                log if log.is_empty() => Err(error),
                log => Err(error.context(format!("its log ends with: {log}"))),
            },
        }
    }

    /// Starts the database server and the switch in a network namespace of their own, with the
    /// switch's worker on `core`, and creates the bridges.
    fn set_up(&mut self, core: usize) -> anyhow::Result<()> {
        let database = self.folder.join("conf.db");
        run_to_end(
            Command::new("ovsdb-tool").arg("create").arg(&database).arg("/usr/share/openvswitch/vswitch.ovsschema"),
        )?;
        let mut server = self.tool_command("ovsdb-server");
        server.arg(&database).arg(format!("--remote=punix:{}", self.path("db.sock")));
        server.arg(format!("--unixctl={}", self.path("db.ctl"))).arg(format!("--log-file={}", self.path("db.log")));
        self.database = Some(Process::start(server.stdout(Stdio::null()).stderr(Stdio::null()))?);
        wait_for(&self.folder.join("db.sock"))?;
        run_to_end(Command::new("ip").args(["netns", "add", &self.namespace]))?;
        run_to_end(self.namespace_command().args(["ip", "link", "set", "lo", "up"]))?;
        self.vsctl(&["--no-wait", "init"])?;
        let cores =
            [format!("other_config:pmd-cpu-mask={:#x}", 1u64 << core), "other_config:dpdk-lcore-mask=0x1".to_owned()];
        let mut words = vec!["--no-wait", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true"];
        words.extend(cores.iter().map(String::as_str));
        words.extend(["other_config:dpdk-extra=--no-pci --in-memory --no-telemetry"]);
        self.vsctl(&words)?;
        let mut switch = self.namespace_command();
        // Allowed on all cores, because it chooses its cores itself and would inherit only ours.
        switch.args(["taskset", "-c", &format!("0-{}", machine::cores() - 1), VSWITCHD]);
        switch.arg(format!("unix:{}", self.path("db.sock"))).arg(format!("--unixctl={}", self.path("vs.ctl")));
        switch.arg(format!("--log-file={}", self.path("vs.log"))).env("OVS_RUNDIR", &self.folder);
        self.switch = Some(Process::start(switch.stdout(Stdio::null()).stderr(Stdio::null()))?);
        self.create_bridges()
    }

    /// Creates one bridge for the underlay and one for tunnels. The underlay bridge has our
    /// address.
    fn create_bridges(&self) -> anyhow::Result<()> {
        let userspace = ["datapath_type=netdev", "fail-mode=secure"];
        for bridge in ["br-phy", "br-int"] {
            let mut words = vec!["add-br", bridge, "--", "set", "bridge", bridge];
            words.extend(userspace);
            self.vsctl(&words)?;
        }
        self.vsctl(&["set", "bridge", "br-phy", &format!("other-config:hwaddr=\"{}\"", mac(OWN_MAC))])?;
        let tunnel = ["options:remote_ip=flow", "options:key=flow", "options:dst_port=4789", "options:ttl=254"];
        let mut words = vec!["add-port", "br-int", "vx", "--", "set", "interface", "vx", "type=vxlan"];
        words.extend(tunnel);
        words.extend(["options:df_default=false", "ofport_request=10"]);
        self.vsctl(&words)?;
        let address = format!("{}/24", Ipv4Addr::from(GATEWAY));
        run_to_end(self.namespace_command().args(["ip", "address", "add", &address, "dev", "br-phy"]))?;
        run_to_end(self.namespace_command().args(["ip", "link", "set", "br-phy", "up"]))?;
        run_to_end(self.namespace_command().args(["ip", "route", "add", "198.18.0.0/16", "via", ROUTER]))?;
        let router = mac(ROUTER_MAC);
        run_to_end(self.tool_command("ovs-appctl").args([
            "-t",
            &self.path("vs.ctl"),
            "tnl/neigh/set",
            "br-phy",
            ROUTER,
            &router,
        ]))
    }

    /// Writes a workload as flows: table 0 has the routes, table 1 the VMs.
    fn load_flows(&self, world: Workload) -> anyhow::Result<()> {
        let path = self.folder.join("flows");
        let mut file = BufWriter::new(File::create(&path)?);
        for tenant in 0..world.tenants() {
            for route in world.routes_of(tenant) {
                let (vni, prefix) = (Workload::vni(tenant), Ipv4Addr::from(route.prefix));
                let target_vni = Workload::vni(route.peer.unwrap_or(tenant));
                let len = route.len;
                let action = format!("dec_ttl,set_field:{target_vni}->tun_id,goto_table:1");
                writeln!(file, "table=0,tun_id={vni},ip,nw_dst={prefix}/{len},actions={action}")?;
            }
        }
        for number in 0..world.vms {
            let vm = world.vm(number);
            let (address, server) = (Ipv4Addr::from(vm.address), Ipv4Addr::from(vm.server));
            let macs = format!("set_field:{}->eth_src,set_field:{}->eth_dst", mac(OWN_MAC), mac(vm.mac));
            let action = format!("set_field:{server}->tun_dst,{macs},in_port");
            writeln!(file, "table=1,tun_id={},ip,nw_dst={address},actions={action}", vm.to_vni)?;
        }
        file.flush()?;
        let target = format!("unix:{}", self.path("br-int.mgmt"));
        run_to_end(self.tool_command("ovs-ofctl").args(["-O", "OpenFlow13", "add-flows", &target]).arg(&path))?;
        Ok(fs::remove_file(&path)?)
    }

    /// Replaces the port that packets arrive on and leave by, and sends the underlay's flows
    /// through it.
    fn replace_port(&mut self, devices: &str) -> anyhow::Result<()> {
        if self.ports > 0 {
            self.vsctl(&["del-port", "br-phy", &format!("in{}", self.ports)])?;
        }
        self.ports += 1;
        let number = self.ports;
        let target = format!("unix:{}", self.path("br-phy.mgmt"));
        let flows = [format!("in_port={number},actions=LOCAL"), format!("in_port=LOCAL,actions=output:{number}")];
        for flow in flows {
            run_to_end(self.tool_command("ovs-ofctl").args(["-O", "OpenFlow13", "add-flow", &target, &flow]))?;
        }
        let port = format!("in{number}");
        let device = format!("options:dpdk-devargs=\"net_pcap{number},{devices}\"");
        let request = format!("ofport_request={number}");
        self.vsctl(&["add-port", "br-phy", &port, "--", "set", "interface", &port, "type=dpdk", &device, &request])
    }

    /// Checks that it sends the expected packets, except for bytes that it chooses itself (the
    /// outer source port). Each packet is sent many times, because the first ones arrive before it
    /// is ready.
    ///
    /// # Errors
    /// If a packet is unexpected, or one is missing.
    pub fn check(&mut self, expected: &[ExpectedOutput]) -> anyhow::Result<()> {
        let (received_file, sent_file) = (self.folder.join("given.pcap"), self.folder.join("sent.pcap"));
        let repeated = (0..400).flat_map(|_| expected.iter().map(|sample| sample.packet.clone()));
        capture::write(&received_file, repeated)?;
        self.replace_port(&format!("rx_pcap={},tx_pcap={}", received_file.display(), sent_file.display()))?;
        let total = expected.len() as u64 * 400;
        let wait_start = Instant::now();
        while self.counters()?.0 < total && wait_start.elapsed() < Duration::from_secs(20) {
            sleep(Duration::from_millis(100));
        }
        // Removing the port flushes the file.
        self.replace_port("iface=lo")?;
        let packet_key = |bytes: &[u8]| (bytes.get(68..70).map(<[u8]>::to_vec), bytes.get(76..84).map(<[u8]>::to_vec));
        let expected_by_key: HashMap<_, &ExpectedOutput> =
            expected.iter().map(|sample| (packet_key(&sample.packet), sample)).collect();
        let mut seen = HashMap::new();
        for packet in capture::read(&sent_file)?.iter().filter(|packet| packet.get(12..14) == Some(&[8, 0])) {
            let Some(sample) = expected_by_key.get(&packet_key(packet)) else {
                bail!("OVS sends an unexpected packet: {packet:x?}")
            };
            check::check_packet("OVS", sample, packet, OWN_CHOICE)?;
            *seen.entry(packet_key(packet)).or_insert(0) += 1;
        }
        for file in [received_file, sent_file] {
            let _ = fs::remove_file(file);
        }
        ensure!(seen.len() == expected_by_key.len(), "OVS sends {} of {} packets", seen.len(), expected_by_key.len());
        Ok(())
    }

    /// Feeds these flows' packets, repeatedly (`again`) or once.
    ///
    /// # Errors
    /// If the port cannot be created.
    pub fn feed_flows(&mut self, template: &Template, flows: &[Flow], again: bool) -> anyhow::Result<()> {
        let path = self.folder.join("feed.pcap");
        capture::write(&path, flows.iter().map(|flow| template.packet(*flow)))?;
        let again = if again { ",infinite_rx=1" } else { "" };
        self.replace_port(&format!("rx_pcap={}{again}", path.display()))
    }

    /// Waits until its datapath holds `flows` flows, or has gained none for ten seconds, or
    /// `longest` is over.
    ///
    /// Its dynamic flow limit starts low, grows by a thousand in each round of its revalidator, and
    /// shrinks when a round takes long because other work uses its core. To measure it at its best,
    /// the limit is repeatedly set to the configured maximum, unless even that is too small. Then
    /// most packets take its slow path, and keeping flows only costs time.
    ///
    /// # Errors
    /// If it does not respond.
    pub fn warm_up(&self, flows: usize, longest: Duration) -> anyhow::Result<()> {
        let start = Instant::now();
        let (mut most_held, mut last_growth) = (0.0, start);
        while start.elapsed() < longest && last_growth.elapsed() < Duration::from_secs(10) {
            if flows <= FLOW_LIMIT {
                let limit = FLOW_LIMIT.to_string();
                run_to_end(self.tool_command("ovs-appctl").args([
                    "-t",
                    &self.path("vs.ctl"),
                    "upcall/set-flow-limit",
                    &limit,
                ]))?;
            }
            sleep(Duration::from_secs(1));
            let (held, _) = self.datapath_flows()?;
            if held >= flows as f64 {
                break;
            }
            if held > most_held * 1.01 {
                (most_held, last_growth) = (held, Instant::now());
            }
        }
        // Gives it time to load its caches with the last learned flows.
        sleep(Duration::from_secs(1));
        Ok(())
    }

    /// Returns the current number of flows in its datapath, and its current limit.
    ///
    /// # Errors
    /// If it does not respond.
    pub fn datapath_flows(&self) -> anyhow::Result<(f64, f64)> {
        let output = self.tool_command("ovs-appctl").args(["-t", &self.path("vs.ctl"), "upcall/show"]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let number = |word: &str| -> Option<f64> { text.split(word).nth(1)?.split(')').next()?.trim().parse().ok() };
        number("(current ").zip(number("(limit ")).with_context(|| format!("no flows in {text:?}"))
    }

    /// Measures for a while. Returns the number of sent packets with the processor time of its
    /// polling thread.
    ///
    /// # Errors
    /// If its counters cannot be read.
    pub fn measure_rate(&self, length: Duration) -> anyhow::Result<CallResult> {
        let switch = self.switch.as_ref().context("it runs")?;
        let thread = threads::find_thread(switch.child.id(), "pmd-").context("no polling thread")?;
        let (start, before) = (thread.processor_time()?, self.counters()?.1);
        sleep(length);
        let (end, after) = (thread.processor_time()?, self.counters()?.1);
        Ok(CallResult { operations: after.saturating_sub(before), took: Some(end.saturating_sub(start)) })
    }

    /// Returns the number of packets received on the last port.
    ///
    /// # Errors
    /// If its counters cannot be read.
    pub fn received(&self) -> anyhow::Result<u64> {
        Ok(self.counters()?.0)
    }

    /// Returns the numbers of packets received and sent on the last port.
    fn counters(&self) -> anyhow::Result<(u64, u64)> {
        let target = format!("unix:{}", self.path("br-phy.mgmt"));
        let port = self.ports.to_string();
        let output =
            self.tool_command("ovs-ofctl").args(["-O", "OpenFlow13", "dump-ports", &target, &port]).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let number = |line: &str| -> Option<u64> { text.split(line).nth(1)?.split(',').next()?.trim().parse().ok() };
        number("rx pkts=").zip(number("tx pkts=")).with_context(|| format!("no counters in {text:?}"))
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Returns a command of Open vSwitch that runs on other cores than the measured one.
    fn tool_command(&self, name: &str) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", &self.beside, name]);
        command.env("OVS_RUNDIR", &self.folder).env("OVS_DBDIR", &self.folder).env("OVS_LOGDIR", &self.folder);
        command
    }

    fn namespace_command(&self) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]);
        command
    }

    fn vsctl(&self, words: &[&str]) -> anyhow::Result<()> {
        let database = format!("--db=unix:{}", self.path("db.sock"));
        run_to_end(self.tool_command("ovs-vsctl").arg("--timeout=30").arg(database).args(words))
    }

    fn log_tail(&self) -> String {
        let text = fs::read_to_string(self.folder.join("vs.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        lines.join(" / ")
    }
}

fn mac(mac: u64) -> String {
    mac.to_be_bytes()[2..].iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

fn wait_for(path: &Path) -> anyhow::Result<()> {
    for _ in 0..100 {
        if path.exists() {
            return Ok(());
        }
        sleep(Duration::from_millis(50));
    }
    bail!("{} does not appear", path.display())
}
