//! Network namespaces by name, as `ip netns` makes them.

use crate::{NamespaceError, sys};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::{io, panic, thread};

/// Where `ip netns add` puts namespaces.
const DIRECTORY: &str = "/run/netns";

/// A network namespace that exists.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// The namespace that `ip netns add NAME` made.
    pub fn open(name: &str) -> Result<Namespace, NamespaceError> {
        // A name with a slash could lead anywhere.
        if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
            return Err(NamespaceError::Missing { name: name.to_owned() });
        }
        match File::open(PathBuf::from(DIRECTORY).join(name)) {
            Ok(file) => Ok(Namespace { name: name.to_owned(), file }),
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                Err(NamespaceError::Missing { name: name.to_owned() })
            }
            Err(source) => Err(NamespaceError::Enter { name: name.to_owned(), source }),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` on a thread of its own inside the namespace, and returns its result. Sockets and ports that are opened there stay
    /// in the namespace, wherever they are used later. The calling thread stays where it is. A panic of `work` goes on here.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
        let inside = || {
            sys::enter_network_namespace(self.file.as_fd())
                .map_err(|source| NamespaceError::Enter { name: self.name.clone(), source })?;
            Ok(work())
        };
        thread::scope(|scope| match scope.spawn(inside).join() {
            Ok(outcome) => outcome,
            Err(panic) => panic::resume_unwind(panic),
        })
    }
}
