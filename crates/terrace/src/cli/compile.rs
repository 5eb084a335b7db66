//! `terrace compile`.

use super::failure::Failure;
use super::program_args::{SourceArgs, refusal, show};
use super::ui::{Ui, print};
use crate::program::{self, Compiled};
use clap::Args;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Compile a P4-16 program, and print what it looks like at some stage.
#[derive(Debug, Args)]
pub struct CompileArgs {
    /// The program.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What to print.
    ///
    /// tokens, syntax, typed: of the front-end. ir: the pipeline after all passes. ir-before:PASS, ir-after:PASS: around a pass;
    /// `passes` lists them. p4info: the control-plane API as P4Info text.
    #[arg(long, value_name = "STAGE", default_value = "ir")]
    dump: Dump,
    /// Write to FILE instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
}

/// A stage to print.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Dump {
    Tokens,
    Syntax,
    Typed,
    Passes,
    Ir,
    IrBefore(String),
    IrAfter(String),
    P4Info,
}

impl FromStr for Dump {
    type Err = String;

    fn from_str(text: &str) -> Result<Dump, String> {
        Ok(match text {
            "tokens" => Dump::Tokens,
            "syntax" => Dump::Syntax,
            "typed" => Dump::Typed,
            "passes" => Dump::Passes,
            "ir" => Dump::Ir,
            "p4info" => Dump::P4Info,
            _ => match text.split_once(':') {
                Some(("ir-before", pass)) => Dump::IrBefore(pass.to_owned()),
                Some(("ir-after", pass)) => Dump::IrAfter(pass.to_owned()),
                _ => {
                    let stages = "tokens, syntax, typed, passes, ir, ir-before:PASS, ir-after:PASS, p4info";
                    return Err(format!("there is no stage `{text}`; the stages are {stages}"));
                }
            },
        })
    }
}
