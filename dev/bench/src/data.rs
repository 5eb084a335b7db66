//! Data sets that are not part of the repository: real routes and ClassBench's rules.
//!
//! They lie in the folder that `BENCH_DATA` names, or in a folder `shared/data` beside the repository or further up; for a clone or
//! another work tree, beside what it was made from. Without them, what needs them is left out, and the report says so at its top.

use crate::machine;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A rule of an IPv4 5-tuple. Numbers in host order, bounds inclusive; the first rule of a set is the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Source address and prefix length.
    pub source: (u32, u8),
    /// Destination address and prefix length.
    pub destination: (u32, u8),
    /// Source ports.
    pub source_port: (u16, u16),
    /// Destination ports.
    pub destination_port: (u16, u16),
    /// Protocol and its mask (0xff or 0).
    pub protocol: (u8, u8),
}

/// Prefixes of a full routing table.
pub const ROUTES: &str = "routes/bgp-prefixes.txt.gz";
/// The folder of ClassBench's rule sets.
pub const CLASSBENCH: &str = "classbench";

/// A data set's path.
///
/// # Errors
/// It is not there.
pub fn path(name: &str) -> anyhow::Result<PathBuf> {
    let folders = std::env::var_os("BENCH_DATA").map_or_else(|| near(&machine::root()), |named| vec![named.into()]);
    match folders.into_iter().map(|folder| folder.join(name)).find(|path| path.exists()) {
        Some(path) => Ok(path),
        None => bail!("no data set {name}: set BENCH_DATA to the folder that has it"),
    }
}

/// Folders that may have the data sets of the repository at `root`, the likeliest first.
fn near(root: &Path) -> Vec<PathBuf> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
        let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        (output.status.success() && path.is_absolute()).then_some(path)
    };
    // Of a work tree, the repository that it belongs to; of a clone, the one that it is a clone of.
    let common = git(&["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    let origin = git(&["config", "--get", "remote.origin.url"]);
    let places = std::iter::once(root.to_owned()).chain(common).chain(origin);
    places.flat_map(|place| place.ancestors().map(|above| above.join("shared/data")).collect::<Vec<_>>()).collect()
}

/// The IPv4 prefixes of a full routing table: address and length.
///
/// # Errors
/// The data set is missing or not what it should be.
pub fn bgp_v4() -> anyhow::Result<Vec<(u32, u8)>> {
    prefixes(|address: std::net::Ipv4Addr| u32::from(address))
}

/// The IPv6 prefixes of a full routing table: address and length.
///
/// # Errors
/// The data set is missing or not what it should be.
pub fn bgp_v6() -> anyhow::Result<Vec<(u128, u8)>> {
    prefixes(|address: std::net::Ipv6Addr| u128::from(address))
}

fn prefixes<A: std::str::FromStr, N: Ord>(number: impl Fn(A) -> N) -> anyhow::Result<Vec<(N, u8)>> {
    let path = path(ROUTES)?;
    let unpacked = Command::new("gzip").arg("-dc").arg(&path).output().context("gzip unpacks the routes")?;
    let text = String::from_utf8(unpacked.stdout).context("the routes are text")?;
    let prefix = |line: &str| {
        let (address, len) = line.trim().split_once('/')?;
        Some((number(address.parse().ok()?), len.parse().ok()?))
    };
    let mut found: Vec<(N, u8)> = text.lines().filter_map(prefix).collect();
    found.sort();
    found.dedup();
    if found.is_empty() { bail!("no prefixes of that family in {}", path.display()) } else { Ok(found) }
}

/// A rule set of ClassBench: `acl1_10k`, `fw1_10k`, `ipc1_10k`. The TCP flags of its last column are left out, as a 5-tuple has none.
///
/// # Errors
/// The data set is missing or not what it should be.
pub fn classbench(name: &str) -> anyhow::Result<Vec<Rule>> {
    let path = path(&format!("{CLASSBENCH}/{name}"))?;
    let text = std::fs::read_to_string(&path)?;
    let mut rules = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with('@')) {
        rules.push(rule(line).with_context(|| format!("{}:{}: not a rule: {line}", path.display(), number + 1))?);
    }
    Ok(rules)
}

/// `@1.2.3.4/32 5.6.7.8/24 0 : 65535 80 : 80 0x06/0xFF ...`
fn rule(line: &str) -> Option<Rule> {
    let words: Vec<&str> = line.strip_prefix('@')?.split_whitespace().collect();
    let prefix = |word: &str| {
        let (address, len) = word.split_once('/')?;
        let (address, len) = (u32::from(address.parse::<std::net::Ipv4Addr>().ok()?), len.parse::<u8>().ok()?);
        let mask = u32::MAX.checked_shl(32u32.checked_sub(u32::from(len))?).unwrap_or(0);
        Some((address & mask, len))
    };
    let ports = |at: usize| Some((words.get(at)?.parse().ok()?, words.get(at + 2)?.parse().ok()?));
    let (protocol, mask) = words.get(8)?.split_once('/')?;
    let byte = |text: &str| u8::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    Some(Rule {
        source: prefix(words.first()?)?,
        destination: prefix(words.get(1)?)?,
        source_port: ports(2)?,
        destination_port: ports(5)?,
        protocol: (byte(protocol)?, byte(mask)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_looked_for_beside_a_checkout_and_above_it() {
        let outer = std::env::temp_dir().join("terrace-bench-data");
        let found = near(&outer.join("a/checkout"));
        for above in ["a/checkout", "a", ""] {
            assert!(found.contains(&outer.join(above).join("shared/data")), "{above}: {found:?}");
        }
    }

    #[test]
    fn a_rule_of_classbench() {
        let read = rule("@186.11.101.36/32\t20.69.109.43/24\t0 : 65535\t1521 : 1522\t0x06/0xFF\t0x1000/0x1000\t");
        let read = read.expect("it is a rule");
        assert_eq!(read.source, (0xba0b_6524, 32));
        assert_eq!(read.destination, (0x1445_6d00, 24), "bits behind the prefix are 0");
        assert_eq!((read.source_port, read.destination_port), ((0, 65535), (1521, 1522)));
        assert_eq!(read.protocol, (6, 0xff));
        assert_eq!(rule("@1.2.3.4/33 1.2.3.4/0 0 : 1 0 : 1 0x00/0x00"), None, "no such prefix");
    }
}
