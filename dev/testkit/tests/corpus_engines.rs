//! Runs the P4 corpus (tests/corpus) on every engine. Each test must pass, and random variants of
//! its packets, in batches, must have the interpreter's results.

use entries::{Counter, EntryId, MeterConfig, WriteBatch};
use fastrand::Rng;
use ir::{Arch, ExternId, ExternKind, Pipeline, TableId};
use num_bigint::BigUint;
use packet::Verdict;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use terrace::program::{self, Sources};
use terrace::stf::device::{Device, ObjectCell, Refusal, Sent};
use terrace::stf::{parse, run};
use testkit::differ::case::PacketIn;
use testkit::differ::subject::{BatchResult, EngineInputs, EngineUnderTest, Oracle};
use testkit::differ::{compare, plan, subjects};

/// Minimum number of tests. Fewer mean that they were not found.
const AT_LEAST: usize = 80;
/// PNA's CPU port.
const PNA_CPU_PORT: u32 = 0xffff_fffd;
/// Number of variants of each packet.
const RELATIVES: usize = 40;

/// Engine with a clock for tests. If it has an oracle, both get all operations and packets, and
/// variants of each packet too.
struct EngineDevice {
    pipeline: Arc<Pipeline>,
    subject: Box<dyn EngineUnderTest>,
    oracle: Option<Oracle>,
    rng: Rng,
    now: u64,
    idle: Vec<EntryId>,
    compared: usize,
}

impl EngineDevice {
    fn new(engine: &str, pipeline: Arc<Pipeline>, beside_oracle: bool, seed: u64) -> Result<EngineDevice, String> {
        let mut rng = Rng::with_seed(seed);
        let setup = match beside_oracle {
            true => plan::engine_settings(&mut rng, seed),
            false => interp::Config::default(),
        };
        if engine == "jit" {
            // The engine of the test shares its code, and that of the next test of the program.
            testkit::native::engine(&pipeline).map_err(|error| error.to_string())?;
        }
        let build = EngineInputs { text: None, pipeline: &pipeline, setup: &setup };
        let subject = subjects::factory(engine)?(&build)?;
        let oracle = if beside_oracle { Some(Oracle::new(&build)?) } else { None };
        let now = setup.start_ns;
        Ok(EngineDevice { pipeline, subject, oracle, rng, now, idle: Vec::new(), compared: 0 })
    }

    fn sent(&self, answer: &BatchResult) -> Vec<Sent> {
        let one = |one: &testkit::differ::subject::EmittedPacket| {
            let port = match one.verdict {
                Verdict::Forward { port } => port.0,
                Verdict::ToCpu { .. } if self.pipeline.arch == Arch::Pna => PNA_CPU_PORT,
                Verdict::ToCpu { .. } | Verdict::Drop(_) => return None,
            };
            Some(Sent { port, bytes: one.bytes.clone() })
        };
        answer.emitted.iter().filter_map(one).collect()
    }

    /// Returns a variant of a packet.
    fn relative(&mut self, port: u32, bytes: &[u8]) -> PacketIn {
        let mut bytes = bytes.to_vec();
        let rng = &mut self.rng;
        for _ in 0..rng.usize(..4) {
            if !bytes.is_empty() {
                let at = rng.usize(..bytes.len().min(160));
                bytes[at] = if rng.bool() { rng.u8(..4) } else { bytes[at] ^ 1 << rng.u8(..8) };
            }
        }
        match rng.u8(..16) {
            0 | 1 => bytes.truncate(rng.usize(..=bytes.len())),
            2 | 3 => bytes.extend((0..rng.usize(..100)).map(|i| i as u8)),
            _ => {}
        }
        let port = if rng.u8(..8) == 0 { rng.u32(..8) } else { port };
        PacketIn { port, at: self.now + rng.u64(..1000), bytes }
    }

    fn beside(&mut self, packets: &[PacketIn]) -> Result<(), Refusal> {
        let Some(oracle) = &mut self.oracle else { return Ok(()) };
        let expected = oracle.process(packets);
        let found = self.subject.process(packets);
        self.compared += packets.len();
        compare::compare_results(&expected, &found)
            .or_else(|| compare::compare_states(&self.pipeline, oracle, &mut *self.subject))
            .map_or(Ok(()), |difference| Err(format!("{difference}\n{packets:x?}")))
    }
}

