//! Packets of a workload: a long random sequence of VMs, with the fields that differ between
//! packets.

use super::Workload;

/// Distribution of packets over VMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowDistribution {
    /// All VMs with equal probability.
    Uniform,
    /// The VM at rank r with a probability proportional to 1/r.
    Zipf,
}

impl FlowDistribution {
    /// Returns the name for results.
    pub fn name(self) -> &'static str {
        match self {
            FlowDistribution::Uniform => "uniform",
            FlowDistribution::Zipf => "Zipf",
        }
    }
}

/// Fields that differ between packets, in host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Address of the sending server.
    pub sender: u32,
    /// Outer VNI.
    pub vni: u32,
    /// Inner destination address.
    pub destination: u32,
    /// Inner source address.
    pub source: u32,
    /// Inner source port.
    pub port: u16,
    /// Number of the VM modulo 2^16, in the IPv4 identification, to identify packets.
    pub identification: u16,
}

/// A cyclic sequence of flows.
#[derive(Debug, Clone)]
pub struct Flows {
    flows: Vec<Flow>,
    numbers: Vec<u32>,
    at: usize,
}

impl Flows {
    /// Draws `length` flows to random VMs of a workload.
    pub fn new(world: &Workload, choice: FlowDistribution, length: usize, seed: u64) -> Flows {
        let mut rng = fastrand::Rng::with_seed(seed);
        let stride = coprime_step(world.vms);
        let pick = |rng: &mut fastrand::Rng| match choice {
            FlowDistribution::Uniform => rng.usize(..world.vms),
            FlowDistribution::Zipf => {
                // Density 1/x from 1 to n + 1, with the distribution function ln x / ln (n + 1).
                // Ranks are scattered over all numbers.
                let rank = ((world.vms + 1) as f64).powf(rng.f64()) as usize - 1;
                (rank.min(world.vms - 1) as u64 * stride % world.vms as u64) as usize
            }
        };
        let numbers: Vec<u32> = (0..length).map(|_| pick(&mut rng) as u32).collect();
        let flows = numbers.iter().map(|&number| flow_to_vm(world, number as usize)).collect();
        Flows { flows, numbers, at: 0 }
    }

    /// Returns a flow to each VM, by number.
    pub fn each(world: &Workload) -> Vec<Flow> {
        (0..world.vms).map(|number| flow_to_vm(world, number)).collect()
    }

    /// Returns the next flow.
    #[inline]
    pub fn next_flow(&mut self) -> Flow {
        let flow = self.flows[self.at];
        self.at = if self.at + 1 == self.flows.len() { 0 } else { self.at + 1 };
        flow
    }

    /// Returns all flows.
    pub fn all(&self) -> &[Flow] {
        &self.flows
    }

    /// Returns the VMs' numbers, in the order of [`Flows::all`].
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }
}

/// Returns the flow for a VM, from another VM of its tenant.
fn flow_to_vm(world: &Workload, number: usize) -> Flow {
    let vm = world.vm(number);
    let spread = (number as u32).wrapping_mul(0x85eb_ca6b);
    Flow {
        sender: Workload::server(spread.wrapping_mul(0x9e37_79b1) >> 20),
        vni: vm.vni,
        destination: vm.address,
        source: 0x0a00_0000 | (spread >> 20) << 8 | 0xfe,
        port: 0x8000 | (spread & 0x7fff) as u16,
        identification: number as u16,
    }
}

/// Returns a step that visits all numbers below `n`, coprime to `n`.
fn coprime_step(n: usize) -> u64 {
    let coprime = |step: u64| {
        let (mut a, mut b) = (step, n as u64);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    (0x9e37_79b1..).find(|&step| coprime(step)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::super::TenantLayout;
    use super::*;
    use std::collections::BTreeMap;

    fn counts(choice: FlowDistribution, vms: usize) -> BTreeMap<u32, usize> {
        let flows = Flows::new(&Workload { layout: TenantLayout::OneTenant, vms }, choice, 100_000, 3);
        let mut counts = BTreeMap::new();
        for &number in flows.numbers() {
            *counts.entry(number).or_insert(0) += 1;
        }
        counts
    }

    #[test]
    fn uniform_reaches_all_alike() {
        let counts = counts(FlowDistribution::Uniform, 1000);
        assert_eq!(counts.len(), 1000);
        assert!(counts.values().all(|&n| (50..200).contains(&n)), "each about 100 times");
    }

    #[test]
    fn zipf_prefers_a_few() {
        let counts = counts(FlowDistribution::Zipf, 1000);
        let mut sorted: Vec<usize> = counts.values().copied().collect();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        // The first rank has ln 2 / ln 1001 of all.
        assert!((9_000..11_000).contains(&sorted[0]), "the first has about a tenth: {}", sorted[0]);
        assert!(sorted.len() > 900, "but nearly all occur: {}", sorted.len());
    }
}
