//! The architectures that programs are written for: what to say of those that Terrace does not run.

use crate::diag::Diagnostic;
use crate::span::{FileId, SourceMap, Span};

/// Where users read which architectures and externs are supported.
pub(crate) const DOCS: &str = "docs/architectures.md";

/// The code of the finding that a program is for an architecture, or for a form of one, that does not run here.
pub(crate) const UNSUPPORTED: &str = "unsupported-architecture";

/// An architecture that exists elsewhere.
struct Foreign {
    name: &'static str,
    /// Its include files, as programs name them.
    files: &'static [&'static str],
    /// Its packages.
    packages: &'static [&'static str],
}

impl Foreign {
    /// Whether a file of that name, wherever it is, can only be this architecture's. `pna.p4` may be any form of PNA.
    fn is_named_by(&self, name: &str) -> bool {
        name != "pna.p4" && self.files.contains(&name)
    }
}

const FOREIGN: [Foreign; 8] = [
    Foreign {
        name: "PSA, the Portable Switch Architecture",
        files: &["psa.p4", "bmv2/psa.p4", "dpdk/psa.p4"],
        packages: &["PSA_Switch", "IngressPipeline", "EgressPipeline"],
    },
    Foreign {
        name: "TNA, the architecture of Tofino",
        files: &["tna.p4", "tofino.p4", "tofino1arch.p4", "tofino1_specs.p4"],
        // `Switch` and `Pipeline` are those of T2NA, too.
        packages: &["Switch", "Pipeline", "MultiParserSwitch", "MultiParserPipeline"],
    },
    Foreign {
        name: "T2NA, the architecture of Tofino 2",
        files: &["t2na.p4", "tofino2.p4", "tofino2arch.p4", "t3na.p4"],
        packages: &[],
    },
    Foreign { name: "DPDK's form of PNA", files: &["dpdk/pna.p4"], packages: &[] },
    Foreign { name: "the Linux kernel's form of PNA (P4TC)", files: &["tc/pna.p4"], packages: &[] },
    Foreign { name: "p4c's eBPF model", files: &["ebpf_model.p4"], packages: &["ebpfFilter"] },
    Foreign { name: "p4c's uBPF model", files: &["ubpf_model.p4"], packages: &["ubpf"] },
    Foreign { name: "p4c's XDP model", files: &["xdp_model.p4"], packages: &["xdp"] },
];

/// If `#include` of that file, which was not found, asks for an architecture that Terrace does not run: what to do.
pub(crate) fn explain_include(file: &str) -> Option<String> {
    let foreign = FOREIGN.iter().find(|a| a.files.contains(&file))?;
    let name = foreign.name;
    Some(format!("this is {name}, which Terrace does not run: write the program for v1model or PNA ({DOCS})"))
}

/// The finding about a program that includes the file of an architecture that Terrace does not run. Such files are found in
/// users' include directories, and `tna.p4` in the binary, which emits programs for it.
pub(crate) fn foreign_include(sources: &SourceMap) -> Option<Diagnostic> {
    let (file, foreign) = sources.files().skip(1).find_map(|(_, file)| {
        let name = file.path.rsplit('/').next()?;
        let foreign = FOREIGN.iter().find(|a| a.is_named_by(name))?;
        Some((name, foreign))
    })?;
    let message = format!("the program is written for {}", foreign.name);
    let at = include_line(sources, file).unwrap_or(Span::new(FileId(0), 0, 0));
    Some(Diagnostic::error(UNSUPPORTED, at, message).help(package_help()))
}

/// The first line that includes a file of that name.
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

/// What an unsupported package belongs to: `PSA_Switch`, with its architecture's name if that is known.
pub(crate) fn describe_package(package: &str) -> String {
    match FOREIGN.iter().find(|a| a.packages.contains(&package)) {
        Some(foreign) => format!("`{package}` ({})", foreign.name),
        None => format!("`{package}`"),
    }
}

/// The mend for a package that is not supported.
pub(crate) fn package_help() -> String {
    format!(
        "Terrace runs programs whose `main` is a `V1Switch` (v1model) or a `PNA_NIC` (PNA): {DOCS}; \
         `terrace check --language-only` checks the language alone"
    )
}

/// If another form of the architecture has as many blocks as a program gives its package: which file declares it.
pub(crate) fn other_form(package: &str, blocks: usize) -> Option<String> {
    let (what, file) = match (package, blocks) {
        ("PNA_NIC", 3) => ("today's PNA, without a pre control", "bmv2/pna.p4"),
        ("PNA_NIC", 4) => ("PNA with a pre control", "pna.p4"),
        _ => return None,
    };
    Some(format!("{what}, is declared by `#include <{file}>` ({DOCS})"))
}
