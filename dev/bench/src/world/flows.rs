//! Which packets come: a long random sequence of VMs, and what is different in each packet for them.

use super::World;

/// How VMs are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// All alike.
    Uniform,
    /// The VM at rank r in proportion to 1/r.
    Zipf,
}

impl Choice {
    /// As it stands in results.
    pub fn name(self) -> &'static str {
        match self {
            Choice::Uniform => "uniform",
            Choice::Zipf => "Zipf",
        }
    }
}

/// What is different in each packet; numbers in host order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The server that it comes from.
    pub sender: u32,
    /// Outer VNI.
    pub vni: u32,
    /// Inner destination address.
    pub destination: u32,
    /// Inner source address.
    pub source: u32,
    /// Inner source port.
    pub port: u16,
    /// The VM's number, modulo 2^16, to tell packets apart: the IPv4 identification.
    pub identification: u16,
}

/// A sequence of flows, to be gone through round and round.
#[derive(Debug, Clone)]
pub struct Flows {
    flows: Vec<Flow>,
    numbers: Vec<u32>,
    at: usize,
}

impl Flows {
    /// `length` flows to random VMs of a world.
    pub fn new(world: &World, choice: Choice, length: usize, seed: u64) -> Flows {
        let mut rng = fastrand::Rng::with_seed(seed);
        let stride = stride(world.vms);
        let pick = |rng: &mut fastrand::Rng| match choice {
            Choice::Uniform => rng.usize(..world.vms),
            Choice::Zipf => {
                // Of density 1/x from 1 to n + 1, whose distribution function is ln x / ln (n + 1). Ranks are strewn over all numbers.
                let rank = ((world.vms + 1) as f64).powf(rng.f64()) as usize - 1;
                (rank.min(world.vms - 1) as u64 * stride % world.vms as u64) as usize
            }
        };
        let numbers: Vec<u32> = (0..length).map(|_| pick(&mut rng) as u32).collect();
        let flows = numbers.iter().map(|&number| flow(world, number as usize)).collect();
        Flows { flows, numbers, at: 0 }
    }

    /// A flow to each VM, by number.
    pub fn each(world: &World) -> Vec<Flow> {
        (0..world.vms).map(|number| flow(world, number)).collect()
    }

    /// The next flow.
    #[inline]
    pub fn next_flow(&mut self) -> Flow {
        let flow = self.flows[self.at];
        self.at = if self.at + 1 == self.flows.len() { 0 } else { self.at + 1 };
        flow
    }

    /// All of them.
    pub fn all(&self) -> &[Flow] {
        &self.flows
    }

    /// The VMs' numbers, as in [`Flows::all`].
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }
}

/// The packet for a VM: from a neighbour of its tenant.
fn flow(world: &World, number: usize) -> Flow {
    let vm = world.vm(number);
    let spread = (number as u32).wrapping_mul(0x85eb_ca6b);
    Flow {
        sender: World::server(spread.wrapping_mul(0x9e37_79b1) >> 20),
        vni: vm.vni,
        destination: vm.address,
        source: 0x0a00_0000 | (spread >> 20) << 8 | 0xfe,
        port: 0x8000 | (spread & 0x7fff) as u16,
        identification: number as u16,
    }
}

/// A step that visits all numbers below `n`: coprime to it.
fn stride(n: usize) -> u64 {
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
    use super::super::Layout;
    use super::*;
    use std::collections::BTreeMap;

    fn counts(choice: Choice, vms: usize) -> BTreeMap<u32, usize> {
        let flows = Flows::new(&World { layout: Layout::OneTenant, vms }, choice, 100_000, 3);
        let mut counts = BTreeMap::new();
        for &number in flows.numbers() {
            *counts.entry(number).or_insert(0) += 1;
        }
        counts
    }

    #[test]
    fn uniform_reaches_all_alike() {
        let counts = counts(Choice::Uniform, 1000);
        assert_eq!(counts.len(), 1000);
        assert!(counts.values().all(|&n| (50..200).contains(&n)), "each about 100 times");
    }

    #[test]
    fn zipf_prefers_a_few() {
        let counts = counts(Choice::Zipf, 1000);
        let mut sorted: Vec<usize> = counts.values().copied().collect();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        // ln 2 / ln 1001 of all for the first.
        assert!((9_000..11_000).contains(&sorted[0]), "the first has about a tenth: {}", sorted[0]);
        assert!(sorted.len() > 900, "but nearly all occur: {}", sorted.len());
    }
}
