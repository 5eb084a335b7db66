//! [`Workload`]: tenants, routes and VMs that all systems are loaded with, and packets between
//! them.
//!
//! All properties of a VM are computed from its number, so that 16 million VMs take only the memory
//! of the measured systems.

mod entries;
mod flows;

pub use entries::Entries;
pub use flows::{Flow, FlowDistribution, Flows};

/// Distribution of VMs over tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantLayout {
    /// Up to 250,000 tenants with 4 routes each, and an equal number of VMs. Three routes are
    /// local; the last one is to a peer.
    ManyTenants,
    /// One tenant with 4,096 routes, of length /24 as long as these can hold all VMs.
    OneTenant,
}

impl TenantLayout {
    /// Returns the name for results.
    pub fn name(self) -> &'static str {
        match self {
            TenantLayout::ManyTenants => "many tenants",
            TenantLayout::OneTenant => "one large tenant",
        }
    }
}

/// Maximum number of tenants.
pub const TENANTS: usize = 250_000;

/// Number of routes of the one large tenant.
const ROUTES: usize = 4096;

/// Tunnel address of the gateway.
pub const GATEWAY: u32 = 0xc000_0201;

/// Number of servers. Their addresses start at 198.18.0.0.
pub const SERVERS: u32 = 1 << 12;

/// MAC of the gateway, in the underlay and as VMs see it.
pub const OWN_MAC: u64 = 0x0200_0000_0001;

/// MAC of the router at the egress port.
pub const ROUTER_MAC: u64 = 0x0200_0000_000f;

/// Egress port of all packets.
pub const PORT: u32 = 2;

/// Tenants, routes and VMs of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    /// Distribution of VMs over tenants.
    pub layout: TenantLayout,
    /// Number of VMs.
    pub vms: usize,
}

/// A VM, with the fields of a packet to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vm {
    /// Sending tenant, numbered from 0.
    pub tenant: usize,
    /// VNI of a received packet to the VM.
    pub vni: u32,
    /// VNI of the sent packet: the owner's.
    pub to_vni: u32,
    /// IP address.
    pub address: u32,
    /// Address of its server.
    pub server: u32,
    /// MAC address.
    pub mac: u64,
}

/// A route of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Prefix.
    pub prefix: u32,
    /// Length of the prefix in bits.
    pub len: u32,
    /// `None`: local. Else the number of the peer tenant.
    pub peer: Option<usize>,
}

impl Workload {
    /// Returns the number of tenants.
    pub fn tenants(&self) -> usize {
        match self.layout {
            // An even number, because tenants peer in pairs.
            TenantLayout::ManyTenants => (self.vms.div_ceil(4)).min(TENANTS).next_multiple_of(2),
            TenantLayout::OneTenant => 1,
        }
    }

    /// Returns the total number of routes.
    pub fn routes(&self) -> usize {
        match self.layout {
            TenantLayout::ManyTenants => self.tenants() * 4,
            TenantLayout::OneTenant => ROUTES,
        }
    }

    /// Returns a tenant's VNI. All 24 bits are used, and consecutive tenants are far apart (a
    /// multiplication by an odd number modulo 2^24).
    pub fn vni(tenant: usize) -> u32 {
        (tenant as u32).wrapping_mul(0x9e_3779).wrapping_add(5001) & 0xff_ffff
    }

    /// Returns a server's address, by its number below [`SERVERS`].
    pub fn server(number: u32) -> u32 {
        0xc612_0000 | number
    }

    /// Returns the VM with this number, below [`Workload::vms`].
    pub fn vm(&self, number: usize) -> Vm {
        let (tenant, address, owner) = match self.layout {
            TenantLayout::ManyTenants => {
                let (tenant, place) = (number % self.tenants(), number / self.tenants());
                let (subnet, host) = (place % 4, place / 4 + 1);
                let owner = if subnet == 3 { tenant ^ 1 } else { tenant };
                (tenant, 0x0a00_0000 | (subnet as u32) << 8 | host as u32, owner)
            }
            TenantLayout::OneTenant => {
                let (route, host) = (number % ROUTES, number / ROUTES + 1);
                (0, 0x0a00_0000 | (route << self.host_bits()) as u32 | host as u32, 0)
            }
        };
        let server = Workload::server((number as u32).wrapping_mul(0x9e37_79b1) >> 20);
        let mac = 0x5254_0000_0000 | number as u64;
        Vm { tenant, vni: Workload::vni(tenant), to_vni: Workload::vni(owner), address, server, mac }
    }

    /// Returns the routes of a tenant.
    pub fn routes_of(&self, tenant: usize) -> Vec<Route> {
        match self.layout {
            TenantLayout::ManyTenants => {
                let route = |subnet: u32| Route {
                    prefix: 0x0a00_0000 | subnet << 8,
                    len: 24,
                    peer: (subnet == 3).then_some(tenant ^ 1),
                };
                (0..4).map(route).collect()
            }
            TenantLayout::OneTenant => {
                let bits = self.host_bits();
                (0..ROUTES)
                    .map(|route| Route { prefix: 0x0a00_0000 | (route << bits) as u32, len: 32 - bits, peer: None })
                    .collect()
            }
        }
    }

    /// Returns the number of host bits in the one large tenant's prefixes.
    fn host_bits(&self) -> u32 {
        if self.vms <= ROUTES * 254 { 8 } else { 12 }
    }

    /// Returns the sizes in bytes of the tables that a packet's cache lines come from, if each
    /// entry is in one line: a line for each tenant with its routes (or, with one tenant, for each
    /// of its routes), then 48 bytes for each VM.
    pub fn table_bytes(&self) -> [usize; 2] {
        let lines = match self.layout {
            TenantLayout::ManyTenants => self.tenants(),
            TenantLayout::OneTenant => ROUTES,
        };
        [lines * 64, self.vms * 48]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn vms_are_distinct_and_their_routes_lead_to_them() {
        for (layout, vms) in
            [(TenantLayout::ManyTenants, 20_000), (TenantLayout::OneTenant, 100_000), (TenantLayout::ManyTenants, 1)]
        {
            let world = Workload { layout, vms };
            let mut seen = BTreeSet::new();
            for number in 0..vms {
                let vm = world.vm(number);
                assert!(seen.insert((vm.to_vni, vm.address)), "VM {number} is another's double");
                let routes = world.routes_of(vm.tenant);
                let mask = |route: &Route| u32::MAX << (32 - route.len);
                let route = routes.iter().find(|r| vm.address & mask(r) == r.prefix).expect("it has a route");
                assert_eq!(vm.to_vni, Workload::vni(route.peer.unwrap_or(vm.tenant)));
                assert!(vm.tenant < world.tenants());
            }
        }
    }

    #[test]
    fn the_largest_worlds_fit_their_prefixes() {
        let million = Workload { layout: TenantLayout::OneTenant, vms: 1_000_000 };
        assert_eq!(million.routes_of(0)[1], Route { prefix: 0x0a00_0100, len: 24, peer: None });
        let sixteen = Workload { layout: TenantLayout::OneTenant, vms: 16_000_000 };
        let last = sixteen.vm(15_999_999);
        assert_eq!(last.address >> 12, sixteen.routes_of(0)[15_999_999 % 4096].prefix >> 12);
        let many = Workload { layout: TenantLayout::ManyTenants, vms: 16_000_000 };
        assert_eq!((many.tenants(), many.routes()), (250_000, 1_000_000));
        let vnis: BTreeSet<u32> = (0..TENANTS).map(Workload::vni).collect();
        assert_eq!(vnis.len(), TENANTS);
    }
}
