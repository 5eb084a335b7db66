//! `terrace` asks a node that runs.

mod lab;
mod show;
mod trace;
