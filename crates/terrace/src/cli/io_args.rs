//! By which means network interfaces are ports.

use clap::{Args, ValueEnum};
use node::config::Means;
use std::fmt;

/// `--io`.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct IoArgs {
    /// By which means network interfaces are ports.
    #[arg(long = "io", value_name = "KIND", value_enum, default_value_t)]
    pub means: Means,
}

/// As it is written on the command line.
impl fmt::Display for IoArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.means.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
