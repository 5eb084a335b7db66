//! The log of a node: one line for each event, on standard error.
//!
//! Events are those of the crate `tracing`. Client-supplied values are escaped, so that they can
//! neither end a line nor reach a terminal as control characters. [`limiter`] limits the rate of
//! similar lines and reports the number of suppressed ones. A separate thread writes the lines,
//! because a slow reader must not block the node.

mod event;
mod limiter;

pub use event::LogFormat;
pub(crate) use event::format_time;

use event::LogEvent;
use limiter::LineLimiter;
use parking_lot::Mutex;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use tracing::callsite::Identifier;
use tracing::{Level, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;

/// Maximum number of lines that wait for a slow reader.
const MAX_QUEUED_LINES: usize = 4_096;
/// Target of lines about blocks of ports of a NAT. Their own settings decide about them, not the level and the
/// limit of similar lines.
pub(crate) const BLOCK_LOG_TARGET: &str = "node::nat::blocks";
/// Crates whose events are written at the configured level. Other crates' events are written from
/// level `warn`.
const OWN_TARGETS: [&str; 4] = ["node", "p4runtime", "io", "terraced"];

/// Minimum severity of written events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// Failures that prevent the node from working.
    Error,
    /// Also conditions that need attention.
    Warn,
    /// Also changes of the node's behaviour: pipelines, controllers, configuration.
    #[default]
    Info,
    /// Also single requests.
    Debug,
}

/// The section `[log]` of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// Format of the lines. Default: `text`.
    pub format: LogFormat,
    /// Minimum severity. Default: `info`.
    pub level: LogLevel,
    /// Whether a line is written for each block of ports of a NAT that a machine gets, and one when it gives
    /// the block back, at any `level`. Default: no.
    pub nat_blocks: bool,
    /// Lines about blocks a second, on average. More changes wait; when 65,536 wait, further ones are counted
    /// only. Default: 100, maximum: 10000.
    #[schemars(range(min = 1, max = 10_000))]
    pub nat_blocks_per_second: u32,
}

impl Default for LogSettings {
    fn default() -> LogSettings {
        LogSettings {
            format: LogFormat::default(),
            level: LogLevel::default(),
            nat_blocks: false,
            nat_blocks_per_second: 100,
        }
    }
}

impl LogSettings {
    /// Returns the rate of lines about blocks of ports; `None`: there are none.
    pub fn block_lines_per_second(self) -> Option<u32> {
        self.nat_blocks.then_some(self.nat_blocks_per_second)
    }

    fn filter(self) -> Targets {
        let level = match self.level {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        };
        Targets::new()
            .with_targets(OWN_TARGETS.map(|target| (target, level)))
            .with_target(BLOCK_LOG_TARGET, LevelFilter::INFO)
            .with_default(level.min(LevelFilter::WARN))
    }
}

type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// Filters events and writes them as lines.
struct LogSink {
    format: Mutex<LogFormat>,
    limiter: Mutex<LineLimiter<Identifier, LogEvent>>,
    /// Whether standard error is systemd's journal.
    is_journal: bool,
    clock: Clock,
    out: Mutex<Box<dyn Write + Send>>,
}

impl LogSink {
    fn write_event(&self, line: &LogEvent) {
        let time = (!self.is_journal).then(OffsetDateTime::now_utc);
        let text = line.format_line(*self.format.lock(), time);
        // A failure of the log itself cannot be reported anywhere.
        let _ = self.out.lock().write_all(text.as_bytes());
    }

    fn write_if_admitted(&self, event: &tracing::Event<'_>) {
        let now = (self.clock)();
        let line = || LogEvent::from_event(event);
        // The log of blocks has a rate of its own.
        if event.metadata().target() == BLOCK_LOG_TARGET
            || self.limiter.lock().admit(event.metadata().callsite(), now, line)
        {
            self.write_event(&line());
        }
    }

    /// Reports suppressed lines.
    fn report_suppressed(&self, all: bool) {
        let left_out = match all {
            true => self.limiter.lock().take_all(),
            false => self.limiter.lock().take_ended((self.clock)()),
        };
        for left_out in left_out {
            let event = format!("suppressed {} lines like: {}", left_out.count, left_out.sample.event);
            self.write_event(&LogEvent::new(left_out.sample.level, event).with_number("left_out", left_out.count));
        }
    }
}

struct EventLayer(Arc<LogSink>);

impl<S: Subscriber> Layer<S> for EventLayer {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        self.0.write_if_admitted(event);
    }
}

/// The log of a process.
pub struct Log {
    writer: Arc<LogSink>,
    filter: reload::Handle<Targets, Registry>,
    lost_lines: Option<ErrorCounter>,
    reported_lost_lines: AtomicU64,
}

/// Writes all pending lines when dropped.
pub struct LogFlushGuard {
    writer: Arc<LogSink>,
    _thread: WorkerGuard,
}

impl Drop for LogFlushGuard {
    fn drop(&mut self) {
        self.writer.report_suppressed(true);
    }
}

