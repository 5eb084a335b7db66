//! Processor time of a thread of another process, to measure polling threads.

use anyhow::Context;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// A thread of another process.
#[derive(Debug, Clone)]
pub struct Thread(PathBuf);

/// Returns the first thread of a process with a name that starts with `name`.
pub fn find_thread(process: u32, name: &str) -> Option<Thread> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let named = |folder: &PathBuf| fs::read_to_string(folder.join("comm")).is_ok_and(|found| found.starts_with(name));
    tasks.flatten().map(|task| task.path()).find(named).map(Thread)
}

impl Thread {
    /// Returns the processor time that it has used.
    ///
    /// # Errors
    /// If it has ended.
    pub fn processor_time(&self) -> anyhow::Result<Duration> {
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
        let found = find_thread(std::process::id(), "busy-").expect("it runs");
        let before = found.processor_time().expect("it runs");
        std::thread::sleep(Duration::from_millis(100));
        assert!(found.processor_time().expect("it runs") > before);
        assert!(find_thread(std::process::id(), "no such").is_none());
        running.expect("it started").join().expect("it ends");
    }
}
