//! What a node says while it runs: one line for each event, to standard error.
//!
//! Events are those of the crate `tracing`. A value that came from a client stays in its place: no byte of it ends a line or reaches a terminal as a
//! control. Of one kind of event no more is written than anybody can read ([`limiter`]); what was left out is counted and told. Lines are written
//! by a thread of their own: a reader that stops reading stops nobody.

mod limiter;
mod line;

pub use line::LogFormat;

use limiter::Limiter;
use line::Line;
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

/// Lines that wait for a slow reader.
const WAITING: usize = 4_096;
/// Whose events are written at the configured level; those of others only if they warn.
const OURS: [&str; 4] = ["node", "p4runtime", "io", "terraced"];

/// How bad an event has to be to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// What keeps the node from doing its work.
    Error,
    /// Also what somebody should look at.
    Warn,
    /// Also what changes what the node does: pipelines, controllers, configuration.
    #[default]
    Info,
    /// Also single requests.
    Debug,
}

/// The section `[log]` of a configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogSettings {
    /// How lines are written. `text` unless given.
    pub format: LogFormat,
    /// How bad an event has to be. `info` unless given.
    pub level: LogLevel,
}

impl LogSettings {
    fn filter(self) -> Targets {
        let level = match self.level {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        };
        Targets::new().with_targets(OURS.map(|target| (target, level))).with_default(level.min(LevelFilter::WARN))
    }
}

type Clock = Box<dyn Fn() -> Duration + Send + Sync>;

/// Takes events, writes lines.
struct Writer {
    format: Mutex<LogFormat>,
    limiter: Mutex<Limiter<Identifier, Line>>,
    /// Whether the reader is systemd's journal.
    journal: bool,
    clock: Clock,
    out: Mutex<Box<dyn Write + Send>>,
}

impl Writer {
    fn write(&self, line: &Line) {
        let time = (!self.journal).then(OffsetDateTime::now_utc);
        let text = line.write(*self.format.lock(), time);
        // There is nobody else to tell.
        let _ = self.out.lock().write_all(text.as_bytes());
    }

    fn take(&self, event: &tracing::Event<'_>) {
        let now = (self.clock)();
        let line = || Line::of(event);
        if self.limiter.lock().admit(event.metadata().callsite(), now, line) {
            self.write(&line());
        }
    }

    /// Says what was left out.
    fn sweep(&self, all: bool) {
        let left_out = match all {
            true => self.limiter.lock().all(),
            false => self.limiter.lock().ended((self.clock)()),
        };
        for left_out in left_out {
            let event = format!("left out {} lines like: {}", left_out.count, left_out.like.event);
            self.write(&Line::new(left_out.like.level, event).with("left_out", left_out.count));
        }
    }
}

struct EventLayer(Arc<Writer>);

impl<S: Subscriber> Layer<S> for EventLayer {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        self.0.take(event);
    }
}

/// The log of a process.
pub struct Log {
    writer: Arc<Writer>,
    filter: reload::Handle<Targets, Registry>,
    lost: Option<ErrorCounter>,
    told: AtomicU64,
}

/// Dropped, it has all written that is left.
pub struct LogEnd {
    writer: Arc<Writer>,
    _thread: WorkerGuard,
}

impl Drop for LogEnd {
    fn drop(&mut self) {
        self.writer.sweep(true);
    }
}

impl Log {
    /// Events of the whole process go to standard error from now on, panics too. To be called once.
    pub fn install(settings: LogSettings) -> (Arc<Log>, LogEnd) {
        let (out, thread) = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(WAITING)
            .thread_name("log")
            .finish(std::io::stderr());
        let lost = out.error_counter();
        let began = Instant::now();
        let (mut log, subscriber) = Log::over(settings, Box::new(out), Box::new(move || began.elapsed()), is_journal());
        log.lost = Some(lost);
        // Only a second call fails, which changes nothing.
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
        let end = LogEnd { writer: log.writer.clone(), _thread: thread };
        (Arc::new(log), end)
    }

    fn over(
        settings: LogSettings,
        out: Box<dyn Write + Send>,
        clock: Clock,
        journal: bool,
    ) -> (Log, impl Subscriber + Send + Sync) {
        let (format, limiter) = (Mutex::new(settings.format), Mutex::default());
        let writer = Arc::new(Writer { format, limiter, journal, clock, out: Mutex::new(out) });
        let (filter, handle) = reload::Layer::new(settings.filter());
        let subscriber = Registry::default().with(filter).with(EventLayer(writer.clone()));
        (Log { writer, filter: handle, lost: None, told: AtomicU64::new(0) }, subscriber)
    }

    /// Other settings from now on.
    pub fn set(&self, settings: LogSettings) {
        *self.writer.format.lock() = settings.format;
        // The subscriber lives as long as the process.
        let _ = self.filter.reload(settings.filter());
    }

    /// Says what was left out. To be called about once a second.
    pub fn tick(&self) {
        self.writer.sweep(false);
        let Some(lost) = &self.lost else { return };
        let lost = lost.dropped_lines() as u64;
        let before = self.told.swap(lost, Ordering::Relaxed);
        if lost > before {
            let line = Line::new(Level::WARN, "left out lines: who reads this log is too slow");
            self.writer.write(&line.with("left_out", lost - before));
        }
    }
}

/// Whether standard error is what systemd says it is.
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
        let (log, subscriber) = Log::over(LogSettings::default(), Box::new(buffer.clone()), clock, true);
        tracing::subscriber::with_default(subscriber, || {
            let all = || {
                tracing::info!(who = "a b", ms = 7, error = %"x\ny", "done");
                tracing::debug!("detail");
                tracing::info!(target: "h2", "of others");
                tracing::warn!(target: "h2", "of others");
            };
            all();
            assert_eq!(buffer.lines(), ["<6>done who=\"a b\" ms=7 error=\"x\\ny\"", "<4>of others"]);
            log.set(LogSettings { format: LogFormat::Json, level: LogLevel::Debug });
            all();
            let wanted = [
                "<6>{\"level\":\"info\",\"event\":\"done\",\"who\":\"a b\",\"ms\":7,\"error\":\"x\\ny\"}",
                "<7>{\"level\":\"debug\",\"event\":\"detail\"}",
                "<4>{\"level\":\"warn\",\"event\":\"of others\"}",
            ];
            assert_eq!(buffer.lines(), wanted);
            log.set(LogSettings { format: LogFormat::Text, level: LogLevel::Error });
            all();
            assert_eq!(buffer.lines(), [""; 0]);
            log.set(LogSettings::default());
            for number in 0..1_000 {
                tracing::info!(number, "flood");
            }
            assert_eq!(buffer.lines().len(), 50);
            log.tick();
            assert_eq!(buffer.lines(), [""; 0]);
            now.store(1_500, Ordering::Relaxed);
            log.tick();
            assert_eq!(buffer.lines(), ["<6>left out 950 lines like: flood left_out=950"]);
        });
        drop(log);
        assert_eq!(buffer.lines(), [""; 0]);
    }
}
