//! Data sets that are not in the repository: real routes and ClassBench's rules.
//!
//! They are in the folder in the variable `BENCH_DATA`, or in a folder `shared/data` next to the
//! repository or in a parent directory. For a clone or another work tree, the original's location
//! is searched too. Without a data set, its measurements are left out, with a note at the top of
//! the report.

use crate::machine;
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A rule of an IPv4 5-tuple. Numbers are in host order, bounds inclusive. The first rule of a set
/// has the highest precedence.
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

/// Returns the path of a data set.
///
/// # Errors
/// If it does not exist.
pub fn data_set_path(name: &str) -> anyhow::Result<PathBuf> {
    let folders =
        std::env::var_os("BENCH_DATA").map_or_else(|| candidate_folders(&machine::root()), |named| vec![named.into()]);
    match folders.into_iter().map(|folder| folder.join(name)).find(|path| path.exists()) {
        Some(path) => Ok(path),
        None => bail!("no data set {name}: set BENCH_DATA to the folder that has it"),
    }
}

/// Returns folders that can contain the data sets of the repository at `root`, most likely first.
fn candidate_folders(root: &Path) -> Vec<PathBuf> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
        let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        (output.status.success() && path.is_absolute()).then_some(path)
    };
    // The main repository of a work tree, and the origin of a clone.
    let common = git(&["rev-parse", "--path-format=absolute", "--git-common-dir"]);
    let origin = git(&["config", "--get", "remote.origin.url"]);
    let places = std::iter::once(root.to_owned()).chain(common).chain(origin);
    places.flat_map(|place| place.ancestors().map(|above| above.join("shared/data")).collect::<Vec<_>>()).collect()
}

/// Returns the IPv4 prefixes of a full routing table: address and length.
///
/// # Errors
/// If the data set is missing or invalid.
pub fn bgp_v4() -> anyhow::Result<Vec<(u32, u8)>> {
    prefixes(|address: std::net::Ipv4Addr| u32::from(address))
}

/// Returns the IPv6 prefixes of a full routing table: address and length.
///
/// # Errors
/// If the data set is missing or invalid.
pub fn bgp_v6() -> anyhow::Result<Vec<(u128, u8)>> {
    prefixes(|address: std::net::Ipv6Addr| u128::from(address))
}

fn prefixes<A: std::str::FromStr, N: Ord>(number: impl Fn(A) -> N) -> anyhow::Result<Vec<(N, u8)>> {
    let path = data_set_path(ROUTES)?;
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

/// Returns a rule set of ClassBench: `acl1_10k`, `fw1_10k`, `ipc1_10k`. The TCP flags in its last
/// column are ignored, because a 5-tuple has none.
///
/// # Errors
/// If the data set is missing or invalid.
pub fn classbench(name: &str) -> anyhow::Result<Vec<Rule>> {
    let path = data_set_path(&format!("{CLASSBENCH}/{name}"))?;
    let text = std::fs::read_to_string(&path)?;
    let mut rules = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with('@')) {
        rules.push(parse_rule(line).with_context(|| format!("{}:{}: not a rule: {line}", path.display(), number + 1))?);
    }
    Ok(rules)
}

/// Parses `@1.2.3.4/32 5.6.7.8/24 0 : 65535 80 : 80 0x06/0xFF ...`.
fn parse_rule(line: &str) -> Option<Rule> {
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
        let found = candidate_folders(&outer.join("a/checkout"));
        for above in ["a/checkout", "a", ""] {
            assert!(found.contains(&outer.join(above).join("shared/data")), "{above}: {found:?}");
        }
    }

    #[test]
    fn a_rule_of_classbench() {
        let read = parse_rule("@186.11.101.36/32\t20.69.109.43/24\t0 : 65535\t1521 : 1522\t0x06/0xFF\t0x1000/0x1000\t");
        let read = read.expect("it is a rule");
        assert_eq!(read.source, (0xba0b_6524, 32));
        assert_eq!(read.destination, (0x1445_6d00, 24), "bits behind the prefix are 0");
        assert_eq!((read.source_port, read.destination_port), ((0, 65535), (1521, 1522)));
        assert_eq!(read.protocol, (6, 0xff));
        assert_eq!(parse_rule("@1.2.3.4/33 1.2.3.4/0 0 : 1 0 : 1 0x00/0x00"), None, "no such prefix");
    }
}
