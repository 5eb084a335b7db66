//! [`Processors`]: workers have theirs for themselves. All else that the process does it does on the others, if there are any: clients can make the
//! service busy, and what is busy takes its share of every processor that it may use.

use tracing::warn;

/// Which processors are for what.
#[derive(Clone, Default)]
pub(super) struct Processors {
    /// Those that this process began with.
    all: Vec<usize>,
    /// Those that no worker has; none, if workers are on no processor of their own.
    others: Vec<usize>,
}

impl Processors {
    /// Keeps the calling thread, and those that it starts from now on, off the workers' processors. Workers are to have begun before.
    pub fn apart_from(workers: &[usize]) -> Processors {
        let all = io::allowed_cores().unwrap_or_default();
        let others = match workers.is_empty() {
            true => Vec::new(),
            false => all.iter().copied().filter(|core| !workers.contains(core)).collect(),
        };
        let processors = Processors { all, others };
        processors.stay(&processors.others);
        processors
    }

    /// Does what is not to be kept off any: to start a process that has workers.
    pub fn on_all<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.others.is_empty() {
            return work();
        }
        self.stay(&self.all);
        let done = work();
        self.stay(&self.others);
        done
    }

    fn stay(&self, on: &[usize]) {
        if on.is_empty() {
            return;
        }
        if let Err(error) = io::stay_on(on) {
            warn!(%error, "the service cannot be kept off the workers' processors; it may take time from them");
        }
    }
}
