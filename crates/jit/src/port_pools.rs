//! [`PortPools`]: the pools of ports of an engine. All workers share them; each has a lock.

use crate::fallback_reason::FallbackReason;
use crate::pool_control::{NativePool, pool_status};
use flowtable::pool::{OwnedPoolPort, PoolPort, PoolRequest, PoolShape, PortPool};
use interp::{OwnedPort, PoolControl, PortPoolStatus, PortUsage, RestingPort};
use ir::{ExternId, ExternKind, Pipeline};
use parking_lot::Mutex;

/// One pool.
struct Pool {
    object: ExternId,
    /// Lease of its first port.
    first_lease: u32,
    ports: Mutex<PortPool>,
}

impl Pool {
    fn owned_port(&self, owned: &OwnedPoolPort) -> OwnedPort {
        let OwnedPoolPort { port: PoolPort { address, port, .. }, space, subscriber } = *owned;
        OwnedPort { pool: self.object, address, port, space, subscriber }
    }
}

/// The pools of an engine.
#[derive(Default)]
pub struct PortPools {
    /// By rising first lease.
    pools: Vec<Pool>,
    /// Lease behind those of all ports.
    end_lease: u64,
}

impl PortPools {
    /// Makes the pools of a pipeline.
    ///
    /// # Errors
    /// More ports than 32 bits can number.
    pub fn new(pipeline: &Pipeline) -> Result<PortPools, FallbackReason> {
        let (mut pools, mut first) = (Vec::new(), 1u64);
        for (object, declared) in pipeline.externs.iter() {
            let ExternKind::PortPool { addresses, subscribers, spaces, rest_seconds } = declared.kind else { continue };
            let rest_ns = u64::from(rest_seconds) * 1_000_000_000;
            let shape = PoolShape { addresses, subscribers, spaces, rest_ns };
            let ports = PortPool::new(shape).map_err(|_| FallbackReason::TooLarge)?;
            let first_lease = u32::try_from(first).map_err(|_| FallbackReason::TooLarge)?;
            first += ports.numbers();
            pools.push(Pool { object, first_lease, ports: Mutex::new(ports) });
        }
        if first > 1 << 32 {
            return Err(FallbackReason::TooLarge);
        }
        Ok(PortPools { pools, end_lease: first })
    }

    /// Returns the lease behind those of all ports.
    pub fn end_lease(&self) -> u64 {
        self.end_lease
    }

    /// Returns whether there is no pool.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// Executes `PortPool.take` for a packet of the time `now_ns`, with the arguments in order.
    /// Returns status, address and port, and the lease if a port was taken.
    pub fn take(&self, object: ExternId, args: [u32; 6], now_ns: u64) -> ([u64; 3], Option<u32>) {
        let [first_address, address_count, subscriber, max_blocks, space, hash] = args;
        let request = PoolRequest { first_address, address_count, subscriber, max_blocks, space, hash };
        let pool = self.pools.iter().find(|pool| pool.object == object);
        let taken = pool.map(|pool| (pool.first_lease, pool.ports.lock().take(&request, now_ns)));
        let refused = |status: PortPoolStatus| ([status as u64, 0, 0], None);
        match taken {
            Some((first, Ok(port))) => {
                let results = [PortPoolStatus::Taken as u64, u64::from(port.address), u64::from(port.port)];
                (results, Some(first + port.number))
            }
            Some((_, Err(refusal))) => refused(pool_status(refusal)),
            None => refused(PortPoolStatus::Invalid),
        }
    }

    /// Prefetches what taking a port touches for these subscribers of a pool.
    pub fn prefetch(&self, object: ExternId, subscribers: &[u32]) {
        if let Some(pool) = self.pools.iter().find(|pool| pool.object == object) {
            pool.ports.lock().prefetch(subscribers);
        }
    }

    /// Returns the pool of a lease, and the number of the port in it; `None` for a lease of something
    /// else.
    fn pool_of(&self, lease: u32) -> Option<(&Pool, u32)> {
        let position = self.pools.partition_point(|pool| pool.first_lease <= lease).checked_sub(1)?;
        let pool = &self.pools[position];
        (u64::from(lease) < self.end_lease).then(|| (pool, lease - pool.first_lease))
    }

