//! `terrace show nat`: public addresses and ports in use, and the machines that use them.

use super::failure::CommandError;
use super::node_socket::{failed, unexpected};
use super::sessions::read_sessions;
use super::text_table::{OutputFormat, TextTable, format_optional, print_json};
use super::ui::print_line;
use clap::Args;
use node::admin::ask;
use node::admin::protocol::{ControlRequest, ControlResponse};
use node::nat::{BlockUse, ForwardUse, MachineUse, NatAddressReport, NatStatus, NatUse, PROTOCOLS, PortUse};
use node::sessions::{SessionRow, SessionSelection};
use std::net::{IpAddr, SocketAddrV4};
use std::path::Path;
use std::str::FromStr;

/// Characters of a bar.
const BAR_WIDTH: u64 = 20;
/// Most sessions of a port that are listed.
const MAX_SESSIONS: u64 = 1000;

/// Arguments of `terrace show nat`.
#[derive(Debug, Args)]
pub(super) struct NatViewArgs {
    /// Show this many machines, those with most ports in use.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Show the ports of a machine, or which machines have ports of a public address; with a port, which
    /// machine has it now and for which sessions.
    #[arg(long, value_name = "ADDRESS[:PORT]", conflicts_with = "top")]
    address: Option<AddressArg>,
    /// With --address: the machine of this VPC, because several VPCs can have the same addresses.
    #[arg(long, value_name = "NAME", requires = "address")]
    vpc: Option<String>,
}

/// An address, or a port of it.
#[derive(Clone, Copy, Debug)]
struct AddressArg {
    address: IpAddr,
    port: Option<u16>,
}

impl FromStr for AddressArg {
    type Err = String;

    fn from_str(text: &str) -> Result<AddressArg, String> {
        let with_port =
            text.parse::<SocketAddrV4>().map(|of| AddressArg { address: (*of.ip()).into(), port: Some(of.port()) });
        let alone = || text.parse().map(|address| AddressArg { address, port: None });
        with_port
            .or_else(|_| alone())
            .map_err(|_| "write an address, or one of IPv4 with a port as in 198.51.100.16:40000".to_owned())
    }
}

impl NatViewArgs {
    /// Asks the node and prints the answer.
    pub(super) fn run(&self, socket: &Path, format: OutputFormat) -> Result<(), CommandError> {
        match self.address {
            Some(of) => self.show_address(of, socket, format),
            None => self.show_status(socket, format),
        }
    }

    fn show_status(&self, socket: &Path, format: OutputFormat) -> Result<(), CommandError> {
        let answer = ask(socket, &ControlRequest::Nat { top: self.top }).map_err(failed)?;
        if format == OutputFormat::Json {
            return print_json(&answer);
        }
        let ControlResponse::Nat(status) = answer else { return Err(unexpected(&answer)) };
        if status.nats.is_empty() && format == OutputFormat::Text {
            return print_line("the region has no NAT (`nats` of `internet`)");
        }
        nat_sheet(&status.nats).print(format)?;
        if format == OutputFormat::Csv {
            // A CSV file has only one header.
            return Ok(());
        }
        port_sheet(&status.nats).print(format)?;
        print_line(&sessions_line(&status))?;
        for sheet in [refusal_sheet(&status), machine_sheet(&status.machines)] {
            if !sheet.is_empty() {
                sheet.print(format)?;
            }
        }
        status.notes.iter().try_for_each(|note| print_line(note))
    }

    fn show_address(&self, of: AddressArg, socket: &Path, format: OutputFormat) -> Result<(), CommandError> {
        let AddressArg { address, port } = of;
        let request = ControlRequest::NatAddress { address, port, vpc: self.vpc.clone() };
        let answer = ask(socket, &request).map_err(failed)?;
        let ControlResponse::NatAddress(report) = &answer else { return Err(unexpected(&answer)) };
        let sessions = match port {
            Some(port) if is_in_use(report, port) => sessions_of_port(socket, address, port)?,
            _ => Vec::new(),
        };
        if format == OutputFormat::Json {
            let mut document = serde_json::to_value(&answer).map_err(|error| CommandError::Bug(error.to_string()))?;
            document["sessions"] = serde_json::json!(sessions);
            return print_json(&document);
        }
        if format == OutputFormat::Csv {
            return block_sheet(&report.blocks).print(format);
        }
        let sheets = [block_sheet(&report.blocks), forward_sheet(&report.forwards), port_session_sheet(&sessions)];
        sheets.iter().filter(|sheet| !sheet.is_empty()).try_for_each(|sheet| sheet.print(format))?;
        report.notes.iter().try_for_each(|note| print_line(note))
    }
}

