//! Other systems that implement the overlay, and testpmd, which only forwards.

pub mod capture;
pub mod ovs;
pub mod testpmd;
pub mod threads;
pub mod xdp;
