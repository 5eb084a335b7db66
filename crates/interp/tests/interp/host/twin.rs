//! The interpreter and the naive engine side by side.

use crate::build::*;
use crate::host::mini::{Mini, Verdict};
use entries::{EntryId, StateUpdate, WriteBatch};
use interp::{Config, Interp, MeterColor};
use ir::*;
use std::sync::Arc;

/// Random numbers of a test (SplitMix64). Keeps the seed for messages.
pub struct Random {
    pub seed: u64,
    state: u64,
}

impl Random {
    /// Creates a generator from `TERRACE_SEED`, or else from the test's own seed.
    pub fn new(seed: u64) -> Random {
        let seed = std::env::var("TERRACE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(seed);
        Random { seed, state: seed }
    }

    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Returns random bytes. One in four is all ones or all zeros, the edge cases of sums and
    /// masks.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let fill = match self.below(8) {
            0 => Some(0xff),
            1 => Some(0),
            _ => None,
        };
        (0..len).map(|_| fill.unwrap_or_else(|| self.word() as u8)).collect()
    }
}

/// One pipeline on both engines.
pub struct Twin {
    pub interp: Interp,
    pub mini: Mini,
    pub random: Random,
    /// Number of compared results and states.
    pub compared: u64,
    now: u64,
    /// Size of the header without a varbit, in bytes.
    header: usize,
}

impl Twin {
    pub fn new(t: Build, seed: u64) -> Twin {
        Twin::with(t, seed, Config::default())
    }

    pub fn with(t: Build, seed: u64, config: Config) -> Twin {
        let bits: u32 =
            t.p.headers
                .values()
                .flat_map(|h| &h.fields)
                .map(|var| match t.p.vars[*var].ty {
                    Type::Varbit(_) => 0,
                    ty => ty.width(),
                })
                .sum();
        let interp = t.load_with(config.clone());
        let mini = Mini::new(Arc::clone(interp.pipeline()), config);
        Twin { interp, mini, random: Random::new(seed), compared: 0, now: 0, header: bits as usize / 8 }
    }

    /// Runs a packet on both engines. Panics if the verdicts differ, otherwise returns the verdict.
    pub fn packet(&mut self, bytes: &[u8]) -> Verdict {
        let out = self.interp.process(bytes, 0, self.now);
        let wanted = match out.sent().next() {
            Some((port, bytes)) => Ok((port, bytes.to_vec())),
            None => Err(drops(&self.interp, &out).remove(0)),
        };
        let got = self.mini.process(bytes, self.now);
        let shown = got.clone().map_err(str::to_owned);
        assert_eq!(shown, wanted, "seed {}: {bytes:02x?} at {}", self.random.seed, self.now);
        self.compared += 1;
        got
    }

    /// Runs a packet with a random header and payload.
    pub fn random_packet(&mut self) -> Verdict {
        let payload = self.random.below(70) as usize;
        let bytes = self.random.bytes(self.header + payload);
        self.packet(&bytes)
    }

    /// Runs a packet that starts with these bytes; the rest of the header and the payload are
    /// random.
    pub fn packet_of(&mut self, start: &[u8]) -> Verdict {
        let payload = self.random.below(1400) as usize;
        let mut bytes = self.random.bytes(self.header + payload);
        bytes[..start.len()].copy_from_slice(start);
        self.packet(&bytes)
    }

    pub fn write(&mut self, updates: impl IntoIterator<Item = StateUpdate>) {
        let batch: WriteBatch = updates.into_iter().collect();
        let wanted = self.interp.write(&batch).is_ok();
        assert_eq!(self.mini.write(&batch), wanted, "seed {}: {batch:?}", self.random.seed);
    }

    /// Advances time by up to `most` nanoseconds.
    pub fn pass_time(&mut self, most: u64) {
        self.now += self.random.below(most);
    }

    /// Runs a packet as [`Twin::packet_of`] does, with a time before that of an earlier packet.
    pub fn late_packet_of(&mut self, start: &[u8], late: u64) -> Verdict {
        let now = self.now;
        self.now = now.saturating_sub(late);
        let verdict = self.packet_of(start);
        self.now = now;
        verdict
    }

    /// Runs a packet that only executes a meter, color-blind and then with green, as the programs
    /// of the meter tests do.
    pub fn mark(&mut self, meter: ExternId, index: u64) {
        let bytes = [(index as u8) << 5 | self.green() << 3; 60];
        let out = self.interp.process(&bytes, 0, self.now);
        let (_, got) = out.sent().next().expect("sent");
        // Two 32-bit results follow the index and the color.
        let results = u128::from_be_bytes(got[..16].try_into().expect("it is long enough")) << 5 >> 64;
        let numbers = interp::host::architecture::color_encodings(self.interp.pipeline());
        self.mini.host.advance(self.now);
        for result in [results >> 32, results & 0xffff_ffff] {
            let colour = self.mini.host.meter_packet(meter, index, MeterColor::Green, bytes.len() as u64);
            assert_eq!(u128::from(numbers[colour as usize]), result, "seed {}", self.random.seed);
            self.compared += 1;
        }
    }

