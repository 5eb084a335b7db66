//! [`World`]: tenants, routes and VMs that all systems are filled with, and packets between them.
//!
//! Everything follows from a VM's number, so that 16 million VMs take no memory but that of the systems that hold them.

mod entries;
mod flows;

pub use entries::Entries;
pub use flows::{Choice, Flow, Flows};

/// How VMs are spread over tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Up to 250,000 tenants with 4 routes each, VMs spread evenly. Three routes are local, the last leads to a peer.
    ManyTenants,
    /// One tenant with 4,096 routes, /24 as long as that holds all VMs.
    OneTenant,
}

impl Layout {
    /// As it stands in results.
    pub fn name(self) -> &'static str {
        match self {
            Layout::ManyTenants => "many tenants",
            Layout::OneTenant => "one large tenant",
        }
    }
}

/// The most tenants.
pub const TENANTS: usize = 250_000;

/// Routes of the one large tenant.
const ROUTES: usize = 4096;

/// Our tunnel address.
pub const GATEWAY: u32 = 0xc000_0201;

/// Servers: addresses from 198.18.0.0 on.
pub const SERVERS: u32 = 1 << 12;

/// Our MAC, outside and as VMs see it.
pub const OWN_MAC: u64 = 0x0200_0000_0001;

/// The MAC of the router behind the port that everything leaves on.
pub const ROUTER_MAC: u64 = 0x0200_0000_000f;

/// The port that everything leaves on.
pub const PORT: u32 = 2;

/// Tenants, routes and VMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct World {
    /// How VMs are spread.
    pub layout: Layout,
    /// How many VMs.
    pub vms: usize,
}

/// A VM, and what a packet for it looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vm {
    /// The tenant whose packet it is; numbered from 0.
    pub tenant: usize,
    /// What a packet for it carries when it comes in.
    pub vni: u32,
    /// What it carries when it leaves: the owner's.
    pub to_vni: u32,
    /// Its address.
    pub address: u32,
    /// The server that hosts it.
    pub server: u32,
    /// Its MAC.
    pub mac: u64,
}

/// A route of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The prefix.
    pub prefix: u32,
    /// Its length in bits.
    pub len: u32,
    /// `None`: local. Else the number of the tenant that it leads to.
    pub peer: Option<usize>,
}

impl World {
    /// How many tenants there are.
    pub fn tenants(&self) -> usize {
        match self.layout {
            // Even, as they peer in pairs.
            Layout::ManyTenants => (self.vms.div_ceil(4)).min(TENANTS).next_multiple_of(2),
            Layout::OneTenant => 1,
        }
    }

    /// How many routes there are in all.
    pub fn routes(&self) -> usize {
        match self.layout {
            Layout::ManyTenants => self.tenants() * 4,
            Layout::OneTenant => ROUTES,
        }
    }

    /// A tenant's VNI: all of 24 bits are used, and neighbours are far apart (a multiplication by an odd number modulo 2^24).
    pub fn vni(tenant: usize) -> u32 {
        (tenant as u32).wrapping_mul(0x9e_3779).wrapping_add(5001) & 0xff_ffff
    }

    /// A server's address, by its number below [`SERVERS`].
    pub fn server(number: u32) -> u32 {
        0xc612_0000 | number
    }

    /// The VM with this number, below [`World::vms`].
    pub fn vm(&self, number: usize) -> Vm {
        let (tenant, address, owner) = match self.layout {
            Layout::ManyTenants => {
                let (tenant, place) = (number % self.tenants(), number / self.tenants());
                let (subnet, host) = (place % 4, place / 4 + 1);
                let owner = if subnet == 3 { tenant ^ 1 } else { tenant };
                (tenant, 0x0a00_0000 | (subnet as u32) << 8 | host as u32, owner)
            }
            Layout::OneTenant => {
                let (route, host) = (number % ROUTES, number / ROUTES + 1);
                (0, 0x0a00_0000 | (route << self.host_bits()) as u32 | host as u32, 0)
            }
        };
        let server = World::server((number as u32).wrapping_mul(0x9e37_79b1) >> 20);
        let mac = 0x5254_0000_0000 | number as u64;
        Vm { tenant, vni: World::vni(tenant), to_vni: World::vni(owner), address, server, mac }
    }

    /// The routes of a tenant.
    pub fn routes_of(&self, tenant: usize) -> Vec<Route> {
        match self.layout {
            Layout::ManyTenants => {
                let route = |subnet: u32| Route {
                    prefix: 0x0a00_0000 | subnet << 8,
                    len: 24,
                    peer: (subnet == 3).then_some(tenant ^ 1),
                };
                (0..4).map(route).collect()
            }
            Layout::OneTenant => {
                let bits = self.host_bits();
                (0..ROUTES)
                    .map(|route| Route { prefix: 0x0a00_0000 | (route << bits) as u32, len: 32 - bits, peer: None })
                    .collect()
            }
        }
    }

    /// Bits of the host in the one large tenant's prefixes.
    fn host_bits(&self) -> u32 {
        if self.vms <= ROUTES * 254 { 8 } else { 12 }
    }

    /// The bytes of the tables that a packet's lines come from, if each entry lies in one line: a line for each tenant with its routes
    /// (or, with one tenant, for each of its routes), then 48 bytes for each VM.
    pub fn table_bytes(&self) -> [usize; 2] {
        let lines = match self.layout {
            Layout::ManyTenants => self.tenants(),
            Layout::OneTenant => ROUTES,
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
        for (layout, vms) in [(Layout::ManyTenants, 20_000), (Layout::OneTenant, 100_000), (Layout::ManyTenants, 1)] {
            let world = World { layout, vms };
            let mut seen = BTreeSet::new();
            for number in 0..vms {
                let vm = world.vm(number);
                assert!(seen.insert((vm.to_vni, vm.address)), "VM {number} is another's double");
                let routes = world.routes_of(vm.tenant);
                let mask = |route: &Route| u32::MAX << (32 - route.len);
                let route = routes.iter().find(|r| vm.address & mask(r) == r.prefix).expect("it has a route");
                assert_eq!(vm.to_vni, World::vni(route.peer.unwrap_or(vm.tenant)));
                assert!(vm.tenant < world.tenants());
            }
        }
    }

    #[test]
    fn the_largest_worlds_fit_their_prefixes() {
        let million = World { layout: Layout::OneTenant, vms: 1_000_000 };
        assert_eq!(million.routes_of(0)[1], Route { prefix: 0x0a00_0100, len: 24, peer: None });
        let sixteen = World { layout: Layout::OneTenant, vms: 16_000_000 };
        let last = sixteen.vm(15_999_999);
        assert_eq!(last.address >> 12, sixteen.routes_of(0)[15_999_999 % 4096].prefix >> 12);
        let many = World { layout: Layout::ManyTenants, vms: 16_000_000 };
        assert_eq!((many.tenants(), many.routes()), (250_000, 1_000_000));
        let vnis: BTreeSet<u32> = (0..TENANTS).map(World::vni).collect();
        assert_eq!(vnis.len(), TENANTS);
    }
}
