//! VPP on packets from memory: its packet generator replays a capture on one worker. [`VppSetup`] has
//! the configurations.
//!
//! VPP counts clocks for each of its nodes. What is reported is the sum over all nodes but the
//! generator's. It is built outside of this project (`--vpp`, the folder of its build).

use crate::external_resources::{ExternalResource, Process, ResourceGuard};
use crate::machine;
use crate::systems::capture;
use crate::systems::vpp_setup::VppSetup;
use anyhow::{Context, bail, ensure};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time limit for VPP to start.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit for VPP to add all sessions.
const ADDITION_TIMEOUT: Duration = Duration::from_secs(60);
/// One of this many sessions may be missing.
const MISSING_FRACTION: usize = 1000;
/// How long packets of established sessions are counted.
const WINDOW: Duration = Duration::from_secs(3);
/// What VPP does for a number of sessions.
#[derive(Debug, Clone, Copy)]
pub struct NatRates {
    /// New sessions a second.
    pub new_per_s: f64,
    /// Packets a second of established sessions.
    pub established_pps: f64,
    /// Resident memory in bytes, with its tables, which it reserves when it starts.
    pub resident_bytes: u64,
}

/// A running VPP.
pub struct Vpp {
    folder: PathBuf,
    process: Process,
    sessions: usize,
    summary: Option<(&'static str, &'static str)>,
    _removed: ResourceGuard,
}

impl Vpp {
    /// Starts VPP with a worker on `core`, and a generator that replays `packets`: one of each
    /// session.
    ///
    /// # Errors
    /// It does not start; the message has the end of its log.
    pub fn start(
        build: &Path,
        core: usize,
        setup: &VppSetup,
        packets: impl ExactSizeIterator<Item = Vec<u8>>,
    ) -> anyhow::Result<Vpp> {
        let folder = std::env::temp_dir().join(format!("terrace-bench-vpp-{}", std::process::id()));
        let removed = ResourceGuard::new(ExternalResource::Path(folder.clone()));
        fs::create_dir_all(&folder)?;
        let sessions = packets.len();
        capture::write(&folder.join("in.pcap"), packets)?;
        let libraries = find_libraries(build)?;
        fs::write(folder.join("cli"), commands(&folder, setup))?;
        fs::write(folder.join("conf"), configuration(&folder, &libraries, setup.plugins, core))?;
        let log = File::create(folder.join("out"))?;
        let mut command = Command::new(build.join("bin/vpp"));
        command.arg("-c").arg(folder.join("conf")).env("LD_LIBRARY_PATH", &libraries);
        let process = Process::start(command.stdout(log.try_clone()?).stderr(log))?;
        let mut vpp = Vpp { folder, process, sessions, summary: setup.summary, _removed: removed };
        vpp.wait_for_generator()?;
        Ok(vpp)
    }

    fn wait_for_generator(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            sleep(Duration::from_millis(500));
            let has_ended = self.process.exit_status()?.is_some();
            if self.ask("show packet-generator").is_ok_and(|text| text.lines().any(|line| line.starts_with("x "))) {
                return Ok(());
            }
            if has_ended {
                break;
            }
        }
        bail!("VPP does not start: {}", fs::read_to_string(self.folder.join("out")).unwrap_or_default().trim())
    }

    /// Sends a packet of each session, which adds it, and then packets of all in turn.
    ///
    /// # Errors
    /// VPP does not answer, or does not hold all sessions.
    pub fn measure(&mut self) -> anyhow::Result<NatRates> {
        let clock = self.ask("show clock verbose")?;
        let hz = number_behind(&clock, "clocks/sec").with_context(|| format!("no clock in {clock:?}"))?;
        self.ask(&format!("packet-generator configure x limit {}", self.sessions))?;
        self.ask("clear runtime")?;
        self.ask("packet-generator enable x")?;
        let (deadline, wanted) = (Instant::now() + ADDITION_TIMEOUT, self.sessions - self.sessions / MISSING_FRACTION);
        let mut held = 0;
        // VPP tries few ports, so it refuses some sessions although ports are free.
        while held < self.sessions {
            let before = std::mem::replace(&mut held, self.held_sessions()?);
            if before == held && held >= wanted {
                break;
            }
            ensure!(Instant::now() < deadline, "VPP holds {held} of {} sessions", self.sessions);
            sleep(Duration::from_millis(500));
        }
        let new = clocks_of_packet(&self.ask("show runtime")?)?;
        let resident_bytes = self.resident_bytes()?;
        self.ask("packet-generator disable x")?;
        self.ask("packet-generator configure x limit 0")?;
        self.ask("clear runtime")?;
        self.ask("packet-generator enable x")?;
        sleep(WINDOW);
        let established = clocks_of_packet(&self.ask("show runtime")?)?;
        Ok(NatRates { new_per_s: hz / new, established_pps: hz / established, resident_bytes })
    }

    fn held_sessions(&self) -> anyhow::Result<usize> {
        let Some((command, word)) = self.summary else {
            sleep(WINDOW);
            return Ok(self.sessions);
        };
        let text = self.ask(command)?;
        Ok(number_behind(&text, word).with_context(|| format!("no sessions in {text:?}"))? as usize)
    }

    fn resident_bytes(&self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.child.id()))?;
        Ok(number_behind(&status, "VmRSS:").context("a size in the status")? as u64 * 1024)
    }

    /// Sends a command to VPP's command line. Returns the answer.
    fn ask(&self, command: &str) -> anyhow::Result<String> {
        let mut stream = UnixStream::connect(self.folder.join("sock"))?;
        stream.set_read_timeout(Some(Duration::from_millis(400)))?;
        read_until_silence(&mut stream);
        stream.write_all(format!("{command}\n").as_bytes())?;
        Ok(read_until_silence(&mut stream))
    }
}

