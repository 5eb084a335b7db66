//! Network namespaces by name, as created by `ip netns`.

use crate::{NamespaceError, sys};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::{io, panic, thread};

/// Directory of the namespaces that `ip netns add` creates.
const DIRECTORY: &str = "/run/netns";

/// An existing network namespace.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// Opens the namespace that `ip netns add NAME` created.
    pub fn open(name: &str) -> Result<Namespace, NamespaceError> {
        // Refuse slashes, because they could escape the directory.
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

    /// Returns the name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` on a new thread inside the namespace and returns its result. Sockets and ports
    /// that it opens stay in the namespace, also in other threads. The calling thread does not
    /// change its namespace. A panic of `work` continues here.
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
