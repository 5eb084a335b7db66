//! `terrace stf`.

use super::failure::Failure;
use super::program_args::SourceArgs;
use super::ui::{Ui, style};
use crate::stf::interpreter::Interpreter;
use crate::stf::{parse, run};
use clap::Args;
use std::path::{Path, PathBuf};

/// Run an STF test of p4c's form on the interpreter.
///
/// Entries, packets in and packets expected; tests/corpus/README.md describes the language. The exit code is 1 if something was not as
/// expected, and 3 if the program or the test is refused.
#[derive(Debug, Args)]
pub struct StfArgs {
    /// The program.
    #[arg(value_name = "PROGRAM.p4")]
    program: PathBuf,
    /// The test.
    #[arg(value_name = "TEST.stf")]
    test: PathBuf,
    /// Fail for packets on ports that the test never names, too. p4c's runner does not see those.
    #[arg(long)]
    all_ports: bool,
    #[command(flatten)]
    sources: SourceArgs,
}

impl StfArgs {
    pub(super) fn run(self, ui: Ui) -> Result<(), Failure> {
        let text = read(&self.test)?;
        let script = parse::parse(&self.test.display().to_string(), &text).map_err(Failure::refused)?;
        let pipeline = self.sources.pipeline(&self.program, ui)?;
        let mut device = Interpreter::new(pipeline).map_err(Failure::Bug)?;
        let options = run::Options { all_ports: self.all_ports };
        let progress = ui.progress(format!("running {}", self.test.display()));
        let report = run::run(&script, &mut device, options).map_err(Failure::refused)?;
        drop(progress);
        let passed = report.passed();
        ui.result(&serde_json::json!({ "passed": passed, "report": report }), || {
            let (style, word) = if passed { (style::GOOD, "PASS") } else { (style::BAD, "FAIL") };
            let text = report.render();
            match text.rfind(word) {
                Some(at) => format!("{}{style}{word}{style:#}{}", &text[..at], &text[at + word.len()..]),
                None => text,
            }
        })?;
        if passed { Ok(()) } else { Err(Failure::Failed) }
    }
}

/// The longest test that is read, in bytes.
const MAX_TEST: u64 = 64 << 20;

fn read(path: &Path) -> Result<String, Failure> {
    let refuse =
        |error: std::io::Error| Failure::Refused(format!("cannot read {}: {error}; check the path", path.display()));
    if std::fs::metadata(path).map_err(refuse)?.len() > MAX_TEST {
        return Err(Failure::Refused(format!("{} is longer than {MAX_TEST} bytes; split it", path.display())));
    }
    let bytes = std::fs::read(path).map_err(refuse)?;
    String::from_utf8(bytes).map_err(|_| Failure::Refused(format!("{} is not UTF-8; save it as UTF-8", path.display())))
}
