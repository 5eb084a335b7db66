//! Builds the thin C layer over DPDK's lookup libraries. Without DPDK the crate still builds: the
//! peers then say at run time that they are not there.

fn main() {
    println!("cargo:rerun-if-changed=shims");
    println!("cargo:rustc-check-cfg=cfg(dpdk)");
    println!("cargo:rustc-check-cfg=cfg(bpf)");
    dpdk();
    xdp();
}

/// Compiles the layer over DPDK, or one that reports its absence.
fn dpdk() {
    let mut shims = cc::Build::new();
    // Headers of DPDK come from the system: their warnings are not ours.
    shims.opt_level(3).flag("-march=native").flag("-Wno-deprecated-declarations").warnings(false);
    let library = pkg_config::Config::new().cargo_metadata(false).probe("libdpdk");
    match library {
        Ok(dpdk) => {
            println!("cargo:rustc-cfg=dpdk");
            for include in &dpdk.include_paths {
                shims.include(include);
            }
            shims.flag("-include").flag("rte_config.h");
            for file in ["eal", "hash", "fib", "lpm", "acl"] {
                shims.file(format!("shims/{file}.c"));
            }
            shims.compile("bench_shims");
            for path in &dpdk.link_paths {
                println!("cargo:rustc-link-search=native={}", path.display());
            }
            for name in ["rte_eal", "rte_hash", "rte_fib", "rte_rib", "rte_lpm", "rte_acl"] {
                println!("cargo:rustc-link-lib={name}");
            }
        }
        Err(error) => {
            println!(
                "cargo:warning=libdpdk is missing, its lookups will not be measured (Debian: libdpdk-dev): {error}"
            );
            shims.file("shims/absent.c").compile("bench_shims");
        }
    }
}

/// Compiles the loader of XDP programs, or one that reports the absence of libbpf.
fn xdp() {
    let mut shim = cc::Build::new();
    shim.opt_level(2).warnings(false);
    // The program itself is compiled when it is measured: clang is needed only then.
    let libbpf = pkg_config::Config::new().cargo_metadata(false).atleast_version("1.0").probe("libbpf");
    match libbpf {
        Ok(bpf) => {
            println!("cargo:rustc-cfg=bpf");
            for include in &bpf.include_paths {
                shim.include(include);
            }
            shim.file("shims/xdp.c").file("shims/nat_feed.c").compile("bench_xdp");
            for path in &bpf.link_paths {
                println!("cargo:rustc-link-search=native={}", path.display());
            }
            println!("cargo:rustc-link-lib=bpf");
        }
        Err(error) => {
            println!("cargo:warning=libbpf is missing, XDP will not be measured (Debian: libbpf-dev): {error}");
            shim.file("shims/xdp_absent.c").compile("bench_xdp");
        }
    }
}
