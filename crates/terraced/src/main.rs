//! `terraced`: a node.

use std::process::ExitCode;

/// Mimalloc returns freed memory to the system, independently of the allocating thread. glibc's
/// allocator returns only the end of a heap, and keeps a separate heap for each of many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    node::daemon::main(terraced::wings())
}
