//! Rewrites, applied as the kernel would, as a subject of the differential harness.

use crate::workers::Several;
use entries::WriteBatch;
use flowcache::NotRewritable;
use flowcache::rewrite::flows::CachedFlow;
use flowcache::rewrite::{BackingEngine, CacheResult as Rewritten, NativeError, RewriteCache, RewriteStats};
use interp::Outputs;
use io::guard_pages::GuardSide;
use jit::Jit;
use packet::{Batch, BatchOutput, PacketOrigin, PortId, Verdict};
use std::collections::BTreeMap;
use std::sync::Mutex;
use testkit::differ::case::PacketIn;
use testkit::differ::subject::{BatchResult, EmittedPacket, EngineUnderTest, IdleReport, idle_entries, through_engine};
use testkit::differ::subjects::OwnedFactory;

/// Injected fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// No fault.
    None,
    /// Writes do not reach the rewrites, so the tables change without their knowledge.
    Stale,
    /// Packets are rewritten even where lengths or checksums forbid it.
    Unchecked,
}

/// Counts summed over a run.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub packets: u64,
    pub rewritten: u64,
    /// Packets in batches, and those of them that were rewritten. The counts below exclude them.
    pub batched: u64,
    pub together: u64,
    /// Packets that native code rewrote.
    pub by_native_code: u64,
    /// Packets that native code ran without recording, because the cache was nearly full.
    pub passed: u64,
    /// Packets that native code ran, and rewrites built from their path.
    pub native: u64,
    pub native_by_way: u64,
    /// Those of them that native code ran more than once, or made another packet of. They have no
    /// rewrite, and their path no template.
    pub native_copies: u64,
    /// Packets rewritten where several workers have their own caches.
    pub by_workers: u64,
    pub forwarded: u64,
    /// Rewritten packets with another length than the packet that the rewrite was made from.
    pub other_lengths: u64,
    /// Packets with a rewrite that checks or writes a checksum.
    pub sums: u64,
    /// Packets with a rewrite that writes a length.
    pub lengths: u64,
    pub grown: u64,
    pub kept: u64,
    pub from_template: u64,
    pub symbolic_runs: u64,
    pub refused_by_path: u64,
    pub replaced: u64,
    pub stale: u64,
    pub evicted: u64,
    /// Number of flushes of all rewrites because of fragmented memory.
    pub fragmentation_flushes: u64,
    pub faults: u64,
    pub refused: BTreeMap<NotRewritable, u64>,
}

pub static TOTALS: Mutex<Option<Totals>> = Mutex::new(None);

struct Rewriting {
    cache: RewriteCache,
    /// Lengths of the packets that rewrites were made from, by slot.
    made_from: BTreeMap<u32, usize>,
    totals: Totals,
    sabotage: Sabotage,
    /// Some subjects take batches. Others take single packets, so that the handling of each is
    /// visible.
    batch: Option<(Batch, BatchOutput)>,
}

