//! [`Leftover`]: what a run makes outside of its own process and must take back, at its end as well as on Ctrl-C: huge pages, processes,
//! network namespaces, files.
//!
//! Each is held by a value that undoes it when dropped. They are listed here besides, so that a signal can undo them, too:
//! the newest first, as a process runs in a namespace and in huge pages that were there before it.

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

/// What there is to undo.
#[derive(Debug, Clone)]
pub enum What {
    /// A process that is to be killed.
    Process(u32),
    /// A named network namespace.
    Namespace(String),
    /// A file or folder with all that is in it.
    Path(PathBuf),
    /// So many reserved huge pages.
    HugePages(usize),
}

impl What {
    fn undo(&self) {
        match self {
            What::Process(id) => {
                // SAFETY: the process is a child that has not been waited for, so its number is its own. Nobody asks how it ended.
                unsafe {
                    libc::kill(*id as libc::pid_t, libc::SIGKILL);
                    libc::waitpid(*id as libc::pid_t, std::ptr::null_mut(), 0);
                }
            }
            What::Namespace(name) => {
                let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
            }
            What::Path(path) if path.is_dir() => {
                let _ = fs::remove_dir_all(path);
            }
            What::Path(path) => {
                let _ = fs::remove_file(path);
            }
            What::HugePages(pages) => machine::give_back_huge_pages(*pages),
        }
    }
}

static HELD: Mutex<BTreeMap<u64, What>> = Mutex::new(BTreeMap::new());

fn held() -> MutexGuard<'static, BTreeMap<u64, What>> {
    HELD.lock()
}

/// Undoes something when dropped.
#[derive(Debug)]
pub struct Leftover(u64);

impl Leftover {
    /// To be called just before or just after the thing is made.
    pub fn new(what: What) -> Leftover {
        let mut held = held();
        let number = held.last_key_value().map_or(0, |(last, _)| last + 1);
        held.insert(number, what);
        Leftover(number)
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let mut held = held();
        if let Some(what) = held.remove(&self.0) {
            what.undo();
        }
    }
}

/// A child process that does not outlive this value.
#[derive(Debug)]
pub struct Process {
    /// For its input and output.
    pub child: Child,
    leftover: Leftover,
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Process> {
        // Locked, so that a signal between the two finds it.
        let mut held = held();
        let child = command.spawn()?;
        let number = held.last_key_value().map_or(0, |(last, _)| last + 1);
        held.insert(number, What::Process(child.id()));
        Ok(Process { child, leftover: Leftover(number) })
    }

    /// Its end, if it has come.
    ///
    /// # Errors
    /// The machine does not say.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        // Locked: once it has been waited for, its number may be another's.
        let mut held = held();
        let status = self.child.try_wait()?;
        if status.is_some() {
            held.remove(&self.leftover.0);
        }
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut held = held();
        if held.remove(&self.leftover.0).is_some() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The end of a pipe that the signal handler writes to.
static SIGNALLED: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_signal(_: libc::c_int) {
    // SAFETY: `write` may be called by a signal handler; the byte is there.
    unsafe { libc::write(SIGNALLED.load(Ordering::Relaxed), [1u8].as_ptr().cast(), 1) };
}

/// From now on, Ctrl-C, `SIGTERM` and `SIGHUP` undo all there is to undo, and end this process.
///
/// # Errors
/// The machine refuses a pipe or a handler.
pub fn undo_on_signals() -> io::Result<()> {
    let mut ends = [0; 2];
    // SAFETY: two places for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    SIGNALLED.store(ends[1], Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let handler: extern "C" fn(libc::c_int) = on_signal;
        // SAFETY: zeroed is a valid `sigaction`: no flags, an empty mask; the handler does what handlers may do.
        let refused = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut()) != 0
        };
        if refused {
            return Err(io::Error::last_os_error());
        }
    }
    let wait = move || {
        let mut byte = 0u8;
        // SAFETY: a place for one byte, and a descriptor that stays open.
        while unsafe { libc::read(ends[0], std::ptr::from_mut(&mut byte).cast(), 1) } != 1 {}
        end();
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map(drop)
}

/// The argument of this program for its second life, in which it holds no memory and gives back huge pages.
const SECOND_LIFE: &str = "give-back-huge-pages";

/// Undoes all there is, and ends this process.
fn end() -> ! {
    // Kept locked: nothing new can be made while this process ends.
    let held = held();
    let mut pages = 0;
    for what in held.values().rev() {
        match what {
            What::HugePages(more) => pages += more,
            what => what.undo(),
        }
    }
    eprintln!("\nbench: interrupted; what it had made is taken back");
    // Pages in use cannot be given back, and other threads still use some.
    if pages > 0
        && let Ok(own) = std::env::current_exe()
    {
        let error = Command::new(own).args([SECOND_LIFE, &pages.to_string()]).exec();
        eprintln!("bench: {pages} huge pages stay: {error}");
    }
    // SAFETY: ends the process without its destructors, which other threads may be in the middle of.
    unsafe { libc::_exit(INTERRUPTED) }
}

/// What a shell says of a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// The second life, if these are its arguments.
pub fn second_life(arguments: &[String]) {
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
        let leftover = Leftover::new(What::Path(path.clone()));
        assert!(path.exists());
        drop(leftover);
        assert!(!path.exists());
    }

    #[test]
    fn a_process_does_not_outlive_its_value() {
        let mut process = Process::start(Command::new("sleep").arg("60")).expect("it starts");
        let folder = PathBuf::from(format!("/proc/{}", process.child.id()));
        assert!(process.ended().expect("it is ours").is_none() && folder.exists());
        drop(process);
        assert!(!folder.exists());
        let mut short = Process::start(&mut Command::new("true")).expect("it starts");
        while short.ended().expect("it is ours").is_none() {
            std::thread::yield_now();
        }
    }
}