/// Returns a bar of fixed width. It is empty only if nothing is in use, and full only if all is.
fn bar(used: u64, capacity: u64) -> String {
    let filled = match (used, capacity) {
        (0, _) | (_, 0) => 0,
        (used, capacity) if used >= capacity => BAR_WIDTH,
        (used, capacity) => (used * BAR_WIDTH / capacity).clamp(1, BAR_WIDTH - 1),
    };
    let (filled, rest) = (filled as usize, (BAR_WIDTH - filled) as usize);
    format!("[{}{}]", "#".repeat(filled), ".".repeat(rest))
}

fn percent(used: u64, capacity: u64) -> String {
    format!("{:.1}", used as f64 * 100.0 / capacity.max(1) as f64)
}

fn nat_sheet(nats: &[NatUse]) -> TextTable {
    let row = |nat: &NatUse| {
        let refused = |reason: &str| nat.refused.get(reason).copied().unwrap_or(0).to_string();
        let mut row = vec![nat.name.clone(), nat.addresses.clone()];
        row.extend([nat.blocks, nat.block_capacity].map(|count| count.to_string()));
        row.extend([percent(nat.blocks, nat.block_capacity), bar(nat.blocks, nat.block_capacity)]);
        row.extend([u64::from(nat.full_addresses), nat.machines, nat.machines_at_limit].map(|count| count.to_string()));
        row.extend([u64::from(nat.ports_per_vm).to_string(), refused("nat_no_ports"), refused("nat_quota")]);
        row
    };
    let head = [
        "NAT",
        "ADDRESSES",
        "BLOCKS",
        "OF",
        "%",
        "IN USE",
        "FULL ADDRESSES",
        "MACHINES",
        "AT LIMIT",
        "PORTS PER VM",
        "NO PORTS",
        "QUOTA",
    ];
    TextTable::new(&head, &[0, 1, 5], nats.iter().map(row))
}

fn port_sheet(nats: &[NatUse]) -> TextTable {
    let row = |(nat, ports): (&NatUse, &PortUse)| {
        let PortUse { protocol, used, capacity } = ports;
        let mut row = vec![nat.name.clone(), protocol.clone(), used.to_string(), capacity.to_string()];
        row.extend([percent(*used, *capacity), bar(*used, *capacity)]);
        row
    };
    let ports = nats.iter().flat_map(|nat| nat.ports.iter().map(move |ports| (nat, ports)));
    let head = ["NAT", "PROTOCOL", "PORTS", "OF", "%", "IN USE"];
    TextTable::new(&head, &[0, 1, 5], ports.map(row)).titled("ports")
}

fn sessions_line(status: &NatStatus) -> String {
    let size = status.sessions.size.map_or_else(String::new, |size| format!(" of {size}"));
    format!("{}{size} sessions", status.sessions.count)
}

fn refusal_sheet(status: &NatStatus) -> TextTable {
    let rows = status.refused.iter().map(|(reason, count)| vec![reason.clone(), count.to_string()]);
    TextTable::new(&["REASON", "PACKETS"], &[0], rows).titled("refused")
}

/// Returns the cells that name a machine: VPC, name and address.
fn machine_cells(vpc: Option<&String>, machine: Option<&String>, address: Option<IpAddr>) -> [String; 3] {
    [format_optional(vpc), format_optional(machine), format_optional(address)]
}

fn machine_sheet(machines: &[MachineUse]) -> TextTable {
    let row = |machine: &MachineUse| {
        let MachineUse { vpc, machine: name, address, nat, public_address, blocks, max_blocks, ports, .. } = machine;
        let mut row = machine_cells(vpc.as_ref(), name.as_ref(), *address).to_vec();
        row.extend([format_optional(nat.as_ref()), format_optional(*public_address)]);
        row.extend([blocks.to_string(), format_optional(*max_blocks)]);
        row.extend(PROTOCOLS.map(|protocol| {
            let of = ports.iter().find(|ports| ports.protocol == protocol);
            format_optional(of.map(|ports| ports.used))
        }));
        row.push(if machine.is_at_limit { "all its ports" } else { "" }.to_owned());
        row
    };
    let head = ["VPC", "MACHINE", "ADDRESS", "NAT", "PUBLIC", "BLOCKS", "OF", "UDP", "TCP", "ICMP", ""];
    TextTable::new(&head, &[0, 1, 2, 3, 4, 10], machines.iter().map(row)).titled("machines")
}

