//! Rewrites, carried out as the kernel would, as what the differential harness compares.

use crate::workers::Several;
use entries::WriteBatch;
use flowcache::Unrewritable;
use flowcache::rewrite::flows::Flow;
use flowcache::rewrite::{Answer as Rewritten, NativeError, RewriteCache, RewriteStats, Runs};
use interp::Outputs;
use io::guarded::Edge;
use jit::Jit;
use packet::{Batch, Origin, Output, PortId, Verdict};
use std::collections::BTreeMap;
use std::sync::Mutex;
use testkit::differ::case::PacketIn;
use testkit::differ::subject::{Answer, Emitted, Idle, Subject, idle_entries, through_engine};
use testkit::differ::subjects::OwnedFactory;

/// What is wrong on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// Nothing.
    None,
    /// Writes do not reach the rewrites: the tables change behind their back.
    Stale,
    /// Packets are rewritten whether or not lengths and checksums allow it.
    Unchecked,
}

/// What all of a run have counted.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub packets: u64,
    pub rewritten: u64,
    /// Packets in batches, and those of them that were rewritten; what follows is not counted of these.
    pub batched: u64,
    pub together: u64,
    /// Packets that native code has rewritten.
    pub by_code: u64,
    /// Packets that native code ran without being noted, as there was hardly room for more flows.
    pub passed: u64,
    /// Packets that native code ran, and rewrites that came of them by their way.
    pub native: u64,
    pub native_by_way: u64,
    /// Packets that were rewritten where several workers have caches of their own.
    pub by_workers: u64,
    pub forwarded: u64,
    /// Rewritten packets that were not of the length of the one that the rewrite was made from.
    pub other_lengths: u64,
    /// Rewritten packets whose rewrite had a sum to check, or to write.
    pub sums: u64,
    /// Whose rewrite writes a length.
    pub lengths: u64,
    pub grown: u64,
    pub kept: u64,
    pub by_way: u64,
    pub shadowed: u64,
    pub refused_by_way: u64,
    pub replaced: u64,
    pub stale: u64,
    pub evicted: u64,
    /// How often all rewrites went, as memory was scattered.
    pub scattered: u64,
    pub faults: u64,
    pub refused: BTreeMap<Unrewritable, u64>,
}

pub static TOTALS: Mutex<Option<Totals>> = Mutex::new(None);

struct Rewriting {
    cache: RewriteCache,
    /// Lengths of the packets that rewrites were made from, by place.
    made_from: BTreeMap<u32, usize>,
    totals: Totals,
    sabotage: Sabotage,
    /// Some are given their packets in batches, others one by one, so that it is seen what was done to each.
    batch: Option<(Batch, Output)>,
}

