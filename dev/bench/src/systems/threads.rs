//! The processor time of a thread of another process: what a polling thread is measured by.

use anyhow::Context;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A thread of another process.
#[derive(Debug, Clone)]
pub struct Thread(PathBuf);

/// The first thread of a process whose name begins so.
pub fn find(process: u32, name: &str) -> Option<Thread> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let named = |folder: &PathBuf| fs::read_to_string(folder.join("comm")).is_ok_and(|found| found.starts_with(name));
    tasks.flatten().map(|task| task.path()).find(named).map(Thread)
}

impl Thread {
    /// The processor time that it has used.
    ///
    /// # Errors
    /// It has ended.
    pub fn time(&self) -> anyhow::Result<Duration> {
        let text = fs::read_to_string(self.0.join("schedstat")).context("the thread has ended")?;
        let first = text.split_whitespace().next().and_then(|time| time.parse().ok());
        Ok(Duration::from_nanos(first.with_context(|| format!("no time in {text:?}"))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_uses_time() {
        let thread = std::thread::Builder::new().name("busy-one".to_owned());
        let running = thread.spawn(|| {
            let start = std::time::Instant::now();
            while start.elapsed() < Duration::from_millis(300) {
                std::hint::black_box(0);
            }
        });
        std::thread::sleep(Duration::from_millis(100));
        let found = find(std::process::id(), "busy-").expect("it runs");
        let before = found.time().expect("it runs");
        std::thread::sleep(Duration::from_millis(100));
        assert!(found.time().expect("it runs") > before);
        assert!(find(std::process::id(), "no such").is_none());
        running.expect("it started").join().expect("it ends");
    }
}
