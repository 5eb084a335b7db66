//! `terrace run`.

use super::engine_args::EngineArgs;
use super::failure::Failure;
use super::inputs::InputArgs;
use super::ui::Ui;
use crate::run_stats::Stats;
use clap::Args;
use interp::Config;
use io::capture::{CaptureReader, CaptureWriter, Record};
use packet::{Batch, Engine, EngineCounters, Output, Packet, PortCounters, PortId, PortReason, Verdict};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::PathBuf;
use std::str::FromStr;

/// Run a program over capture files.
///
/// Packets come in from pcap files, each of which is a port; packets that leave are written to PORT.pcap in the output directory. Packets
/// of several files are taken in the order of their times. At the end, a summary: what was forwarded, dropped and why.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    inputs: InputArgs,
    /// A port and the capture of what arrives there; may be repeated. A FILE without PORT is port 0.
    #[arg(long = "in", value_name = "[PORT=]FILE.pcap", required_unless_present = "in_dir")]
    input: Vec<InputFile>,
    /// A directory with captures named PORT.pcap.
    #[arg(long, value_name = "DIR")]
    in_dir: Option<PathBuf>,
    /// Where to write what leaves, a file PORT.pcap for each port; cpu.pcap is what goes to the CPU. Made if missing.
    #[arg(long, value_name = "DIR")]
    out_dir: Option<PathBuf>,
    #[command(flatten)]
    engine: EngineArgs,
}

/// `1=in.pcap` or `in.pcap`.
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

/// A capture that is being read, one packet ahead.
struct Source {
    port: PortId,
    name: String,
    reader: CaptureReader<std::io::BufReader<File>>,
    next: Option<Packet>,
    counters: PortCounters,
}

impl Source {
    fn open(file: &InputFile) -> Result<Source, Failure> {
        let reader = CaptureReader::open(&file.path).map_err(refused)?;
        let (port, name) = (PortId(file.port), file.path.display().to_string());
        let mut source = Source { port, name, reader, next: None, counters: PortCounters::default() };
        source.advance()?;
        Ok(source)
    }

    fn advance(&mut self) -> Result<(), Failure> {
        let mut packet = Packet::new();
        self.next = loop {
            match self.reader.next(&mut packet).map_err(refused)? {
                Record::Packet => {
                    self.counters.received.add(packet.len());
                    break Some(packet);
                }
                Record::Oversize(len) => self.counters.drops.add(PortReason::RxOversize, len),
                Record::End => break None,
            }
        };
        Ok(())
    }
}

/// What to say of a capture with frames that are longer than a packet.
fn note_of_long_frames(source: &Source) -> Option<String> {
    let (name, most) = (&source.name, packet::MAX_LEN >> 10);
    let (frames, them, those) = match source.counters.drops.get(PortReason::RxOversize).packets {
        0 => return None,
        1 => ("1 frame".to_owned(), "is", "was not processed; it counts"),
        more => (format!("{more} frames"), "are", "were not processed; they count"),
    };
    Some(format!("{frames} of {name} {them} too long for a packet ({most} KiB at most) and {those} as rx_oversize"))
}

/// A capture that cannot be used is an input that is refused.
fn refused(error: io::capture::CaptureError) -> Failure {
    Failure::Refused(format!("{:#}", anyhow::Error::from(error)))
}

/// Where packets go.
struct Sinks {
    dir: Option<PathBuf>,
    files: BTreeMap<String, CaptureWriter<BufWriter<File>>>,
    /// What left, by port.
    sent: BTreeMap<PortId, PortCounters>,
}

impl Sinks {
    fn send(&mut self, port: PortId, packet: &Packet) -> Result<(), Failure> {
        self.write(&port.0.to_string(), packet)?;
        self.sent.entry(port).or_default().sent.add(packet.len());
        Ok(())
    }

    fn write(&mut self, name: &str, packet: &Packet) -> Result<(), Failure> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let writer = match self.files.entry(name.to_owned()) {
            std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(CaptureWriter::create(dir.join(format!("{name}.pcap"))).map_err(Failure::system)?)
            }
        };
        writer.write(packet).map_err(Failure::system)
    }

    /// Writes out what is buffered; what left, by port.
    fn finish(self) -> Result<BTreeMap<PortId, PortCounters>, Failure> {
        self.files.into_values().try_for_each(|mut file| file.flush().map_err(Failure::system))?;
        Ok(self.sent)
    }
}

