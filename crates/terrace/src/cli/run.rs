//! `terrace run`.

use super::engine_args::EngineArgs;
use super::failure::CommandError;
use super::inputs::InputArgs;
use super::ui::OutputSettings;
use crate::run_stats::RunSummary;
use clap::Args;
use interp::Config;
use io::capture::{CaptureReader, CaptureWriter, Record};
use node::engine::EngineControl;
use packet::{Batch, BatchOutput, Engine, EngineCounters, Packet, PortCounters, PortId, PortReason, Verdict};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::PathBuf;
use std::str::FromStr;

/// Run a program over capture files.
///
/// Packets come from pcap files, each of which is a port. Sent packets are written to PORT.pcap in
/// the output directory. Packets of several files are processed in the order of their timestamps.
/// At the end, a summary shows forwarded packets, and dropped packets by reason.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    inputs: InputArgs,
    /// A port and the capture of the packets that it receives; may be repeated. A FILE without PORT
    /// is port 0.
    #[arg(long = "in", value_name = "[PORT=]FILE.pcap", required_unless_present = "in_dir")]
    input: Vec<InputFile>,
    /// Directory of captures named PORT.pcap.
    #[arg(long, value_name = "DIR")]
    in_dir: Option<PathBuf>,
    /// Directory to write sent packets to, one file PORT.pcap for each port, and cpu.pcap for
    /// packets to the CPU. Created if missing.
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
}

/// A port with its capture: `1=in.pcap`, or `in.pcap` for port 0.
#[derive(Clone, Debug)]
struct InputFile {
    port: u32,
    path: PathBuf,
}

impl FromStr for InputFile {
    type Err = String;

    fn from_str(text: &str) -> Result<InputFile, String> {
        match text.split_once('=') {
            None => Ok(InputFile { port: 0, path: text.into() }),
            Some((port, path)) => match port.parse() {
                Ok(port) => Ok(InputFile { port, path: path.into() }),
                Err(_) => Err(format!("`{port}` is no port number; write PORT=FILE, as in 1=in.pcap")),
            },
        }
    }
}

/// An input capture. Its next packet is read ahead.
struct InputCapture {
    port: PortId,
    name: String,
    reader: CaptureReader<std::io::BufReader<File>>,
    next: Option<Packet>,
    counters: PortCounters,
}

impl InputCapture {
    fn open(file: &InputFile) -> Result<InputCapture, CommandError> {
        let reader = CaptureReader::open(&file.path).map_err(refused_capture)?;
        let (port, name) = (PortId(file.port), file.path.display().to_string());
        let mut source = InputCapture { port, name, reader, next: None, counters: PortCounters::default() };
        source.advance()?;
        Ok(source)
    }

    fn advance(&mut self) -> Result<(), CommandError> {
        let mut packet = Packet::new();
        self.next = loop {
            match self.reader.next(&mut packet).map_err(refused_capture)? {
                Record::Packet => {
                    self.counters.received.count_packet(packet.len());
                    break Some(packet);
                }
                Record::Oversize(len) => self.counters.drops.count_drop(PortReason::RxOversize, len),
                Record::End => break None,
            }
        };
        Ok(())
    }
}

/// Returns a note about a capture with frames that are longer than the maximum packet.
fn note_of_long_frames(source: &InputCapture) -> Option<String> {
    let (name, most) = (&source.name, packet::MAX_WIRE_LEN >> 10);
    let (frames, them, those) = match source.counters.drops.get(PortReason::RxOversize).packets {
        0 => return None,
        1 => ("1 frame".to_owned(), "is", "was not processed; it counts"),
        more => (format!("{more} frames"), "are", "were not processed; they count"),
    };
    Some(format!("{frames} of {name} {them} too long for a packet ({most} KiB at most) and {those} as rx_oversize"))
}

/// Returns the error for a capture that cannot be read, as a refused input.
fn refused_capture(error: io::capture::CaptureError) -> CommandError {
    CommandError::Refused(format!("{:#}", anyhow::Error::from(error)))
}

/// Output captures by port.
struct OutputCaptures {
    dir: Option<PathBuf>,
    files: BTreeMap<String, CaptureWriter<BufWriter<File>>>,
    /// Counters of sent packets, by port.
    sent: BTreeMap<PortId, PortCounters>,
}

impl OutputCaptures {
    fn send(&mut self, port: PortId, packet: &Packet) -> Result<(), CommandError> {
        self.write(&port.0.to_string(), packet)?;
        self.sent.entry(port).or_default().sent.count_packet(packet.len());
        Ok(())
    }

    fn write(&mut self, name: &str, packet: &Packet) -> Result<(), CommandError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let writer = match self.files.entry(name.to_owned()) {
            std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(CaptureWriter::create(dir.join(format!("{name}.pcap"))).map_err(CommandError::system)?)
            }
        };
        writer.write(packet).map_err(CommandError::system)
    }

    /// Flushes all files. Returns the counters of sent packets, by port.
    fn finish(self) -> Result<BTreeMap<PortId, PortCounters>, CommandError> {
        self.files.into_values().try_for_each(|mut file| file.flush().map_err(CommandError::system))?;
        Ok(self.sent)
    }
}

/// Interval of an engine's periodic work, as in a node.
const PERIODIC_WORK_NS: u64 = 10_000_000;

