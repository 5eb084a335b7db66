//! Option that selects the driver of the ports.

use clap::{Args, ValueEnum};
use node::config::PortDriver;
use std::fmt;

/// Option `--io`.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct IoArgs {
    /// Driver for network interfaces.
    #[arg(long = "io", value_name = "KIND", value_enum, default_value_t)]
    pub driver: PortDriver,
}

/// Formats the value as on the command line.
impl fmt::Display for IoArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.driver.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