impl Log {
    /// Sends events and panics of the whole process to standard error. Call it once.
    pub fn install(settings: LogSettings) -> (Arc<Log>, LogFlushGuard) {
        let (out, thread) = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(MAX_QUEUED_LINES)
            .thread_name("log")
            .finish(std::io::stderr());
        let lost = out.error_counter();
        let began = Instant::now();
        let (mut log, subscriber) =
            Log::with_output(settings, Box::new(out), Box::new(move || began.elapsed()), is_journal());
        log.lost_lines = Some(lost);
        // Fails only on a second call, which then has no effect.
        let _ = tracing::subscriber::set_global_default(subscriber);
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let why = panic.payload_as_str().unwrap_or("no reason");
            let thread = std::thread::current();
            tracing::error!(
                thread = thread.name().unwrap_or(""),
                place,
                why,
                "a thread failed: a bug, please report it"
            );
        }));
        let end = LogFlushGuard { writer: log.writer.clone(), _thread: thread };
        (Arc::new(log), end)
    }

    fn with_output(
        settings: LogSettings,
        out: Box<dyn Write + Send>,
        clock: Clock,
        journal: bool,
    ) -> (Log, impl Subscriber + Send + Sync) {
        let (format, limiter) = (Mutex::new(settings.format), Mutex::default());
        let writer = Arc::new(LogSink { format, limiter, is_journal: journal, clock, out: Mutex::new(out) });
        let (filter, handle) = reload::Layer::new(settings.filter());
        let subscriber = Registry::default().with(filter).with(EventLayer(writer.clone()));
        (Log { writer, filter: handle, lost_lines: None, reported_lost_lines: AtomicU64::new(0) }, subscriber)
    }

    /// Changes the settings.
    pub fn apply_settings(&self, settings: LogSettings) {
        *self.writer.format.lock() = settings.format;
        // The subscriber lives as long as the process.
        let _ = self.filter.reload(settings.filter());
    }

    /// Reports suppressed and lost lines. Call it about once a second.
    pub fn tick(&self) {
        self.writer.report_suppressed(false);
        let Some(lost) = &self.lost_lines else { return };
        let lost = lost.dropped_lines() as u64;
        let before = self.reported_lost_lines.swap(lost, Ordering::Relaxed);
        if lost > before {
            let line = LogEvent::new(Level::WARN, "lost lines: the reader of this log is too slow");
            self.writer.write_event(&line.with_number("left_out", lost - before));
        }
    }
}

/// Returns whether standard error is the stream of systemd's journal.
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(own) = std::fs::metadata("/proc/self/fd/2") else { return false };
    stream == format!("{}:{}", own.dev(), own.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Buffer {
        fn lines(&self) -> Vec<String> {
            let bytes = std::mem::take(&mut *self.0.lock());
            String::from_utf8(bytes).expect("text").lines().map(str::to_owned).collect()
        }
    }

    #[test]
    fn events_are_lines_at_the_level_and_in_the_format_of_the_moment() {
        let (buffer, now) = (Buffer::default(), Arc::new(AtomicU64::new(0)));
        let clock = now.clone();
        let clock: Clock = Box::new(move || Duration::from_millis(clock.load(Ordering::Relaxed)));
        let (log, subscriber) = Log::with_output(LogSettings::default(), Box::new(buffer.clone()), clock, true);
        tracing::subscriber::with_default(subscriber, || {
            let all = || {
                tracing::info!(who = "a b", ms = 7, error = %"x\ny", "done");
                tracing::debug!("detail");
                tracing::info!(target: "h2", "of others");
                tracing::warn!(target: "h2", "of others");
            };
            all();
            assert_eq!(buffer.lines(), ["<6>done who=\"a b\" ms=7 error=\"x\\ny\"", "<4>of others"]);
            log.apply_settings(LogSettings {
                format: LogFormat::Json,
                level: LogLevel::Debug,
                ..LogSettings::default()
            });
            all();
            let wanted = [
                "<6>{\"level\":\"info\",\"event\":\"done\",\"who\":\"a b\",\"ms\":7,\"error\":\"x\\ny\"}",
                "<7>{\"level\":\"debug\",\"event\":\"detail\"}",
                "<4>{\"level\":\"warn\",\"event\":\"of others\"}",
            ];
            assert_eq!(buffer.lines(), wanted);
            log.apply_settings(LogSettings {
                format: LogFormat::Text,
                level: LogLevel::Error,
                ..LogSettings::default()
            });
            all();
            assert_eq!(buffer.lines(), [""; 0]);
            log.apply_settings(LogSettings::default());
            for number in 0..1_000 {
                tracing::info!(number, "flood");
            }
            assert_eq!(buffer.lines().len(), 50);
            log.tick();
            assert_eq!(buffer.lines(), [""; 0]);
            now.store(1_500, Ordering::Relaxed);
            log.tick();
            assert_eq!(buffer.lines(), ["<6>suppressed 950 lines like: flood left_out=950"]);
            // Lines about blocks of ports have a rate of their own, and no level hides them.
            log.apply_settings(LogSettings { level: LogLevel::Error, ..LogSettings::default() });
            for number in 0..1_000 {
                tracing::info!(target: BLOCK_LOG_TARGET, number, "ports given");
                tracing::info!(number, "other");
            }
            assert_eq!(buffer.lines().len(), 1_000);
        });
        drop(log);
        assert_eq!(buffer.lines(), [""; 0]);
    }
}
