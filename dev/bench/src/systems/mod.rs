//! Other systems that do the overlay's work, and one that does none.

pub mod capture;
pub mod ovs;
pub mod testpmd;
pub mod threads;
pub mod xdp;
