//! DPDK's testpmd, which exchanges MAC addresses: pure packet I/O without lookups. Packets come
//! from a capture file in memory.

use crate::external_resources::{ExternalResource, Process, ResourceGuard};
use crate::ring::Template;
use crate::systems::{capture, threads};
use crate::workload::Flow;
use anyhow::{Context, ensure};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs testpmd on `core` for `seconds` seconds. Returns the number of packets sent in each.
///
/// # Errors
/// If it is not installed, or does not run.
pub fn run(template: &Template, flows: &[Flow], core: usize, seconds: usize) -> anyhow::Result<Vec<f64>> {
    let path = std::env::temp_dir().join(format!("terrace-bench-testpmd-{}.pcap", std::process::id()));
    let _removed = ResourceGuard::new(ExternalResource::Path(path.clone()));
    capture::write(&path, flows.iter().map(|flow| template.packet(*flow)))?;
    let other = if core == 0 { 1 } else { 0 };
    let mut command = Command::new("taskset");
    command.args(["-c", &format!("{other},{core}"), "dpdk-testpmd", "-l", &format!("{other},{core}")]);
    command.args(["--main-lcore", &other.to_string(), "--no-pci", "--in-memory", "--no-telemetry"]);
    command.arg(format!("--vdev=net_pcap0,rx_pcap={},infinite_rx=1", path.display()));
    let buffers = (flows.len() * 2).max(32_768).to_string();
    command.args(["--", "--forward-mode=macswap", "--stats-period=1", "--total-num-mbufs", &buffers]);
    let child = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()));
    let rates = read_rates(&mut child.context("taskset")?, seconds)?;
    ensure!(
        rates.len() == seconds,
        "dpdk-testpmd (Debian: dpdk-dev) ended early: is it installed, are there enough huge pages?"
    );
    Ok(rates)
}

/// Reads the rates that it prints once per second, as packets per second of its worker's processor
/// time. The first two are not counted.
fn read_rates(process: &mut Process, seconds: usize) -> anyhow::Result<Vec<f64>> {
    let output = process.child.stdout.take().context("its output")?;
    let mut rates = Vec::new();
    let mut previous: Option<(Instant, Duration)> = None;
    for line in BufReader::new(output).lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(label_index) = words.iter().position(|word| *word == "Tx-pps:") else { continue };
        let rate: f64 = words.get(label_index + 1).and_then(|rate| rate.parse().ok()).unwrap_or(0.0);
        let worker = threads::find_thread(process.child.id(), "rte-worker").context("no worker")?;
        let now = (Instant::now(), worker.processor_time()?);
        if let Some((instant, processor_time)) = previous.replace(now) {
            let busy_share = (now.1 - processor_time).as_secs_f64() / (now.0 - instant).as_secs_f64().max(1e-9);
            rates.push(rate / busy_share.max(1e-3));
        }
        if rates.len() == seconds + 2 {
            break;
        }
    }
    Ok(rates.into_iter().skip(2).collect())
}
