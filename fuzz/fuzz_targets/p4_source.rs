//! Fuzzes P4 source: any text gives diagnostics or a verified pipeline, never a panic.
#![no_main]

use p4::preprocess::FileLoader;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// Loader of the fuzzed text as main.p4, and of the include files of the repository.
struct Loader<'a>(&'a str);

impl FileLoader for Loader<'_> {
    fn load(&self, path: &Path, _: usize) -> std::io::Result<String> {
        match path.file_name().and_then(|n| n.to_str()) {
            Some("main.p4") => Ok(self.0.to_owned()),
            Some("core.p4") => Ok(include_str!("../../programs/include/core.p4").to_owned()),
            Some("v1model.p4") => Ok(include_str!("../../programs/include/v1model.p4").to_owned()),
            Some("pna.p4") => Ok(include_str!("../../programs/include/pna.p4").to_owned()),
            _ => Err(Error::from(ErrorKind::NotFound)),
        }
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let options = p4::compile::CompileOptions { include_dirs: vec!["include".into()], ..Default::default() };
    let compiled = p4::compile::compile(&Loader(&text), Path::new("main.p4"), &options);
    for diagnostic in &compiled.diagnostics {
        let _ = diagnostic.render(&compiled.source_map, false);
    }
});
