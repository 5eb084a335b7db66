//! `cargo xtask p4info`: compares a program's P4Info with a reference file, by meaning and by text.
//!
//! Every difference is listed in one of three classes: relevant to a controller or a device;
//! descriptive (annotations, documentation, aliases); and fields that older compilers do not write.
//! Only the last class is not a failure. The order of objects is irrelevant. The number of equal
//! lines is only reported.

use anyhow::{Context, Result, bail};
use clap::Args;
use ir::p4info::{P4InfoAgreement, P4InfoDifference, compare, generate, to_txtpb, weigh_differences};
use std::fs;
use std::path::PathBuf;
use terrace::program::{self, Sources};

/// Compile a program and compare its P4Info with a text file written by p4c; exit with 1 if they
/// differ.
#[derive(Debug, Args)]
pub struct P4infoArgs {
    /// P4-16 program.
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,
    /// Expected P4Info, as text protobuf.
    #[arg(value_name = "P4INFO")]
    expected: PathBuf,
    /// Search DIR for included files (may be repeated).
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Define a macro (may be repeated).
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// Also write our P4Info to FILE.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

impl P4infoArgs {
    /// Runs the task. Returns false if the files differ in more than fields that older compilers
    /// leave out.
    pub fn run(self) -> Result<bool> {
        let expected = fs::read_to_string(&self.expected)
            .with_context(|| format!("reading {}; name a P4Info in text protobuf", self.expected.display()))?;
        let sources = Sources { include_dirs: self.include, defines: self.define };
        let compiled = program::compile(&self.program, &sources);
        let Some(pipeline) = compiled.pipeline else {
            for error in compiled.diagnostics.iter().filter(|d| d.is_error()) {
                let place = compiled.source_map.location(error.primary);
                let place = place.map_or_else(String::new, |at| format!("{}:{}: ", at.file, at.line));
                eprintln!("{place}{} [{}]", error.message, error.code);
            }
            bail!("{} is not accepted, so that it has no P4Info", self.program.display());
        };
        let ours = generate(&pipeline);
        let differences =
            compare(&ours, &expected).map_err(|error| anyhow::anyhow!("{}: {error}", self.expected.display()))?;
        let text = to_txtpb(&ours);
        if let Some(file) = &self.write {
            fs::write(file, &text).with_context(|| format!("writing {}", file.display()))?;
        }
        let (left_out, differences): (Vec<_>, Vec<_>) = differences.into_iter().partition(is_left_out);
        let agreement = weigh_differences(&ours, differences);
        print!("{}", render_report(&agreement, &left_out, &text, &expected));
        Ok(agreement == P4InfoAgreement::default())
    }
}

/// Returns whether the difference is a field that compilers write only since 2024, and that the
/// file lacks.
fn is_left_out(difference: &P4InfoDifference) -> bool {
    let newer = ["initial_default_action", "has_initial_entries"];
    difference.theirs.is_none() && difference.fields.last().is_some_and(|field| newer.contains(&field.as_str()))
}

fn render_report(agreement: &P4InfoAgreement, left_out: &[P4InfoDifference], ours: &str, theirs: &str) -> String {
    let mut text = String::new();
    for (differences, what) in [
        (agreement.conflicts.as_slice(), "that a controller or a device would notice"),
        (agreement.remarks.as_slice(), "in what is said about objects"),
        (left_out, "in fields that older compilers do not write"),
    ] {
        text.push_str(&format!("{} differences {what}\n", differences.len()));
        differences.iter().for_each(|difference| text.push_str(&format!("  {difference}\n")));
    }
    let (ours, theirs) = (significant_lines(ours), significant_lines(theirs));
    let same = common_lines(&ours, &theirs);
    let lines = format!("{same} lines are the same in both texts, of {} here and {} there\n", ours.len(), theirs.len());
    text + &lines
}

/// Returns the non-empty lines without comments and indentation.
fn significant_lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// Returns the number of lines that two texts have in common, in the same order.
fn common_lines(ours: &[&str], theirs: &[&str]) -> usize {
    let mut row = vec![0; theirs.len() + 1];
    for line in ours {
        let mut diagonal = 0;
        for (n, other) in theirs.iter().enumerate() {
            let above = row[n + 1];
            row[n + 1] = if line == other { diagonal + 1 } else { above.max(row[n]) };
            diagonal = above;
        }
    }
    row[theirs.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_common_keep_their_order() {
        let count = |a: &str, b: &str| common_lines(&significant_lines(a), &significant_lines(b));
        assert_eq!(count("a\nb\n c\n", "a\nb\nc"), 3);
        assert_eq!(count("b\na\nc", "a\nb\nc"), 2);
        assert_eq!(count("# a\n\nx", "a\nx"), 1);
        assert_eq!(count("", "a"), 0);
    }

    #[test]
    fn a_report_tells_apart_what_matters() {
        let difference = |path: &str, fields: &[&str]| P4InfoDifference {
            path: path.to_owned(),
            fields: fields.iter().map(|f| (*f).to_owned()).collect(),
            ours: Some("1".into()),
            theirs: None,
        };
        let found = vec![
            difference("tables[t].implementation_id", &["tables", "implementation_id"]),
            difference("tables[t].preamble.annotations", &["tables", "preamble", "annotations"]),
            difference("tables[t].initial_default_action", &["tables", "initial_default_action"]),
        ];
        let (left_out, found) = found.into_iter().partition::<Vec<_>, _>(is_left_out);
        let text = render_report(&weigh_differences(&Default::default(), found), &left_out, "a", "a\nb");
        let expected = "1 differences that a controller or a device would notice\n  \
                        tables[t].implementation_id: 1 here, nothing there\n\
                        1 differences in what is said about objects\n  \
                        tables[t].preamble.annotations: 1 here, nothing there\n\
                        1 differences in fields that older compilers do not write\n  \
                        tables[t].initial_default_action: 1 here, nothing there\n\
                        1 lines are the same in both texts, of 1 here and 2 there\n";
        assert_eq!(text, expected);
    }
}
