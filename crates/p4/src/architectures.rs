//! Names architectures that Terrace does not run, for diagnostics about programs written for them.

use crate::diag::Diagnostic;
use crate::span::{FileId, SourceMap, Span};

/// Documentation page that lists the supported architectures and externs.
pub(crate) const DOCS: &str = "docs/reference/architectures.md";

/// Diagnostic code: the program is for an architecture, or a variant of one, that Terrace does not
/// run.
pub(crate) const UNSUPPORTED: &str = "unsupported-architecture";

/// An architecture that Terrace does not run.
struct UnsupportedArchitecture {
    name: &'static str,
    /// Its include files, as programs name them.
    files: &'static [&'static str],
    /// Its packages.
    packages: &'static [&'static str],
}

impl UnsupportedArchitecture {
    /// Returns whether a file name identifies this architecture, whatever its directory. `pna.p4`
    /// never does, because every variant of PNA has a file of that name.
    fn is_named_by(&self, name: &str) -> bool {
        name != "pna.p4" && self.files.contains(&name)
    }
}

const UNSUPPORTED_ARCHITECTURES: [UnsupportedArchitecture; 8] = [
    UnsupportedArchitecture {
        name: "PSA, the Portable Switch Architecture",
        files: &["psa.p4", "bmv2/psa.p4", "dpdk/psa.p4"],
        packages: &["PSA_Switch", "IngressPipeline", "EgressPipeline"],
    },
    UnsupportedArchitecture {
        name: "TNA, the architecture of Tofino",
        files: &["tna.p4", "tofino.p4", "tofino1arch.p4", "tofino1_specs.p4"],
        // T2NA declares `Switch` and `Pipeline` as well.
        packages: &["Switch", "Pipeline", "MultiParserSwitch", "MultiParserPipeline"],
    },
    UnsupportedArchitecture {
        name: "T2NA, the architecture of Tofino 2",
        files: &["t2na.p4", "tofino2.p4", "tofino2arch.p4", "t3na.p4"],
        packages: &[],
    },
    UnsupportedArchitecture { name: "DPDK's form of PNA", files: &["dpdk/pna.p4"], packages: &[] },
    UnsupportedArchitecture { name: "the Linux kernel's form of PNA (P4TC)", files: &["tc/pna.p4"], packages: &[] },
    UnsupportedArchitecture { name: "p4c's eBPF model", files: &["ebpf_model.p4"], packages: &["ebpfFilter"] },
    UnsupportedArchitecture { name: "p4c's uBPF model", files: &["ubpf_model.p4"], packages: &["ubpf"] },
    UnsupportedArchitecture { name: "p4c's XDP model", files: &["xdp_model.p4"], packages: &["xdp"] },
];

/// Returns the help for a missing `#include` file that belongs to an architecture that Terrace does
/// not run.
pub(crate) fn unsupported_include_help(file: &str) -> Option<String> {
    let foreign = UNSUPPORTED_ARCHITECTURES.iter().find(|a| a.files.contains(&file))?;
    let name = foreign.name;
    Some(format!("this is {name}, which Terrace does not run: write the program for v1model or PNA ({DOCS})"))
}

/// Returns the diagnostic about a program that includes the file of an unsupported architecture.
/// Such files exist in users' include directories. The binary contains `tna.p4`, because Terrace
/// emits programs for it.
pub(crate) fn find_unsupported_include(sources: &SourceMap) -> Option<Diagnostic> {
    let (file, foreign) = sources.files().skip(1).find_map(|(_, file)| {
        let name = file.path.rsplit('/').next()?;
        let foreign = UNSUPPORTED_ARCHITECTURES.iter().find(|a| a.is_named_by(name))?;
        Some((name, foreign))
    })?;
    let message = format!("the program is written for {}", foreign.name);
    let at = include_line(sources, file).unwrap_or(Span::new(FileId(0), 0, 0));
    Some(Diagnostic::error(UNSUPPORTED, at, message).help(package_help()))
}

/// Returns the span of the first line that includes a file of that name.
fn include_line(sources: &SourceMap, name: &str) -> Option<Span> {
    sources.files().find_map(|(id, file)| {
        let mut at = 0;
        for line in file.text.split_inclusive('\n') {
            if line.trim_start().starts_with('#') && line.contains("include") && line.contains(name) {
                return Some(Span::new(id, at, at + line.trim_end().len() as u32));
            }
            at += line.len() as u32;
        }
        None
    })
}

/// Describes an unsupported package: its name, with its architecture if that is known.
pub(crate) fn describe_package(package: &str) -> String {
    match UNSUPPORTED_ARCHITECTURES.iter().find(|a| a.packages.contains(&package)) {
        Some(foreign) => format!("`{package}` ({})", foreign.name),
        None => format!("`{package}`"),
    }
}

/// Returns the help for an unsupported package.
pub(crate) fn package_help() -> String {
    format!(
        "Terrace runs programs whose `main` is a `V1Switch` (v1model) or a `PNA_NIC` (PNA): {DOCS}; \
         `terrace check --language-only` checks the language alone"
    )
}

/// Returns which file declares the architecture variant with a package of `blocks` blocks, if there
/// is one.
pub(crate) fn describe_variant(package: &str, blocks: usize) -> Option<String> {
    let (what, file) = match (package, blocks) {
        ("PNA_NIC", 3) => ("today's PNA, without a pre control", "bmv2/pna.p4"),
        ("PNA_NIC", 4) => ("PNA with a pre control", "pna.p4"),
        _ => return None,
    };
    Some(format!("{what}, is declared by `#include <{file}>` ({DOCS})"))
}
