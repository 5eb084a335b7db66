//! Tests workers: each with its own ports and engine, on its own processor.

use io::dpdk::{BUILT_IN, DpdkOptions, DpdkPort, EalOptions, HugePages};
use io::{AttachedPort, IdlePolicy, RunHooks, RunStats, Runner, Worker, WorkerError, Workers, memory};
use packet::*;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Engine that returns all packets to their port, and records its processor.
#[derive(Default)]
struct Mirror {
    seen: Vec<u8>,
    affinity: String,
}

impl Engine for Mirror {
    fn name(&self) -> &str {
        "mirror"
    }

    fn reasons(&self) -> &ReasonTable {
        &ReasonTable::EMPTY
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        for (reference, packet) in batch.indexed() {
            self.seen.push(packet.bytes()[20]);
            out.forward(reference, packet.ingress_port);
        }
    }

    fn tick(&mut self, _: u64, _: &mut BatchOutput) {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        line.trim().clone_into(&mut self.affinity);
    }
}

fn going_on<E>(_: usize) -> Box<dyn RunHooks<E> + Send> {
    Box::new(|_: &mut E, _: &RunStats| ControlFlow::Continue(()))
}

fn first_core() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    line.trim().split(['-', ',']).next().unwrap().parse().unwrap()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn each_worker_has_its_own_queue_and_engine() {
    let mut hosts = Vec::new();
    let mut workers = Vec::new();
    for number in 0..3 {
        let (near, far) = memory::pair(&format!("queue{number}"), "host", 100).unwrap();
        hosts.push(far);
        let runner = Runner::new(vec![AttachedPort::new(1, near)]).unwrap().with_tick(Duration::from_millis(1));
        workers.push(Worker { core: (number == 0).then(first_core), runner, engine: Mirror::default() });
    }
    let workers = Workers::start(workers, going_on).unwrap();
    for (number, host) in hosts.iter_mut().enumerate() {
        for _ in 0..=number {
            host.send_bytes(&[number as u8; 60]).unwrap();
        }
    }
    wait_until("all come back, and are reported", || workers.report().sent().packets == 6);
    assert_eq!(workers.reports().iter().map(|one| one.engine.received.packets).collect::<Vec<_>>(), [1, 2, 3]);
    let all = workers.report();
    assert_eq!(all.ports[&PortId(1)].1.received, Counter { packets: 6, bytes: 360 });
    assert_eq!(all.engine.forwarded[&PortId(1)].packets, 6);
    wait_until("the first worker has ticked", || workers.reports()[0].run_time > Duration::from_millis(2));
    let finished = workers.stop();
    assert!(finished.iter().all(|one| one.outcome.is_ok()));
    assert_eq!(finished.iter().map(|one| one.engine.seen.as_slice()).collect::<Vec<_>>(), [&[0][..], &[1; 2], &[2; 3]]);
    assert_eq!(finished[0].engine.affinity, first_core().to_string(), "pinned");
}

#[test]
fn processors_are_checked_before_anything_runs() {
    let worker = |core| {
        let (near, _) = memory::pair("near", "far", 1).unwrap();
        Worker {
            core: Some(core),
            runner: Runner::new(vec![AttachedPort::new(1, near)]).unwrap(),
            engine: Mirror::default(),
        }
    };
    let error = Workers::start(vec![worker(9999)], going_on).err().unwrap();
    assert!(matches!(error, WorkerError::NoSuchCore { core: 9999, .. }));
    assert!(error.to_string().contains("choose one of these"), "{error}");
    let error = Workers::start(vec![worker(first_core()), worker(first_core())], going_on).err().unwrap();
    assert!(matches!(error, WorkerError::SharedCore { first: 0, second: 1, .. }));
}

#[test]
fn a_worker_that_fails_ends_alone() {
    let (near, mut far) = memory::pair("near", "far", 10).unwrap();
    let mut file = Vec::new();
    drop(io::capture::CaptureWriter::new("in.pcap", &mut file).unwrap());
    file.push(1);
    let damaged = io::CapturePort::new("in").reading("in.pcap", std::io::Cursor::new(file)).unwrap();
    let worker = |runner: Runner| Worker {
        core: None,
        runner: runner.with_tick(Duration::from_millis(1)),
        engine: Box::new(Mirror::default()) as Box<dyn Engine>,
    };
    let runners = [Runner::new(vec![AttachedPort::new(1, damaged)]), Runner::new(vec![AttachedPort::new(1, near)])];
    let workers = Workers::start(runners.map(|runner| worker(runner.unwrap())).into(), going_on).unwrap();
    far.send_bytes(&[7; 60]).unwrap();
    wait_until("the other one works", || far.take().is_some());
    wait_until("the first one has failed", || workers.running() == 1);
    let finished = workers.stop();
    assert!(finished[0].outcome.is_err() && finished[1].outcome.is_ok());
}

#[test]
fn the_queues_of_a_device_go_to_workers() {
    if !BUILT_IN {
        return println!("SKIPPED: built without DPDK");
    }
    let eal = EalOptions { huge_pages: HugePages::Avoid, memory_mb: 256 };
    let options = DpdkOptions { eal, queues: 2, cores: vec![first_core()], ..DpdkOptions::default() };
    let queues = DpdkPort::open_queues("net_null0,size=80", &options).unwrap();
    let worker = |queue| Worker {
        core: None,
        runner: Runner::new(vec![AttachedPort::new(1, queue)])
            .unwrap()
            .with_tick(Duration::from_millis(1))
            .with_idle(IdlePolicy::BUSY),
        engine: Box::new(Mirror::default()) as Box<dyn Engine>,
    };
    let workers = Workers::start(queues.into_iter().map(worker).collect(), going_on).unwrap();
    wait_until("both work", || workers.reports().iter().all(|report| report.engine.received.packets > 10_000));
    let names: Vec<String> = workers.reports().iter().map(|report| report.ports[&PortId(1)].0.clone()).collect();
    assert_eq!(names, ["net_null0.0", "net_null0.1"]);
    let finished = workers.stop();
    for one in &finished {
        let (_, counters) = &one.runner.report().ports[&PortId(1)];
        assert_eq!(counters.sent, counters.received);
        assert!(counters.copied.is_zero());
        // The first batch is that of a runner without backlog.
        let (first, others) = (256, MAX_BATCH as u64);
        let batches = one.runner.report().engine.batches;
        assert_eq!(counters.received.packets, first + (batches - 1) * others, "large under load");
    }
}
