//! Entries of a workload for a program, in batches of limited memory.

use super::{GATEWAY, OWN_MAC, PORT, ROUTER_MAC, Route, SERVERS, Workload};
use crate::program::{BenchProgram, Program, TableRef, exact, lpm};
use crate::ring::IN_PORT;
use entries::{StateUpdate, TableEntry, WriteBatch};
use ir::KeyMatch;
use num_bigint::BigUint;

/// Number of entries in a batch.
const CHUNK: usize = 50_000;

/// Number of gateway tenants with ACL rules and a policy route. More would exceed the list's
/// 262,144 rules, and with fewer, lookups would be in an empty table.
const FILTERED: usize = 1000;

/// Generates the entries of a workload for one program.
#[derive(Debug, Clone)]
pub struct Entries {
    world: Workload,
    tables: Tables,
}

#[derive(Debug, Clone)]
enum Tables {
    Overlay { route: TableRef<2>, vm: TableRef<1>, uplink: TableRef<1> },
    Gateway(Box<GatewayTables>),
}

#[derive(Debug, Clone)]
struct GatewayTables {
    own_mac: TableRef<1>,
    tunnel: TableRef<1>,
    own_address: TableRef<1>,
    tenant: TableRef<1>,
    policy_route: TableRef<1>,
    route: TableRef<2>,
    acl: [TableRef<2>; 2],
    vm: TableRef<1>,
    underlay_route: TableRef<1>,
    next_hop: TableRef<1>,
    router: TableRef<1>,
    identity: TableRef<1>,
}

impl Entries {
    /// Looks up the program's tables.
    ///
    /// # Errors
    /// If a table or action is missing, because the program has changed.
    pub fn new(world: Workload, program: &Program) -> anyhow::Result<Entries> {
        let tables = match program.kind {
            BenchProgram::Overlay => Tables::Overlay {
                route: program.table("overlay.route", ["local", "peer"])?,
                vm: program.table("overlay.vm", ["on_server"])?,
                uplink: program.table("overlay.uplink", ["set_uplink"])?,
            },
            BenchProgram::Nat => anyhow::bail!("programs/nat has no VMs"),
            BenchProgram::Gateway => Tables::Gateway(Box::new(GatewayTables {
                own_mac: program.table("own_mac", ["own_port"])?,
                tunnel: program.table("tunnel_v4", ["from_server"])?,
                own_address: program.table("own_address_v4", ["tunnel_address"])?,
                tenant: program.table("tenancy.tenant", ["set_vpc"])?,
                policy_route: program.table("policy_route_v4", ["use_instance"])?,
                route: program.table("route_v4", ["local", "peer"])?,
                acl: [
                    program.table("acl_out.v4", ["permit", "deny"])?,
                    program.table("acl_in.v4", ["permit", "deny"])?,
                ],
                vm: program.table("vm_nc_v4", ["on_server_v4"])?,
                underlay_route: program.table("underlay_route_v4", ["via_group"])?,
                next_hop: program.table("underlay.next_hop", ["forward"])?,
                router: program.table("inner_link.router", ["set_router"])?,
                identity: program.table("gateway_identity", ["set_identity"])?,
            })),
        };
        Ok(Entries { world, tables })
    }

    /// Returns the table of VMs.
    pub fn vm_table(&self) -> ir::TableId {
        match &self.tables {
            Tables::Overlay { vm, .. } => vm.id,
            Tables::Gateway(tables) => tables.vm.id,
        }
    }

    /// Calls `write` with batches that together are the whole workload. Returns the number of
    /// entries.
    ///
    /// # Errors
    /// The first error of `write`.
    pub fn write_all<E>(&self, write: impl FnMut(&WriteBatch) -> Result<(), E>) -> Result<usize, E> {
        self.write_subset(0..self.world.tenants(), 0..self.world.vms, write)
    }

    /// Writes like [`Entries::write_all`], with only these tenants' routes and these VMs. This is
    /// sufficient for packets to these VMs, because all other entries have other VNIs or addresses.
    ///
    /// # Errors
    /// The first error of `write`.
    pub fn write_subset<E>(
        &self,
        tenants: impl Iterator<Item = usize>,
        vms: impl Iterator<Item = usize>,
        write: impl FnMut(&WriteBatch) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut chunks = Chunks { batch: WriteBatch::new(), written: 0, write };
        self.write_common(&mut chunks)?;
        for tenant in tenants {
            self.write_tenant(tenant, &mut chunks)?;
        }
        for number in vms {
            let vm = self.world.vm(number);
            let keys = vec![exact(vm.to_vni), exact(vm.address)];
            let table = match &self.tables {
                Tables::Overlay { vm, .. } => vm,
                Tables::Gateway(tables) => &tables.vm,
            };
            chunks.insert(table.entry(keys, 0, &[u64::from(vm.server), vm.mac]))?;
        }
        chunks.finish()
    }

