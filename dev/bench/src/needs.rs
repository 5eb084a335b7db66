//! External requirements of parts: Debian packages and data sets. Missing ones are reported at the
//! start of a run, and at the top of its report, because a run takes half an hour.

use crate::data;
use crate::run::Options;
use crate::systems::ovs;
use std::path::Path;

/// A program or library that some measurements need.
struct Requirement {
    package: &'static str,
    /// Measurements that are left out without it.
    without: &'static str,
    parts: &'static [&'static str],
    there: fn() -> bool,
}

const NEEDS: &[Requirement] = &[
    Requirement { package: "libdpdk-dev", without: "DPDK's lookups", parts: &["lookups"], there: || cfg!(dpdk) },
    Requirement {
        package: "libbpf-dev",
        without: "XDP",
        parts: &["overlay", "gateway", "forward"],
        there: || cfg!(bpf) && Path::new("/usr/include/bpf/bpf_helpers.h").exists(),
    },
    Requirement {
        package: "clang",
        without: "XDP",
        parts: &["overlay", "gateway", "forward"],
        there: || program_exists("clang"),
    },
    Requirement {
        package: "nftables",
        without: "the kernel's NAT",
        parts: &["state"],
        there: || cfg!(bpf) && program_exists("nft") && program_exists("clang"),
    },
    Requirement {
        package: "openvswitch-switch-dpdk",
        without: "OVS-DPDK",
        parts: &["switches"],
        there: || Path::new(ovs::VSWITCHD).exists() && program_exists("ovsdb-tool") && program_exists("ovs-vsctl"),
    },
    Requirement {
        package: "dpdk-dev",
        without: "testpmd",
        parts: &["switches"],
        there: || program_exists("dpdk-testpmd"),
    },
    Requirement { package: "iproute2", without: "OVS-DPDK", parts: &["switches"], there: || program_exists("ip") },
    Requirement {
        package: "util-linux",
        without: "memif, OVS-DPDK, testpmd",
        parts: &["memif", "switches"],
        there: || program_exists("taskset"),
    },
];

/// Data sets, and the measurements that are left out without them.
const DATA: [(&str, &str); 2] =
    [(data::ROUTES, "lookups of real routes"), (data::CLASSBENCH, "lookups of ClassBench's rules")];

/// Returns the missing requirements of the selected parts, one per line.
pub fn missing_requirements(options: &Options) -> Vec<String> {
    let is_absent = |(name, _): &&(&str, &str)| data::data_set_path(name).is_err();
    let absent = DATA.iter().filter(|_| options.is_selected("lookups")).filter(is_absent);
    let data = absent.map(|(name, without)| {
        format!("left out: {without}, as the data set {name} is missing; set BENCH_DATA to the folder that has it")
    });
    missing_packages(options).into_iter().chain(data).collect()
}

fn missing_packages(options: &Options) -> Option<String> {
    let wanted = |need: &&Requirement| need.parts.iter().any(|part| options.is_selected(part));
    let missing: Vec<&Requirement> = NEEDS.iter().filter(wanted).filter(|need| !(need.there)()).collect();
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let each: Vec<String> = missing.iter().map(|need| format!("{} ({})", need.package, need.without)).collect();
    (!missing.is_empty()).then(|| {
        format!("left out, as packages are missing: {}. `apt-get install {}`", each.join(", "), packages.join(" "))
    })
}

/// Returns whether a program of this name exists.
fn program_exists(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_or_not() {
        assert!(program_exists("sh"));
        assert!(!program_exists("no-such-program-anywhere"));
    }

    #[test]
    fn parts_that_are_not_asked_for_need_nothing() {
        let options = Options { only: vec!["workers".to_owned()], ..Options::default() };
        assert_eq!(missing_requirements(&options), [""; 0]);
    }
}
