//! State of a lab between commands: a file in `/run`, or in the directory for temporary files.

use super::error::LabError;
use super::topology::Topology;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A lab that is up, or was left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabState {
    /// Topology of the lab.
    pub topology: Topology,
    /// Process that created the namespaces.
    pub owner: Process,
    /// Process of the gateway, once it runs.
    pub gateway: Option<Process>,
}

/// A process. The start time distinguishes it from a later process with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process id.
    pub id: u32,
    /// Start time in clock ticks since boot (field 22 of /proc/PID/stat).
    pub started: u64,
}

impl Process {
    /// Returns the calling process.
    pub fn current() -> Process {
        let id = std::process::id();
        Process { id, started: start_time(id).unwrap_or(0) }
    }

    /// Returns the process with this id, if it exists.
    pub fn with_id(id: u32) -> Option<Process> {
        Some(Process { id, started: start_time(id)? })
    }

    /// Returns whether the process still runs.
    pub fn alive(self) -> bool {
        start_time(self.id) == Some(self.started)
    }
}

/// Returns the start time of a process. `None` if it does not exist, or has ended and its parent has not yet
/// asked for its exit code.
fn start_time(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field, the program's name, is in parentheses and can contain any characters.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if ["Z", "X"].contains(&state) { None } else { fields.nth(18)?.parse().ok() }
}

/// Returns the directory of the state files: the first candidate that is writable.
fn state_directory() -> PathBuf {
    let run = Path::new("/run/terrace");
    if fs::create_dir_all(run).is_ok() && fs::metadata(run).is_ok_and(|metadata| !metadata.permissions().readonly()) {
        return run.to_owned();
    }
    std::env::temp_dir().join("terrace")
}

/// Returns the control socket of a lab's gateway.
pub fn control_socket(name: &str) -> PathBuf {
    state_directory().join(format!("lab-{name}.sock"))
}

fn state_file(name: &str) -> PathBuf {
    state_directory().join(format!("lab-{name}.json"))
}

impl LabState {
    /// Creates the state file. Fails if it exists.
    pub(super) fn create(&self) -> Result<(), LabError> {
        let path = state_file(&self.topology.name);
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

    /// Records the process of a lab's gateway.
    ///
    /// # Errors
    /// If the lab is not up, or its state file cannot be written.
    pub fn set_gateway(name: &str, gateway: Option<Process>) -> Result<(), LabError> {
        let mut state = LabState::load(name)?;
        state.gateway = gateway;
        let path = state_file(name);
        // The file is replaced by renaming, so that a reader always finds a complete version.
        let fresh = path.with_extension("new");
        let written = fs::write(&fresh, state.encoded()).and_then(|()| fs::rename(&fresh, &path));
        written.map_err(|source| LabError::State { action: "write", path, source })
    }

    /// Loads the state of a lab.
    ///
    /// # Errors
    /// If the lab does not exist, or its state file is damaged.
    pub fn load(name: &str) -> Result<LabState, LabError> {
        let path = state_file(name);
        let text = fs::read(&path).map_err(|source| match source.kind() {
            ErrorKind::NotFound => LabError::NotUp { name: name.to_owned() },
            _ => LabError::State { action: "read", path: path.clone(), source },
        })?;
        serde_json::from_slice(&text).map_err(|error| LabError::State { action: "read", path, source: error.into() })
    }

    pub(super) fn remove(name: &str) -> Result<(), LabError> {
        let path = state_file(name);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(LabError::State { action: "remove", path, source })
            }
            _ => Ok(()),
        }
    }

    fn encoded(&self) -> Vec<u8> {
        // Plain data with string keys, so this cannot fail.
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }
}

/// Returns the names of all labs that have a state file.
pub fn running_labs() -> Vec<String> {
    let Ok(entries) = fs::read_dir(state_directory()) else { return Vec::new() };
    let name = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_prefix("lab-")?.strip_suffix(".json")?.to_owned())
    };
    let mut names: Vec<String> = entries.flatten().filter_map(name).collect();
    names.sort_unstable();
    names
}