    /// Writes the entries that are independent of tenants.
    fn write_common<E>(&self, chunks: &mut Chunks<impl FnMut(&WriteBatch) -> Result<(), E>>) -> Result<(), E> {
        match &self.tables {
            Tables::Overlay { uplink, .. } => {
                let call = uplink.call(0, &[u64::from(PORT), u64::from(GATEWAY), OWN_MAC, ROUTER_MAC]);
                chunks.push(StateUpdate::DefaultAction(uplink.id, Some(call)))
            }
            Tables::Gateway(tables) => {
                chunks.insert(tables.own_mac.entry(vec![exact(IN_PORT), exact(OWN_MAC)], 0, &[]))?;
                for server in 0..SERVERS {
                    let keys = vec![exact(Workload::server(server)), exact(GATEWAY)];
                    chunks.insert(tables.tunnel.entry(keys, 0, &[]))?;
                }
                chunks.push(StateUpdate::DefaultAction(tables.router.id, Some(tables.router.call(0, &[OWN_MAC]))))?;
                chunks.insert(tables.own_address.entry(vec![exact(GATEWAY)], 0, &[]))?;
                // All servers are reached by one group of four next hops, and these by one port.
                chunks.insert(tables.underlay_route.entry(vec![lpm(0xc612_0000, 16)], 0, &[1, 3]))?;
                for hop in 0..4u32 {
                    let forward = [u64::from(PORT), OWN_MAC, ROUTER_MAC, 9000];
                    chunks.insert(tables.next_hop.entry(vec![exact(hop + 1)], 0, &forward))?;
                }
                let call = tables.identity.call(0, &[u64::from(GATEWAY), 0, OWN_MAC]);
                chunks.push(StateUpdate::DefaultAction(tables.identity.id, Some(call)))
            }
        }
    }

    /// Writes a tenant's routes, and for the gateway its VNI and, for the first [`FILTERED`]
    /// tenants, rules.
    fn write_tenant<E>(
        &self,
        tenant: usize,
        chunks: &mut Chunks<impl FnMut(&WriteBatch) -> Result<(), E>>,
    ) -> Result<(), E> {
        let (number, vni) = (tenant as u64, Workload::vni(tenant));
        if let Tables::Gateway(tables) = &self.tables {
            chunks.insert(tables.tenant.entry(vec![exact(vni)], 0, &[number, number, 0]))?;
            if tenant < FILTERED {
                self.write_rules(tenant, tables, chunks)?;
            }
        }
        for Route { prefix, len, peer } in self.world.routes_of(tenant) {
            let entry = match (&self.tables, peer) {
                (Tables::Overlay { route, .. }, None) => route.entry(vec![exact(vni), lpm(prefix, len)], 0, &[]),
                (Tables::Overlay { route, .. }, Some(peer)) => {
                    route.entry(vec![exact(vni), lpm(prefix, len)], 1, &[u64::from(Workload::vni(peer))])
                }
                (Tables::Gateway(tables), None) => {
                    let mask = u64::from(u32::MAX << (32 - len));
                    tables.route.entry(vec![exact(number), lpm(prefix, len)], 0, &[mask, 0])
                }
                (Tables::Gateway(tables), Some(peer)) => {
                    let args = [peer as u64, u64::from(Workload::vni(peer)), 0];
                    tables.route.entry(vec![exact(number), lpm(prefix, len)], 1, &args)
                }
            };
            chunks.insert(entry)?;
        }
        Ok(())
    }

    /// Writes the rules of a tenant: a policy route with the same result as all routes, and four
    /// ACL rules per direction that deny other traffic than the measured packets.
    fn write_rules<E>(
        &self,
        tenant: usize,
        tables: &GatewayTables,
        chunks: &mut Chunks<impl FnMut(&WriteBatch) -> Result<(), E>>,
    ) -> Result<(), E> {
        let number = tenant as u64;
        let keys = vec![exact(number), lpm(0x0a00_0000, 8)];
        chunks.insert(tables.policy_route.entry(keys, 0, &[number]))?;
        for (index, table) in tables.acl.iter().enumerate() {
            for rule in 0..4u16 {
                let port = 22 + 1000 * rule + index as u16;
                let keys = vec![
                    exact(number),
                    ternary(0x0a00_0000, 0xff00_0000),
                    ternary(0, 0),
                    ternary(6, 0xff),
                    range(0, 0xffff),
                    range(port, port + 1),
                    ternary(0, 0),
                ];
                chunks.insert(table.entry(keys, 1, &[]).with_priority(i32::from(rule) + 1))?;
            }
        }
        Ok(())
    }
}

fn ternary(value: u32, mask: u32) -> KeyMatch {
    KeyMatch::Ternary { value: BigUint::from(value), mask: BigUint::from(mask) }
}

fn range(lo: u16, hi: u16) -> KeyMatch {
    KeyMatch::Range { lo: BigUint::from(lo), hi: BigUint::from(hi) }
}

/// Collects entries into batches.
struct Chunks<W> {
    batch: WriteBatch,
    written: usize,
    write: W,
}

impl<E, W: FnMut(&WriteBatch) -> Result<(), E>> Chunks<W> {
    fn insert(&mut self, entry: TableEntry) -> Result<(), E> {
        self.push(StateUpdate::Entry(entries::UpdateKind::Insert, entry))
    }

    fn push(&mut self, update: StateUpdate) -> Result<(), E> {
        self.batch.push(update);
        if self.batch.updates.len() < CHUNK { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), E> {
        (self.write)(&self.batch)?;
        self.written += self.batch.updates.len();
        self.batch.updates.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<usize, E> {
        self.flush()?;
        Ok(self.written)
    }
}
