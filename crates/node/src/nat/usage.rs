//! Use of the NATs, by NAT and by machine.

use super::names::{NamedNat, NatNames, Subscriber};
use super::notes::notes;
use super::status::{MachineUse, NatStatus, NatUse, PortUse, SessionUse};
use super::{ADDRESS_BLOCKS, PROTOCOLS, SESSIONS, last_part, with_pool_of};
use crate::Node;
use crate::observe::named_stats::RefusedPorts;
use crate::region::RegionError;
use interp::{AddressUsage, PoolControl, PortBlock};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

/// Blocks that are read at a time. Packets that take ports wait meanwhile, for some microseconds.
const PAGE: usize = 128;
/// Drop reasons of packets that the NAT refuses (programs/gateway/reasons.p4).
const REFUSALS: [&str; 12] = [
    "no_nat",
    "nat_destination",
    "nat_quota",
    "nat_no_ports",
    "nat_table_full",
    "tcp_without_syn",
    "no_session",
    "fragment_unknown",
    "fragment_header",
    "fragment_quota",
    "nat_protocol",
    "nat_quote",
];

/// Blocks and ports of a machine in the pool.
#[derive(Clone, Copy, Default)]
struct MachineCounts {
    blocks: u32,
    /// Number of the address of its first block.
    public_address: u32,
    /// Ports in use by protocol.
    used: [u32; PROTOCOLS.len()],
    /// Ports by protocol that are in use or rest.
    taken: [u32; PROTOCOLS.len()],
}

impl MachineCounts {
    fn add_block(&mut self, block: &PortBlock) {
        if self.blocks == 0 {
            self.public_address = block.address;
        }
        self.blocks += 1;
        for (space, used) in block.used.iter().enumerate().take(PROTOCOLS.len()) {
            self.used[space] += used.count_ones();
            self.taken[space] += (used | block.resting[space]).count_ones();
        }
    }

    /// Returns whether the machine has all ports of a protocol that it may have.
    fn is_at_limit(&self, max_blocks: u32) -> bool {
        self.blocks >= max_blocks && self.taken.iter().any(|taken| *taken == self.blocks * region::BLOCK_PORTS)
    }
}

impl Node {
    /// Calls `ask` with the gateway's pool of ports, if there is one.
    pub(super) fn with_nat_pool<T>(&self, ask: impl FnOnce(&mut dyn PoolControl) -> T) -> Option<T> {
        let asked = self.with_engine(|engine, config| {
            let (mut ask, mut out) = (Some(ask), None);
            with_pool_of(&config.pipeline, engine, &mut |pool| out = ask.take().map(|ask| ask(pool)));
            out
        });
        asked.flatten()
    }

    /// Calls `visit` with each block that a machine has, from an address and port on, until it returns false.
    /// No lock is held from one page to the next.
    pub(super) fn visit_port_blocks(&self, mut first: (u32, u16), visit: &mut dyn FnMut(&PortBlock) -> bool) {
        loop {
            let page = self.with_nat_pool(|pool| pool.blocks_from(first, PAGE)).unwrap_or_default();
            let Some(last) = page.last() else { return };
            first = last.behind();
            if !page.iter().all(&mut *visit) {
                return;
            }
        }
    }

    /// Returns the use of each NAT of the region, without its machines; empty without a region.
    /// `refused`: the calls that got no port.
    pub(crate) fn nat_use(&self, refused: &RefusedPorts) -> Vec<NatUse> {
        let Some(names) = self.region.nat_names().filter(|names| !names.nats.is_empty()) else { return Vec::new() };
        let usage = self.with_nat_pool(|pool| pool.usage_by_address()).unwrap_or_default();
        names.nats.iter().map(|nat| nat_use(nat, &usage, refused)).collect()
    }

    /// Returns the use of the NATs, with the `top` machines that use most.
    ///
    /// # Errors
    /// The node serves no region.
    pub fn nat_status(&self, top: usize) -> Result<NatStatus, RegionError> {
        let names = self.region.nat_names().ok_or(RegionError::None)?;
        let (now, before) = self.current_and_baseline();
        let mut nats = self.nat_use(&now.stats.refused_ports_since(&before.stats));
        let mut machines: HashMap<u32, MachineCounts> = HashMap::new();
        let mut unnamed_blocks = 0;
        self.visit_port_blocks((0, 0), &mut |block| {
            let is_named =
                names.subscriber(block.subscriber).is_some() && names.public_address(block.address).is_some();
            unnamed_blocks += u64::from(!is_named);
            machines.entry(block.subscriber).or_default().add_block(block);
            true
        });
        for (subscriber, counts) in &machines {
            let Some((nat, _)) = names.public_address(counts.public_address) else { continue };
            let max_blocks = max_blocks_of(&names, *subscriber);
            if let Some(used) = nats.iter_mut().find(|used| used.name == nat.name) {
                used.machines += 1;
                used.machines_at_limit += u64::from(max_blocks.is_some_and(|most| counts.is_at_limit(most)));
            }
        }
        let refused = self.drops_for(&REFUSALS);
        let machines = self.top_machines(&names, machines, top);
        let mut status =
            NatStatus { nats, sessions: self.session_use(), refused, machines, unnamed_blocks, notes: Vec::new() };
        status.notes = notes(&status);
        Ok(status)
    }