fn read_until_silence(stream: &mut UnixStream) -> String {
    let (mut text, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        text.extend_from_slice(&buffer[..len]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the folder with VPP's libraries and plugins.
fn find_libraries(build: &Path) -> anyhow::Result<PathBuf> {
    let folders = fs::read_dir(build.join("lib")).with_context(|| format!("no build of VPP in {}", build.display()))?;
    let mut folders = folders.flatten().map(|folder| folder.path());
    folders.find(|folder| folder.join("vpp_plugins/nat_plugin.so").exists()).context("VPP's build has no NAT plugin")
}

/// Returns the commands that VPP runs when it starts.
fn commands(folder: &Path, setup: &VppSetup) -> String {
    let capture = folder.join("in.pcap");
    let generator = format!("name x pcap {} worker 0 source pg0 node ethernet-input", capture.display());
    let ports = ["create packet-generator interface pg0", "create packet-generator interface pg1"];
    let generator = format!("packet-generator new {{ {generator} }}");
    let lines = ports.into_iter().chain(setup.commands.iter().map(String::as_str)).chain([generator.as_str()]);
    lines.fold(String::new(), |text, line| text + line + "\n")
}

fn configuration(folder: &Path, libraries: &Path, plugins: &[&str], core: usize) -> String {
    let (folder, path) = (folder.display(), libraries.join("vpp_plugins"));
    let plugins = plugins.iter().map(|name| format!("plugin {name}_plugin.so {{ enable }} ")).collect::<String>();
    let main_core = if core == 0 { machine::cores() - 1 } else { 0 };
    format!(
        "unix {{ nodaemon cli-no-pager nosyslog log {folder}/log cli-listen {folder}/sock runtime-dir {folder} exec {folder}/cli }}
api-segment {{ prefix bench{} }}
cpu {{ main-core {main_core} corelist-workers {core} }}
memory {{ main-heap-size 4G }}
buffers {{ buffers-per-numa 65536 page-size 4K }}
statseg {{ size 512m socket-name {folder}/stats }}
plugins {{ path {} plugin default {{ disable }} {plugins}}}
",
        std::process::id(),
        path.display()
    )
}

/// Returns the number behind a word in a text.
fn number_behind(text: &str, word: &str) -> Option<f64> {
    text.split(word).nth(1)?.split_whitespace().next()?.trim_end_matches(',').parse().ok()
}

/// Returns the clocks of a packet in all nodes of the worker but the generator's. `runtime` is the
/// answer of `show runtime`: name, state, calls, packets, suspends, clocks of a packet, and more.
fn clocks_of_packet(runtime: &str) -> anyhow::Result<f64> {
    let worker = runtime.split("Thread 1").nth(1).unwrap_or(runtime);
    let node = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_active = words.len() >= 7 && ["active", "polling"].contains(&words[1]);
        let (packets, clocks) = (words.get(3)?.parse::<f64>().ok()?, words.get(5)?.parse::<f64>().ok()?);
        (is_active && packets > 0.0).then(|| (words[0].to_owned(), packets, clocks))
    };
    let nodes: Vec<(String, f64, f64)> = worker.lines().filter_map(node).collect();
    let packets = nodes.iter().map(|(_, packets, _)| *packets).fold(0.0, f64::max);
    ensure!(packets > 0.0, "VPP has processed no packets: {runtime}");
    let counted = nodes.iter().filter(|(name, ..)| name != "pg-input");
    Ok(counted.map(|(_, packets, clocks)| packets * clocks).sum::<f64>() / packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_those_of_the_worker_without_the_generator() {
        let text = "Thread 0 vpp_main\n\
            node-a active 10 10 0 9.9e9 1.00 0.00\n\
            Thread 1 vpp_wk_0\n\
            pg-input polling 100 25600 0 3.00e1 256.00 0.00\n\
            nat44-ed-in2out active 100 25600 0 1.50e2 256.00 0.00\n\
            error-drop active 1 256 0 1.00e2 256.00 0.00\n\
            idle-node polling 100 0 0 5.0e1 0.00 0.00\n";
        assert!((clocks_of_packet(text).expect("packets") - 151.0).abs() < 1e-9);
        assert!(clocks_of_packet("Thread 1\n").is_err());
        assert_eq!(number_behind("total sessions: 77\n", "total sessions:"), Some(77.0));
        assert_eq!(number_behind("error 0, clocks/sec 2.5, Sun", "clocks/sec"), Some(2.5));
    }
}