impl Device for EngineDevice {
    fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    fn write(&mut self, batch: WriteBatch) -> Result<(), Refusal> {
        let outcome = self.subject.write(&batch);
        if let Some(oracle) = &mut self.oracle {
            let expected = oracle.write(&batch);
            if expected != outcome {
                return Err(format!("expected {expected:?}, found {outcome:?}"));
            }
            // With variants, an entry that the test writes may exist already.
            return Ok(());
        }
        outcome
    }

    fn entries(&self, table: TableId) -> Vec<EntryId> {
        let declared = &self.pipeline.tables[table].entries;
        let state = self.subject.state();
        let ids = state.entries(table).map(|entry| {
            let entry = entry.to_table_entry(&self.pipeline, table);
            EntryId { table, keys: entry.keys, priority: entry.priority }
        });
        ids.filter(|id| !declared.iter().any(|own| own.keys == id.keys && own.priority == id.priority)).collect()
    }

    fn has_group(&self, id: u32, clone: bool) -> bool {
        let state = self.subject.state();
        if clone { state.clone_sessions().contains_key(&id) } else { state.multicast_groups().contains_key(&id) }
    }

    fn counter(&self, counter: ExternId, cell: &ObjectCell) -> Result<Counter, Refusal> {
        let value = match cell {
            ObjectCell::Index(index) => self.subject.counter(counter, *index),
            ObjectCell::Entry(id) => self.subject.direct_counter(id),
        };
        value.ok_or_else(|| format!("{counter} has no {cell:?}"))
    }

    fn meter(&self, meter: ExternId, cell: &ObjectCell) -> Result<Option<MeterConfig>, Refusal> {
        let state = self.subject.state();
        match cell {
            ObjectCell::Index(index) => match self.pipeline.externs[meter].kind {
                ExternKind::Meter { size, .. } if *index < size => Ok(state.meter(meter, *index).copied()),
                _ => Err(format!("{meter} has no index {index}")),
            },
            ObjectCell::Entry(id) => {
                let entries = state.entries(id.table).map(|entry| entry.to_table_entry(&self.pipeline, id.table));
                let mut found = entries.filter(|entry| entry.keys == id.keys && entry.priority == id.priority);
                found.next().map(|entry| entry.meter).ok_or_else(|| "no such entry".to_owned())
            }
        }
    }

    fn register(&self, register: ExternId, index: u64) -> Result<Vec<BigUint>, Refusal> {
        self.subject.register(register, index).ok_or_else(|| format!("{register} has no index {index}"))
    }

    fn inject(&mut self, port: u32, bytes: &[u8]) -> Result<Vec<Sent>, Refusal> {
        let own = PacketIn { port, at: self.now, bytes: bytes.to_vec() };
        if self.oracle.is_some() {
            self.beside(&[own])?;
            let count = self.rng.usize(1..RELATIVES * 2);
            let mut packets: Vec<PacketIn> = (0..count).map(|_| self.relative(port, bytes)).collect();
            packets.sort_by_key(|packet| packet.at);
            self.now += 1000;
            self.beside(&packets)?;
            return Ok(Vec::new());
        }
        let answer = self.subject.process(&[own]);
        match answer.faults.first() {
            Some(fault) => Err(fault.clone()),
            None => Ok(self.sent(&answer)),
        }
    }

    fn take_digests(&mut self) -> Vec<(ExternId, Vec<BigUint>)> {
        self.subject.take_digests()
    }

    fn take_idle(&mut self) -> Vec<EntryId> {
        std::mem::take(&mut self.idle)
    }

    fn advance(&mut self, nanoseconds: u64) -> Result<Vec<Sent>, Refusal> {
        self.now = self.now.saturating_add(nanoseconds);
        let idle = self.subject.tick(self.now);
        if let Some(oracle) = &mut self.oracle
            && oracle.tick(self.now).len() != idle.len()
        {
            return Err(format!("idle entries differ at {}", self.now));
        }
        self.idle.extend(idle.into_iter().filter(|idle| !idle.deleted).map(|idle| idle.entry));
        Ok(Vec::new())
    }
}

fn tests(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            tests(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "stf") {
            found.push(path);
        }
    }
}

