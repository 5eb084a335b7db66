//! Replacement for DPDK ports in a program that was built without DPDK.

use super::{DpdkDevice, DpdkError, DpdkOptions};
use crate::{Port, PortError, Readiness, TxBatch};
use packet::{Batch, PortCounters, PortId};
use std::convert::Infallible;

/// A port that cannot be opened, because the program was built without DPDK.
pub struct DpdkPort(Infallible);

impl DpdkPort {
    /// Returns an error, because DPDK is missing.
    ///
    /// # Errors
    /// Always.
    pub fn open(device: &str, options: &DpdkOptions) -> Result<DpdkPort, PortError> {
        DpdkPort::open_queues(device, options).map(|mut queues| queues.remove(0))
    }

    /// Returns an error, because DPDK is missing.
    ///
    /// # Errors
    /// Always.
    pub fn open_queues(device: &str, _: &DpdkOptions) -> Result<Vec<DpdkPort>, PortError> {
        let device = DpdkDevice::parse(device)?.name().to_owned();
        Err(DpdkError::NotBuilt { device }.into())
    }

    /// Cannot be called, because no such port exists.
    pub fn named(self, _: &str) -> DpdkPort {
        self
    }
}

impl Port for DpdkPort {
    fn name(&self) -> &str {
        match self.0 {}
    }

    fn mtu(&self) -> usize {
        match self.0 {}
    }

    fn receive(&mut self, _: PortId, _: &mut Batch) -> Result<usize, PortError> {
        match self.0 {}
    }

    fn send(&mut self, _: &mut TxBatch<'_>) -> usize {
        match self.0 {}
    }

    fn readiness(&self) -> Readiness<'_> {
        match self.0 {}
    }

    fn counters(&mut self) -> &PortCounters {
        match self.0 {}
    }
}