fn block_sheet(blocks: &[BlockUse]) -> TextTable {
    let row = |block: &BlockUse| {
        let BlockUse { nat, public_address, first_port, last_port, vpc, address, machine, ports, .. } = block;
        let mut row = vec![format_optional(*public_address), format!("{first_port}-{last_port}")];
        row.extend(machine_cells(vpc.as_ref(), machine.as_ref(), *address));
        row.push(format_optional(nat.as_ref()));
        row.extend(PROTOCOLS.map(|protocol| {
            let of = ports.iter().find(|ports| ports.protocol == protocol);
            format_optional(of.map(|ports| ports.used.len()))
        }));
        row
    };
    let head = ["PUBLIC", "PORTS", "VPC", "MACHINE", "ADDRESS", "NAT", "UDP", "TCP", "ICMP"];
    TextTable::new(&head, &[0, 1, 2, 3, 4, 5], blocks.iter().map(row))
}

fn forward_sheet(forwards: &[ForwardUse]) -> TextTable {
    let row = |forward: &ForwardUse| {
        let of = &forward.of;
        let public = format!("{}:{}", of.public_address, forward.port);
        let mut row = vec![forward.protocol.clone(), public];
        row.extend(machine_cells(Some(&of.vpc), of.machine.as_ref(), Some(of.address)));
        row.extend([forward.vm_port.to_string(), of.source.clone()]);
        row
    };
    let head = ["PROTOCOL", "PUBLIC", "VPC", "MACHINE", "ADDRESS", "PORT", "LINE"];
    TextTable::new(&head, &[0, 1, 2, 3, 4, 6], forwards.iter().map(row)).titled("port forwards")
}

/// Returns whether a port of the report's block is in use.
fn is_in_use(report: &NatAddressReport, port: u16) -> bool {
    let mut ports = report.blocks.iter().flat_map(|block| &block.ports);
    ports.any(|ports| ports.used.contains(&port))
}

/// Returns the sessions of a public port, as packets from the Internet find them.
fn sessions_of_port(socket: &Path, address: IpAddr, port: u16) -> Result<Vec<SessionRow>, CommandError> {
    let matches = ["is_outbound=0".to_owned(), format!("address={address}"), format!("port={port}")].into();
    let selection = SessionSelection { table: Some("sessions".to_owned()), matches, idle_longer_than_ns: None };
    read_sessions(socket, selection, MAX_SESSIONS).map(|(sessions, _)| sessions)
}

fn port_session_sheet(sessions: &[SessionRow]) -> TextTable {
    let row = |session: &SessionRow| {
        let key = |name: &str| {
            let found = session.keys.iter().find(|key| key.name.rsplit('.').next() == Some(name));
            format_optional(found.map(|key| &key.value))
        };
        let argument = |name: &str| {
            format_optional(session.arguments.iter().find(|argument| argument.name == name).map(|found| &found.value))
        };
        let protocol = match key("protocol").as_str() {
            "1" => "icmp".to_owned(),
            "6" => "tcp".to_owned(),
            "17" => "udp".to_owned(),
            other => other.to_owned(),
        };
        let seconds = |ns: u64| format!("{:.1}", ns as f64 / 1e9);
        // A machine with NAT64 has a number in the place of an address.
        let has_number = session.arguments.iter().any(|argument| argument.name == "number");
        let local = format!("{}:{}", argument(if has_number { "number" } else { "address" }), argument("port"));
        let remote = format!("{}:{}", key("remote"), key("remote_port"));
        let (idle, left) = (seconds(session.idle_ns), format_optional(session.left_ns.map(seconds)));
        vec![protocol, argument("vpc"), local, remote, idle, left]
    };
    let head = ["PROTOCOL", "VPC", "MACHINE'S PORT", "REMOTE", "IDLE S", "LEFT S"];
    TextTable::new(&head, &[0, 1, 2, 3], sessions.iter().map(row)).titled("sessions")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_empty_or_full_only_if_the_whole_is() {
        let filled = |used, capacity| bar(used, capacity).matches('#').count();
        assert_eq!([filled(0, 10_000), filled(1, 10_000), filled(5_000, 10_000)], [0, 1, 10]);
        assert_eq!([filled(9_999, 10_000), filled(10_000, 10_000), filled(0, 0)], [19, 20, 0]);
        assert_eq!(bar(1, 2).len(), 22);
    }

    #[test]
    fn an_address_can_have_a_port() {
        let parse = |text: &str| text.parse::<AddressArg>().map(|of| (of.address.to_string(), of.port));
        assert_eq!(parse("10.0.0.11"), Ok(("10.0.0.11".to_owned(), None)));
        assert_eq!(parse("198.51.100.16:40000"), Ok(("198.51.100.16".to_owned(), Some(40_000))));
        assert!(parse("198.51.100.16:70000").is_err_and(|error| error.contains("198.51.100.16:40000")));
    }
}