    /// Returns the packets that were dropped for each of these reasons; none where there are none.
    pub(crate) fn drops_for(&self, reasons: &[&str]) -> BTreeMap<String, u64> {
        let rows = self.drops().into_iter().filter(|row| reasons.contains(&row.reason.as_str()));
        rows.map(|row| (row.reason, row.count.packets)).collect()
    }

    /// Returns how full the table of sessions is.
    pub(crate) fn session_use(&self) -> SessionUse {
        let table = self.table_snapshots().into_iter().find(|table| last_part(&table.name) == SESSIONS);
        // A session is a pair of entries.
        table.map_or_else(SessionUse::default, |table| SessionUse {
            count: table.entries.div_ceil(2),
            size: table.size.map(|size| size / 2),
        })
    }

    fn top_machines(&self, names: &NatNames, machines: HashMap<u32, MachineCounts>, top: usize) -> Vec<MachineUse> {
        let mut machines: Vec<(u32, MachineCounts)> = machines.into_iter().collect();
        let most = |(subscriber, counts): &(u32, MachineCounts)| {
            (std::cmp::Reverse((counts.used.iter().sum::<u32>(), counts.blocks)), *subscriber)
        };
        if top < machines.len() {
            machines.select_nth_unstable_by_key(top, most);
            machines.truncate(top);
        }
        machines.sort_unstable_by_key(most);
        let wanted = machines.iter().filter_map(|(subscriber, _)| names.subscriber(*subscriber)).collect();
        let vm_names = self.vm_names(&wanted);
        let row = |(number, counts): (u32, MachineCounts)| {
            let subscriber = names.subscriber(number);
            let public = names.public_address(counts.public_address);
            let max_blocks = max_blocks_of(names, number);
            let capacity = u64::from(max_blocks.unwrap_or(counts.blocks) * region::BLOCK_PORTS);
            MachineUse {
                machine: subscriber.as_ref().and_then(|subscriber| vm_names.get(subscriber).cloned()),
                address: subscriber.as_ref().map(|subscriber| subscriber.address),
                vpc: subscriber.map(|subscriber| subscriber.vpc.to_string()),
                subscriber: number,
                nat: public.map(|(nat, _)| nat.name.clone()),
                public_address: public.map(|(_, address)| address),
                blocks: counts.blocks,
                max_blocks,
                ports: port_use(counts.used.map(u64::from), capacity),
                is_at_limit: max_blocks.is_some_and(|most| counts.is_at_limit(most)),
            }
        };
        machines.into_iter().map(row).collect()
    }

    /// Returns the names of machines in the region file, by one pass through the file's machines.
    pub(crate) fn vm_names(&self, wanted: &HashSet<Subscriber>) -> HashMap<Subscriber, String> {
        let mut names = HashMap::new();
        if wanted.is_empty() {
            return names;
        }
        let mut by_address: HashMap<IpAddr, Vec<&Subscriber>> = HashMap::new();
        wanted.iter().for_each(|wanted| by_address.entry(wanted.address).or_default().push(wanted));
        self.region.visit_vms(&mut |vm| {
            for address in &vm.addresses {
                let wanted = by_address.get(&address.value).into_iter().flatten();
                for found in wanted.filter(|wanted| *wanted.vpc == *vm.vpc.value) {
                    names.insert((*found).clone(), vm.name.value.to_string());
                }
            }
        });
        names
    }
}

/// Returns how many blocks a machine may have.
fn max_blocks_of(names: &NatNames, subscriber: u32) -> Option<u32> {
    Some(names.nat_of_vpc(&names.subscriber(subscriber)?.vpc)?.max_blocks)
}

fn port_use(used: [u64; PROTOCOLS.len()], capacity: u64) -> Vec<PortUse> {
    let rows = PROTOCOLS.iter().zip(used);
    rows.map(|(protocol, used)| PortUse { protocol: (*protocol).to_owned(), used, capacity }).collect()
}

/// Returns the use of a NAT; `usage` is that of all addresses of the pool.
fn nat_use(nat: &NamedNat, usage: &[AddressUsage], refused: &RefusedPorts) -> NatUse {
    let numbers = nat.first_number..nat.first_number + nat.address_count;
    let usage: Vec<&AddressUsage> = usage.iter().filter(|usage| numbers.contains(&usage.address)).collect();
    let used = std::array::from_fn(|space| {
        usage.iter().map(|usage| u64::from(usage.ports.get(space).copied().unwrap_or(0))).sum()
    });
    // A packet names the first address of its NAT.
    let [empty, quota] = refused.get(&nat.first_number).copied().unwrap_or_default();
    NatUse {
        name: nat.name.clone(),
        addresses: nat.addresses.clone(),
        source: nat.source.clone(),
        vpcs: nat.vpcs.clone(),
        address_count: nat.address_count,
        full_addresses: usage.iter().filter(|usage| usage.blocks >= ADDRESS_BLOCKS).count() as u32,
        ports_per_vm: nat.max_blocks * region::BLOCK_PORTS,
        ports: port_use(used, u64::from(nat.address_count) * u64::from(region::ADDRESS_PORTS)),
        blocks: usage.iter().map(|usage| u64::from(usage.blocks)).sum(),
        block_capacity: u64::from(nat.address_count) * u64::from(ADDRESS_BLOCKS),
        machines: 0,
        machines_at_limit: 0,
        refused: [("nat_no_ports".to_owned(), empty), ("nat_quota".to_owned(), quota)].into(),
    }
}
