//! Makes Rust code and descriptors of the interface in proto/. No `protoc` is needed.

use std::path::PathBuf;

const FILES: &[&str] = &["p4/v1/p4runtime.proto", "google/rpc/code.proto", "terrace/v1/role.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(true).open_files(FILES)?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("p4runtime.bin"), compiler.encode_file_descriptor_set())?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .codec_path("crate::codec::Codec")
        .compile_fds_with_config(compiler.file_descriptor_set(), config)?;
    Ok(())
}
