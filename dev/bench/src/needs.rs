//! What parts need besides this repository: packages of Debian, and data sets. What is missing is said before half an hour is over: at the
//! start of a run, and at the top of its report.

use crate::data;
use crate::run::Options;
use crate::systems::ovs;
use std::path::Path;

/// A program or library, without which something is not measured.
struct Need {
    package: &'static str,
    /// What is left out without it.
    without: &'static str,
    parts: &'static [&'static str],
    there: fn() -> bool,
}

const NEEDS: &[Need] = &[
    Need { package: "libdpdk-dev", without: "DPDK's lookups", parts: &["lookups"], there: || cfg!(dpdk) },
    Need {
        package: "libbpf-dev",
        without: "XDP",
        parts: &["overlay", "gateway", "forward"],
        there: || cfg!(bpf) && Path::new("/usr/include/bpf/bpf_helpers.h").exists(),
    },
    Need { package: "clang", without: "XDP", parts: &["overlay", "gateway", "forward"], there: || on_path("clang") },
    Need {
        package: "openvswitch-switch-dpdk",
        without: "OVS-DPDK",
        parts: &["switches"],
        there: || Path::new(ovs::VSWITCHD).exists() && on_path("ovsdb-tool") && on_path("ovs-vsctl"),
    },
    Need { package: "dpdk-dev", without: "testpmd", parts: &["switches"], there: || on_path("dpdk-testpmd") },
    Need { package: "iproute2", without: "OVS-DPDK", parts: &["switches"], there: || on_path("ip") },
    Need {
        package: "util-linux",
        without: "memif, OVS-DPDK, testpmd",
        parts: &["memif", "switches"],
        there: || on_path("taskset"),
    },
];

/// Data sets, and what is left out without them.
const DATA: [(&str, &str); 2] =
    [(data::ROUTES, "lookups of real routes"), (data::CLASSBENCH, "lookups of ClassBench's rules")];

/// What is missing for the parts that this run looks at, a line each; none if nothing is.
pub fn missing(options: &Options) -> Vec<String> {
    let is_absent = |(name, _): &&(&str, &str)| data::path(name).is_err();
    let absent = DATA.iter().filter(|_| options.wants("lookups")).filter(is_absent);
    let data = absent.map(|(name, without)| {
        format!("left out: {without}, as the data set {name} is missing; set BENCH_DATA to the folder that has it")
    });
    missing_packages(options).into_iter().chain(data).collect()
}

fn missing_packages(options: &Options) -> Option<String> {
    let wanted = |need: &&Need| need.parts.iter().any(|part| options.wants(part));
    let missing: Vec<&Need> = NEEDS.iter().filter(wanted).filter(|need| !(need.there)()).collect();
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let each: Vec<String> = missing.iter().map(|need| format!("{} ({})", need.package, need.without)).collect();
    (!missing.is_empty()).then(|| {
        format!("left out, as packages are missing: {}. `apt-get install {}`", each.join(", "), packages.join(" "))
    })
}

/// Whether there is such a program.
fn on_path(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_or_not() {
        assert!(on_path("sh"));
        assert!(!on_path("no-such-program-anywhere"));
    }

    #[test]
    fn parts_that_are_not_asked_for_need_nothing() {
        let options = Options { only: vec!["workers".to_owned()], ..Options::default() };
        assert_eq!(missing(&options), [""; 0]);
    }
}