/// Makes the cache of a seed: some have room for few flows.
pub fn factory(seed: u64, sabotage: Sabotage) -> OwnedFactory {
    Box::new(move |build| {
        let room = [16, 4_096, 4_096, 4_096][(seed % 4) as usize];
        // Half of those that are given batches have native code, if that is made for the program, and half of these several workers.
        if sabotage == Sabotage::None && seed % 16 >= 12 {
            let native = RewriteCache::native(build.pipeline.clone(), build.setup.clone(), room);
            match native.map(|cache| with_code(cache, seed)) {
                Ok(cache) if seed % 16 >= 14 => return Ok(Box::new(Several::new(cache, seed))),
                Ok(cache) => {
                    let (batch, out) = (Batch::new(), Output::new());
                    return Ok(Box::new(Native { cache, batch, batches: 0, out, totals: Totals::default() }));
                }
                Err(NativeError::Unsupported(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        let cache = RewriteCache::new(build.pipeline.clone(), build.setup.clone(), room);
        let cache = with_code(cache.map_err(|error| error.to_string())?, seed);
        let batch = (sabotage != Sabotage::Unchecked && seed % 8 >= 4).then(|| (Batch::new(), Output::new()));
        Ok(Box::new(Rewriting { cache, made_from: BTreeMap::new(), totals: Totals::default(), sabotage, batch }))
    })
}

/// Half of them have native code for what packets did twice.
fn with_code<R: Runs>(mut cache: RewriteCache<R>, seed: u64) -> RewriteCache<R> {
    if seed % 2 == 1 {
        cache.native_after(1);
    }
    cache
}

impl Drop for Rewriting {
    fn drop(&mut self) {
        if self.sabotage == Sabotage::None {
            add(&self.totals, self.cache.stats());
        }
    }
}

/// As [`Rewriting`], where native code runs the packets that there is no rewrite for.
struct Native {
    cache: RewriteCache<Jit>,
    batch: Batch,
    batches: usize,
    out: Output,
    totals: Totals,
}

impl Drop for Native {
    fn drop(&mut self) {
        let stats = self.cache.stats();
        self.totals.native = stats.ran;
        self.totals.native_by_way = stats.by_way;
        add(&self.totals, stats);
    }
}

impl Subject for Native {
    fn name(&self) -> String {
        "rewrites of native code".to_owned()
    }
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        let gone = self.cache.write(batch).map_err(|error| error.to_string())?;
        gone.into_iter().for_each(|(place, _)| self.cache.release(place));
        Ok(())
    }
    fn process(&mut self, packets: &[PacketIn]) -> Answer {
        let before = self.cache.stats().rewritten;
        // Some packets lie between forbidden pages.
        self.batches += 1;
        let edge = [Some(Edge::Back), Some(Edge::Front)].get(self.batches % 16).copied().flatten();
        let answer = through_engine(&mut self.cache, &mut self.batch, &mut self.out, packets, edge);
        self.cache.settle();
        self.totals.batched += packets.len() as u64;
        self.totals.together += self.cache.stats().rewritten - before;
        answer
    }
    fn tick(&mut self, now: u64) -> Vec<Idle> {
        let (idle, gone) = self.cache.advance_time(now);
        gone.into_iter().for_each(|(place, _)| self.cache.release(place));
        idle_entries(self.cache.engine().pipeline(), &idle)
    }
    testkit::jit_accessors!([cache.engine()], [cache.engine_mut()]);
}

pub fn add(own: &Totals, stats: &RewriteStats) {
    let mut totals = TOTALS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let all = totals.get_or_insert_default();
    let RewriteStats {
        by_code,
        passed,
        kept,
        by_way,
        shadowed,
        refused_by_way,
        replaced,
        stale,
        evicted,
        scattered,
        faults,
        refused,
        ..
    } = stats;
    for (to, more) in [
        (&mut all.packets, own.packets),
        (&mut all.rewritten, own.rewritten),
        (&mut all.batched, own.batched),
        (&mut all.together, own.together),
        (&mut all.native, own.native),
        (&mut all.native_by_way, own.native_by_way),
        (&mut all.by_workers, own.by_workers),
        (&mut all.forwarded, own.forwarded),
        (&mut all.other_lengths, own.other_lengths),
        (&mut all.sums, own.sums),
        (&mut all.lengths, own.lengths),
        (&mut all.grown, own.grown),
        (&mut all.by_code, *by_code),
        (&mut all.passed, *passed),
        (&mut all.kept, *kept),
        (&mut all.by_way, *by_way),
        (&mut all.shadowed, *shadowed),
        (&mut all.refused_by_way, *refused_by_way),
        (&mut all.replaced, *replaced),
        (&mut all.stale, *stale),
        (&mut all.evicted, *evicted),
        (&mut all.scattered, *scattered),
        (&mut all.faults, *faults),
    ] {
        *to += more;
    }
    for (why, count) in refused {
        *all.refused.entry(*why).or_default() += count;
    }
}

fn port_of(verdict: Verdict) -> Option<PortId> {
    if let Verdict::Forward { port } = verdict { Some(port) } else { None }
}

impl Rewriting {
    fn one(&mut self, index: usize, packet: &PacketIn, emitted: &mut Vec<Emitted>) {
        use flowcache::rewrite::form::Fate;
        self.totals.packets += 1;
        // The interpreter, which would keep the time, may not see the packet.
        let (origin, input) = (Origin::Received, Some(index));
        let mut bytes = Vec::new();
        let answer = match self.sabotage {
            Sabotage::Unchecked => self.unchecked(packet, &mut bytes),
            _ => self.cache.rewrite(&packet.bytes, packet.port, packet.at, &mut bytes),
        };
        if let Rewritten::Rewritten(place, verdict) = answer {
            self.totals.rewritten += 1;
            self.totals.forwarded += u64::from(matches!(verdict, Verdict::Forward { .. }));
            let other = self.made_from.get(&place).is_some_and(|length| *length != packet.bytes.len());
            self.totals.other_lengths += u64::from(other);
            let rewrite = self.cache.flows().get(place).expect("it was found").rewrite;
            assert!(rewrite.shape.key(&packet.bytes, packet.port) == rewrite.key && rewrite.fits(&packet.bytes));
            // What others are told does the same.
            let mut told = Vec::new();
            let leaves = rewrite.run(&packet.bytes, &mut told);
            assert_eq!((leaves.map(PortId), &told), (port_of(verdict), &bytes), "{rewrite:?}");
            let head = if let Fate::Forward { head, .. } = &rewrite.fate { Some(head) } else { None };
            let sums = !rewrite.checks.is_empty() || head.is_some_and(|head| !head.sums.is_empty());
            self.totals.sums += u64::from(sums);
            self.totals.lengths += u64::from(head.is_some_and(|head| !head.lengths.is_empty()));
            self.totals.grown += u64::from(head.is_some_and(|head| head.grow != 0));
            return emitted.push(Emitted { input, origin, verdict, bytes });
        }
        let mut outputs = Outputs::new();
        let learned = self.cache.learn(&packet.bytes, packet.port, packet.at, &mut outputs);
        match learned {
            Ok(placed) => {
                self.made_from.insert(placed.place, packet.bytes.len());
                if let Some((place, _)) = placed.replaced {
                    self.cache.release(place);
                }
            }
            Err(Unrewritable::NoRoom) => {
                for (place, _) in self.cache.evict(2) {
                    self.cache.release(place);
                }
            }
            Err(_) => {}
        }
        for packet in outputs.packets() {
            let bytes = if matches!(packet.verdict, Verdict::Drop(_)) { Vec::new() } else { packet.bytes.clone() };
            emitted.push(Emitted { input, origin: packet.origin, verdict: packet.verdict, bytes });
        }
    }

    /// By the key alone.
    fn unchecked(&mut self, packet: &PacketIn, bytes: &mut Vec<u8>) -> Rewritten {
        use flowcache::rewrite::form::Fate;
        let flows = self.cache.flows();
        let has_key = |flow: &Flow| flow.rewrite.shape.key(&packet.bytes, packet.port) == flow.rewrite.key;
        let found = flows.places().find_map(|place| Some((place, flows.get(place).filter(has_key)?)));
        let Some((place, flow)) = found else { return Rewritten::Missed };
        let leaves = flow.rewrite.run(&packet.bytes, bytes);
        let verdict = match (leaves, &flow.rewrite.fate) {
            (Some(port), _) => Verdict::Forward { port: PortId(port) },
            (None, Fate::Drop(reason)) => Verdict::Drop(*reason),
            _ => return Rewritten::Missed,
        };
        self.cache.credit(place, 1, packet.bytes.len() as u64, packet.at);
        Rewritten::Rewritten(place, verdict)
    }
}

impl Subject for Rewriting {
    fn name(&self) -> String {
        "rewrites".to_owned()
    }
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        let gone = match self.sabotage {
            Sabotage::Stale => self.cache.engine_mut().write(batch).map(|()| Vec::new()),
            _ => self.cache.write(batch),
        };
        gone.map_err(|error| error.to_string())?.into_iter().for_each(|(place, _)| self.cache.release(place));
        Ok(())
    }
    fn process(&mut self, packets: &[PacketIn]) -> Answer {
        if let Some((batch, out)) = &mut self.batch {
            let before = self.cache.stats().rewritten;
            let answer = through_engine(&mut self.cache, batch, out, packets, None);
            self.cache.settle();
            self.totals.batched += packets.len() as u64;
            self.totals.together += self.cache.stats().rewritten - before;
            return answer;
        }
        let mut answer = Answer::default();
        for (index, packet) in packets.iter().enumerate() {
            self.one(index, packet, &mut answer.emitted);
        }
        self.cache.settle();
        answer
    }
    fn tick(&mut self, now: u64) -> Vec<Idle> {
        let (idle, gone) = self.cache.advance_time(now);
        gone.into_iter().for_each(|(place, _)| self.cache.release(place));
        idle_entries(self.cache.engine().pipeline(), &idle)
    }
    testkit::interp_accessors!([cache.engine()], [cache.engine_mut()]);
}
