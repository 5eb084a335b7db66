//! Writes the initial inputs for fuzzing: `cargo run -p testkit --example fuzz_seeds -- FOLDER`.

use fastrand::Rng;
use std::path::Path;
use testkit::{gateway, generate};

fn main() -> anyhow::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "fuzz/seeds".to_owned());
    let folder = Path::new(&folder);
    for target in ["p4_source", "preprocessor", "ir_text", "region_file", "packets", "jit_packets"] {
        std::fs::create_dir_all(folder.join(target))?;
    }
    let lab = gateway::root().join("examples/lab.yaml");
    let region = region::load(&lab)?;
    std::fs::copy(&lab, folder.join("region_file/lab.yaml"))?;
    let mut rng = Rng::with_seed(1);
    for i in 0..20 {
        std::fs::write(folder.join(format!("region_file/{i}.yaml")), generate::random_region(&mut rng))?;
    }
    for i in 0..300 {
        std::fs::write(folder.join(format!("packets/{i}")), generate::random_packet(&mut rng, &region, 1))?;
    }
    for i in 0..100 {
        let batch: Vec<u8> = (0..1 + i % 40).flat_map(|_| framed(&mut rng, &region)).collect();
        std::fs::write(folder.join(format!("jit_packets/{i}")), batch)?;
    }
    for (name, text) in DIRECTIVES {
        std::fs::write(folder.join("preprocessor").join(name), text)?;
    }
    for topic in std::fs::read_dir(gateway::root().join("tests/corpus"))?.flatten() {
        let Ok(files) = std::fs::read_dir(topic.path()) else { continue };
        for path in files.flatten().map(|f| f.path()).filter(|p| p.extension().is_some_and(|e| e == "p4")) {
            let Some(stem) = path.file_stem().map(|s| s.to_string_lossy().into_owned()) else { continue };
            std::fs::copy(&path, folder.join("p4_source").join(format!("{stem}.p4")))?;
            std::fs::copy(&path, folder.join("preprocessor").join(format!("{stem}.p4")))?;
            if let Ok(pipeline) = gateway::compile(&path) {
                std::fs::write(folder.join("ir_text").join(format!("{stem}.ir")), ir::text::print(&pipeline))?;
            }
        }
    }
    Ok(())
}

/// Inputs of the preprocessor, by feature. The included file follows 0xff.
const DIRECTIVES: &[(&str, &[u8])] = &[
    ("calls", b"#define F(x, y) #x x##y y\n#define G(x, ...) F(x, ##__VA_ARGS__) __VA_OPT__(x)\nG(a, F(b, c)) G(d)\n"),
    ("conditions", b"#if defined(A) || 1u << 3 > -1 ? 'a' : __has_include(<h>)\nx\n#elifdef B\ny\n#else\nz\n#endif\n"),
    ("includes", b"#define N <h>\n#include N\n#include \"h\"\n#include_next <h>\n\xff#pragma once\n__COUNTER__ A\n"),
    ("splices", b"#def\\\nine A 1 \\ \n+ 2 // c \\\n c\nA /* a\\\nb */ don't @e(\"\n A\n\")\n"),
    ("odd", b"#line 7 \"f\"\n# 33 \"g\"\n#unknown A\n_Pragma(\"once\") #pragma GCC poison B\n__LINE__ ??= 1.2e+A\n"),
];

/// Returns a packet in the format of the target `jit_packets`: length and port before it.
fn framed(rng: &mut Rng, region: &region::ResolvedRegion) -> Vec<u8> {
    let packet = generate::random_packet(rng, region, 1);
    let length = packet.len().min(0x3fff);
    let head = length as u16 | rng.u16(..4) << 14;
    [&head.to_be_bytes()[..], &packet[..length]].concat()
}
