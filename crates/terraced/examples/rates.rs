//! Measures writes and reads of a node's tables over one TLS connection, the memory per entry, and
//! the cost of writes for the forwarding worker: `rates [ENTRIES [BATCH]]`, by default a million in
//! batches of a thousand.
//!
//! Starts `terraced` (built with the same profile) twice. First without ports, the process on
//! processor 1 and the client on processor 0, for the rates. Then with a port that always has
//! packets (DPDK's `net_null0`), the worker alone on processor 0, everything else on processor 1:
//! packets per second before, during and after writes of 100,000 entries a second.

use node::admin::protocol::{ControlRequest, ControlResponse};
use p4runtime::client::{Client, ClientTls, ConnectOptions};
use p4runtime::proto::v1::{Entity, TableEntry, Update, entity, update, write_request::Atomicity};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[path = "../tests/process/forward.rs"]
#[allow(dead_code)]
mod forward;

/// Entries written per second while the worker forwards.
const PACE: u64 = 100_000;

/// `terraced` process of this measurement.
struct Daemon {
    child: Child,
    address: String,
    control: PathBuf,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes certificates for both ends to the folder.
fn certificates(folder: &Path) -> anyhow::Result<ClientTls> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);
    let certificate_for = |name: &str| -> anyhow::Result<(String, String)> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, &issuer)?.pem();
        Ok((certificate, key.serialize_pem()))
    };
    let ((certificate, key), identity) = (certificate_for("node.test")?, certificate_for("client.test")?);
    for (name, text) in [("node.pem", &certificate), ("node.key", &key), ("root.pem", &root)] {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(ClientTls { authority: root, identity: Some(identity), server_name: Some("node.test".into()) })
}

impl Daemon {
    /// Starts `terraced` on these processors, with `settings` in its configuration. Returns when it
    /// serves. `name`: name of its files in `folder`.
    fn start(folder: &Path, name: &str, settings: &str, processors: &str) -> anyhow::Result<Daemon> {
        let (store, control) = (folder.join(format!("{name}.redb")), folder.join(format!("{name}.sock")));
        let path = |file: &str| folder.join(file).display().to_string();
        let text = format!(
            "store = {store:?}\n{settings}\n[control]\nsocket = {control:?}\n[p4runtime]\nlisten = [\"127.0.0.1:0\"]\n\
             require_tls_on_loopback = true\ncertificate = {:?}\nkey = {:?}\nclient_authority = {:?}\n",
            path("node.pem"),
            path("node.key"),
            path("root.pem")
        );
        let config = folder.join(format!("{name}.toml"));
        std::fs::write(&config, text)?;
        let examples = std::env::current_exe()?;
        let terraced = examples.ancestors().nth(2).map(|profile| profile.join("terraced"));
        let terraced = terraced.filter(|path| path.exists());
        let terraced = terraced.ok_or_else(|| anyhow::anyhow!("build terraced with the same profile first"))?;
        let mut command = Command::new("taskset");
        command.args(["-c", processors]).arg(terraced).arg("--config").arg(config);
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().ok_or_else(|| anyhow::anyhow!("no pipe"))?;
        let mut lines = BufReader::new(stderr).lines();
        let mut address = None;
        for line in lines.by_ref().map_while(Result::ok) {
            if let Some((_, listen_address)) = line.split_once("listen=") {
                address = Some(listen_address.trim_matches('"').to_owned());
                break;
            }
            eprintln!("terraced: {line}");
        }
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("terraced: {line}")));
        let address = address.ok_or_else(|| anyhow::anyhow!("terraced does not serve"))?;
        Ok(Daemon { child, address, control })
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Keeps all threads but workers on a processor.
    fn keep_others_on(&self, processor: &str) -> anyhow::Result<()> {
        for task in std::fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let task = task?.path();
            let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
            let id = task.file_name().and_then(|id| id.to_str()).unwrap_or_default().to_owned();
            if !name.starts_with("worker-") {
                Command::new("taskset").args(["-pc", processor, &id]).stdout(Stdio::null()).status()?;
            }
        }
        Ok(())
    }

    /// Connects a client and makes it primary.
    async fn client(&self, tls: &ClientTls) -> anyhow::Result<(Client, p4runtime::client::Stream)> {
        let options = ConnectOptions { tls: Some(tls.clone()), ..ConnectOptions::default() };
        let mut client = Client::connect(&format!("https://{}", self.address), 1, &options).await?;
        let (stream, _) = client.arbitrate(Some(1)).await?;
        Ok((client, stream))
    }

    /// Returns the resident memory of the process in bytes.
    fn resident(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid())).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("Rss:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
    }

    /// Returns the processor time in seconds.
    fn processor_time(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0);
        (ticks(11) + ticks(12)) / 100.0
    }

    /// Returns the packets that the worker has received, and the time of the count.
    fn received(&self) -> anyhow::Result<(u64, Instant)> {
        match node::admin::ask(&self.control, &ControlRequest::Workers)? {
            ControlResponse::Workers { workers } => {
                Ok((workers.iter().map(|w| w.received.packets).sum(), Instant::now()))
            }
            answer => anyhow::bail!("the node answered {answer:?}"),
        }
    }
}

/// Returns batches of new entries with scattered destinations from `first` on.
fn batches(forward: &forward::Forward, first: u64, entries: u64, batch: u64) -> Vec<Vec<Update>> {
    let new_entry = |n: u64| forward.update(update::Type::Insert, n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16, n % 500);
    let requests_of = |at: u64| (first + at * batch..first + ((at + 1) * batch).min(entries)).map(new_entry).collect();
    (0..entries.div_ceil(batch)).map(requests_of).collect()
}

