//! What is remembered of a lab between commands: a file in `/run`, or in the directory for temporary files.

use super::error::LabError;
use super::topology::Topology;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A lab that is up, or was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// What it consists of.
    pub topology: Topology,
    /// The process that made the namespaces.
    pub owner: Process,
    /// The process that is the gateway, once it runs.
    pub gateway: Option<Process>,
}

/// A process, told apart from a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// When it started, in clock ticks since the machine was booted (field 22 of /proc/PID/stat).
    pub started: u64,
}

impl Process {
    /// The calling process.
    pub fn current() -> Process {
        let id = std::process::id();
        Process { id, started: start_time(id).unwrap_or(0) }
    }

    /// The process with this number, if there is one.
    pub fn of(id: u32) -> Option<Process> {
        Some(Process { id, started: start_time(id)? })
    }

    /// Whether it still runs.
    pub fn alive(self) -> bool {
        start_time(self.id) == Some(self.started)
    }
}

/// `None` when there is no such process.
fn start_time(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field, the program's name, is in parentheses and may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// The first of these directories that can be written to holds the files.
fn directory() -> PathBuf {
    let run = Path::new("/run/terrace");
    if fs::create_dir_all(run).is_ok() && fs::metadata(run).is_ok_and(|metadata| !metadata.permissions().readonly()) {
        return run.to_owned();
    }
    std::env::temp_dir().join("terrace")
}

/// The control socket of a lab's gateway.
pub fn control_socket(name: &str) -> PathBuf {
    directory().join(format!("lab-{name}.sock"))
}

fn path(name: &str) -> PathBuf {
    directory().join(format!("lab-{name}.json"))
}

impl State {
    /// Writes the file of a lab that must not have one yet.
    pub(super) fn create(&self) -> Result<(), LabError> {
        let path = path(&self.topology.name);
        let failed = |source| LabError::State { action: "write", path: path.clone(), source };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => file.write_all(&self.encoded()).map_err(failed),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(LabError::Exists { name: self.topology.name.clone() })
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Remembers the process that is the gateway of a lab.
    ///
    /// # Errors
    /// If the lab is not up, or its file cannot be written.
    pub fn set_gateway(name: &str, gateway: Option<Process>) -> Result<(), LabError> {
        let mut state = State::load(name)?;
        state.gateway = gateway;
        let path = path(name);
        // Renamed into place, so that a reader finds the old or the new one, whole.
        let fresh = path.with_extension("new");
        let written = fs::write(&fresh, state.encoded()).and_then(|()| fs::rename(&fresh, &path));
        written.map_err(|source| LabError::State { action: "write", path, source })
    }

    /// The state of a lab.
    ///
    /// # Errors
    /// If there is none, or the file is damaged.
    pub fn load(name: &str) -> Result<State, LabError> {
        let path = path(name);
        let text = fs::read(&path).map_err(|source| match source.kind() {
            ErrorKind::NotFound => LabError::NotUp { name: name.to_owned() },
            _ => LabError::State { action: "read", path: path.clone(), source },
        })?;
        serde_json::from_slice(&text).map_err(|error| LabError::State { action: "read", path, source: error.into() })
    }

    pub(super) fn remove(name: &str) -> Result<(), LabError> {
        let path = path(name);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(LabError::State { action: "remove", path, source })
            }
            _ => Ok(()),
        }
    }

    fn encoded(&self) -> Vec<u8> {
        // Plain data with string keys: this cannot fail.
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }
}

/// The names of all labs that have a state.
pub fn running() -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory()) else { return Vec::new() };
    let name = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_prefix("lab-")?.strip_suffix(".json")?.to_owned())
    };
    let mut names: Vec<String> = entries.flatten().filter_map(name).collect();
    names.sort_unstable();
    names
}
