//! Measures the cost of hostile clients for a node: packets forwarded per second before, during and
//! after each attack, the node's memory, and the latency of another client. `cargo run --release -p
//! terraced --example hostile [SECONDS [ATTACK]]`; exit code 1 if a node is worse after an attack.
//!
//! All attacks run twice on the same node to reveal leaks: memory after the second time may not
//! exceed that after the first. [`Limits::memory`] bounds the memory that clients may take at a
//! time.
//!
//! A worker on its own processor (0) forwards as fast as it can. The service and its attackers,
//! which are another process, have the other processors.

mod attacks;
#[path = "../../tests/process/forward.rs"]
#[allow(dead_code)]
mod forward;
mod mill;

use attacks::{ATTACKS, Target, attack};
use forward::Forward;
use io::{AttachedPort, IdlePolicy};
use mill::Mill;
use node::engine::native;
use node::{Node, NodeParts, WorkerSpec};
use p4runtime::client::Client;
use p4runtime::proto::v1::{Entity, TableEntry, entity, update, write_request::Atomicity};
use p4runtime::server::{AccessList, ClientPermission, Credentials, Limits, ServeOptions, Tls, TokenHash, serve};
use packet::PortId;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// The allocator of `terraced`, which returns memory to the system. glibc's does so only at the end
/// of a heap.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of entries of the node.
const ENTRIES: u64 = 100_000;
/// Token with all permissions.
const TOKEN: &str = "the-owner";
/// Maximum memory after attacks beyond that before the first, in MiB, because allocators and caches
/// keep some.
const KEPT: u64 = 64;
/// Maximum memory after the second run beyond that after the first, in MiB.
const GROWN: u64 = 16;

