//! Filter sets in the ClassBench format: one rule per line, highest precedence first.
//!
//! A line is `@SOURCE/LEN DESTINATION/LEN LOW : HIGH LOW : HIGH PROTOCOL/MASK FLAGS/MASK`,
//! separated by tabs: addresses, ports of the source and of the destination, protocol, TCP flags
//! (Taylor and Turner, "ClassBench: A Packet Classification Benchmark", INFOCOM 2005). Flags are
//! ignored, because none of the pipelines matches on them.

use std::net::Ipv4Addr;

/// Maximum number of rules of a set.
pub const MAX_RULES: usize = 1 << 20;

/// An IPv4 prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Prefix {
    /// Address in host order; bits after the prefix are 0.
    pub address: u32,
    /// Prefix length in bits, 0 to 32.
    pub len: u8,
}

/// A packet classification rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Rule {
    /// Source prefix.
    pub source: Prefix,
    /// Destination prefix.
    pub destination: Prefix,
    /// Source port range, bounds included.
    pub source_ports: (u16, u16),
    /// Destination port range, bounds included.
    pub destination_ports: (u16, u16),
    /// IP protocol; `None`: any.
    pub protocol: Option<u8>,
}

/// Reads a filter set. Empty lines are skipped.
///
/// # Errors
/// Names the first invalid line and its error. A set without rules, or with more than
/// [`MAX_RULES`], is refused too.
pub fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let mut rules = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        if rules.len() == MAX_RULES {
            return Err(format!("line {number}: more than {MAX_RULES} rules; take a part of the set"));
        }
        rules.push(parse_rule(line).map_err(|why| format!("line {number}: {why}"))?);
    }
    if rules.is_empty() {
        return Err("there is no rule in it; give a filter set in ClassBench's form".to_owned());
    }
    Ok(rules)
}

fn parse_rule(line: &str) -> Result<Rule, String> {
    let form = "expected `@SOURCE/LEN DESTINATION/LEN LOW : HIGH LOW : HIGH PROTOCOL/MASK`, separated by tabs";
    let line = line.trim().strip_prefix('@').ok_or_else(|| format!("{form}; a rule begins with `@`"))?;
    let mut columns = line.split('\t').map(str::trim).filter(|column| !column.is_empty());
    let mut column = |what: &str| columns.next().ok_or_else(|| format!("{form}; {what} is missing"));
    Ok(Rule {
        source: parse_prefix(column("the source")?)?,
        destination: parse_prefix(column("the destination")?)?,
        source_ports: parse_ports(column("the source's ports")?)?,
        destination_ports: parse_ports(column("the destination's ports")?)?,
        protocol: parse_protocol(column("the protocol")?)?,
    })
}

fn parse_prefix(text: &str) -> Result<Prefix, String> {
    let wrong = || format!("`{text}` is no prefix; write 192.0.2.0/24");
    let (address, len) = text.split_once('/').ok_or_else(wrong)?;
    let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
    let len: u8 = len.parse().ok().filter(|len| *len <= 32).ok_or_else(wrong)?;
    let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
    Ok(Prefix { address: u32::from(address) & mask, len })
}

fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let wrong = || format!("`{text}` is no range of ports; write 0 : 65535");
    let (low, high) = text.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
    let (low, high) = (number(low)?, number(high)?);
    if low <= high { Ok((low, high)) } else { Err(wrong()) }
}

fn parse_protocol(text: &str) -> Result<Option<u8>, String> {
    let wrong = || format!("`{text}` is no protocol; write 0x06/0xFF, or 0x00/0x00 for any");
    let number = |text: &str| {
        let digits = text.trim().strip_prefix("0x").ok_or_else(wrong)?;
        u8::from_str_radix(digits, 16).map_err(|_| wrong())
    };
    let (value, mask) = text.split_once('/').ok_or_else(wrong)?;
    match (number(value)?, number(mask)?) {
        (value, 0xff) => Ok(Some(value)),
        (_, 0) => Ok(None),
        _ => Err(wrong()),
    }
}

/// Formats a rule as a line of a filter set.
impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (source, destination) = (Ipv4Addr::from(self.source.address), Ipv4Addr::from(self.destination.address));
        write!(f, "@{source}/{}\t{destination}/{}\t", self.source.len, self.destination.len)?;
        write!(f, "{} : {}\t", self.source_ports.0, self.source_ports.1)?;
        write!(f, "{} : {}\t", self.destination_ports.0, self.destination_ports.1)?;
        match self.protocol {
            Some(protocol) => write!(f, "0x{protocol:02x}/0xFF\t0x0000/0x0000\t"),
            None => write!(f, "0x00/0x00\t0x0000/0x0000\t"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_classbench() {
        let text = "@192.0.2.77/28\t198.51.100.9/32\t1024 : 65535\t25 : 25\t0x06/0xFF\t0x1000/0x1000\t\n\n\
                    @0.0.0.0/0\t10.0.0.0/8\t0 : 65535\t0 : 65535\t0x00/0x00\t0x0000/0x0000\t\n";
        let rules = parse(text).unwrap();
        let first = Rule {
            source: Prefix { address: 0xc000_0240, len: 28 },
            destination: Prefix { address: 0xc633_6409, len: 32 },
            source_ports: (1024, 65535),
            destination_ports: (25, 25),
            protocol: Some(6),
        };
        assert_eq!(rules[0], first);
        assert_eq!((rules[1].source, rules[1].protocol), (Prefix { address: 0, len: 0 }, None));
        let again: String = rules.iter().map(|rule| format!("{rule}\n")).collect();
        assert_eq!(parse(&again).unwrap(), rules);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let good = "@1.2.3.4/32\t1.2.3.4/32\t0 : 65535\t0 : 65535\t0x06/0xFF\t0x0000/0x0000\t";
        for (from, to, says) in [
            ("@", "", "begins with `@`"),
            ("1.2.3.4/32", "1.2.3.4/33", "`1.2.3.4/33` is no prefix"),
            ("0 : 65535", "9 : 8", "`9 : 8` is no range"),
            ("0x06/0xFF", "0x06/0x0F", "`0x06/0x0F` is no protocol"),
            ("\t0x06/0xFF\t0x0000/0x0000\t", "", "the protocol is missing"),
        ] {
            let error = parse(&format!("{good}\n{}\n", good.replacen(from, to, 1))).unwrap_err();
            assert!(error.starts_with("line 2: ") && error.contains(says), "{error}");
        }
        assert!(parse("\n").unwrap_err().contains("no rule"));
    }
}