    /// Releases the port of an entry that ended at the time `now_ns`.
    pub fn release(&self, lease: u32, now_ns: u64) {
        if let Some((pool, number)) = self.pool_of(lease) {
            pool.ports.lock().release(number, now_ns);
        }
    }

    /// Releases the port of a packet that took it at the time `taken_ns` and added no entry. If
    /// `is_fresh`, it does not rest.
    pub fn release_unused(&self, lease: u32, taken_ns: u64, is_fresh: bool) {
        let Some((pool, number)) = self.pool_of(lease) else { return };
        match is_fresh {
            true => pool.ports.lock().give_back(number, taken_ns),
            false => pool.ports.lock().release_unused(number, taken_ns),
        }
    }

    /// Ends the rests of ports that are over at the time `now_ns`.
    pub fn end_rests(&self, now_ns: u64) {
        self.pools.iter().for_each(|pool| pool.ports.lock().end_rests(now_ns));
    }

    /// Returns the port that a lease stands for; `None` for a lease of something else.
    pub fn owned_port(&self, lease: u32) -> Option<OwnedPort> {
        let (pool, number) = self.pool_of(lease)?;
        Some(pool.owned_port(&pool.ports.lock().describe(number)?))
    }

    /// Takes a certain port. Returns its lease; `None` if it is not free.
    pub fn restore(&self, port: &OwnedPort) -> Option<u32> {
        self.restore_port(port, None)
    }

    fn restore_port(&self, port: &OwnedPort, rest_end_ns: Option<u64>) -> Option<u32> {
        let pool = self.pools.iter().find(|pool| pool.object == port.pool)?;
        let OwnedPort { address, port, space, subscriber, .. } = *port;
        let number = pool.ports.lock().restore((address, port, space), subscriber, rest_end_ns)?;
        Some(pool.first_lease + number)
    }

    /// Returns the resting ports of all pools.
    pub fn resting_ports(&self) -> Vec<RestingPort> {
        let of_pool = |pool: &Pool| {
            let ports = pool.ports.lock();
            let resting = ports.resting_ports();
            resting.map(|(port, end_ns)| RestingPort { port: pool.owned_port(&port), end_ns }).collect::<Vec<_>>()
        };
        self.pools.iter().flat_map(of_pool).collect()
    }

    /// Lets a free port rest. Returns false if it is not free, or there is no such port.
    pub fn restore_resting_port(&self, resting: &RestingPort) -> bool {
        self.restore_port(&resting.port, Some(resting.end_ns)).is_some()
    }

    /// Returns how much of a pool is in use; `None` for another object.
    pub fn usage(&self, object: ExternId) -> Option<PortUsage> {
        let pool = self.pools.iter().find(|pool| pool.object == object)?;
        let usage = pool.ports.lock().usage();
        Some(PortUsage { ports: usage.ports, blocks: usage.blocks, subscribers: usage.subscribers })
    }

    /// Begins to note blocks of all pools that change hands.
    pub fn report_changes(&self) {
        self.pools.iter().for_each(|pool| pool.ports.lock().report_changes(true));
    }

