//! `terraced`: a node.

use std::process::ExitCode;

/// It gives memory back when it is not needed any more, whichever thread had asked for it; glibc's gives back the end of a heap, and has a heap for
/// each of many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    node::daemon::main(terraced::wings())
}
