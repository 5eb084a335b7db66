//! Finds DPDK by pkg-config and builds the shim `shim/dpdk.c` against it. Without DPDK, or with
//! `TERRACE_WITHOUT_DPDK=1`, the crate is built without it, and opening a DPDK port returns an
//! error.
//!
//! Compiles the eBPF programs in `bpf/` with clang. Without clang, or with `TERRACE_WITHOUT_XDP=1`,
//! the crate is built without them, and loading them returns an error.

use std::process::Command;

/// DPDK versions that the shim supports.
const VERSIONS: [&str; 2] = ["libdpdk >= 22.11", "libdpdk < 23.11"];
/// Libraries with called functions. DPDK loads its drivers itself.
const LIBRARIES: [&str; 6] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_kvargs", "rte_eal"];

/// Parts of the flow cache's object: what its hooks share, and the program at tc.
const HEADERS: [&str; 2] = ["flow", "tc"];
/// eBPF objects: the flow cache, the counter of packets that the kernel drops after it, and the
/// filter that hides packets from the kernel's own stack.
const OBJECTS: [&str; 3] = ["terrace", "lost", "hide"];

fn main() {
    println!("cargo:rustc-check-cfg=cfg(has_dpdk)");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=shim/dpdk.c");
    println!("cargo:rustc-check-cfg=cfg(has_bpf)");
    for object in OBJECTS {
        println!("cargo:rerun-if-changed=bpf/{object}.bpf.c");
    }
    for header in HEADERS {
        println!("cargo:rerun-if-changed=bpf/{header}.bpf.h");
    }
    for variable in ["TERRACE_WITHOUT_DPDK", "PKG_CONFIG_PATH", "TERRACE_WITHOUT_XDP", "CLANG"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    kernel_program();
    if std::env::var_os("TERRACE_WITHOUT_DPDK").is_some() {
        return;
    }
    let found = pkg_config(&["--exists", VERSIONS[0], VERSIONS[1]]).is_some();
    let flags = if found { pkg_config(&["--cflags", "libdpdk"]) } else { None };
    let Some(flags) = flags else {
        println!("cargo:warning=built without DPDK: install libdpdk-dev and build again (raw sockets work without it)");
        return;
    };
    let mut build = cc::Build::new();
    build.file("shim/dpdk.c").opt_level(3).debug(true).warnings(true).extra_warnings(true);
    for flag in flags.split_whitespace() {
        build.flag(flag);
    }
    // DPDK's own headers have unused parameters.
    build.flag("-Wno-unused-parameter");
    build.compile("terrace_dpdk");
    let folders = pkg_config(&["--libs-only-L", "libdpdk"]).unwrap_or_default();
    for folder in folders.split_whitespace().filter_map(|flag| flag.strip_prefix("-L")) {
        println!("cargo:rustc-link-search=native={folder}");
    }
    for library in LIBRARIES {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
    println!("cargo:rustc-cfg=has_dpdk");
}

/// Compiles the eBPF programs if clang is installed.
fn kernel_program() {
    if std::env::var_os("TERRACE_WITHOUT_XDP").is_some() {
        return;
    }
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let Some(folder) = std::env::var_os("OUT_DIR") else { return };
    match OBJECTS.iter().try_for_each(|object| compile(&clang, object, std::path::Path::new(&folder))) {
        Ok(()) => println!("cargo:rustc-cfg=has_bpf"),
        Err(why) => println!("cargo:warning=built without the XDP program: {why}"),
    }
}

/// Compiles one eBPF object.
fn compile(clang: &str, object: &str, folder: &std::path::Path) -> Result<(), String> {
    // Compile for this machine's byte order, with types (-g), which describe the maps to the
    // loader.
    let big = std::env::var("CARGO_CFG_TARGET_ENDIAN").is_ok_and(|endian| endian == "big");
    let target = if big { "bpfeb" } else { "bpfel" };
    let output = Command::new(clang)
        .args([
            "-target",
            target,
            "-mcpu=v3",
            "-O2",
            "-g",
            "-Wall",
            "-Werror",
            "-c",
            &format!("bpf/{object}.bpf.c"),
            "-o",
        ])
        .arg(folder.join(format!("{object}.bpf.o")))
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).replace('\n', " ");
            Err(format!("{clang} does not compile {object}.bpf.c: {why}"))
        }
        Err(error) => Err(format!("there is no {clang} ({error}): install clang and build again")),
    }
}

/// Returns the output of pkg-config; `None` if it fails or is missing.
fn pkg_config(arguments: &[&str]) -> Option<String> {
    let output = Command::new("pkg-config").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