/// Loads a test's script and pipeline.
fn load(test: &Path) -> Result<(terrace::stf::script::Script, Arc<Pipeline>), String> {
    let text = std::fs::read_to_string(test).map_err(|error| error.to_string())?;
    let script = parse::parse(&test.display().to_string(), &text).map_err(|error| error.to_string())?;
    Ok((script, load_program(&test.with_extension("p4"))?))
}

/// Folder and text without comments of a program: many tests are of one program, and their files differ
/// in comments.
type ProgramText = (PathBuf, Vec<String>);

fn program_text(path: &Path) -> ProgramText {
    let text = std::fs::read_to_string(path).expect("a program");
    let code = text.lines().filter(|line| !line.starts_with("//")).map(str::to_owned).collect();
    (path.parent().expect("a folder").to_owned(), code)
}

/// Compiles a program, each once in a process.
fn load_program(path: &Path) -> Result<Arc<Pipeline>, String> {
    static COMPILED: Mutex<BTreeMap<ProgramText, Arc<Pipeline>>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let text = program_text(path);
    if let Some(pipeline) = compiled.get(&text) {
        return Ok(pipeline.clone());
    }
    let pipeline = Arc::new(program::compile(path, &Sources::default()).pipeline.ok_or("it does not compile")?);
    compiled.insert(text, pipeline.clone());
    Ok(pipeline)
}

/// Runs the corpus on an engine. Returns the number of packets compared with the oracle.
fn corpus(engine: &str, beside_oracle: bool) -> usize {
    let mut all = Vec::new();
    tests(&testkit::gateway::root().join("tests/corpus"), &mut all);
    all.sort();
    assert!(all.len() >= AT_LEAST, "only {} tests", all.len());
    let (mut failures, mut compared) = (Vec::new(), 0);
    for (seed, test) in all.iter().enumerate() {
        let outcome = load(test).and_then(|(script, pipeline)| {
            let mut device = EngineDevice::new(engine, pipeline, beside_oracle, seed as u64)?;
            let report = run::run(&script, &mut device, run::Options::default());
            compared += device.compared;
            let report = match report {
                Ok(report) => report,
                // A variant may have caused the removal of an entry that a command names. A
                // difference never has this message.
                Err(error) if beside_oracle && !error.message.contains("expected") => return Ok(()),
                Err(error) => return Err(error.to_string()),
            };
            if beside_oracle || (report.passed() && report.checks > 0) { Ok(()) } else { Err(report.render()) }
        });
        failures.extend(outcome.err().map(|error| format!("{}:\n{error}", test.display())));
    }
    assert!(failures.is_empty(), "{engine}: {} of {} failed\n\n{}", failures.len(), all.len(), failures.join("\n\n"));
    compared
}

/// Engines besides the interpreter itself, which `terrace`'s own test runs.
const ENGINES: [&str; 2] = ["interp", "jit"];

#[test]
fn the_corpus_passes_on_every_engine() {
    for engine in ENGINES {
        corpus(engine, false);
    }
}

#[test]
fn relatives_of_the_corpus_fare_alike() {
    for engine in ENGINES {
        let compared = corpus(engine, true);
        assert!(compared >= 10_000, "{engine}: only {compared} packets");
    }
}

/// The programs to whose tables packets add entries, and those with idle times, run in native code.
#[test]
fn entries_that_packets_add_run_natively() {
    let mut all = Vec::new();
    tests(&testkit::gateway::root().join("tests/corpus"), &mut all);
    let mut reasons = BTreeMap::new();
    let mut programs = HashSet::new();
    for test in all {
        if !programs.insert(program_text(&test.with_extension("p4"))) {
            continue;
        }
        let (_, pipeline) = load(&test).unwrap_or_else(|error| panic!("{}: {error}", test.display()));
        if pipeline.tables.values().any(|table| table.add_on_miss || table.idle_timeout) {
            let engine = jit::Jit::new(pipeline, interp::Config::default()).expect("it loads");
            reasons.insert(test, engine.fallback_reason());
        }
    }
    assert!(reasons.len() >= 6, "only {reasons:?}");
    assert!(reasons.values().all(Option::is_none), "{reasons:?}");
}

/// The harness detects a fault in the corpus.
#[test]
fn a_fault_shows_in_the_corpus() {
    let outcome = std::panic::catch_unwind(|| corpus("broken:Operator", true));
    assert!(outcome.is_err(), "subtraction instead of addition goes unnoticed");
}