    /// Returns the program's number of green.
    fn green(&self) -> u8 {
        interp::host::architecture::color_encodings(self.interp.pipeline())[0] as u8
    }

    /// Compares the idle entries and digests that both engines report. Returns their number.
    pub fn compare_reports(&mut self) -> usize {
        let mut wanted = self.interp.advance_time(self.now);
        let mut got = self.mini.expire(self.now);
        // Entries that are due at the same time are ordered by number.
        wanted.sort_by(|a, b| (a.table, a.entry.key()).cmp(&(b.table, b.entry.key())));
        got.sort_by(|a, b| (a.table, a.entry.key()).cmp(&(b.table, b.entry.key())));
        assert_eq!(got, wanted, "seed {}", self.random.seed);
        let digests = self.interp.take_digests();
        assert_eq!(self.mini.host.take_digests(), digests, "seed {}", self.random.seed);
        assert_eq!(self.mini.host.lost_messages(), self.interp.lost_messages());
        self.compared += (got.len() + digests.len()) as u64;
        got.len() + digests.len()
    }

    /// Checks that both engines hold equal state.
    pub fn same_state(&mut self) {
        let seed = self.random.seed;
        let (host, interp) = (&self.mini.host, &self.interp);
        for id in interp.pipeline().externs.keys() {
            assert_eq!(host.array_len(id), interp.array_len(id));
            for index in (0..20).chain([u64::MAX, 1 << 39]) {
                assert_eq!(host.counter(id, index), interp.counter(id, index), "seed {seed}: {id} at {index}");
                assert_eq!(host.register(id, index), interp.register(id, index), "seed {seed}: {id} at {index}");
                assert_eq!(host.meter(id, index), interp.state().meter(id, index), "seed {seed}: {id} at {index}");
                self.compared += 1;
            }
        }
        for table in interp.pipeline().tables.keys() {
            assert_eq!(self.mini.state.entry_count(table), interp.state().entry_count(table), "seed {seed}");
            for entry in interp.state().entries(table) {
                let entry = entry.to_table_entry(interp.pipeline(), table);
                let id = EntryId { table, keys: entry.keys, priority: entry.priority };
                let number = self.mini.number_of(&id).unwrap_or_else(|| panic!("seed {seed}: {id:?} is missing"));
                assert_eq!(interp.state().multicast_groups().get(&1), host.multicast_group(1));
                if host.tracks_entries(table) {
                    assert_eq!(host.direct_counter(table, number), interp.direct_counter(&id), "seed {seed}: {id:?}");
                    assert_eq!(host.idle_for(table, number), interp.idle_for(&id), "seed {seed}: {id:?}");
                    self.compared += 1;
                }
            }
        }
    }
}

/// Builds a pipeline with a main control that gets the header's first fields as values. The results
/// go to the fields after them. A padding field fills the last byte.
pub fn program(
    mut t: Build,
    inputs: &[Type],
    outputs: &[Type],
    act: impl FnOnce(&mut BodyBuilder, &Build, &[Value]) -> Vec<Value>,
) -> Build {
    let types: Vec<Type> = inputs.iter().chain(outputs).copied().collect();
    let width: u32 = types.iter().map(|ty| ty.width()).sum();
    let mut fields: Vec<(String, Type)> =
        types.iter().enumerate().map(|(index, ty)| (format!("f{index}"), *ty)).collect();
    if !width.is_multiple_of(8) {
        fields.push(("padding".into(), Type::Bit(8 - width % 8)));
    }
    let fields: Vec<(&str, Type)> = fields.iter().map(|(name, ty)| (name.as_str(), *ty)).collect();
    let h = t.header("h", &fields);
    let [parser, main, deparser] = roles(t.p.arch);
    t.parser(parser, &[h]);
    let mut b = BodyBuilder::new();
    if t.p.arch == Arch::Pna {
        let port = b.bits(32, 1u8);
        b.call_extern(None, ExternFn::SendToPort, vec![ExternArg::Value(port)], &[]);
    }
    let values: Vec<Value> = (0..inputs.len()).map(|n| b.load(&t.p, t.field(h, n))).collect();
    let results = act(&mut b, &t, &values);
    assert_eq!(results.len(), outputs.len());
    for (index, result) in results.into_iter().enumerate() {
        b.store(t.field(h, inputs.len() + index), result);
    }
    b.ret();
    t.control(main, b);
    t.deparser(deparser, &[h]);
    t
}

pub fn roles(arch: Arch) -> [ControlKind; 3] {
    match arch {
        Arch::V1Model => [ControlKind::Parser, ControlKind::Ingress, ControlKind::Deparser],
        Arch::Pna => [ControlKind::MainParser, ControlKind::MainControl, ControlKind::MainDeparser],
    }
}
