//! Which machine has an address or a port now.

use super::PROTOCOLS;
use super::names::{NatNames, Subscriber};
use super::status::{AddressUse, BlockPorts, BlockUse, ForwardUse, NatAddressReport};
use crate::Node;
use crate::region::RegionError;
use interp::PortBlock;
use region::{ForwardProtocol, Internet};
use std::collections::HashSet;
use std::net::IpAddr;

fn has_port(block: &PortBlock, port: u16) -> bool {
    block.first_port <= port && u32::from(port) < u32::from(block.first_port) + region::BLOCK_PORTS
}

fn block_ports(block: &PortBlock) -> Vec<BlockPorts> {
    let spaces = block.used.iter().zip(&block.resting).zip(PROTOCOLS);
    let ports = spaces.map(|((used, resting), protocol)| BlockPorts {
        protocol: protocol.to_owned(),
        used: (0..64).filter(|bit| used >> bit & 1 != 0).map(|bit| block.first_port + bit).collect(),
        resting: resting.count_ones(),
    });
    ports.collect()
}

/// Formats a machine as sentences name it.
fn machine_text(vpc: &str, address: IpAddr, name: Option<&str>) -> String {
    let name = name.map_or_else(String::new, |name| format!(" ({name})"));
    format!("VPC {vpc}, {address}{name}")
}

impl BlockUse {
    fn machine_text(&self) -> String {
        match (&self.vpc, self.address) {
            (Some(vpc), Some(address)) => machine_text(vpc, address, self.machine.as_deref()),
            _ => format!("a machine that the region file no longer has (subscriber {})", self.subscriber),
        }
    }
}

impl Node {
    /// Returns which blocks of ports, port forwards and elastic addresses an address has, as one of a machine
    /// and as a public one. With `port`, only those of this public port. With `vpc`, only the machine of this
    /// VPC.
    ///
    /// # Errors
    /// The node serves no region.
    pub fn nat_address(
        &self,
        address: IpAddr,
        port: Option<u16>,
        vpc: Option<&str>,
    ) -> Result<NatAddressReport, RegionError> {
        let names = self.region.nat_names().ok_or(RegionError::None)?;
        let of_vpc = |subscriber: &Option<Subscriber>| {
            vpc.is_none_or(|vpc| subscriber.as_ref().is_some_and(|subscriber| *subscriber.vpc == *vpc))
        };
        let mut found: Vec<PortBlock> = Vec::new();
        if let Some((_, number)) = names.nat_of(address) {
            self.visit_port_blocks((number, 0), &mut |block| {
                if block.address == number && port.is_none_or(|port| has_port(block, port)) {
                    found.push(block.clone());
                }
                block.address == number
            });
        }
        let of_machine: HashSet<u32> = names.numbers_of(address).into_iter().collect();
        if port.is_none() && !of_machine.is_empty() {
            self.visit_port_blocks((0, 0), &mut |block| {
                if of_machine.contains(&block.subscriber) {
                    found.push(block.clone());
                }
                true
            });
        }
        found.retain(|block| of_vpc(&names.subscriber(block.subscriber)));
        let blocks = self.named_blocks(&names, &found);
        let (elastic, forwards) = self.public_uses(address, port, vpc);
        let mut report =
            NatAddressReport { address: Some(address), port, blocks, elastic, forwards, notes: Vec::new() };
        let is_known = names.nat_of(address).is_some() || !of_machine.is_empty();
        report.notes = sentences(&report, is_known);
        Ok(report)
    }

    fn named_blocks(&self, names: &NatNames, blocks: &[PortBlock]) -> Vec<BlockUse> {
        let wanted = blocks.iter().filter_map(|block| names.subscriber(block.subscriber)).collect();
        let vm_names = self.vm_names(&wanted);
        let row = |block: &PortBlock| {
            let subscriber = names.subscriber(block.subscriber);
            let public = names.public_address(block.address);
            BlockUse {
                nat: public.map(|(nat, _)| nat.name.clone()),
                public_address: public.map(|(_, address)| address),
                first_port: block.first_port,
                last_port: block.first_port + (region::BLOCK_PORTS as u16 - 1),
                machine: subscriber.as_ref().and_then(|subscriber| vm_names.get(subscriber).cloned()),
                address: subscriber.as_ref().map(|subscriber| subscriber.address),
                vpc: subscriber.map(|subscriber| subscriber.vpc.to_string()),
                subscriber: block.subscriber,
                ports: block_ports(block),
            }
        };
        blocks.iter().map(row).collect()
    }

