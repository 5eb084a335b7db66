//! Output shared by all commands: JSON, colours, progress.

use super::failure::CommandError;
use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Delay before progress is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// Colours and emphasis. They are shown on terminals, or everywhere with `--color always`.
pub mod style {
    use super::{AnsiColor, Style};
    /// An error.
    pub const BAD: Style = AnsiColor::Red.on_default().bold();
    /// A warning.
    pub const WARN: Style = AnsiColor::Yellow.on_default().bold();
    /// Success.
    pub const GOOD: Style = AnsiColor::Green.on_default().bold();
    /// An important name.
    pub const NAME: Style = AnsiColor::Cyan.on_default();
    /// Secondary text.
    pub const DIM: Style = Style::new().dimmed();
    /// A heading.
    pub const HEAD: Style = Style::new().bold();
}

/// Output settings of this run.
#[derive(Clone, Copy, Debug)]
pub struct OutputSettings {
    /// Whether results are printed as JSON, alone on standard output.
    pub json: bool,
    /// Whether progress and notes are suppressed.
    pub quiet: bool,
}

impl OutputSettings {
    /// Prints a result as a JSON document or as text. A closed pipe is not an error, because the
    /// reader has finished.
    pub fn result(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), CommandError> {
        let shown = match self.json {
            true => serde_json::to_string_pretty(value).map_err(|error| CommandError::Bug(error.to_string()))?,
            false => text(),
        };
        print_line(&shown)
    }

    /// Prints a note on standard error, unless output is JSON or quiet.
    pub fn note(&self, text: impl std::fmt::Display) {
        if !self.json && !self.quiet {
            let _ = writeln!(anstream::stderr(), "{text}");
        }
    }

    /// Shows a spinner if the operation takes more than a second and standard error is a terminal.
    pub fn progress(&self, what: impl Into<String>) -> Progress {
        let shown = !self.json && !self.quiet && std::io::stderr().is_terminal();
        Progress::new(what.into(), None, shown)
    }

    /// Shows a progress bar for an operation of `steps` steps, under the conditions of
    /// [`OutputSettings::progress`].
    pub fn progress_of(&self, what: impl Into<String>, steps: u64) -> Progress {
        let shown = !self.json && !self.quiet && std::io::stderr().is_terminal();
        Progress::new(what.into(), Some(steps), shown)
    }
}

/// Prints a line on standard output.
pub fn print_line(text: &str) -> Result<(), CommandError> {
    let newline = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    write_on(&format!("{text}{newline}")).map(drop)
}

/// Writes text on standard output unchanged. Returns whether the output is still being read.
pub fn write_on(text: &str) -> Result<bool, CommandError> {
    let mut out = anstream::stdout();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CommandError::environment(format!(
            "cannot write to standard output: {error}; check where it is redirected to"
        ))),
    }
}

/// A spinner or bar that appears after a second and disappears when dropped.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// Closing this channel ends the thread that waits to show the progress.
    _done: Option<Sender<()>>,
}

impl Progress {
    /// Makes a progress bar with `steps` steps, or a spinner. It appears only if the work takes
    /// longer than [`PATIENCE`]; dropping the value removes it.
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
            let shown_bar = bar.clone();
            std::thread::spawn(move || {
                if receiver.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                    shown_bar.set_draw_target(ProgressDrawTarget::stderr());
                    shown_bar.enable_steady_tick(Duration::from_millis(100));
                }
            });
            sender
        });
        Progress { bar, _done: done }
    }

    /// Sets the description of the current operation.
    pub fn set_description(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// Sets the number of finished steps.
    pub fn at(&self, steps: u64) {
        self.bar.set_position(steps);
    }

    /// Counts one finished step.
    pub fn step(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