    /// Calls `ask` with a locked pool, for the control plane. Does nothing for another object.
    pub fn with_pool(&self, object: ExternId, ask: &mut dyn FnMut(&mut dyn PoolControl)) {
        if let Some(pool) = self.pools.iter().find(|pool| pool.object == object) {
            ask(&mut NativePool(&mut pool.ports.lock()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowtable::pool::PoolRefusal;
    use interp::host::PortLease;
    use interp::{AddressUsage, PortBlock, PortRequest};

    /// Returns a random number below `limit` (SplitMix64).
    fn below(state: &mut u64, limit: u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }

    /// Returns both pools, without a port in use.
    fn new_pools([addresses, subscribers, spaces, rest_seconds]: [u32; 4]) -> (interp::PortPool, PortPool) {
        let rest_ns = u64::from(rest_seconds) * 1_000_000_000;
        let shape = PoolShape { addresses, subscribers, spaces, rest_ns };
        let mut pools = (
            interp::PortPool::new(addresses, subscribers, spaces, rest_seconds),
            PortPool::new(shape).expect("address space"),
        );
        pools.0.report_changes(true);
        NativePool(&mut pools.1).report_changes(true);
        pools
    }

    /// Compares what the control plane reads of both pools. Returns the number of changes of blocks.
    fn compare_control((definition, pool): &mut (interp::PortPool, PortPool), what: &str) -> usize {
        let mut pool = NativePool(pool);
        let in_use = |usage: Vec<AddressUsage>| -> Vec<AddressUsage> {
            let is_in_use = |usage: &AddressUsage| usage.blocks + usage.ports.iter().sum::<u32>() > 0;
            let was_refused = |usage: &AddressUsage| usage.refused_empty + usage.refused_quota > 0;
            usage.into_iter().filter(|usage| is_in_use(usage) || was_refused(usage)).collect()
        };
        assert_eq!(in_use(definition.usage_by_address()), in_use(pool.usage_by_address()), "{what}");
        let blocks = definition.blocks_from((0, 0), usize::MAX);
        assert_eq!(blocks, pool.blocks_from((0, 0), usize::MAX), "{what}");
        // Pages have each block once.
        let mut paged: Vec<PortBlock> = Vec::new();
        loop {
            let page = pool.blocks_from(paged.last().map_or((0, 0), PortBlock::behind), 3);
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, blocks, "{what}");
        let changes = |pool: &mut dyn PoolControl| {
            let mut changes = pool.take_changes(usize::MAX).changes;
            // Rests that end at the same time can end in another order.
            changes.sort_by_key(|change| (change.at_ns, change.address, change.first_port, change.is_given));
            changes
        };
        let of_definition = changes(definition);
        assert_eq!(of_definition, changes(&mut pool), "{what}");
        of_definition.len()
    }

    /// Hands the ports of both pools over to new ones. Returns the number of ports that rest.
    fn hand_over(pools: &mut (interp::PortPool, PortPool), held: &[(PortLease, u32)], shape: [u32; 4]) -> usize {
        let (mut definition, mut pool) = new_pools(shape);
        for (lease, number) in held {
            let PortLease { address, port, space, .. } = *lease;
            let subscriber = pools.0.owner(lease).expect("a port in use has an owner");
            let found = pools.1.describe(*number).expect("a port in use");
            assert_eq!(
                (found.port.address, found.port.port, found.space, found.subscriber),
                (address, port, space, subscriber)
            );
            let owned = OwnedPort { pool: ExternId(0), address, port, space, subscriber };
            assert!(definition.restore(&owned, None));
            assert!(!definition.restore(&owned, None), "it is in use");
            assert_eq!(pool.restore((address, port, space), subscriber, None), Some(*number));
            assert_eq!(pool.restore((address, port, space), subscriber, None), None, "it is in use");
        }
        let order =
            |resting: &RestingPort| (resting.end_ns, resting.port.address, resting.port.port, resting.port.space);
        let mut resting = pools.0.resting_ports(ExternId(0));
        let found = pools.1.resting_ports().map(|(OwnedPoolPort { port, space, subscriber }, end_ns)| {
            let PoolPort { address, port, .. } = port;
            RestingPort { port: OwnedPort { pool: ExternId(0), address, port, space, subscriber }, end_ns }
        });
        let mut found: Vec<RestingPort> = found.collect();
        resting.sort_by_key(order);
        found.sort_by_key(order);
        assert_eq!(resting, found);
        for RestingPort { port, end_ns } in &resting {
            assert!(definition.restore(port, Some(*end_ns)));
            assert!(pool.restore((port.address, port.port, port.space), port.subscriber, Some(*end_ns)).is_some());
        }
        *pools = (definition, pool);
        resting.len()
    }

    /// Takes and releases ports in both pools, which are handed over now and then. Returns how often
    /// each status came, how many ports rested in a hand-over, and how many blocks changed hands.
    fn run(seed: u64, shape: [u32; 4], steps: u32) -> ([u64; 4], usize, usize) {
        let [addresses, subscribers, spaces, _] = shape;
        let mut random = seed;
        let mut pools = new_pools(shape);
        let (mut handed_over, mut changes) = (0, 0);
        let (mut held, mut now, mut counts) = (Vec::new(), 0, [0; 4]);
        for step in 0..steps {
            let mut any = |limit: u32| below(&mut random, u64::from(limit)) as u32;
            if any(50) == 0 {
                changes += compare_control(&mut pools, &format!("seed {seed}, step {step}"));
            }
            if any(1000) == 0 {
                handed_over += hand_over(&mut pools, &held, shape);
            }
            let (definition, pool) = (&mut pools.0, &mut pools.1);
            let is_later = any(3) == 0;
            now += u64::from(is_later) * u64::from(any(400_000_000));
            if any(8) < 3 && !held.is_empty() {
                let (lease, number) = held.swap_remove(any(held.len() as u32) as usize);
                if any(4) == 0 {
                    definition.release_unused(&lease);
                    pool.release_unused(number, lease.taken_ns);
                } else {
                    definition.release(&lease, now);
                    pool.release(number, now);
                }
                continue;
            }
            let beyond = u32::from(any(50) == 0);
            let first_address = any(addresses + beyond);
            let request = PortRequest {
                first_address,
                address_count: 1 + any(addresses - first_address.min(addresses - 1)),
                subscriber: any(subscribers),
                max_blocks: 1 + any(4),
                space: any(spaces),
                hash: any(u32::MAX),
            };
            let PortRequest { address_count, subscriber, max_blocks, space, hash, .. } = request;
            let preview = definition.preview(&request, now);
            assert_eq!(preview, NativePool(pool).preview(&request, now), "seed {seed}, step {step}");
            let expected = definition.take(&request, now);
            assert_eq!(preview, expected, "seed {seed}, step {step}");
            let got = pool
                .take(&PoolRequest { first_address, address_count, subscriber, max_blocks, space, hash }, now)
                .inspect(|port| {
                    let (address, number) = (port.address, port.number);
                    let lease = PortLease { pool: 0, address, port: port.port, space, taken_ns: now };
                    held.push((lease, number));
                });
            let status = match (expected, got) {
                (Ok(expected), Ok(port)) => {
                    assert_eq!((port.address, port.port), expected, "seed {seed}, step {step}");
                    PortPoolStatus::Taken
                }
                (Err(status), Err(refusal)) => {
                    assert_eq!(status, pool_status(refusal), "seed {seed}, step {step}");
                    status
                }
                different => panic!("seed {seed}, step {step}: {different:?}"),
            };
            counts[status as usize] += 1;
            let (expected, got) = (definition.usage(), pool.usage());
            let got = PortUsage { ports: got.ports, blocks: got.blocks, subscribers: got.subscribers };
            assert_eq!(expected, got, "seed {seed}, step {step}");
        }
        (counts, handed_over, changes)
    }

    #[test]
    fn ports_are_those_of_the_definition() {
        let (mut counts, mut handed_over, mut changes) = ([0; 4], 0, 0);
        for seed in 0..4 {
            for shape in [[1, 3000, 1, 0], [2, 30, 3, 5], [3, 2, 2, 120]] {
                let (of_run, resting, changed) = run(seed, shape, 6000);
                handed_over += resting;
                changes += changed;
                counts.iter_mut().zip(of_run).for_each(|(all, one)| *all += one);
            }
        }
        assert!(counts.iter().all(|count| *count >= 100), "too few of each status: {counts:?}");
        assert!(changes >= 100, "too few blocks changed hands: {changes}");
        assert!(handed_over >= 100, "too few resting ports were handed over: {handed_over}");
    }

    #[test]
    fn all_ports_of_an_address_are_found() {
        let shape = PoolShape { addresses: 1, subscribers: 2000, spaces: 1, rest_ns: 0 };
        let mut pool = PortPool::new(shape).expect("address space");
        let request = |subscriber, hash| PoolRequest {
            first_address: 0,
            address_count: 1,
            subscriber,
            max_blocks: 1,
            space: 0,
            hash,
        };
        let taken: Vec<_> = (0..64_512u32).map(|n| pool.take(&request(n / 64, n * 77), 0).unwrap()).collect();
        assert_eq!(pool.take(&request(1500, 0), 0), Err(PoolRefusal::Empty));
        assert_eq!(pool.take(&request(0, 0), 0), Err(PoolRefusal::Quota));
        taken.iter().for_each(|port| pool.release(port.number, 0));
        assert_eq!((pool.usage().ports, pool.usage().blocks, pool.usage().subscribers), (0, 0, 0));
    }
}