/// Measures the node under attack, or with the argument `attack` is the attacking process.
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &arguments[..] {
        [command, name, plain, tls, seconds] if command == "attack" => attacker(name, plain, tls, seconds),
        options => {
            measure(options.first().and_then(|text| text.parse().ok()).unwrap_or(4), options.get(1).map(String::as_str))
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs as the attacking process: attacks the addresses for `seconds`, and prints the number of
/// repetitions.
fn attacker(name: &str, plain: &str, tls: &str, seconds: &str) -> anyhow::Result<bool> {
    let target = Target { plain: plain.parse()?, tls: Some(tls.parse()?), token: Some(TOKEN.to_owned()) };
    let until = Instant::now() + Duration::from_secs(seconds.parse()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("{}", runtime.block_on(attack(name, target, until)));
    Ok(true)
}

/// Keeps threads that this process starts from now on off the worker's processor.
fn leave_the_worker_alone() {
    let pid = std::process::id().to_string();
    let last = std::thread::available_parallelism().map_or(1, usize::from) - 1;
    let output = Command::new("taskset").args(["-cp", &format!("1-{}", last.max(1)), &pid]).output();
    if !output.is_ok_and(|result| result.status.success()) {
        eprintln!("taskset does not work here: the service may take time from the worker");
    }
}

/// Creates an authority and the node's certificate. The node requires certificates of clients from
/// the same authority.
fn tls() -> anyhow::Result<Tls> {
    let mut params = CertificateParams::new(vec![])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate()?;
    let client_authority = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec!["node.test".to_owned()])?.signed_by(&key, &issuer)?.pem();
    Ok(Tls { certificate, key: key.serialize_pem(), client_authority })
}

/// Starts a node with a worker that always has packets.
fn node() -> anyhow::Result<Arc<Node>> {
    let mut frame = vec![0; 64];
    // The lowest byte of the destination, for which an entry exists.
    frame[5] = 1;
    let port = AttachedPort { id: PortId(1), port: Box::new(Mill::new(frame)) };
    let workers = vec![WorkerSpec { core: Some(0), ports: vec![port] }];
    let settings = interp::Config { cpu_port: Some(510), ..interp::Config::default() };
    let parts = NodeParts {
        device_id: 1,
        seats: workers,
        idle: IdlePolicy::BUSY,
        settings,
        engine: native(),
        store: None,
        translations: Default::default(),
        wings: terraced::wings(),
    };
    let node = Arc::new(Node::start(parts)?);
    // The worker is pinned; threads started later are kept off its processor.
    leave_the_worker_alone();
    let weak_node = Arc::downgrade(&node);
    std::thread::spawn(move || {
        while let Some(node) = weak_node.upgrade() {
            node.tick();
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    Ok(node)
}

/// Returns a value of `/proc/self/status` in MiB, such as `VmRSS:`.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|text| text.strip_prefix(name)).unwrap_or_default();
    value.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Returns the time that the worker ran on its processor, as the system counts it
/// (`/proc/PID/task/TID/schedstat`). Rates refer to it, because other processes also take processor
/// time.
fn worked() -> Option<Duration> {
    let mut tasks = std::fs::read_dir("/proc/self/task").ok()?.flatten().map(|task| task.path());
    let is_worker =
        |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "worker-0");
    let counts = std::fs::read_to_string(tasks.find(is_worker)?.join("schedstat")).ok()?;
    counts.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Runs another client, which writes and reads an entry repeatedly. Records the latency of each.
async fn witness(target: Target, forward: Forward, waits: Arc<Mutex<Vec<Duration>>>) {
    let Some(mut client) = target.client().await else { return eprintln!("the other client does not get in") };
    // Greater than that of the client that wrote the entries, because the end of its stream may not
    // have been noticed yet.
    let (_stream, _) = match client.arbitrate(Some(2)).await {
        Ok(stream) => stream,
        Err(error) => return eprintln!("the other client may not write: {error}"),
    };
    let mut is_reported = false;
    for number in 0.. {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let began = Instant::now();
        let update = forward.update(update::Type::Modify, 2, number % 500);
        let written = client.write(vec![update], Atomicity::ContinueOnError).await;
        let key = TableEntry { action: None, ..forward.entry(2, 0) };
        let wanted = Entity { entity: Some(entity::Entity::TableEntry(key)) };
        let read = client.read_all(vec![wanted]).await;
        if let (Ok(()), Ok([_])) = (&written, read.as_deref()) {
            waits.lock().push(began.elapsed());
        } else if !std::mem::replace(&mut is_reported, true) {
            eprintln!("the other client is not served: {written:?} {:?}", read.err());
        }
    }
}

/// Loads the program and writes [`ENTRIES`] entries.
async fn prepare(client: &mut Client) -> anyhow::Result<Forward> {
    let pipeline = forward::pipeline();
    forward::commit(client, &pipeline).await;
    let forward = Forward::new(&pipeline);
    for first in (1..=ENTRIES).step_by(1_000) {
        let updates = (first..first + 1_000).map(|n| forward.update(update::Type::Insert, n, 1)).collect();
        client.write(updates, Atomicity::ContinueOnError).await?;
    }
    Ok(forward)
}

/// Measurements of an interval.
struct Seen {
    /// Millions of packets per second of the worker's processor time.
    rate: f64,
    /// Share of the time that the worker ran, in percent.
    share: f64,
    /// Number of responses to the other client, maximum and median latency in ms.
    answers: usize,
    longest: f64,
    median: f64,
}

/// Measures the node for `time`: forwarded packets, the worker's processor time, and the latency of
/// the other client.
async fn watch(node: &Node, waits: &Mutex<Vec<Duration>>, time: Duration) -> Seen {
    let forwarded = || node.counts().iter().map(|counts| counts.forwarded.packets).sum::<u64>();
    let take = || std::mem::take(&mut *waits.lock());
    take();
    let (before, ran_before, began) = (forwarded(), worked(), Instant::now());
    tokio::time::sleep(time).await;
    let (packets, elapsed) = ((forwarded() - before) as f64, began.elapsed());
    let ran = worked().zip(ran_before).map_or(elapsed, |(now, then)| now.saturating_sub(then)).as_secs_f64();
    let (rate, share) = (packets / ran / 1e6, 100.0 * ran / elapsed.as_secs_f64());
    let mut waits: Vec<f64> = take().iter().map(|wait| wait.as_secs_f64() * 1e3).collect();
    waits.sort_by(f64::total_cmp);
    let at = |index: usize| waits.get(index).copied().unwrap_or(f64::INFINITY);
    Seen { rate, share, answers: waits.len(), longest: at(waits.len().wrapping_sub(1)), median: at(waits.len() / 2) }
}

/// Runs the attacks twice on one node. Returns whether the node was as good after them as before.
/// `seconds`: duration of each attack; `only`: name of the one attack to run.
fn measure(seconds: u64, only: Option<&str>) -> anyhow::Result<bool> {
    let node = node()?;
    // As in `terraced`.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).thread_keep_alive(Duration::from_millis(100)).enable_all().build()?;
    runtime.block_on(async {
        let (plain, tls_listener) = (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("0.0.0.0:0").await?);
        let (token, tls) = (Some(TOKEN.to_owned()), Some(tls_listener.local_addr()?));
        let target = Target { plain: plain.local_addr()?, tls, token };
        let access = AccessList { tokens: vec![(TokenHash::of(TOKEN), ClientPermission::PipelineOwner)] };
        let credentials = Credentials::new(Some(&self::tls()?), access)?;
        let options = ServeOptions { credentials, ..ServeOptions::default() };
        let server = serve(vec![plain, tls_listener], node.clone(), options, std::future::pending());
        tokio::spawn(server);
        let forward = {
            let mut client = target.client().await.ok_or_else(|| anyhow::anyhow!("the node does not serve"))?;
            let (_stream, _) = client.arbitrate(Some(1)).await?;
            prepare(&mut client).await?
        };
        let waits: Arc<Mutex<Vec<Duration>>> = Arc::default();
        tokio::spawn(witness(target.clone(), forward, waits.clone()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let memory_at_rest = memory("VmRSS:");
        let mut is_good = true;
        let mut memory_after = Vec::new();
        for repetition in 1..=2 {
            println!("time {repetition}");
            is_good &= attacks_in_turn(&node, &target, &waits, seconds, only).await?;
            // Threads release memory that they keep for further requests when they have been idle
            // for a while.
            tokio::time::sleep(Duration::from_secs(12)).await;
            memory_after.push(memory("VmRSS:"));
        }
        println!("memory, MiB: {memory_at_rest} before, {} and {} after attacks", memory_after[0], memory_after[1]);
        if memory_after.iter().any(|memory_mib| *memory_mib > memory_at_rest + KEPT)
            || memory_after[1] > memory_after[0] + GROWN
        {
            println!("  memory was not given back: {KEPT} MiB more than before, and {GROWN} more the second time, are the bound");
            is_good = false;
        }
        Ok(is_good)
    })
}

/// Runs each attack, in another process, and prints measurements before, during and after it.
/// Returns whether the node withstood all of them.
async fn attacks_in_turn(
    node: &Node,
    target: &Target,
    waits: &Mutex<Vec<Duration>>,
    seconds: u64,
    only: Option<&str>,
) -> anyhow::Result<bool> {
    let (plain, tls) = (target.plain.to_string(), target.tls.unwrap_or(target.plain).to_string());
    let max_memory = (Limits::default().memory() >> 20) as u64;
    println!(
        "forwarded: millions of packets in a second of the worker's, and how much of the time it had its processor (%); memory: MiB, {max_memory} more at most; another client's write and read: ms"
    );
    println!(
        "{:<24} {:>9} {:>7} {:>7} {:>7} {:>4} {:>4} {:>7} {:>7} {:>7} {:>8} {:>8} {:>8}",
        "attack",
        "attempts",
        "before",
        "during",
        "after",
        "%",
        "%",
        "memory",
        "peak",
        "after",
        "answers",
        "median",
        "longest"
    );
    let mut is_good = true;
    for name in ATTACKS.into_iter().filter(|name| only.is_none_or(|only| *name == only)) {
        let before = watch(node, waits, Duration::from_secs(2)).await;
        // Writing 5 resets the peak (proc(5)).
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let memory_before = memory("VmRSS:");
        let mut attacker = Command::new(std::env::current_exe()?);
        attacker.args(["attack", name, &plain, &tls, &(seconds + 1).to_string()]);
        let attacker = attacker.stdout(std::process::Stdio::piped()).spawn()?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let during = watch(node, waits, Duration::from_secs(seconds)).await;
        let attempts = tokio::task::spawn_blocking(move || attacker.wait_with_output()).await??;
        let attempts = String::from_utf8_lossy(&attempts.stdout).trim().to_owned();
        let peak = memory("VmHWM:");
        // Lets started requests end.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let after = watch(node, waits, Duration::from_secs(2)).await;
        let memory_after = memory("VmRSS:");
        println!(
            "{name:<24} {attempts:>9} {:>7.2} {:>7.2} {:>7.2} {:>4.0} {:>4.0} {memory_before:>7} {peak:>7} {memory_after:>7} {:>8} {:>8.1} {:>8.1}",
            before.rate,
            during.rate,
            after.rate,
            before.share,
            during.share,
            during.answers,
            during.median,
            during.longest
        );
        let mut faults = Vec::new();
        if attempts.parse::<u64>().unwrap_or(0) == 0 {
            faults.push("the attack did not take place");
        }
        if during.answers == 0 || after.answers == 0 {
            faults.push("the other client was not served");
        }
        if during.rate == 0.0 || after.rate == 0.0 {
            faults.push("nothing was forwarded");
        }
        if peak > memory_before + max_memory {
            faults.push("there was no bound");
        }
        faults.iter().for_each(|fault| println!("  {fault}"));
        is_good &= faults.is_empty();
    }
    Ok(is_good)
}
