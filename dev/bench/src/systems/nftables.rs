//! Source NAT by the kernel (nftables, connection tracking), on packets from memory.
//!
//! A test run of an XDP program with live frames makes packets and hands them to the stack, as if an
//! interface of a namespace had received them. The stack translates and forwards them to an
//! interface that nothing reads. All of it runs in the calling thread, so its processor
//! time is the result. It includes making the packets, some 30 ns each.

#![allow(unsafe_code)] // calls into C

use crate::external_resources::{ExternalResource, ResourceGuard};
use crate::machine::thread_time;
use crate::systems::commands::{compile_bpf, run_to_end};
use anyhow::{Context, ensure};
use io::tap::Tap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Packets that the kernel takes in one call.
const CHUNK: u32 = 100_000;
/// Outside addresses: 256 have 16 M ports.
const OUTSIDE: &str = "203.0.113.0-203.0.113.255";

/// Mirrors `struct tb_nat_feed_setup` in shims/nat_feed.h.
#[repr(C)]
struct FeedSetup {
    sessions: u32,
    hosts: u32,
    first_host: u32,
    pad: u32,
    packet: [u8; 64],
}

unsafe extern "C" {
    fn tb_nat_feed_open(object: *const c_char, setup: *const FeedSetup, error: *mut c_int) -> *mut c_void;
    fn tb_nat_feed_close(feed: *mut c_void);
    fn tb_nat_feed_run(feed: *mut c_void, interface: u32, packets: u32) -> c_int;
}

/// Packets of sessions.
#[derive(Debug, Clone, Copy)]
pub struct NatFlows {
    /// Number of sessions.
    pub sessions: u32,
    /// Number of inside hosts, numbered from `first_host` on.
    pub hosts: u32,
    /// Address of the first inside host.
    pub first_host: u32,
    /// A packet; source address and port are those of its session.
    pub packet: [u8; 60],
}

/// What the kernel does for a number of sessions.
#[derive(Debug, Clone, Copy)]
pub struct KernelNatRates {
    /// New sessions a second.
    pub new_per_s: f64,
    /// Packets a second of established sessions.
    pub established_pps: f64,
}

/// Measures the kernel's source NAT for `window` with all sessions established.
///
/// # Errors
/// A tool, libbpf or a permission is missing, or packets are not forwarded.
pub fn measure(flows: &NatFlows, window: Duration) -> anyhow::Result<KernelNatRates> {
    let object = compile_bpf("nat_feed")?;
    let name = format!("terrace-bench-nft-{}", std::process::id());
    let _removed = ResourceGuard::new(ExternalResource::Namespace(name.clone()));
    run_to_end(Command::new("ip").args(["netns", "add", &name]))?;
    let _limits = TrackingLimits::raise(flows.sessions)?;
    let namespace = io::Namespace::open(&name)?;
    namespace.run(|| {
        let (inside, _) = Tap::create("in0", [2, 0, 0, 0, 0, 1], 1500)?;
        let (_outside, _) = Tap::create("out0", [2, 0, 0, 0, 0, 2], 1500)?;
        set_up()?;
        let feed = Feed::open(&object, flows)?;
        run_flows(&feed, interface_index(inside.name())?, flows.sessions, window)
    })?
}

/// Returns the number of an interface of this namespace.
fn interface_index(name: &str) -> anyhow::Result<u32> {
    let output = Command::new("ip").args(["-o", "link", "show", name]).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.split(':').next().context("the number of an interface")?.parse()?)
}

/// Configures addresses, a route and the translation.
fn set_up() -> anyhow::Result<()> {
    for line in [
        "ip link set lo up",
        "ip address add 10.255.0.1/8 dev in0",
        "ip address add 198.51.100.254/24 dev out0",
        "ip link set in0 up",
        "ip link set out0 up",
        "ip neighbour add 198.51.100.1 lladdr 02:00:00:00:00:22 dev out0 nud permanent",
        "nft add table ip nat",
        "nft add chain ip nat out { type nat hook postrouting priority 100 ; }",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        run_to_end(Command::new(words[0]).args(&words[1..]))?;
    }
    let rule = format!("add rule ip nat out oifname out0 snat to {OUTSIDE}");
    run_to_end(Command::new("nft").args(rule.split(' ')))?;
    for (name, value) in
        [("ipv4/ip_forward", "1"), ("ipv4/conf/in0/rp_filter", "0"), ("netfilter/nf_conntrack_udp_timeout", "3600")]
    {
        let path = format!("/proc/sys/net/{name}");
        std::fs::write(&path, value).with_context(|| format!("{path} can be written"))?;
    }
    Ok(())
}

