//! What native code notes of packets' ways is what the interpreter notes: random programs, entries, updates and packets; and the gateway.

use interp::walk::{ApplySite, CallArg, Code, Detour, Op, Outcome, Pc, State, Walker, Watch};
use interp::{Interp, Outputs};
use ir::{ControlKind, ExternFn, TableId};
use jit::Jit;
use packet::{Batch, Output, PortId};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use tables::{KeyLayout, WriteBatch};
use testkit::differ::agree::agrees;
use testkit::differ::case::PacketIn;
use testkit::differ::config::Config;
use testkit::differ::subject::{Answer, Emitted, Idle, Subject, idle_entries};
use testkit::differ::subjects::OwnedFactory;
use testkit::differ::tally::Tally;
use testkit::differ::{number, plan};

/// The decision that a parser took which rejected the packet.
const REJECTED: u32 = 3 << 20;

/// A table application: table, words of the key, number of the entry.
type Asked = (u32, Vec<u64>, Option<u32>);

/// What the interpreter does with a packet.
#[derive(Clone, Debug, Default)]
struct Noted {
    decisions: Vec<u32>,
    asked: Vec<Asked>,
    indices: Vec<u64>,
}

struct Noting {
    layouts: Arc<Vec<KeyLayout>>,
    noted: Noted,
}

impl Watch for Noting {
    fn asked(&mut self, site: &ApplySite, _: Pc, packet: State<'_>, found: Option<u32>) {
        let words = self.layouts[site.table].fields.iter().flat_map(|field| {
            let slot = site.keys[field.position].slot as usize;
            packet.slots[slot..slot + field.words].iter().copied()
        });
        self.noted.asked.push((site.table as u32, words.collect(), found));
    }

    fn decided(&mut self, to: Pc) {
        let found = self.noted.asked.last().is_some_and(|(.., found)| found.is_some());
        self.noted.decisions.push(to << 1 | u32::from(found));
    }

    fn about(&mut self, op: Op, code: &Code, packet: State<'_>) {
        let word = match op {
            Op::Select1 { c, .. } | Op::SelectN { c, .. } | Op::Verify { c, .. } => packet.slots[c as usize],
            Op::Call { index } => {
                let call = &code.calls[index as usize];
                let Some(CallArg::Value(reg)) = call.args.first() else { return };
                match call.func {
                    ExternFn::CounterCount => {
                        let words = &packet.slots[reg.slot as usize..(reg.slot + reg.words) as usize];
                        let high = words[1..].iter().any(|word| *word != 0);
                        return self.noted.indices.push(if high { u64::MAX } else { words[0] });
                    }
                    ExternFn::UpdateChecksum | ExternFn::VerifyChecksum => packet.slots[reg.slot as usize],
                    _ => return,
                }
            }
            _ => return,
        };
        self.noted.decisions.push(u32::from(word != 0));
    }
}

impl Detour for Noting {
    fn takes(&self, _: ControlKind) -> bool {
        true
    }

    fn run(&mut self, walker: &mut Walker<'_>) -> Outcome {
        let outcome = walker.walk(0, self);
        self.noted.decisions.push(match outcome {
            Outcome::Return => 1 << 20,
            Outcome::Exit => 2 << 20,
            Outcome::Reject => REJECTED,
            Outcome::Abort(_) => 4 << 20,
        });
        outcome
    }
}

/// What was compared.
#[derive(Clone, Debug, Default)]
struct Compared {
    programs: u64,
    native: u64,
    packets: u64,
    incomplete: u64,
    finer: u64,
    applications: u64,
    found: u64,
    words: u64,
    counts: u64,
    ways: u64,
}

static COMPARED: Mutex<Option<Compared>> = Mutex::new(None);

struct Recorded {
    jit: Jit,
    interp: Interp,
    noting: Noting,
    batch: Batch,
    /// Native ways, and the interpreter's that they stand for; and the other way round, with what became of the packet.
    ways: HashMap<Vec<u32>, Vec<u32>>,
    native: HashMap<(Vec<u32>, String), Vec<u32>>,
    compared: Compared,
}

