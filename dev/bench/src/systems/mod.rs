//! Other systems: those that implement the overlay, testpmd, which only forwards, and the NATs of VPP and
//! the kernel.

pub mod capture;
mod commands;
pub mod nftables;
pub mod ovs;
pub mod testpmd;
pub mod threads;
pub mod vpp;
pub mod vpp_setup;
pub mod xdp;
