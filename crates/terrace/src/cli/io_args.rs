//! By which means network interfaces are ports.

use clap::{Args, ValueEnum};
use io::PortKind;
use node::config::Means;
use std::fmt;

/// `--io`.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct IoArgs {
    /// By which means network interfaces are ports.
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    io: IoArg,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum IoArg {
    /// DPDK's AF_PACKET driver if terrace was built with DPDK, else raw sockets.
    #[default]
    Auto,
    /// DPDK's AF_PACKET driver.
    AfPacket,
    /// DPDK's AF_XDP driver.
    AfXdp,
    /// Raw sockets.
    Raw,
}

impl From<IoArgs> for PortKind {
    fn from(args: IoArgs) -> PortKind {
        match args.io {
            IoArg::Auto => PortKind::Auto,
            IoArg::AfPacket => PortKind::AfPacket,
            IoArg::AfXdp => PortKind::AfXdp,
            IoArg::Raw => PortKind::Raw,
        }
    }
}

impl From<IoArgs> for Means {
    fn from(args: IoArgs) -> Means {
        match args.io {
            IoArg::Auto => Means::Auto,
            IoArg::AfPacket => Means::AfPacket,
            IoArg::AfXdp => Means::AfXdp,
            IoArg::Raw => Means::Raw,
        }
    }
}

/// As it is written on the command line.
impl fmt::Display for IoArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PortKind::from(*self).fmt(f)
    }
}