fn factory() -> OwnedFactory {
    Box::new(move |build| {
        let jit = Jit::recording(build.pipeline.clone(), build.setup.clone()).map_err(|error| error.to_string())?;
        let interp = Interp::new(build.pipeline.clone(), build.setup.clone()).map_err(|error| error.to_string())?;
        let layouts = build.pipeline.tables.values().map(|table| KeyLayout::new(&table.keys)).collect();
        let noting = Noting { layouts: Arc::new(layouts), noted: Noted::default() };
        let native = u64::from(jit.unsupported().is_none());
        Ok(Box::new(Recorded {
            jit,
            interp,
            noting,
            batch: Batch::new(),
            ways: HashMap::new(),
            native: HashMap::new(),
            compared: Compared { programs: 1, native, ..Compared::default() },
        }))
    })
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let mut all = COMPARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (all, own) = (all.get_or_insert_default(), &self.compared);
        for (to, more) in [
            (&mut all.programs, own.programs),
            (&mut all.native, own.native),
            (&mut all.packets, own.packets),
            (&mut all.incomplete, own.incomplete),
            (&mut all.finer, own.finer),
            (&mut all.applications, own.applications),
            (&mut all.found, own.found),
            (&mut all.words, own.words),
            (&mut all.counts, own.counts),
            (&mut all.ways, self.ways.len() as u64),
        ] {
            *to += more;
        }
    }
}

/// What native code noted of a packet.
type Native = (Vec<u32>, Vec<Asked>, Vec<u64>);

impl Recorded {
    fn same(&mut self, native: &Native, interp: &Noted, became: &str) -> Result<(), String> {
        let (decisions, asked, indices) = native;
        let compared = &mut self.compared;
        compared.packets += 1;
        let way = self.ways.entry(decisions.clone()).or_insert_with(|| interp.decisions.clone());
        if *way != interp.decisions {
            return Err(format!("native way {decisions:?} is {way:?} and {:?}", interp.decisions));
        }
        let key = (interp.decisions.clone(), became.to_owned());
        let way = self.native.entry(key).or_insert_with(|| decisions.clone());
        // Native ways may be finer: where a parser rejects packets is noted, and choices that lead to the same may be different ones.
        compared.finer += u64::from(way != decisions && !interp.decisions.contains(&REJECTED));
        if *indices != interp.indices || asked.len() != interp.asked.len() {
            return Err(format!("noted {native:?}, and by the interpreter {interp:?}"));
        }
        compared.counts += indices.len() as u64;
        for ((table, key, found), (its_table, its_key, its_found)) in asked.iter().zip(&interp.asked) {
            let id = TableId(*table);
            let entry = found.map(|number| self.jit.entry_of(id, number));
            let its_entry = its_found.map(|number| self.interp.entry_of(id, number).cloned());
            if table != its_table || key != its_key || entry != its_entry || entry == Some(None) {
                return Err(format!("asked {asked:?}, and by the interpreter {:?}: {entry:?}", interp.asked));
            }
            compared.applications += 1;
            compared.words += key.len() as u64;
            compared.found += u64::from(found.is_some());
        }
        Ok(())
    }
}

impl Subject for Recorded {
    fn name(&self) -> String {
        "native code that records".to_owned()
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        let (mut noted, mut its) = (Vec::new(), Vec::new());
        let native = self.jit.write_noting(batch, |change, number| noted.push((change.clone(), number.is_some())));
        if self.jit.unsupported().is_some() {
            // The interpreter beside it sees no packets.
            return native.map_err(|error| error.to_string());
        }
        let interp = self.interp.write_noting(batch, |change, _| its.push(change.clone()));
        let changes = noted.iter().map(|(change, _)| change);
        if native.is_ok() != interp.is_ok() || !changes.eq(&its) {
            return Err(format!("a write changed {noted:?}, and in the interpreter {its:?}"));
        }
        native.map_err(|error| error.to_string())
    }