/// Returns a factory of caches by seed; some hold few flows.
pub fn factory(seed: u64, sabotage: Sabotage) -> OwnedFactory {
    Box::new(move |build| {
        let room = [16, 4_096, 4_096, 4_096][(seed % 4) as usize];
        // Half of those with batches use native code where the program supports it, and half of
        // these several workers.
        if sabotage == Sabotage::None && seed % 16 >= 12 {
            let native = RewriteCache::native(build.pipeline.clone(), build.setup.clone(), room);
            match native.map(|cache| with_code(cache, seed)) {
                Ok(cache) if seed % 16 >= 14 => return Ok(Box::new(Several::new(cache, seed))),
                Ok(cache) => {
                    let (batch, out) = (Batch::new(), BatchOutput::new());
                    return Ok(Box::new(Native { cache, batch, batches: 0, out, totals: Totals::default() }));
                }
                Err(NativeError::Unsupported(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        let cache = RewriteCache::new(build.pipeline.clone(), build.setup.clone(), room);
        let cache = with_code(cache.map_err(|error| error.to_string())?, seed);
        let batch = (sabotage != Sabotage::Unchecked && seed % 8 >= 4).then(|| (Batch::new(), BatchOutput::new()));
        Ok(Box::new(Rewriting { cache, made_from: BTreeMap::new(), totals: Totals::default(), sabotage, batch }))
    })
}

/// Enables native code for repeated packets in half of the caches.
fn with_code<R: BackingEngine>(mut cache: RewriteCache<R>, seed: u64) -> RewriteCache<R> {
    if seed % 2 == 1 {
        cache.set_native_threshold(1);
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

/// Variant of [`Rewriting`] in which native code runs the packets that have no rewrite.
struct Native {
    cache: RewriteCache<Jit>,
    batch: Batch,
    batches: usize,
    out: BatchOutput,
    totals: Totals,
}

impl Drop for Native {
    fn drop(&mut self) {
        let stats = self.cache.stats();
        self.totals.native = stats.slow_path_packets;
        self.totals.native_by_way = stats.from_template;
        self.totals.native_copies = stats.refused.get(&NotRewritable::Copies).copied().unwrap_or_default();
        add(&self.totals, stats);
    }
}

impl EngineUnderTest for Native {
    fn name(&self) -> String {
        "rewrites of native code".to_owned()
    }
    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        let gone = self.cache.write(batch).map_err(|error| error.to_string())?;
        gone.into_iter().for_each(|(place, _)| self.cache.release(place));
        Ok(())
    }
    fn process(&mut self, packets: &[PacketIn]) -> BatchResult {
        let before = self.cache.stats().rewritten;
        // Some packets lie between inaccessible pages.
        self.batches += 1;
        let edge = [Some(GuardSide::Back), Some(GuardSide::Front)].get(self.batches % 16).copied().flatten();
        let answer = through_engine(&mut self.cache, &mut self.batch, &mut self.out, packets, edge);
        self.cache.flush_counters();
        self.totals.batched += packets.len() as u64;
        self.totals.together += self.cache.stats().rewritten - before;
        answer
    }
    fn tick(&mut self, now: u64) -> Vec<IdleReport> {
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
        by_native_code,
        not_inserted: passed,
        inserted: kept,
        from_template,
        symbolic_runs,
        refused_by_path,
        replaced,
        stale,
        evicted,
        fragmentation_flushes,
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
        (&mut all.native_copies, own.native_copies),
        (&mut all.by_workers, own.by_workers),
        (&mut all.forwarded, own.forwarded),
        (&mut all.other_lengths, own.other_lengths),
        (&mut all.sums, own.sums),
        (&mut all.lengths, own.lengths),
        (&mut all.grown, own.grown),
        (&mut all.by_native_code, *by_native_code),
        (&mut all.passed, *passed),
        (&mut all.kept, *kept),
        (&mut all.from_template, *from_template),
        (&mut all.symbolic_runs, *symbolic_runs),
        (&mut all.refused_by_path, *refused_by_path),
        (&mut all.replaced, *replaced),
        (&mut all.stale, *stale),
        (&mut all.evicted, *evicted),
        (&mut all.fragmentation_flushes, *fragmentation_flushes),
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
    fn one(&mut self, index: usize, packet: &PacketIn, emitted: &mut Vec<EmittedPacket>) {
        use flowcache::rewrite::form::FlowAction;
        self.totals.packets += 1;
        // The interpreter, which would keep the time, may not see the packet.
        let (origin, input) = (PacketOrigin::Received, Some(index));
        let mut bytes = Vec::new();
        let answer = match self.sabotage {
            Sabotage::Unchecked => self.unchecked(packet, &mut bytes),
            _ => self.cache.rewrite_packet(&packet.bytes, packet.port, packet.at, &mut bytes),
        };
        if let Rewritten::Rewritten(place, verdict) = answer {
            self.totals.rewritten += 1;
            self.totals.forwarded += u64::from(matches!(verdict, Verdict::Forward { .. }));
            let other = self.made_from.get(&place).is_some_and(|length| *length != packet.bytes.len());
            self.totals.other_lengths += u64::from(other);
            let rewrite = self.cache.flows().get(place).expect("it was found").rewrite;
            assert!(
                rewrite.key_mask.key(&packet.bytes, packet.port) == rewrite.key && rewrite.can_apply(&packet.bytes)
            );
            // The rewrite in its exported form has the same effect.
            let mut told = Vec::new();
            let leaves = rewrite.apply_to(&packet.bytes, &mut told);
            assert_eq!((leaves.map(PortId), &told), (port_of(verdict), &bytes), "{rewrite:?}");
            let head = if let FlowAction::Forward { head, .. } = &rewrite.action { Some(head) } else { None };
            let sums = !rewrite.checks.is_empty() || head.is_some_and(|head| !head.sums.is_empty());
            self.totals.sums += u64::from(sums);
            self.totals.lengths += u64::from(head.is_some_and(|head| !head.lengths.is_empty()));
            self.totals.grown += u64::from(head.is_some_and(|head| head.len_delta != 0));
            return emitted.push(EmittedPacket { input, origin, verdict, bytes });
        }
        let mut outputs = Outputs::new();
        let learned = self.cache.learn_packet(&packet.bytes, packet.port, packet.at, &mut outputs);
        match learned {
            Ok(placed) => {
                self.made_from.insert(placed.place, packet.bytes.len());
                if let Some((place, _)) = placed.replaced {
                    self.cache.release(place);
                }
            }
            Err(NotRewritable::NoRoom) => {
                for (place, _) in self.cache.evict_flows(2) {
                    self.cache.release(place);
                }
            }
            Err(_) => {}
        }
        for packet in outputs.packets() {
            let bytes = if matches!(packet.verdict, Verdict::Drop(_)) { Vec::new() } else { packet.bytes.clone() };
            emitted.push(EmittedPacket { input, origin: packet.origin, verdict: packet.verdict, bytes });
        }
    }

    /// Rewrites by the key alone.
    fn unchecked(&mut self, packet: &PacketIn, bytes: &mut Vec<u8>) -> Rewritten {
        use flowcache::rewrite::form::FlowAction;
        let flows = self.cache.flows();
        let has_key = |flow: &CachedFlow| flow.rewrite.key_mask.key(&packet.bytes, packet.port) == flow.rewrite.key;
        let found = flows.used_places().find_map(|place| Some((place, flows.get(place).filter(has_key)?)));
        let Some((place, flow)) = found else { return Rewritten::Missed };
        let leaves = flow.rewrite.apply_to(&packet.bytes, bytes);
        let verdict = match (leaves, &flow.rewrite.action) {
            (Some(port), _) => Verdict::Forward { port: PortId(port) },
            (None, FlowAction::Drop(reason)) => Verdict::Drop(*reason),
            _ => return Rewritten::Missed,
        };
        self.cache.add_kernel_counts(place, 1, packet.bytes.len() as u64, packet.at);
        Rewritten::Rewritten(place, verdict)
    }
}

impl EngineUnderTest for Rewriting {
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
    fn process(&mut self, packets: &[PacketIn]) -> BatchResult {
        if let Some((batch, out)) = &mut self.batch {
            let before = self.cache.stats().rewritten;
            let answer = through_engine(&mut self.cache, batch, out, packets, None);
            self.cache.flush_counters();
            self.totals.batched += packets.len() as u64;
            self.totals.together += self.cache.stats().rewritten - before;
            return answer;
        }
        let mut answer = BatchResult::default();
        for (index, packet) in packets.iter().enumerate() {
            self.one(index, packet, &mut answer.emitted);
        }
        self.cache.flush_counters();
        answer
    }
    fn tick(&mut self, now: u64) -> Vec<IdleReport> {
        let (idle, gone) = self.cache.advance_time(now);
        gone.into_iter().for_each(|(place, _)| self.cache.release(place));
        idle_entries(self.cache.engine().pipeline(), &idle)
    }
    testkit::interp_accessors!([cache.engine()], [cache.engine_mut()]);
}
