//! Environment of these tests: the binary, the repository, the lock for labs, and the remains of a
//! lab.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use serde_json::Value;
use std::fs;
use std::process::{Child, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const TERRACE: &str = env!("CARGO_BIN_EXE_terrace");

pub use crate::command::root;

/// Returns the text of the lab's region file.
pub fn region_text() -> String {
    fs::read_to_string(region_file()).unwrap()
}

/// Returns the text of the region file without connections, which an emulated switch does not have.
pub fn plain_region_text() -> String {
    fs::read_to_string(root().join("tests/regions/plain.yaml")).unwrap()
}

pub fn region_file() -> String {
    root().join("examples/lab.yaml").display().to_string()
}

/// Runs `terrace` with these arguments to its end.
pub fn terrace(arguments: &[&str]) -> Output {
    crate::command::terrace(arguments).output().unwrap()
}

/// Runs [`terrace`] with `--json`. Returns the exit code and the document.
pub fn json(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = terrace(&[&["--json"], arguments].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    let document = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{complained}"));
    (output.status.code(), document)
}

/// Lock on the machine's namespaces, with a unique name for a lab. Dropping it, also by a panic,
/// takes the lab down.
pub struct Turn {
    pub lab: String,
    _right: Right,
}

/// Mode of the lock. Tests that judge the gateway under load have the machine alone; others run
/// beside each other, because they wait most of the time.
enum Right {
    Alone { _guard: RwLockWriteGuard<'static, ()> },
    Beside { _guard: RwLockReadGuard<'static, ()> },
}

static LABS: RwLock<()> = RwLock::new(());

/// Waits for an exclusive turn. Where labs are not allowed, runs the scenario from captures and
/// returns `None`.
pub fn turn() -> Option<Turn> {
    with_right(Right::Alone { _guard: LABS.write() })
}

/// Waits for a shared turn, beside other shared ones.
pub fn turn_beside_others() -> Option<Turn> {
    with_right(Right::Beside { _guard: LABS.read() })
}

fn with_right(right: Right) -> Option<Turn> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if let Err(error) = terrace::lab::permitted() {
        assert!(std::env::var("CI").is_err(), "in CI, labs must run: {error}");
        println!("NO NAMESPACES ({error}): this ran from capture to capture instead");
        let (code, report) = json(&["demo", "--captures"]);
        assert_eq!((code, &report["ok"]), (Some(0), &Value::Bool(true)), "{report}");
        return None;
    }
    let lab = format!("s{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    Some(Turn { lab, _right: right })
}

/// Starts a lab of a region, with additional arguments. Returns the region's file and its folder.
pub fn lab_up(turn: &Turn, region: &str, more: &[&str]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("region.yaml").display().to_string();
    fs::write(&file, region).unwrap();
    let (code, document) = json(&[&["lab", "up", "--region", &file, "--name", &turn.lab], more].concat());
    assert_eq!(code, Some(0), "{document}");
    (folder, file)
}

/// Gateway that a test started; it ends with the test.
pub struct Gateway(pub Child);

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = terrace(&["lab", "down", "--name", &self.lab]);
    }
}

impl Turn {
    /// Returns all remains of the lab on this machine.
    pub fn traces(&self) -> Vec<String> {
        let names = |directory: &str| {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
        };
        let mut found: Vec<String> = Vec::new();
        let prefix = format!("{}-", self.lab);
        found.extend(names("/run/netns").into_iter().filter(|name| name.starts_with(&prefix)));
        let of_lab = |name: &String| name.contains(&self.lab);
        found.extend(names("/run/terrace").into_iter().filter(of_lab));
        found.extend(names(&std::env::temp_dir().display().to_string()).into_iter().filter(of_lab));
        for process in names("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
            let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            if command.contains(&self.lab) && process != std::process::id().to_string() {
                found.push(format!("process {process}: {command}"));
            }
        }
        found
    }

    /// Fails if anything of the lab remains.
    pub fn assert_nothing_left(&self) {
        // An ended process may still be listed for a moment.
        let deadline = Instant::now() + Duration::from_secs(2);
        while !self.traces().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(self.traces(), [""; 0], "left behind");
    }

    /// Returns the namespace of a machine.
    pub fn namespace(&self, machine: &str) -> io::Namespace {
        let state = terrace::lab::LabState::load(&self.lab).unwrap();
        let endpoint = state.topology.endpoint(machine).unwrap_or_else(|| panic!("no machine {machine}"));
        io::Namespace::open(&endpoint.namespace).unwrap()
    }

    /// Returns the gateway's counts, after a delay for their update.
    pub fn stats(&self) -> Value {
        std::thread::sleep(Duration::from_millis(300));
        let [version, ports, drops] = ["version", "ports", "drops"].map(|what| self.show(what));
        let sum = |what: &str| {
            ports["ports"].as_array().unwrap().iter().map(|port| port[what]["packets"].as_u64().unwrap()).sum::<u64>()
        };
        let by = |cpu: bool| {
            let all = drops["drops"].as_array().unwrap().iter();
            // A packet in that the full queue dropped is already counted as lost.
            let wanted = all.filter(|one| (one["by"] == "cpu") == cpu && one["reason"] != "packet_in_queue_full");
            wanted
                .map(|one| (one["reason"].as_str().unwrap().to_owned(), one.clone()))
                .collect::<serde_json::Map<_, _>>()
        };
        let program = &version["program"];
        serde_json::json!({
            "engine": program["engine"], "cache": program["cache"], "tiers": program["tiers"], "notes": program["notes"], "version": program["tables_version"],
            "received": { "packets": sum("received") }, "forwarded": { "packets": sum("sent") },
            "drops": by(false), "to_cpu": by(true),
        })
    }

    fn show(&self, what: &str) -> Value {
        let (code, shown) = json(&["show", what, "--lab", &self.lab]);
        assert_eq!(code, Some(0), "{shown}");
        shown
    }

    /// Ends the gateway; the lab stays.
    pub fn stop_gateway(&self) {
        let pid = self.show("version")["pid"].to_string();
        assert!(std::process::Command::new("kill").arg(pid).status().unwrap().success());
    }

    /// Returns drop reasons and their packets.
    pub fn drops(&self) -> Vec<(String, u64)> {
        packets_by_reason(&self.stats()["drops"])
    }
}

/// Returns the packets of a map from reasons to counts.
pub fn packets_by_reason(counts: &Value) -> Vec<(String, u64)> {
    let counts = counts.as_object().unwrap();
    counts.iter().map(|(reason, count)| (reason.clone(), count["packets"].as_u64().unwrap())).collect()
}
