//! What all commands share in talking to people and programs: JSON, colours, progress.

use super::failure::Failure;
use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// How long something takes before progress is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// Colour and emphasis; they reach only terminals, or whoever asks with `--color always`.
pub mod style {
    use super::{AnsiColor, Style};
    /// Something wrong.
    pub const BAD: Style = AnsiColor::Red.on_default().bold();
    /// Something to look at.
    pub const WARN: Style = AnsiColor::Yellow.on_default().bold();
    /// Something as it should be.
    pub const GOOD: Style = AnsiColor::Green.on_default().bold();
    /// A name that matters.
    pub const NAME: Style = AnsiColor::Cyan.on_default();
    /// What may be skipped.
    pub const DIM: Style = Style::new().dimmed();
    /// A heading.
    pub const HEAD: Style = Style::new().bold();
}

/// How this run talks.
#[derive(Clone, Copy, Debug)]
pub struct Ui {
    /// Results are JSON on standard output, and nothing else is there.
    pub json: bool,
    /// No progress, no notes.
    pub quiet: bool,
}

impl Ui {
    /// Prints a result: one JSON document, or the text. A closed pipe is no error: nobody reads any more.
    pub fn result(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
        let shown = match self.json {
            true => serde_json::to_string_pretty(value).map_err(|error| Failure::Bug(error.to_string()))?,
            false => text(),
        };
        print(&shown)
    }

    /// Something that a person may want to know, on standard error; nothing in JSON or when quiet.
    pub fn note(&self, text: impl std::fmt::Display) {
        if !self.json && !self.quiet {
            let _ = writeln!(anstream::stderr(), "{text}");
        }
    }

    /// Shows that something is going on if it takes more than a second, and standard error is a terminal.
    pub fn progress(&self, what: impl Into<String>) -> Progress {
        let shown = !self.json && !self.quiet && std::io::stderr().is_terminal();
        Progress::new(what.into(), None, shown)
    }

    /// The same for something with a known number of steps.
    pub fn progress_of(&self, what: impl Into<String>, steps: u64) -> Progress {
        let shown = !self.json && !self.quiet && std::io::stderr().is_terminal();
        Progress::new(what.into(), Some(steps), shown)
    }
}

/// Prints a line on standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    let newline = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    write_on(&format!("{text}{newline}")).map(drop)
}

/// Writes text on standard output as it is. Whether anybody reads on.
pub fn write_on(text: &str) -> Result<bool, Failure> {
    let mut out = anstream::stdout();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::environment(format!(
            "cannot write to standard output: {error}; check where it is redirected to"
        ))),
    }
}

/// A spinner or bar that appears after a second and goes away when dropped.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// Dropped to tell the thread that waits for the second to pass that there is nothing to show any more.
    _done: Option<Sender<()>>,
}

impl Progress {
    fn new(what: String, steps: Option<u64>, shown: bool) -> Progress {
        let bar = match steps {
            Some(steps) => ProgressBar::new(steps),
            None => ProgressBar::new_spinner(),
        };
        let template = if steps.is_some() { "{msg} [{bar:30}] {pos}/{len} {eta}" } else { "{spinner} {msg} {elapsed}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_draw_target(ProgressDrawTarget::hidden());
        bar.set_message(what);
        let done = shown.then(|| {
            let (sender, receiver) = channel::<()>();
            let late = bar.clone();
            std::thread::spawn(move || {
                if receiver.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    late.set_draw_target(ProgressDrawTarget::stderr());
                    late.enable_steady_tick(Duration::from_millis(100));
                }
            });
            sender
        });
        Progress { bar, _done: done }
    }

    /// What is being done now.
    pub fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// So many steps are done.
    pub fn at(&self, steps: u64) {
        self.bar.set_position(steps);
    }

    /// One step is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
