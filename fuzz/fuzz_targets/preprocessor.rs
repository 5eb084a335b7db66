//! Fuzzes directives, macros and includes: any text gives tokens with locations, within the bounds,
//! and never a panic.
#![no_main]

use p4::preprocess::{PreprocessLimits, MemoryLoader, PreprocessOptions, preprocess, preprocess_text};
use std::path::Path;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    // The bytes after the first 0xff are a file that the main file can include.
    let split = data.iter().position(|byte| *byte == 0xff).unwrap_or(data.len());
    let main = String::from_utf8_lossy(&data[..split]);
    let header = String::from_utf8_lossy(data.get(split + 1..).unwrap_or(&[]));
    let loader = MemoryLoader::new().with("main.p4", main).with("h", &*header).with("inc/h", &*header);
    let limits = PreprocessLimits { tokens: 50_000, text_bytes: 1 << 20, include_depth: 20, ..PreprocessLimits::default() };
    let options = PreprocessOptions { include_dirs: vec!["inc".into()], limits, ..PreprocessOptions::default() };
    let out = preprocess(&loader, Path::new("main.p4"), &options);
    for token in &out.tokens {
        assert!(out.source_map.location(token.span).is_some(), "{token:?} is nowhere");
    }
    for diagnostic in &out.diagnostics {
        let _ = diagnostic.render(&out.source_map, false);
    }
    let text = preprocess_text(&loader, Path::new("main.p4"), &options);
    assert!(text.text.len() <= 4 << 20, "{} bytes came out", text.text.len());
});
