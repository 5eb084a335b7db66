//! Measures the speed of memif between two processes.
//!
//! ```text
//! cargo run --release -p io --example two_ends -- echo /tmp/two.sock          # one terminal
//! cargo run --release -p io --example two_ends -- generate /tmp/two.sock 5    # another: 5 seconds
//! cargo run --release -p io --example two_ends -- null 5                      # the runner alone
//! ```
//!
//! `echo` returns all packets without a copy. `generate` sends, and counts the returned packets:
//! sent must equal received plus lost.

use io::dpdk::DpdkOptions;
use io::{AttachedPort, IdlePolicy, Port, PortError, PortKind, RunStats, Runner, TxBatch, open_port};
use packet::{Batch, BatchOutput, Engine, Packet, PortId, ReasonTable};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Engine that returns all packets to their port.
struct Back;

impl Engine for Back {
    fn name(&self) -> &str {
        "back"
    }

    fn reasons(&self) -> &ReasonTable {
        &ReasonTable::EMPTY
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        for (reference, packet) in batch.indexed_mut() {
            if let Some((ends, _)) = packet.bytes_mut().split_at_mut_checked(12) {
                ends.rotate_left(6);
            }
            out.forward(reference, packet.ingress_port);
        }
    }
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let memif =
        |role: &str, socket: &str| format!("net_memif0,role={role},socket={socket},socket-abstract=no,rsize=11");
    let seconds = |text: &str| text.parse().map(Duration::from_secs_f64);
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["echo", socket] => echo(&memif("server", socket), Duration::MAX),
        ["generate", socket, time] => generate(&memif("client", socket), seconds(time)?),
        ["null", time] => echo("net_null0,size=64", seconds(time)?),
        _ => Err("usage: two_ends echo SOCKET | generate SOCKET SECONDS | null SECONDS".into()),
    }
}

fn open(device: &str) -> Result<Box<dyn Port>, PortError> {
    open_port(device, PortKind::Auto, &DpdkOptions::default()).map(|opened| opened.port)
}

fn echo(device: &str, time: Duration) -> Outcome {
    let port = open(device)?;
    let mut runner = Runner::new(vec![AttachedPort::new(1, port)])?.with_idle(IdlePolicy::BUSY);
    let mut on_tick = |_: &mut Back, report: &RunStats| match report.run_time < time {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let report = runner.run(&mut Back, &AtomicBool::new(false), &mut on_tick)?;
    let (_, port) = &report.ports[&PortId(1)];
    let mpps = port.sent.packets as f64 / report.run_time.as_secs_f64() / 1e6;
    let batch = port.received.packets as f64 / report.engine.batches.max(1) as f64;
    println!(
        "{mpps:.2} Mpps, {batch:.0} packets a batch, {} copied, lost: {:?}",
        port.copied.packets,
        port.drops.total()
    );
    Ok(())
}

fn generate(device: &str, time: Duration) -> Outcome {
    let mut port = open(device)?;
    while let Some(trouble) = port.port_fault() {
        println!("{trouble}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let packet = Packet::from_bytes(&[0x42; 64])?;
    let burst = [&packet; 64];
    let mut batch = Batch::new();
    let began = Instant::now();
    // Received until no more arrive in time. The rings bound the packets in flight.
    let mut quiet = Instant::now();
    while began.elapsed() < time || quiet.elapsed() < Duration::from_millis(200) {
        let under_way = port.counters().sent.packets - port.counters().received.packets;
        if began.elapsed() < time && under_way < 1024 {
            port.send(&mut TxBatch::copies_of(&burst));
        }
        batch.clear();
        if port.receive(PortId(1), &mut batch)? > 0 {
            quiet = Instant::now();
        }
    }
    let counters = port.counters();
    println!(
        "{:.2} Mpps there and back: {} sent, {} came back; not sent: {:?}",
        counters.received.packets as f64 / time.as_secs_f64() / 1e6,
        counters.sent.packets,
        counters.received.packets,
        counters.drops.total()
    );
    Ok(())
}