/// Moves all threads of this process to these processors.
fn pin(processors: &str) -> anyhow::Result<()> {
    for task in std::fs::read_dir("/proc/self/task")? {
        let id = task?.file_name().to_string_lossy().into_owned();
        Command::new("taskset").args(["-pc", processors, &id]).stdout(Stdio::null()).status()?;
    }
    Ok(())
}

/// Measures rates and memory; the server has one processor.
async fn rates(folder: &Path, tls: &ClientTls, entries: u64, batch: u64) -> anyhow::Result<()> {
    let daemon = Daemon::start(folder, "rates", "", "1")?;
    pin("0")?;
    let pipeline = forward::pipeline();
    let (mut client, _stream) = daemon.client(tls).await?;
    forward::commit(&mut client, &pipeline).await;
    let forward = forward::Forward::new(&pipeline);
    let requests = batches(&forward, 0, entries, batch);
    let (memory, before, began) = (daemon.resident(), daemon.processor_time(), Instant::now());
    for updates in requests {
        client.write(updates, Atomicity::ContinueOnError).await?;
    }
    let (time, used) = (began.elapsed().as_secs_f64(), daemon.processor_time() - before);
    let print_rate = |operation: &str, time: f64, used: f64| {
        let us_per_entry = used / entries as f64 * 1e6;
        println!(
            "{operation}: {:.0} entries/s over TLS, {us_per_entry:.2} us of processor each",
            entries as f64 / time
        );
    };
    print_rate("write", time, used);
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("memory: {:.0} bytes an entry", daemon.resident().saturating_sub(memory) as f64 / entries as f64);
    let (before, began) = (daemon.processor_time(), Instant::now());
    let wildcard = TableEntry { table_id: forward.entry(0, 0).table_id, ..TableEntry::default() };
    let mut parts = client.read(vec![Entity { entity: Some(entity::Entity::TableEntry(wildcard)) }]).await?;
    let mut count = 0;
    while let Some(part) = parts.message().await? {
        count += part.entities.len() as u64;
    }
    anyhow::ensure!(count == entries, "{count} of {entries} entries came back");
    print_rate("read", began.elapsed().as_secs_f64(), daemon.processor_time() - before);
    let memory = daemon.resident().saturating_sub(memory) as f64 / entries as f64;
    println!("memory: {memory:.0} bytes an entry after the read");
    drop((client, daemon));
    // From the start of the process until it serves.
    let began = Instant::now();
    let again = Daemon::start(folder, "rates", "", "1")?;
    let time = began.elapsed().as_secs_f64();
    println!("start again: {time:.2} s, {:.2} s a million entries", time / (entries as f64 / 1e6));
    drop(again);
    Ok(())
}

/// Measures the cost of writes for the worker that forwards on the other processor. Alternates
/// intervals without and with writes, because other work on the machine changes over time.
async fn beside_forwarding(folder: &Path, tls: &ClientTls, entries: u64, batch: u64) -> anyhow::Result<()> {
    let port = "cores = [0]\nidle = \"poll\"\n[[port]]\nnumber = 1\ndevice = \"net_null0,size=64\"";
    let daemon = Daemon::start(folder, "forwarding", port, "0,1")?;
    daemon.keep_others_on("1")?;
    pin("1")?;
    let pipeline = forward::pipeline();
    let (mut client, _stream) = daemon.client(tls).await?;
    forward::commit(&mut client, &pipeline).await;
    let forward = forward::Forward::new(&pipeline);
    client.write(vec![forward.update(update::Type::Insert, 0, 1)], Atomicity::ContinueOnError).await?;
    let requests = batches(&forward, 1, entries, batch);
    let rate_since = |(packets, time): (u64, Instant)| -> anyhow::Result<f64> {
        let (now, at) = daemon.received()?;
        Ok((now - packets) as f64 / at.duration_since(time).as_secs_f64() / 1e6)
    };
    let rate_alone = |seconds: u64| {
        let start = daemon.received();
        async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            rate_since(start?)
        }
    };
    rate_alone(1).await?;
    // Without and with writes.
    let mut rates = [Vec::new(), Vec::new()];
    for group in requests.chunks((PACE * 3 / batch).max(1) as usize) {
        rates[0].push(rate_alone(3).await?);
        let (start, began) = (daemon.received()?, Instant::now());
        for (number, updates) in group.iter().enumerate() {
            client.write(updates.clone(), Atomicity::ContinueOnError).await?;
            let due = Duration::from_secs_f64((number as u64 + 1) as f64 * batch as f64 / PACE as f64);
            tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
        }
        let written: usize = group.iter().map(Vec::len).sum();
        let pace = written as f64 / began.elapsed().as_secs_f64();
        rates[1].push(rate_since(start)?);
        println!(
            "  alone {:.2} Mpps, with {pace:.0} entries/s written {:.2} Mpps",
            rates[0][rates[0].len() - 1],
            rates[1][rates[1].len() - 1]
        );
    }
    rates.iter_mut().for_each(|all| all.sort_by(f64::total_cmp));
    let [median_alone, median_beside] = rates.map(|all| all[all.len() / 2]);
    println!(
        "forwarding: {median_alone:.2} Mpps alone, {median_beside:.2} beside writes (medians): {:.1} % less",
        (1.0 - median_beside / median_alone) * 100.0
    );
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let entries: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let batch: u64 = arguments.next().map_or(Ok(1_000), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let tls = certificates(folder.path())?;
    rates(folder.path(), &tls, entries, batch).await?;
    beside_forwarding(folder.path(), &tls, entries, batch).await
}
