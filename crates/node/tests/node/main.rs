//! A node with its workers, on wired ports.

mod contents;
mod restart;
mod store;
mod support;
mod traffic;
