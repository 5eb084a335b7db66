//! `terrace stf`.

use super::failure::CommandError;
use super::program_args::SourceArgs;
use super::ui::{OutputSettings, style};
use crate::stf::interpreter::Interpreter;
use crate::stf::{parse, run};
use clap::Args;
use std::path::{Path, PathBuf};

/// Run a test in p4c's STF language on the interpreter.
///
/// A test has entries, input packets and expected packets; tests/corpus/README.md describes the
/// language. The exit code is 1 if an expectation did not hold, and 3 if the program or the test is
/// refused.
#[derive(Debug, Args)]
pub struct StfArgs {
    /// P4-16 program.
    #[arg(value_name = "PROGRAM.p4")]
    program: PathBuf,
    /// STF test.
    #[arg(value_name = "TEST.stf")]
    test: PathBuf,
    /// Also fail for packets on ports that the test does not name. The runner of p4c ignores those.
    #[arg(long)]
    all_ports: bool,
    #[command(flatten)]
    sources: SourceArgs,
}

impl StfArgs {
    /// Runs a test of p4c's format (STF) on the interpreter. Fails if an expectation does not hold.
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        let text = read_test(&self.test)?;
        let script = parse::parse(&self.test.display().to_string(), &text).map_err(CommandError::refused)?;
        let pipeline = self.sources.pipeline(&self.program, ui)?;
        let mut device = Interpreter::new(pipeline).map_err(CommandError::Bug)?;
        let options = run::Options { all_ports: self.all_ports };
        let progress = ui.progress(format!("running {}", self.test.display()));
        let report = run::run(&script, &mut device, options).map_err(CommandError::refused)?;
        drop(progress);
        let passed = report.passed();
        ui.result(&serde_json::json!({ "passed": passed, "report": report }), || {
            let (style, word) = if passed { (style::GOOD, "PASS") } else { (style::BAD, "FAIL") };
            let text = report.render();
            match text.rfind(word) {
                Some(start) => format!("{}{style}{word}{style:#}{}", &text[..start], &text[start + word.len()..]),
                None => text,
            }
        })?;
        if passed { Ok(()) } else { Err(CommandError::Failed) }
    }
}

/// Maximum size of a test, in bytes.
const MAX_TEST: u64 = 64 << 20;

fn read_test(path: &Path) -> Result<String, CommandError> {
    let refuse = |error: std::io::Error| {
        CommandError::Refused(format!("cannot read {}: {error}; check the path", path.display()))
    };
    if std::fs::metadata(path).map_err(refuse)?.len() > MAX_TEST {
        return Err(CommandError::Refused(format!("{} is longer than {MAX_TEST} bytes; split it", path.display())));
    }
    let bytes = std::fs::read(path).map_err(refuse)?;
    String::from_utf8(bytes)
        .map_err(|_| CommandError::Refused(format!("{} is not UTF-8; save it as UTF-8", path.display())))
}
