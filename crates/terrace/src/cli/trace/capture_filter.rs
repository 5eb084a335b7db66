//! A capture filter (pcap-filter syntax), compiled by libpcap to what a node runs.

use crate::cli::failure::Failure;
use node::explain::filter::Instruction;
use pcap::{Capture, Linktype};

/// Instructions for Ethernet frames.
///
/// # Errors
/// What libpcap does not take, in its words.
pub fn compile(text: &str) -> Result<Vec<Instruction>, Failure> {
    let refused = |error: pcap::Error| {
        let said = error.to_string();
        let said = said.strip_prefix("libpcap error: ").unwrap_or(&said).to_owned();
        Failure::Usage(format!(
            "--filter `{text}`: {said}; the syntax is that of tcpdump (man pcap-filter), for example 'udp port 4789 and host 10.0.0.1'"
        ))
    };
    let dead = Capture::dead(Linktype::ETHERNET).map_err(refused)?;
    let program = dead.compile(text, true).map_err(refused)?;
    let one = |instruction: &pcap::BpfInstruction| {
        // The crate gives the fields as text only, as `tcpdump -ddd` prints them.
        let text = instruction.to_string();
        let mut numbers = text.split(' ').map(str::parse::<u32>);
        let mut next = || numbers.next()?.ok();
        let (code, jt, jf, k) = (next()?, next()?, next()?, next()?);
        Some(Instruction { code: code.try_into().ok()?, jt: jt.try_into().ok()?, jf: jf.try_into().ok()?, k })
    };
    let instructions: Option<Vec<Instruction>> = program.get_instructions().iter().map(one).collect();
    instructions.ok_or_else(|| Failure::Bug("libpcap's instructions have another form than expected".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::compile;
    use node::explain::filter::Filter;

    #[test]
    fn libpcap_compiles_for_the_node() {
        let filter = Filter::new(&compile("udp port 4789").unwrap()).unwrap();
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
