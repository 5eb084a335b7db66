//! Removing a lab, whatever state it is in.

use super::command::{program, run};
use super::error::LabError;
use super::state::{Process, State};
use super::steps::MARK;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// How long processes may take to end by themselves.
const PATIENCE: Duration = Duration::from_secs(2);

/// What [`down`] removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removed {
    /// Namespaces.
    pub namespaces: Vec<String>,
    /// Processes in them, and the gateway.
    pub processes: usize,
}

/// Ends the lab's gateway and all processes in its namespaces, and deletes the namespaces, which deletes all interfaces. Also after a
/// crash: what belongs to the lab is found by its state file, and, should that be lost, by name and mark of its namespaces.
/// A lab that does not exist is nothing to remove, and no error.
///
/// # Errors
/// If something could not be removed; everything else was.
pub fn down(name: &str) -> Result<Removed, LabError> {
    let state = State::load(name).ok();
    let exist = all_namespaces();
    let mut ours: BTreeSet<String> = existing(name)?.into_iter().collect();
    if let Some(state) = &state {
        ours.extend(state.topology.namespaces().into_iter().filter(|namespace| exist.contains(namespace)));
    }
    let gateway = state.and_then(|state| state.gateway).filter(|gateway| gateway.alive());
    let mut removed = Removed { namespaces: Vec::new(), processes: end_processes(gateway, &ours) };
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
    State::remove(name)?;
    Ok(removed)
}

/// The namespaces of a lab, by their names and marks.
pub(super) fn existing(name: &str) -> Result<Vec<String>, LabError> {
    let prefix = format!("{name}-");
    let candidates = all_namespaces().into_iter().filter(|namespace| namespace.starts_with(&prefix));
    Ok(candidates.filter(|namespace| marked(namespace, name)).collect())
}

/// Whether the namespace carries the mark of the lab: others may have namespaces with such names too.
fn marked(namespace: &str, lab: &str) -> bool {
    let link = run(program("ip", &["-n", namespace, "link", "show", "dev", "lo"]));
    link.is_ok_and(|text| text.split_whitespace().any(|word| word == format!("{MARK}{lab}")))
}

/// None if the directory does not exist: then no namespace was ever made.
fn all_namespaces() -> BTreeSet<String> {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Asks processes to end, and ends those that do not. Returns how many there were.
fn end_processes(gateway: Option<Process>, namespaces: &BTreeSet<String>) -> usize {
    let mut processes: BTreeSet<u32> = gateway.iter().map(|gateway| gateway.id).collect();
    for namespace in namespaces {
        let list = run(program("ip", &["netns", "pids", namespace])).unwrap_or_default();
        processes.extend(list.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
    }
    // The lab may be taken down by the very process that is its gateway.
    processes.remove(&std::process::id());
    let ids = || processes.iter().filter_map(|id| Pid::from_raw(i32::try_from(*id).ok()?));
    for id in ids() {
        let _ = kill_process(id, Signal::TERM);
    }
    let deadline = Instant::now() + PATIENCE;
    while ids().any(runs) {
        if Instant::now() > deadline {
            for id in ids().filter(|id| runs(*id)) {
                let _ = kill_process(id, Signal::KILL);
            }
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    processes.len()
}

/// Whether a process exists that is not merely waiting to be noticed by its parent.
fn runs(id: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, fields)| !fields.trim_start().starts_with(['Z', 'X']))
}
