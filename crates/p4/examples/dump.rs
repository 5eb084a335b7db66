//! Prints the tokens (`--tokens`) or the syntax tree of a program, and its diagnostics.
//!
//! `cargo run -p p4 --example dump -- [--tokens] [-I DIR]... FILE`

use p4::parse::parse_program;
use p4::preprocess::{DiskLoader, PreprocessOptions};
use std::path::Path;

/// Arguments: `-I folder`, `--tokens`, and the file.
fn main() {
    let mut options = PreprocessOptions::default();
    let mut prints_tokens = false;
    let mut file = String::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-I" => options.include_dirs.extend(args.next().map(Into::into)),
            "--tokens" => prints_tokens = true,
            path => path.clone_into(&mut file),
        }
    }
    let parsed = parse_program(&DiskLoader, Path::new(&file), &options);
    if prints_tokens {
        print!("{}", p4::lex::dump(&parsed.tokens, &parsed.source_map));
    } else {
        print!("{}", p4::ast::dump(&parsed.program));
    }
    for diagnostic in &parsed.diagnostics {
        eprintln!("{}\n", diagnostic.render(&parsed.source_map, false));
    }
}