    fn process(&mut self, packets: &[PacketIn]) -> Answer {
        let mut answer = Answer::default();
        self.batch.clear();
        for packet in packets {
            self.batch.push_bytes(&packet.bytes, PortId(packet.port), packet.at).expect("there is room");
        }
        let (mut out, mut native): (Output, BTreeMap<usize, Option<Native>>) = (Output::new(), BTreeMap::new());
        self.jit.process_recorded(&mut self.batch, &mut out, &mut |at, record| {
            let asked = record.applications.iter().map(|it| (it.table, record.key(it).to_vec(), it.entry()));
            let noted = (record.decisions.to_vec(), asked.collect(), record.indices.to_vec());
            native.insert(at, record.complete.then_some(noted));
        });
        for (emission, packet) in out.iter(&self.batch) {
            let input = match emission.packet {
                packet::PacketRef::Input(index) => Some(usize::from(index)),
                packet::PacketRef::Extra(_) => None,
            };
            let dropped = matches!(emission.verdict, packet::Verdict::Drop(_));
            let bytes = if dropped { Vec::new() } else { packet.bytes().to_vec() };
            answer.emitted.push(Emitted { input, origin: emission.origin, verdict: emission.verdict, bytes });
        }
        if self.jit.unsupported().is_some() {
            assert!(native.is_empty());
            return answer;
        }
        for (at, packet) in packets.iter().enumerate() {
            self.noting.noted = Noted::default();
            let mut outputs = Outputs::new();
            self.interp.process_by(&mut self.noting, &packet.bytes, packet.port, packet.at, &mut outputs);
            let became = format!("{:?}", outputs.packets().iter().map(|packet| packet.verdict).collect::<Vec<_>>());
            let noted = std::mem::take(&mut self.noting.noted);
            match native.remove(&at) {
                None => answer.faults.push(format!("nothing is noted of packet {at}")),
                Some(None) => self.compared.incomplete += 1,
                Some(Some(native)) => {
                    let same = self.same(&native, &noted, &became);
                    answer.faults.extend(same.err().map(|why| format!("packet {at}: {why}")));
                }
            }
        }
        answer
    }

    fn tick(&mut self, now: u64) -> Vec<Idle> {
        self.interp.advance_time(now);
        let idle = self.jit.advance_time(now);
        idle_entries(self.jit.pipeline(), &idle)
    }

    testkit::jit_accessors!([jit], [jit]);
}

/// Random programs, and the gateway with random regions. `DIFFER_SECONDS` makes it as long as wanted. One test, as what is counted is counted for all.
#[test]
fn native_code_notes_what_the_interpreter_does() {
    let (first, cases, seconds) =
        (number("DIFFER_SEED", 61_000), number("DIFFER_CASES", 240), number("DIFFER_SECONDS", 0));
    let (start, mut tally) = (std::time::Instant::now(), Tally::default());
    let run = |case, seed: u64, tally: &mut Tally| {
        let rerun = format!("DIFFER_SEED={seed} DIFFER_CASES=1 cargo test -p testkit --test jit_records");
        agrees(case, &*factory(), ("records", &rerun), tally);
    };
    // Programs that have shown a fault once: cases that lead to the same; a selector's keys without a profile, and a group without members.
    for seed in [700_121, 700_393] {
        run(plan::case(seed, &Config::small()).expect("it was accepted"), seed, &mut tally);
    }
    let mut seed = first;
    while seed < first + cases || start.elapsed().as_secs() < seconds {
        let case = plan::case(seed, &Config::small());
        run(case.unwrap_or_else(|refused| panic!("seed {seed}: {}", refused.text)), seed, &mut tally);
        seed += 1;
    }
    for seed in first..first + 3 {
        run(plan::gateway(seed, 300).expect("a gateway"), seed, &mut tally);
    }
    let found = COMPARED.lock().expect("nobody panics with it").take().unwrap_or_default();
    println!("DIFFER_SEED={first} {} cases\n{found:?}", seed - first);
    assert!(found.native >= found.programs / 4 && found.packets >= found.native * 120, "{found:?}");
    assert!(found.incomplete <= found.packets / 50 && found.finer <= found.packets / 10, "{found:?}");
    assert!(found.found >= found.applications / 20 && found.applications >= found.packets / 2, "{found:?}");
    assert!(found.words >= found.applications / 2 && found.counts >= found.packets / 100, "{found:?}");
    assert!(found.ways >= found.native * 4, "{found:?}");
}