impl RunArgs {
    /// Runs the packets of capture files through the program on one worker, writes the packets that
    /// leave to capture files, and prints the statistics.
    pub(super) fn run(self, ui: OutputSettings) -> Result<(), CommandError> {
        let mut sources = Vec::new();
        for file in self.input_captures()? {
            sources.push(InputCapture::open(&file)?);
        }
        let inputs = self.inputs.load(ui)?;
        let mut engine = self.engine.load(&inputs.pipeline, &Config::default(), &inputs.batch)?;
        engine.write(&inputs.batch).map_err(|refused| CommandError::refused(refused.error))?;
        let mut worker = engine.new_worker();
        if let Some(dir) = &self.out_dir {
            let failure = |error| {
                CommandError::Environment(format!("cannot make {}: {error}; choose another directory", dir.display()))
            };
            fs::create_dir_all(dir).map_err(failure)?;
        }
        let mut sinks = OutputCaptures { dir: self.out_dir.clone(), files: BTreeMap::new(), sent: BTreeMap::new() };
        let progress = ui.progress("running");
        let counters = run_packets(&mut *engine, &mut *worker, &mut sources, &mut sinks)?;
        drop(progress);
        let notes = sources.iter().filter_map(note_of_long_frames).collect();
        let ports = port_counters(sources, sinks.finish()?);
        let report = io::RunStats { engine: counters, ports, ..io::RunStats::default() };
        let mut stats = RunSummary { notes, ..RunSummary::of(&report, worker.reasons()) };
        stats.program.clone_from(&inputs.pipeline.name);
        stats.region = self.inputs.region.as_ref().map(|path| path.display().to_string());
        stats.add_engine_stats(&*engine, worker.reasons());
        ui.result(&stats, || stats.render())
    }

    /// Returns the captures that were given one by one, and the captures `PORT.pcap` of the input
    /// directory, by port. Other files of the directory are ignored.
    fn input_captures(&self) -> Result<Vec<InputFile>, CommandError> {
        let mut files = self.input.clone();
        let Some(dir) = &self.in_dir else { return Ok(files) };
        let failure = |error: std::io::Error| {
            CommandError::Refused(format!("cannot read {}: {error}; check the path", dir.display()))
        };
        for entry in fs::read_dir(dir).map_err(failure)? {
            let path = entry.map_err(failure)?.path();
            if path.extension().is_none_or(|extension| extension != "pcap") {
                continue;
            }
            let Some(port) = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok()) else {
                let message = format!("{} does not name a port; name captures PORT.pcap, as in 1.pcap", path.display());
                return Err(CommandError::Refused(message));
            };
            files.push(InputFile { port, path });
        }
        files.sort_by_key(|file| file.port);
        match files.is_empty() {
            true => Err(CommandError::Refused(format!("{} has no file PORT.pcap; put captures there", dir.display()))),
            false => Ok(files),
        }
    }
}

/// Returns received and sent counters by port, with the name of the port's capture.
fn port_counters(
    sources: Vec<InputCapture>,
    sent: BTreeMap<PortId, PortCounters>,
) -> BTreeMap<PortId, (String, PortCounters)> {
    let mut ports: BTreeMap<PortId, (String, PortCounters)> = BTreeMap::new();
    for source in sources {
        let (name, counters) = ports.entry(source.port).or_default();
        name.push_str(if name.is_empty() { "" } else { ", " });
        name.push_str(&source.name);
        *counters += &source.counters;
    }
    for (port, counters) in sent {
        let named = || (format!("{}.pcap", port.0), PortCounters::default());
        ports.entry(port).or_insert_with(named).1 += &counters;
    }
    ports
}

/// Runs all packets, earliest first.
/// Batches take the earliest packets of all captures, so that ports mix as they would on the wire.
/// The clock of idle timeouts, and of the engine's periodic work, is that of the packets.
fn run_packets(
    control: &mut dyn EngineControl,
    engine: &mut dyn Engine,
    sources: &mut [InputCapture],
    sinks: &mut OutputCaptures,
) -> Result<EngineCounters, CommandError> {
    let (mut batch, mut out, mut counters) = (Batch::new(), BatchOutput::new(), EngineCounters::default());
    let mut next_work_ns = 0;
    loop {
        batch.clear();
        let mut now = 0;
        while batch.remaining_capacity() > 0 {
            let waiting = sources.iter_mut().filter_map(|s| Some((s.next.as_ref()?.rx_time_ns, s)));
            let Some((time, source)) = waiting.min_by_key(|(time, _)| *time) else { break };
            if let Some(packet) = &source.next {
                batch
                    .push_bytes(packet.bytes(), source.port, time)
                    .map_err(|error| CommandError::Bug(error.to_string()))?;
            }
            now = time;
            source.advance()?;
        }
        if batch.is_empty() {
            return Ok(counters);
        }
        out.clear();
        counters.count_received(&batch);
        engine.process(&mut batch, &mut out);
        engine.tick(now, &mut out);
        if now >= next_work_ns {
            engine.on_idle();
            control.maintain_tables();
            control.advance_time(now);
            next_work_ns = now + PERIODIC_WORK_NS;
        }
        counters.count_batch(&batch, &out);
        for (emission, packet) in out.iter(&batch) {
            match emission.verdict {
                Verdict::Forward { port } => sinks.send(port, packet)?,
                Verdict::ToCpu { .. } => sinks.write("cpu", packet)?,
                Verdict::Drop(_) => {}
            }
        }
    }
}
