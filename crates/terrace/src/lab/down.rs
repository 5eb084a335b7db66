//! Removes a lab in any state.

use super::command::{program, run};
use super::error::LabError;
use super::state::{LabState, Process};
use super::steps::MARK;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// Grace period for processes to end by themselves.
const PATIENCE: Duration = Duration::from_secs(2);

/// Result of [`down`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemovedLab {
    /// Removed namespaces.
    pub namespaces: Vec<String>,
    /// Number of ended processes: those in the namespaces, and the gateway.
    pub processes: usize,
}

/// Ends the lab's gateway and all processes in its namespaces, and deletes the namespaces with
/// their interfaces. Works after a crash too: namespaces are found by the lab's state file, or if
/// that is lost, by their names and marks. A lab that does not exist is not an error.
///
/// # Errors
/// If something could not be removed; everything else was.
pub fn down(name: &str) -> Result<RemovedLab, LabError> {
    let state = LabState::load(name).ok();
    let exist = all_namespaces();
    let mut ours: BTreeSet<String> = lab_namespaces(name)?.into_iter().collect();
    if let Some(state) = &state {
        ours.extend(state.topology.namespaces().into_iter().filter(|namespace| exist.contains(namespace)));
    }
    let gateway = state.and_then(|state| state.gateway).filter(|gateway| gateway.alive());
    let mut removed = RemovedLab { namespaces: Vec::new(), processes: end_processes(gateway, &ours) };
    let mut problems = Vec::new();
    for namespace in ours {
        match run(program("ip", &["netns", "del", &namespace])) {
            Ok(_) => removed.namespaces.push(namespace),
            Err(error) => problems.push(error.to_string()),
        }
    }
    if !problems.is_empty() {
        return Err(LabError::Remains { problems });
    }
    LabState::remove(name)?;
    Ok(removed)
}

/// Returns the namespaces of a lab, identified by their names and marks.
pub(super) fn lab_namespaces(name: &str) -> Result<Vec<String>, LabError> {
    let prefix = format!("{name}-");
    let candidates = all_namespaces().into_iter().filter(|namespace| namespace.starts_with(&prefix));
    Ok(candidates.filter(|namespace| has_lab_mark(namespace, name)).collect())
}

/// Returns whether the namespace has the mark of the lab. The mark is needed because other programs
/// can have namespaces with such names.
fn has_lab_mark(namespace: &str, lab: &str) -> bool {
    let link = run(program("ip", &["-n", namespace, "link", "show", "dev", "lo"]));
    link.is_ok_and(|text| text.split_whitespace().any(|word| word == format!("{MARK}{lab}")))
}

/// Returns all namespaces of the machine; none if the directory does not exist, because then no
/// namespace was ever created.
fn all_namespaces() -> BTreeSet<String> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Terminates processes, and kills those that do not end. Returns their number.
fn end_processes(gateway: Option<Process>, namespaces: &BTreeSet<String>) -> usize {
    let mut processes: BTreeSet<u32> = gateway.iter().map(|gateway| gateway.id).collect();
    for namespace in namespaces {
        let list = run(program("ip", &["netns", "pids", namespace])).unwrap_or_default();
        processes.extend(list.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
    }
    // The process that removes the lab may itself be its gateway.
    processes.remove(&std::process::id());
    let ids = || processes.iter().filter_map(|id| Pid::from_raw(i32::try_from(*id).ok()?));
    for id in ids() {
        let _ = kill_process(id, Signal::TERM);
    }
    let deadline = Instant::now() + PATIENCE;
    while ids().any(is_running) {
        if Instant::now() > deadline {
            for id in ids().filter(|id| is_running(*id)) {
                let _ = kill_process(id, Signal::KILL);
            }
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    processes.len()
}

/// Returns whether a process runs. Zombies do not count.
fn is_running(id: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| !fields.trim_start().starts_with(['Z', 'X']))
}
