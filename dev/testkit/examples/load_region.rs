//! Loads a region of N VMs (default 1,000,000) from its file into the reference engine. Prints the
//! duration of each step and the peak memory of the process: `cargo run --release -p testkit
//! --example load_region -- N`.

use std::time::Instant;
use testkit::gateway;
use testkit::regions::{self, RegionSize};

fn main() -> anyhow::Result<()> {
    let vms = std::env::args().nth(1).map_or(Ok(1_000_000), |n| n.parse())?;
    let path = std::env::temp_dir().join(format!("terrace-region-{}.yaml", std::process::id()));
    std::fs::write(&path, regions::text(RegionSize { vpcs: 250, vms, acl_rules: 4, servers: 1000 }))?;
    let result = load(&path);
    std::fs::remove_file(&path)?;
    result
}

fn load(path: &std::path::Path) -> anyhow::Result<()> {
    let pipeline = gateway::pipeline()?;
    let start = Instant::now();
    let mut last = start;
    let mut step = |what: &str| {
        println!("{what:<28} {:>7.2} s", last.elapsed().as_secs_f64());
        last = Instant::now();
    };
    let region = region::load(path)?;
    step("read and check the file");
    let entries = region::entries(&region, "region.yaml", &pipeline, &mut Default::default())?;
    let count = entries.entries.len();
    step("make the entries");
    drop(region);
    let batch = region::diff(region::GatewayEntries::default(), entries);
    step("make the batch");
    let mut engine = interp::Interp::new(pipeline, interp::Config::default())?;
    engine.write(&batch)?;
    step("write them to the engine");
    println!("{count} entries in {:.2} s, {}", start.elapsed().as_secs_f64(), peak());
    Ok(())
}

/// Returns the process's peak memory, as the kernel reports it.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or(" unknown");
    format!("peak memory {}", line.trim())
}