impl RunArgs {
    pub(super) fn run(self, ui: Ui) -> Result<(), Failure> {
        let mut sources = Vec::new();
        for file in self.files()? {
            sources.push(Source::open(&file)?);
        }
        let inputs = self.inputs.load(ui)?;
        let mut engine = self.engine.load(&inputs.pipeline, &Config::default(), &inputs.batch)?;
        engine.write(&inputs.batch).map_err(|refused| Failure::refused(refused.error))?;
        let mut worker = engine.worker();
        if let Some(dir) = &self.out_dir {
            let failed = |error| {
                Failure::Environment(format!("cannot make {}: {error}; choose another directory", dir.display()))
            };
            fs::create_dir_all(dir).map_err(failed)?;
        }
        let mut sinks = Sinks { dir: self.out_dir.clone(), files: BTreeMap::new(), sent: BTreeMap::new() };
        let progress = ui.progress("running");
        let counters = run_all(&mut *worker, &mut sources, &mut sinks)?;
        drop(progress);
        let notes = sources.iter().filter_map(note_of_long_frames).collect();
        let ports = ports(sources, sinks.finish()?);
        let report = io::RunReport { engine: counters, ports, ..io::RunReport::default() };
        let mut stats = Stats { notes, ..Stats::of(&report, worker.reasons()) };
        stats.program.clone_from(&inputs.pipeline.name);
        stats.region = self.inputs.region.as_ref().map(|path| path.display().to_string());
        stats.tell_of(&*engine, worker.reasons());
        ui.result(&stats, || stats.render())
    }

    /// All captures, given singly and by directory.
    fn files(&self) -> Result<Vec<InputFile>, Failure> {
        let mut files = self.input.clone();
        let Some(dir) = &self.in_dir else { return Ok(files) };
        let failed =
            |error: std::io::Error| Failure::Refused(format!("cannot read {}: {error}; check the path", dir.display()));
        for entry in fs::read_dir(dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_none_or(|extension| extension != "pcap") {
                continue;
            }
            let Some(port) = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok()) else {
                let what = format!("{} does not name a port; name captures PORT.pcap, as in 1.pcap", path.display());
                return Err(Failure::Refused(what));
            };
            files.push(InputFile { port, path });
        }
        files.sort_by_key(|file| file.port);
        match files.is_empty() {
            true => Err(Failure::Refused(format!("{} has no file PORT.pcap; put captures there", dir.display()))),
            false => Ok(files),
        }
    }
}

/// What went in and out by each port, with the name of its capture.
fn ports(sources: Vec<Source>, sent: BTreeMap<PortId, PortCounters>) -> BTreeMap<PortId, (String, PortCounters)> {
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

/// Runs all packets, the earliest first.
fn run_all(engine: &mut dyn Engine, sources: &mut [Source], sinks: &mut Sinks) -> Result<EngineCounters, Failure> {
    let (mut batch, mut out, mut counters) = (Batch::new(), Output::new(), EngineCounters::default());
    loop {
        batch.clear();
        let mut now = 0;
        while batch.room() > 0 {
            let waiting = sources.iter_mut().filter_map(|s| Some((s.next.as_ref()?.received_at, s)));
            let Some((time, source)) = waiting.min_by_key(|(time, _)| *time) else { break };
            if let Some(packet) = &source.next {
                batch.push_bytes(packet.bytes(), source.port, time).map_err(|error| Failure::Bug(error.to_string()))?;
            }
            now = time;
            source.advance()?;
        }
        if batch.is_empty() {
            return Ok(counters);
        }
        out.clear();
        counters.receive(&batch);
        engine.process(&mut batch, &mut out);
        engine.tick(now, &mut out);
        counters.record(&batch, &out);
        for (emission, packet) in out.iter(&batch) {
            match emission.verdict {
                Verdict::Forward { port } => sinks.send(port, packet)?,
                Verdict::ToCpu { .. } => sinks.write("cpu", packet)?,
                Verdict::Drop(_) => {}
            }
        }
    }
}
