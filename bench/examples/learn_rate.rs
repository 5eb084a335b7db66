//! How many new flows a second become rewrites of bytes, and how many packets of known flows they rewrite, on one core, with gateway.p4.
//!
//! `cargo run --release -p bench --example learn_rate [VMS [ROUNDS]]`, after `make bench ONLY=compile QUICK=1` has compiled the programs. Seconds are those of the processor.

use bench::machine::thread_time;
use bench::program::{Kind as Which, Program};
use bench::ring::{IN_PORT, Template};
use bench::world::{Entries, Flow, Flows, Layout, World};
use flowcache::rewrite::{Answer, RewriteCache};
use interp::{Config, Outputs};
use std::path::Path;

fn packet(template: &Template, flow: Flow, space: &mut Vec<u8>) {
    space.resize(template.packet_len(), 0);
    template.write(flow, space);
}

fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let vms = words.next().map_or(Ok(10_000), |vms| vms.parse())?;
    let rounds: u64 = words.next().map_or(Ok(3), |rounds| rounds.parse())?;
    let program = Program::load(Which::Gateway, Path::new("target/bench/programs"))?;
    let world = World { layout: Layout::ManyTenants, vms };
    let mut flows = Flows::each(&world);
    fastrand::Rng::with_seed(1).shuffle(&mut flows);
    let template = Template::new(64);
    for round in 0..rounds {
        let mut cache = RewriteCache::new(program.pipeline.clone(), Config::default(), vms)?;
        Entries::new(world, &program)?.all(|batch| cache.write(batch).map(drop))?;
        let (mut bytes, mut out, mut rewritten) = (Vec::new(), Outputs::new(), Vec::new());
        let start = thread_time();
        for flow in &flows {
            packet(&template, *flow, &mut bytes);
            if let Err(why) = cache.learn(&bytes, IN_PORT, round + 1, &mut out) {
                anyhow::bail!("a flow is not kept: {}", why.why());
            }
        }
        let learned = thread_time() - start;
        let start = thread_time();
        for flow in &flows {
            packet(&template, *flow, &mut bytes);
            let answer = cache.rewrite(&bytes, IN_PORT, round + 1, &mut rewritten);
            anyhow::ensure!(matches!(answer, Answer::Rewritten(..)), "a packet is not rewritten");
        }
        let hit = thread_time() - start;
        println!(
            "{vms} VMs: {:.0} new flows a second; {:.0} packets a second rewritten",
            vms as f64 / learned.as_secs_f64(),
            vms as f64 / hit.as_secs_f64()
        );
    }
    Ok(())
}
