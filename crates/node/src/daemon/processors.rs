//! [`ServiceProcessors`]: keeps all threads but the workers off the workers' processors, if other
//! processors exist. Otherwise clients could keep the service busy and take time from the workers.

use tracing::warn;

/// Partition of the processors.
#[derive(Clone, Default)]
pub(super) struct ServiceProcessors {
    /// Processors that this process could use at its start.
    allowed_cores: Vec<usize>,
    /// Processors without a worker; empty if workers are not pinned.
    service_cores: Vec<usize>,
}

impl ServiceProcessors {
    /// Keeps the calling thread, and threads that it starts later, off the workers' processors. The
    /// workers must have started before.
    pub fn apart_from(workers: &[usize]) -> ServiceProcessors {
        let all = io::allowed_cores().unwrap_or_default();
        let others = match workers.is_empty() {
            true => Vec::new(),
            false => all.iter().copied().filter(|core| !workers.contains(core)).collect(),
        };
        let processors = ServiceProcessors { allowed_cores: all, service_cores: others };
        processors.pin_threads(&processors.service_cores);
        processors
    }

    /// Runs `work` on all processors, for starting a process that has workers itself.
    pub fn run_unpinned<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.service_cores.is_empty() {
            return work();
        }
        self.pin_threads(&self.allowed_cores);
        let done = work();
        self.pin_threads(&self.service_cores);
        done
    }

    fn pin_threads(&self, on: &[usize]) {
        if on.is_empty() {
            return;
        }
        if let Err(error) = io::pin_current_thread(on) {
            warn!(%error, "the service cannot be kept off the workers' processors; it may take time from them");
        }
    }
}
