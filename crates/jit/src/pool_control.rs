//! [`NativePool`]: a pool of `flowtable` as the control plane reads it.

use flowtable::pool::{PoolRefusal, PoolRequest, PortPool, block_ports};
use interp::{
    AddressUsage, BlockChange, BlockChanges, LostChanges, PoolControl, PortBlock, PortPoolStatus, PortRequest,
};

/// Returns the status of a call that got no port.
pub fn pool_status(refusal: PoolRefusal) -> PortPoolStatus {
    match refusal {
        PoolRefusal::Empty => PortPoolStatus::Empty,
        PoolRefusal::Quota => PortPoolStatus::Quota,
        PoolRefusal::Invalid => PortPoolStatus::Invalid,
    }
}

/// A pool of native code, locked for one request.
pub struct NativePool<'a>(pub &'a mut PortPool);

impl PoolControl for NativePool<'_> {
    fn usage_by_address(&self) -> Vec<AddressUsage> {
        let usage = |usage: flowtable::pool::AddressUsage| {
            let flowtable::pool::AddressUsage { address, blocks, ports, refused_empty, refused_quota } = usage;
            AddressUsage { address, blocks, ports, refused_empty, refused_quota }
        };
        self.0.usage_by_address().map(usage).collect()
    }

    fn blocks_from(&self, (address, first_port): (u32, u16), limit: usize) -> Vec<PortBlock> {
        let block = |block: flowtable::pool::OwnedBlock| {
            let (address, first_port) = block_ports(block.block);
            let flowtable::pool::OwnedBlock { subscriber, used, resting, .. } = block;
            PortBlock { address, first_port, subscriber, used, resting }
        };
        self.0.blocks_from(address, first_port).take(limit).map(block).collect()
    }

    fn preview(&mut self, request: &PortRequest, now: u64) -> Result<(u32, u16), PortPoolStatus> {
        let PortRequest { first_address, address_count, subscriber, max_blocks, space, hash } = *request;
        let request = PoolRequest { first_address, address_count, subscriber, max_blocks, space, hash };
        self.0.preview(&request, now).map(|port| (port.address, port.port)).map_err(pool_status)
    }

    fn report_changes(&mut self, is_on: bool) {
        self.0.report_changes(is_on);
    }

    fn take_changes(&mut self, limit: usize) -> BlockChanges {
        let (changes, lost) = self.0.take_changes(limit);
        let change = |change: flowtable::pool::BlockChange| {
            let flowtable::pool::BlockChange { at_ns, block, subscriber, is_given } = change;
            let (address, first_port) = block_ports(block);
            BlockChange { at_ns, address, first_port, subscriber, is_given }
        };
        let flowtable::pool::LostChanges { count, first_ns, last_ns } = lost;
        BlockChanges {
            changes: changes.into_iter().map(change).collect(),
            lost: LostChanges { count, first_ns, last_ns },
        }
    }
}
