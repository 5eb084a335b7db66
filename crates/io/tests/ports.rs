//! Tests ports in memory, the tracer and the fault injector around them, and the runner.

use io::capture::{CaptureReader, Record};
use io::{
    AttachedPort, CapturePort, FaultInjector, FaultRates, Port, Readiness, RunError, RunHooks, RunStats, Runner,
    Tracer, memory,
};
use packet::*;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn frame(tag: u16) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[58..].copy_from_slice(&tag.to_be_bytes());
    frame
}

fn tag(packet: &Packet) -> u16 {
    u16::from_be_bytes([packet.bytes()[58], packet.bytes()[59]])
}

fn receive_all(port: &mut impl Port) -> Vec<Packet> {
    let mut all = Vec::new();
    loop {
        let mut batch = Batch::with_capacity(7);
        if port.receive(PortId(4), &mut batch).unwrap() == 0 {
            return all;
        }
        all.extend_from_slice(batch.packets());
    }
}

#[test]
fn a_pair_carries_packets_both_ways() {
    let (mut left, mut right) = memory::pair("left", "right", 3).unwrap();
    for number in 0..5 {
        assert_eq!(left.send_bytes(&frame(number)).unwrap(), number < 3);
    }
    assert_eq!(left.counters().drops.get(PortReason::TxQueueFull).packets, 2);
    assert_eq!(left.counters().sent, Counter { packets: 3, bytes: 180 });
    let received = receive_all(&mut right);
    assert_eq!(received.iter().map(tag).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(received.iter().all(|packet| packet.ingress_port == PortId(4)));
    right.send_bytes(&frame(9)).unwrap();
    assert_eq!(tag(&left.take().unwrap()), 9);
    assert!(left.take().is_none());
}

#[test]
fn what_cannot_be_on_a_wire_is_not_sent() {
    let (left, _right) = memory::pair("left", "right", 8).unwrap();
    let mut left = left.with_mtu(100);
    assert!(!left.send_bytes(&[0; 13]).unwrap());
    assert!(!left.send_bytes(&[0; 115]).unwrap());
    assert!(left.send_bytes(&[0; 114]).unwrap());
    assert_eq!(left.counters().drops.get(PortReason::TxRunt).packets, 1);
    assert_eq!(left.counters().drops.get(PortReason::TxMtu).packets, 1);
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_tracer_records_both_directions_in_order() {
    let (left, mut right) = memory::pair("left", "right", 8).unwrap();
    let file = Shared::default();
    let mut left = Tracer::new(left, "trace.pcap", file.clone()).unwrap();
    right.send_bytes(&frame(1)).unwrap();
    assert_eq!(receive_all(&mut left).len(), 1);
    let [two, three] = [2, 3].map(|number| Packet::from_bytes(&frame(number)).unwrap());
    assert_eq!(left.send_all(&mut [&two, &three].into_iter()), 2);
    left.finish().unwrap();

    let bytes = file.0.lock().unwrap().clone();
    let mut reader = CaptureReader::new("trace.pcap", bytes.as_slice()).unwrap();
    let mut seen = Vec::new();
    let mut packet = Packet::new();
    while reader.next(&mut packet).unwrap() == Record::Packet {
        assert!(packet.rx_time_ns > 1_600_000_000_000_000_000, "sent packets get the time of sending");
        seen.push(tag(&packet));
    }
    assert_eq!(seen, [1, 2, 3]);
}

/// Returns the output of a fault injector for `count` packets, sent one at a time or all at once.
fn through_faults(rates: FaultRates, seed: u64, count: u16) -> (Vec<Packet>, u64) {
    let (left, mut right) = memory::pair("left", "right", usize::from(count)).unwrap();
    let mut left = FaultInjector::new(left, rates, seed);
    for number in 0..count {
        right.send_bytes(&frame(number)).unwrap();
    }
    let packets = receive_all(&mut left);
    assert!(matches!(left.readiness(), Readiness::Wait(_)), "nothing is held for ever");
    let dropped = left.counters().drops.get(PortReason::FaultInjected).packets;
    assert_eq!(left.counters().received.packets, u64::from(count));
    (packets, dropped)
}

#[test]
fn each_fault_does_what_it_says() {
    const HALF: u32 = 500_000;
    let none = FaultRates::default();
    let (packets, dropped) = through_faults(none, 1, 100);
    assert_eq!((packets.iter().map(tag).collect::<Vec<_>>(), dropped), ((0..100).collect(), 0));

    let (packets, dropped) = through_faults(FaultRates { drop: HALF, ..none }, 1, 400);
    assert_eq!(packets.len() as u64 + dropped, 400);
    assert!((120..280).contains(&dropped), "{dropped}");

    let (packets, _) = through_faults(FaultRates { duplicate: 1_000_000, ..none }, 1, 10);
    assert_eq!(
        packets.iter().map(tag).collect::<Vec<_>>(),
        [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]
    );

    let (packets, _) = through_faults(FaultRates { reorder: HALF, ..none }, 1, 100);
    let mut tags: Vec<u16> = packets.iter().map(tag).collect();
    assert!(!tags.is_sorted());
    tags.sort_unstable();
    assert_eq!(tags, (0..100).collect::<Vec<_>>(), "reordering loses nothing");

    let (packets, _) = through_faults(FaultRates { corrupt: 1_000_000, ..none }, 1, 100);
    for (number, packet) in packets.iter().enumerate() {
        let flipped: u32 =
            packet.bytes().iter().zip(frame(number as u16)).map(|(now, before)| (now ^ before).count_ones()).sum();
        assert_eq!(flipped, 1);
    }

    let (packets, _) = through_faults(FaultRates { truncate: HALF, ..none }, 1, 100);
    assert!(packets.iter().any(|packet| packet.len() < 60) && packets.iter().any(|packet| packet.len() == 60));
}

#[test]
fn the_seed_decides() {
    let rates = FaultRates { drop: 100_000, corrupt: 100_000, truncate: 100_000, duplicate: 100_000, reorder: 300_000 };
    let run =
        |seed| through_faults(rates, seed, 200).0.iter().map(|packet| packet.bytes().to_vec()).collect::<Vec<_>>();
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

/// Engine that forwards between ports 1 and 2. Tag 0 is dropped, tag 1 goes to the CPU, tag 2 to a
/// port that does not exist.
struct Patch {
    ticks: u32,
}

impl Engine for Patch {
    fn name(&self) -> &str {
        "patch"
    }

    fn reasons(&self) -> &ReasonTable {
        &ReasonTable::EMPTY
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        for (reference, packet) in batch.indexed() {
            match tag(packet) {
                0 => out.drop(reference, DropReason::Program(ReasonId(5))),
                1 => out.to_cpu(reference, CpuReason::CpuPort),
                2 => out.forward(reference, PortId(99)),
                _ => out.forward(reference, PortId(3 - packet.ingress_port.0)),
            }
        }
    }

    fn tick(&mut self, _now: u64, out: &mut BatchOutput) {
        self.ticks += 1;
        if self.ticks == 1
            && let Some((reference, packet)) = out.add_generated()
        {
            packet.set_bytes(&frame(0x1234)).unwrap();
            out.emit(PacketVerdict {
                packet: reference,
                origin: PacketOrigin::Generated,
                verdict: Verdict::Forward { port: PortId(2) },
            });
        }
    }
}

#[derive(Default)]
struct Witness {
    to_cpu: Vec<u16>,
    dropped: Vec<(u16, DropReason)>,
    ticks: u32,
    take: bool,
    /// First tick at which the run may end. It ends there or at a later tick, when nothing was
    /// received since the tick before.
    stop_after: u32,
    received: u64,
}

impl RunHooks<Patch> for Witness {
    fn on_tick(&mut self, _engine: &mut Patch, report: &RunStats) -> ControlFlow<()> {
        self.ticks += 1;
        let quiet = std::mem::replace(&mut self.received, report.engine.received.packets) == self.received;
        if quiet && self.ticks >= self.stop_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn on_cpu(&mut self, packet: &Packet, _reason: CpuReason) -> bool {
        self.to_cpu.push(tag(packet));
        self.take
    }

    fn on_drop(&mut self, packet: &Packet, reason: DropReason) {
        self.dropped.push((tag(packet), reason));
    }
}

#[test]
fn the_runner_carries_out_every_verdict_and_counts() {
    let (one, mut host_one) = memory::pair("one", "host-one", 2000).unwrap();
    let (two, mut host_two) = memory::pair("two", "host-two", 2000).unwrap();
    for number in 0..1000 {
        host_one.send_bytes(&frame(number)).unwrap();
    }
    host_two.send_bytes(&frame(7)).unwrap();
    // All packets have passed at the first tick, also on a busy machine.
    let mut runner = Runner::new(vec![AttachedPort::new(2, two), AttachedPort::new(1, one)])
        .unwrap()
        .with_tick(Duration::from_millis(200));
    let mut witness = Witness { stop_after: 3, ..Witness::default() };
    let report = runner.run(&mut Patch { ticks: 0 }, &AtomicBool::new(false), &mut witness).unwrap();

    assert_eq!(report.engine.received.packets, 1001);
    assert_eq!(report.engine.drops.get(DropReason::Program(ReasonId(5))).packets, 1);
    assert_eq!(report.tx_dropped.get(EngineReason::UnknownPort).packets, 1);
    assert_eq!(report.tx_dropped.get(PortReason::PacketInQueueFull).packets, 1, "nobody took it");
    assert_eq!(report.ports[&PortId(2)].1.sent.packets, 998);
    assert_eq!(report.ports[&PortId(1)].0, "one");
    assert_eq!(report.drops().total().packets, 3);
    assert_eq!(report.sent().packets, 999);
    assert_eq!((report.engine.generated, report.arrived().packets), (1, 1001));
    assert_eq!(report.unaccounted(), 0, "{report:?}");
    assert_eq!(witness.to_cpu, [1]);
    assert_eq!(witness.dropped, [(0, DropReason::Program(ReasonId(5)))]);
    assert_eq!(tag(&host_one.take().unwrap()), 7);
    let tags: Vec<u16> = std::iter::from_fn(|| host_two.take()).map(|packet| tag(&packet)).collect();
    let expected: Vec<u16> = (3..1000).chain([0x1234]).collect();
    assert_eq!(tags, expected, "in order, and what the engine made at its first tick");
}

/// Engine that gives all possible verdicts, by tag: forwards, up to five copies, drops, the CPU,
/// nonexistent ports, frames that no port accepts.
struct Mixer;

impl Engine for Mixer {
    fn name(&self) -> &str {
        "mixer"
    }

    fn reasons(&self) -> &ReasonTable {
        &ReasonTable::EMPTY
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        for (reference, packet) in batch.indexed_mut() {
            let number =
                packet.bytes().iter().fold(0, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
            if number.is_multiple_of(11) {
                // A packet that would become too long is unchanged.
                let _ = packet.append(&[0; 1500]);
            }
            match number % 7 {
                0 => out.drop(reference, EngineReason::ProgramDrop.into()),
                1 => out.to_cpu(reference, CpuReason::CpuPort),
                2 => (0..number % 6).for_each(|port| out.forward(reference, PortId(port))),
                3 if let Some(copy) = out.add_copy(packet) => {
                    out.forward(reference, PortId(1));
                    let origin = PacketOrigin::Clone { session: 1 };
                    out.emit(PacketVerdict {
                        packet: copy,
                        origin,
                        verdict: Verdict::Drop(EngineReason::InstructionLimit.into()),
                    });
                }
                _ => out.forward(reference, PortId(1 + number % 3)),
            }
        }
    }
}

/// Packets of capture files, some longer than a packet may be, and a disk that fills up: each
/// packet is counted exactly once.
#[test]
fn everything_that_came_in_is_somewhere() {
    let seed = std::env::var("IO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("IO_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..20 {
        let mut ports = Vec::new();
        let mut records = 0;
        for id in 1..=3 {
            let mut file = [0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
            for _ in 0..random.usize(1..400) {
                // Some are longer than a packet may be.
                let len = if random.u8(..) < 20 { random.usize(1_500..25_000) } else { random.usize(0..300) };
                file.extend([0, 0, len as u32, len as u32].map(u32::to_le_bytes).concat());
                file.extend((0..len).map(|_| random.u8(..)));
                records += 1;
            }
            let port = CapturePort::new(format!("port{id}")).reading("in", std::io::Cursor::new(file)).unwrap();
            let disk = Full { left: random.usize(100..400_000) };
            ports.push(AttachedPort::new(id, port.writing("out", disk).unwrap()));
        }
        let mut runner = Runner::new(ports).unwrap();
        let ended = &mut |_: &mut Mixer, _: &RunStats| ControlFlow::Continue(());
        let report = runner.run(&mut Mixer, &AtomicBool::new(false), ended).unwrap();
        assert_eq!(report.arrived().packets, records);
        assert_eq!(report.unaccounted(), 0, "{report:#?}");
        assert!(report.engine.received.packets < records || records < 100, "some were too long");
    }
}

/// Disk with limited space.
struct Full {
    left: usize,
}

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn unsent_packets_are_counted_at_the_port() {
    let (one, mut host_one) = memory::pair("one", "host-one", 100).unwrap();
    let (two, _host_two) = memory::pair("two", "host-two", 10).unwrap();
    for number in 3..53 {
        host_one.send_bytes(&frame(number)).unwrap();
    }
    let mut runner = Runner::new(vec![AttachedPort::new(1, one), AttachedPort::new(2, two)])
        .unwrap()
        .with_tick(Duration::from_millis(1));
    let mut witness = Witness { stop_after: 2, ..Witness::default() };
    let report = runner.run(&mut Patch { ticks: 1 }, &AtomicBool::new(false), &mut witness).unwrap();
    let (_, two) = &report.ports[&PortId(2)];
    assert_eq!((two.sent.packets, two.drops.get(PortReason::TxQueueFull).packets), (10, 40));
}

#[test]
fn an_idle_runner_sleeps_wakes_at_once_and_stops() {
    let (one, mut host_one) = memory::pair("one", "host-one", 10).unwrap();
    let (two, mut host_two) = memory::pair("two", "host-two", 10).unwrap();
    let mut runner = Runner::new(vec![AttachedPort::new(1, one), AttachedPort::new(2, two)])
        .unwrap()
        .with_tick(Duration::from_secs(1));
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        let mut witness = Witness { stop_after: u32::MAX, ..Witness::default() };
        runner.run(&mut Patch { ticks: 1 }, &flag, &mut witness).unwrap();
        (cpu_time_of_this_thread(), runner.report().run_time)
    });
    std::thread::sleep(Duration::from_millis(100));
    let sent = Instant::now();
    host_one.send_bytes(&frame(8)).unwrap();
    while host_two.take().is_none() {
        assert!(sent.elapsed() < Duration::from_millis(800), "a packet wakes the runner, not its tick");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(400));
    stop.store(true, Ordering::Relaxed);
    let (cpu, run_time) = thread.join().unwrap();
    assert!(run_time >= Duration::from_millis(500));
    assert!(cpu < Duration::from_millis(100), "{cpu:?} of CPU in {run_time:?} of idling");
}

/// Returns the CPU time from /proc, in steps of 10 ms.
fn cpu_time_of_this_thread() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    Duration::from_millis(10 * (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()))
}

#[test]
fn a_run_over_files_ends_by_itself() {
    let mut bytes = Vec::new();
    let mut writer = io::capture::CaptureWriter::new("in.pcap", &mut bytes).unwrap();
    for number in 3..603 {
        writer.write(&Packet::from_bytes(&frame(number)).unwrap()).unwrap();
    }
    drop(writer);
    let sink = Shared::default();
    let input = io::CapturePort::new("in").reading("in.pcap", std::io::Cursor::new(bytes)).unwrap();
    let output = io::CapturePort::new("out").writing("out.pcap", sink.clone()).unwrap();
    let mut runner = Runner::new(vec![AttachedPort::new(1, input), AttachedPort::new(2, output)]).unwrap();
    let mut witness = Witness { stop_after: u32::MAX, ..Witness::default() };
    runner.run(&mut Patch { ticks: 1 }, &AtomicBool::new(false), &mut witness).unwrap();
    assert_eq!(runner.report().sent().packets, 600);
    drop(runner.into_ports());
    assert_eq!(sink.0.lock().unwrap().len(), 24 + 600 * (16 + 60));
}

#[test]
fn a_failing_port_ends_the_run_after_what_came_before() {
    let (two, mut host_two) = memory::pair("two", "host-two", 10).unwrap();
    let mut bytes = Vec::new();
    let mut writer = io::capture::CaptureWriter::new("in.pcap", &mut bytes).unwrap();
    writer.write(&Packet::from_bytes(&frame(5)).unwrap()).unwrap();
    drop(writer);
    bytes.push(1);
    let input = io::CapturePort::new("in").reading("in.pcap", std::io::Cursor::new(bytes)).unwrap();
    let mut runner = Runner::new(vec![AttachedPort::new(1, input), AttachedPort::new(2, two)]).unwrap();
    let mut witness = Witness { stop_after: u32::MAX, ..Witness::default() };
    let error = runner.run(&mut Patch { ticks: 1 }, &AtomicBool::new(false), &mut witness).unwrap_err();
    assert!(matches!(error, RunError::Port { id: PortId(1), .. }));
    assert!(error.to_string().contains("packet 2 (at byte 100)"), "{error}");
    assert_eq!(tag(&host_two.take().unwrap()), 5);
}

#[test]
fn two_ports_with_one_number_are_refused() {
    let (one, two) = memory::pair("one", "two", 1).unwrap();
    let error = Runner::new(vec![AttachedPort::new(1, one), AttachedPort::new(1, two)]).err().unwrap();
    assert_eq!(error.to_string(), "port 1 is both `one` and `two`; give each port its own number");
}