    /// Returns the elastic addresses and port forwards of a public address or of a machine.
    fn public_uses(&self, address: IpAddr, port: Option<u16>, vpc: Option<&str>) -> (Vec<AddressUse>, Vec<ForwardUse>) {
        let (mut elastic, mut forwards) = self.region.with_internet(&|internet, file| {
            let elastic = elastic_uses(internet, file).into_iter();
            let forwards = forward_uses(internet, file).into_iter();
            let is_wanted = |of: &AddressUse| {
                let is_public = IpAddr::from(of.public_address) == address;
                (is_public || port.is_none() && of.address == address) && vpc.is_none_or(|vpc| of.vpc == vpc)
            };
            let of_port = |forward: &ForwardUse| port.is_none_or(|port| forward.port == port);
            let forwards = forwards.filter(|forward| is_wanted(&forward.of) && of_port(forward));
            (elastic.filter(is_wanted).collect::<Vec<_>>(), forwards.collect::<Vec<_>>())
        });
        let subscriber = |of: &AddressUse| Subscriber { vpc: of.vpc.as_str().into(), address: of.address };
        let all = elastic.iter().chain(forwards.iter().map(|forward| &forward.of));
        let vm_names = self.vm_names(&all.map(subscriber).collect());
        for of in elastic.iter_mut().chain(forwards.iter_mut().map(|forward| &mut forward.of)) {
            of.machine = vm_names.get(&subscriber(of)).cloned();
        }
        (elastic, forwards)
    }
}

fn elastic_uses(internet: &Internet, file: &str) -> Vec<AddressUse> {
    let one = |elastic: &region::ElasticAddress| {
        let IpAddr::V4(public_address) = elastic.address.value else { return None };
        let address = elastic.vm.value;
        let source = format!("{file}:{}", elastic.address.at.line);
        Some(AddressUse { public_address, vpc: elastic.vpc.value.to_string(), address, machine: None, source })
    };
    internet.elastic.iter().filter_map(one).collect()
}

fn forward_uses(internet: &Internet, file: &str) -> Vec<ForwardUse> {
    let one = |forward: &region::PortForward| {
        let IpAddr::V4(public_address) = forward.address.value else { return None };
        let address = forward.vm.value;
        let protocol = match forward.protocol {
            ForwardProtocol::Tcp => "tcp",
            ForwardProtocol::Udp => "udp",
        };
        let source = format!("{file}:{}", forward.port.at.line);
        let of = AddressUse { public_address, vpc: forward.vpc.value.to_string(), address, machine: None, source };
        let (protocol, port, vm_port) = (protocol.to_owned(), forward.port.value, forward.vm_port());
        Some(ForwardUse { of, protocol, port, vm_port })
    };
    internet.forwards.iter().filter_map(one).collect()
}

/// Returns the answer as sentences.
fn sentences(report: &NatAddressReport, is_known: bool) -> Vec<String> {
    let Some(address) = report.address else { return Vec::new() };
    let mut said = Vec::new();
    for AddressUse { public_address, vpc, address, machine, source } in &report.elastic {
        let machine = machine_text(vpc, *address, machine.as_deref());
        said.push(format!("{source}: {public_address} is the elastic address of {machine}: all ports are its own"));
    }
    for ForwardUse { of, protocol, port, vm_port } in &report.forwards {
        let machine = machine_text(&of.vpc, of.address, of.machine.as_deref());
        let (source, public) = (&of.source, of.public_address);
        said.push(format!("{source}: {protocol} port {port} of {public} is port {vm_port} of {machine}"));
    }
    match report.port {
        Some(port) => said.extend(port_sentence(report, address, port)),
        None if !is_known && said.is_empty() => said.push(format!(
            "the region file has neither a NAT nor an elastic address with {address}, and no VPC with a NAT has a subnet with it"
        )),
        None if report.blocks.is_empty() && said.is_empty() => said.push(format!("{address} has no block of ports now")),
        None => {}
    }
    said
}

/// Returns the sentence about a port of a public address.
fn port_sentence(report: &NatAddressReport, address: IpAddr, port: u16) -> Option<String> {
    let Some(block) = report.blocks.first() else {
        return (report.elastic.is_empty() && report.forwards.is_empty()).then(|| match port {
            ..region::FIRST_NAT_PORT => format!("no port forward has port {port} of {address}"),
            _ => format!(
                "no machine has port {port} of {address} now; the log says which one had it, if `nat_blocks` under [log] is set"
            ),
        });
    };
    let in_use = block.ports.iter().filter(|ports| ports.used.contains(&port)).map(|ports| ports.protocol.as_str());
    let in_use: Vec<&str> = in_use.collect();
    let machine = block.machine_text();
    let (first, last) = (block.first_port, block.last_port);
    Some(match in_use.is_empty() {
        true => format!("{address}:{port} is not in use; its block {first} to {last} belongs to {machine}"),
        false => format!("{address}:{port} is in use ({}) by {machine}", in_use.join(", ")),
    })
}
