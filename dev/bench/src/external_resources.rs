//! [`ResourceGuard`]: a resource outside of the process that the run must release at its end and on
//! Ctrl-C: huge pages, processes, network namespaces, files.
//!
//! Each is owned by a value that releases it when dropped. All are also registered here, so that a
//! signal handler can release them in reverse order of creation, because a process runs in a
//! namespace and in huge pages that were created before it.

#![allow(unsafe_code)] // signals

use crate::machine;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};

/// An external resource.
#[derive(Debug, Clone)]
pub enum ExternalResource {
    /// A process to kill.
    Process(u32),
    /// A named network namespace.
    Namespace(String),
    /// A file, or a folder with its contents.
    Path(PathBuf),
    /// Number of reserved huge pages.
    HugePages(usize),
}

impl ExternalResource {
    /// Releases the resource. Errors are ignored, because the others must be released too.
    fn release(&self) {
        match self {
            ExternalResource::Process(id) => {
                // SAFETY: the process is a child that has not been waited for, so its id is still
                // its own. Its exit status is not used.
                unsafe {
                    libc::kill(*id as libc::pid_t, libc::SIGKILL);
                    libc::waitpid(*id as libc::pid_t, std::ptr::null_mut(), 0);
                }
            }
            ExternalResource::Namespace(name) => {
                let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
            }
            ExternalResource::Path(path) if path.is_dir() => {
                let _ = fs::remove_dir_all(path);
            }
            ExternalResource::Path(path) => {
                let _ = fs::remove_file(path);
            }
            ExternalResource::HugePages(pages) => machine::give_back_huge_pages(*pages),
        }
    }
}

static HELD: Mutex<BTreeMap<u64, ExternalResource>> = Mutex::new(BTreeMap::new());

fn registry() -> MutexGuard<'static, BTreeMap<u64, ExternalResource>> {
    HELD.lock()
}

/// Releases a resource when dropped.
#[derive(Debug)]
pub struct ResourceGuard(u64);

impl ResourceGuard {
    /// Registers a resource. Call this just before or just after creating it.
    pub fn new(what: ExternalResource) -> ResourceGuard {
        let mut held = registry();
        let number = held.last_key_value().map_or(0, |(last, _)| last + 1);
        held.insert(number, what);
        ResourceGuard(number)
    }
}

impl Drop for ResourceGuard {
    fn drop(&mut self) {
        let mut held = registry();
        if let Some(what) = held.remove(&self.0) {
            what.release();
        }
    }
}

/// A child process that is killed when dropped.
#[derive(Debug)]
pub struct Process {
    /// The child, for its input and output.
    pub child: Child,
    leftover: ResourceGuard,
}

impl Process {
    /// Starts the process.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Process> {
        // Locked, so that a signal between spawning and registration does not miss the process.
        let mut held = registry();
        let child = command.spawn()?;
        let number = held.last_key_value().map_or(0, |(last, _)| last + 1);
        held.insert(number, ExternalResource::Process(child.id()));
        Ok(Process { child, leftover: ResourceGuard(number) })
    }

    /// Returns the exit status if the process has ended.
    ///
    /// # Errors
    /// If the status cannot be read.
    pub fn exit_status(&mut self) -> io::Result<Option<ExitStatus>> {
        // Locked, because after it is reaped its id can be reused.
        let mut held = registry();
        let status = self.child.try_wait()?;
        if status.is_some() {
            held.remove(&self.leftover.0);
        }
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut held = registry();
        if held.remove(&self.leftover.0).is_some() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Write end of the pipe from the signal handler.
static SIGNALLED: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_signal(_: libc::c_int) {
    // SAFETY: `write` is async-signal-safe, and the byte is valid memory.
    unsafe { libc::write(SIGNALLED.load(Ordering::Relaxed), [1u8].as_ptr().cast(), 1) };
}

/// Installs handlers for Ctrl-C, `SIGTERM` and `SIGHUP` that release all resources and end this
/// process.
///
/// # Errors
/// If a pipe or a handler is refused.
pub fn release_on_signals() -> io::Result<()> {
    let mut pipe_ends = [0; 2];
    // SAFETY: the array has space for two descriptors.
    if unsafe { libc::pipe2(pipe_ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    SIGNALLED.store(pipe_ends[1], Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let handler: extern "C" fn(libc::c_int) = on_signal;
        // SAFETY: zeroed is a valid `sigaction`: no flags, an empty mask. The handler is
        // async-signal-safe.
        let is_refused = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut()) != 0
        };
        if is_refused {
            return Err(io::Error::last_os_error());
        }
    }
    let wait = move || {
        let mut byte = 0u8;
        // SAFETY: the buffer has one byte, and the descriptor stays open.
        while unsafe { libc::read(pipe_ends[0], std::ptr::from_mut(&mut byte).cast(), 1) } != 1 {}
        release_all_and_exit();
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}

/// Argument that restarts this program to give back huge pages, when it holds no memory.
const SECOND_LIFE: &str = "give-back-huge-pages";

/// Releases all resources, and ends this process.
fn release_all_and_exit() -> ! {
    // Kept locked, so that no new resource is registered while this process ends.
    let resources = registry();
    let mut pages = 0;
    for resource in resources.values().rev() {
        match resource {
            ExternalResource::HugePages(count) => pages += count,
            resource => resource.release(),
        }
    }
    eprintln!("\nbench: interrupted; its resources are released");
    // Huge pages in use cannot be given back, and other threads still use some. So the program is
    // restarted to give them back.
    if pages > 0
        && let Ok(program) = std::env::current_exe()
    {
        let error = Command::new(program).args([SECOND_LIFE, &pages.to_string()]).exec();
        eprintln!("bench: {pages} huge pages stay: {error}");
    }
    // SAFETY: ends the process without running destructors, because other threads may be using the
    // data.
    unsafe { libc::_exit(INTERRUPTED) }
}

/// Exit code of an interrupted program, by the convention of shells.
const INTERRUPTED: i32 = 130;

/// Gives back huge pages and exits, if these are the arguments of the restarted program.
pub fn run_restarted(arguments: &[String]) {
    if let [name, pages] = arguments
        && name == SECOND_LIFE
    {
        machine::give_back_huge_pages(pages.parse().unwrap_or(0));
        std::process::exit(INTERRUPTED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_undone_once() {
        let path = std::env::temp_dir().join(format!("terrace-bench-leftover-{}", std::process::id()));
        fs::create_dir_all(path.join("inner")).expect("a folder");
        let leftover = ResourceGuard::new(ExternalResource::Path(path.clone()));
        assert!(path.exists());
        drop(leftover);
        assert!(!path.exists());
    }

    #[test]
    fn a_process_does_not_outlive_its_value() {
        let mut process = Process::start(Command::new("sleep").arg("60")).expect("it starts");
        let folder = PathBuf::from(format!("/proc/{}", process.child.id()));
        assert!(process.exit_status().expect("it is ours").is_none() && folder.exists());
        drop(process);
        assert!(!folder.exists());
        let mut short = Process::start(&mut Command::new("true")).expect("it starts");
        while short.exit_status().expect("it is ours").is_none() {
            std::thread::yield_now();
        }
    }
}