/// Sends a packet of each session, and then packets of all in turn.
fn run_flows(feed: &Feed, index: u32, sessions: u32, window: Duration) -> anyhow::Result<KernelNatRates> {
    let before = forwarded()?;
    let start = thread_time();
    for first in (0..sessions).step_by(CHUNK as usize) {
        feed.run(index, CHUNK.min(sessions - first))?;
    }
    let added = thread_time() - start;
    ensure!(forwarded()? - before >= u64::from(sessions), "the kernel has forwarded {} packets", forwarded()? - before);
    let count = std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count")?;
    ensure!(count.trim().parse::<u32>()? >= sessions, "the kernel tracks {} sessions", count.trim());
    let (start, before) = (thread_time(), forwarded()?);
    while thread_time() - start < window {
        feed.run(index, CHUNK)?;
    }
    let (spent, sent) = (thread_time() - start, forwarded()? - before);
    Ok(KernelNatRates {
        new_per_s: f64::from(sessions) / added.as_secs_f64(),
        established_pps: sent as f64 / spent.as_secs_f64(),
    })
}

/// Returns the number of packets that this namespace has forwarded (`ForwDatagrams`).
fn forwarded() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp")?;
    let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
    let (names, values) = (lines.next().context("names")?, lines.next().context("values")?);
    let at = names.split(' ').position(|name| name == "ForwDatagrams").context("a count of forwarded packets")?;
    Ok(values.split(' ').nth(at).context("its value")?.parse()?)
}

/// Limits of connection tracking that all namespaces share: as large as the sessions need, until
/// dropped.
struct TrackingLimits([(&'static str, String); 2]);

/// Buckets of the hash table, and tracked connections.
const LIMITS: [&str; 2] = ["/sys/module/nf_conntrack/parameters/hashsize", "/proc/sys/net/netfilter/nf_conntrack_max"];

impl TrackingLimits {
    fn raise(sessions: u32) -> anyhow::Result<TrackingLimits> {
        let read = |path: &'static str| {
            let value = std::fs::read_to_string(path).with_context(|| format!("the kernel has no {path}"))?;
            Ok::<_, anyhow::Error>((path, value))
        };
        let limits = TrackingLimits([read(LIMITS[0])?, read(LIMITS[1])?]);
        for (path, value) in LIMITS.iter().zip([sessions.max(65_536), sessions.saturating_mul(2).max(262_144)]) {
            std::fs::write(path, value.to_string()).with_context(|| format!("{path} can be written"))?;
        }
        Ok(limits)
    }
}

impl Drop for TrackingLimits {
    fn drop(&mut self) {
        for (path, value) in &self.0 {
            let _ = std::fs::write(path, value.trim());
        }
    }
}

/// The loaded program.
struct Feed(*mut c_void);

impl Feed {
    fn open(object: &Path, flows: &NatFlows) -> anyhow::Result<Feed> {
        let NatFlows { sessions, hosts, first_host, .. } = *flows;
        let mut setup = FeedSetup { sessions, hosts, first_host, pad: 0, packet: [0; 64] };
        setup.packet[..60].copy_from_slice(&flows.packet);
        let path = CString::new(object.as_os_str().as_bytes())?;
        let mut error = 0;
        // SAFETY: a C string and a setup in the C layer's form, both alive during the call.
        let feed = unsafe { tb_nat_feed_open(path.as_ptr(), &setup, &mut error) };
        ensure!(!feed.is_null(), "the program cannot be loaded: {}", std::io::Error::from_raw_os_error(error));
        Ok(Feed(feed))
    }

    fn run(&self, interface: u32, packets: u32) -> anyhow::Result<()> {
        // SAFETY: the program is loaded.
        let error = unsafe { tb_nat_feed_run(self.0, interface, packets) };
        ensure!(error == 0, "the kernel takes no live frames: {}", std::io::Error::from_raw_os_error(-error));
        Ok(())
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // SAFETY: it was opened and is closed once.
        unsafe { tb_nat_feed_close(self.0) };
    }
}
