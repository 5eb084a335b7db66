//! Compiles a capture filter (pcap-filter syntax) by libpcap to the instructions that a node runs.

use crate::cli::failure::CommandError;
use node::explain::filter::BpfInstruction;
use pcap::{Capture, Linktype};

/// Compiles a filter for Ethernet frames.
///
/// # Errors
/// If libpcap refuses the filter, with its message.
pub fn compile(text: &str) -> Result<Vec<BpfInstruction>, CommandError> {
    let refused = |error: pcap::Error| {
        let message = error.to_string();
        let message = message.strip_prefix("libpcap error: ").unwrap_or(&message).to_owned();
        CommandError::Usage(format!(
            "--filter `{text}`: {message}; the syntax is that of tcpdump (man pcap-filter), for example 'udp port 4789 and host 10.0.0.1'"
        ))
    };
    let handle = Capture::dead(Linktype::ETHERNET).map_err(refused)?;
    let program = handle.compile(text, true).map_err(refused)?;
    let convert = |instruction: &pcap::BpfInstruction| {
        // The crate gives the fields only as text, as `tcpdump -ddd` prints them.
        let text = instruction.to_string();
        let mut numbers = text.split(' ').map(str::parse::<u32>);
        let mut next = || numbers.next()?.ok();
        let (code, jt, jf, k) = (next()?, next()?, next()?, next()?);
        Some(BpfInstruction { code: code.try_into().ok()?, jt: jt.try_into().ok()?, jf: jf.try_into().ok()?, k })
    };
    let instructions: Option<Vec<BpfInstruction>> = program.get_instructions().iter().map(convert).collect();
    instructions.ok_or_else(|| CommandError::Bug("libpcap's instructions have another form than expected".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::compile;
    use node::explain::filter::PacketFilter;

    #[test]
    fn libpcap_compiles_for_the_node() {
        let filter = PacketFilter::new(&compile("udp port 4789").unwrap()).unwrap();
        let takes = |text: &str| filter.takes(&super::super::build::packet(text).unwrap());
        assert!(takes("eth/ipv4/udp/vxlan/eth/payload(64)"));
        assert!(takes("eth/ipv6/udp(dport=4789)/payload(64)"));
        assert!(!takes("eth/ipv4/udp(dport=53)/payload(64)"));
        assert!(!takes("eth/ipv4/tcp(dport=4789)/payload(64)"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = compile("udp prot 4789").unwrap_err();
        assert_eq!(error.code(), 2);
        let text = error.to_string();
        assert!(text.starts_with("--filter `udp prot 4789`: ") && text.contains("man pcap-filter"), "{text}");
    }
}
