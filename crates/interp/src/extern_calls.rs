//! Extern functions and methods.

use crate::algorithm;
use crate::exec_context::{ExecContext, load_big};
use crate::frame::{CopyRequest, Destination, Frame};
use crate::meter::MeterColor;
use crate::overseer::Overseer;
use crate::persistent_state::{DigestMessage, ExternState, MAX_WAITING};
use crate::program::{CallArg, DecodedCall, Reg};
use crate::wide_int::{self, mask64, mask128};
use entries::{PackedKey, PackedKeyField, StoredAction};
use ir::{Arch, ExternFn, ExternKind, HashAlgorithm, SourceLoc};

/// Returns a scalar argument, or 0. Values wider than 128 bits are truncated.
pub(crate) fn scalar(frame: &Frame, call: &DecodedCall, index: usize) -> u128 {
    match call.args.get(index) {
        Some(CallArg::Value(reg)) => wide_int::load128(frame.words(*reg)) & mask128(reg.width),
        _ => 0,
    }
}

/// Returns the leaves of a data argument.
pub(crate) fn data_operands(call: &DecodedCall, index: usize) -> &[Reg] {
    match call.args.get(index) {
        Some(CallArg::Values(regs)) => regs,
        Some(CallArg::Value(reg)) => std::slice::from_ref(reg),
        _ => &[],
    }
}

fn table_arg(call: &DecodedCall) -> usize {
    match call.args.first() {
        Some(CallArg::Table(table)) => *table,
        _ => 0,
    }
}

/// Stores the result, truncated to its width.
fn store_result(frame: &mut Frame, call: &DecodedCall, value: u128) {
    if let Some(reg) = call.results.first() {
        wide_int::store128(frame.words_mut(*reg), value & mask128(reg.width));
    }
}

impl<O: Overseer> ExecContext<'_, O> {
    /// Calls an extern. `site` identifies the call, because its list of preserved variables is read
    /// later.
    pub(crate) fn call(&mut self, frame: &mut Frame, site: (usize, u32), call: &DecodedCall, loc: SourceLoc) {
        use ExternFn::*;
        let arguments = if O::TRACES { self.show_args(frame, call) } else { Vec::new() };
        match call.func {
            CounterCount | DirectCounterCount | MeterExecute | DirectMeterExecute | RegisterRead | RegisterWrite => {
                self.call_stateful(frame, call);
            }
            HashGet
            | Hash
            | ChecksumClear
            | ChecksumUpdate
            | ChecksumGet
            | Checksum16Get
            | VerifyChecksum
            | UpdateChecksum
            | VerifyChecksumWithPayload
            | UpdateChecksumWithPayload => self.call_hash(frame, call),
            InternetChecksumClear
            | InternetChecksumAdd
            | InternetChecksumSubtract
            | InternetChecksumGet
            | InternetChecksumGetState
            | InternetChecksumSetState => self.call_internet_checksum(frame, call),
            AddEntry | AllocateFlowId | SetEntryExpireTime | RestartExpireTimer => self.call_flow(frame, call),
            PortPoolTake => self.take_port(frame, call),
            EntryQuotaTake => self.take_share(frame, call),
            RandomRead | Random => self.call_random(frame, call),
            DigestPack => self.digest(frame, call),
            Clone => {
                let session = scalar(frame, call, 1) as u32;
                frame.clone = CopyRequest { is_requested: true, session, site };
            }
            Resubmit => frame.resubmit = CopyRequest { is_requested: true, session: 0, site },
            Recirculate => frame.recirculate = CopyRequest { is_requested: true, session: 0, site },
            MarkToDrop => {
                frame.set(self.program.well_known.egress_spec, crate::v1model::DROP_PORT);
                frame.set(self.program.well_known.mcast_grp, 0);
            }
            Truncate => frame.truncate_bytes = Some(scalar(frame, call, 0).min(u128::from(u32::MAX)) as u32),
            Assert | Assume => frame.assert_failed |= scalar(frame, call, 0) == 0,
            LogMsg => {}
            IsHostPort | IsNetPort => {
                let port = scalar(frame, call, 0) as u32;
                let config = &self.config;
                let known = config.ports.as_ref().is_none_or(|ports| ports.contains(&port));
                let exists = known && !config.tier_ports.contains(&port);
                let host = config.host_ports.contains(&port);
                store_result(frame, call, u128::from(exists && host == (call.func == IsHostPort)));
            }
            DropPacket => frame.destination = Destination::Drop,
            SendToPort => frame.destination = Destination::Port(scalar(frame, call, 0) as u32),
            MirrorPacket => {
                let (slot, session) = (scalar(frame, call, 0) as usize, scalar(frame, call, 1) as u32);
                if let Some(place) = frame.mirror.get_mut(slot) {
                    *place = Some(session);
                }
            }
            PnaRecirculate => frame.pna_recirculate = true,
        }
        if O::TRACES {
            self.record_extern_call(frame, call, arguments, loc);
        }
    }

    fn call_stateful(&mut self, frame: &mut Frame, call: &DecodedCall) {
        let index = u64::try_from(scalar(frame, call, 0)).unwrap_or(u64::MAX);
        let Some(object) = call.object else { return };
        let place = object.0 as usize;
        if matches!(call.func, ExternFn::RegisterRead | ExternFn::RegisterWrite) {
            self.memory.fetch_register(place, index);
        }
        let size = match (call.args.get(1), call.func) {
            (Some(CallArg::Value(reg)), ExternFn::CounterCount | ExternFn::DirectCounterCount) => frame.words(*reg)[0],
            _ => u64::from(frame.ingress_len_bytes),
        };
        let add = |packets: &mut u64, bytes: &mut u64| {
            *packets = packets.wrapping_add(1);
            *bytes = bytes.wrapping_add(size);
        };
        match call.func {
            ExternFn::CounterCount => {
                if let Some(ExternState::Counter(array)) = self.memory.objects.get_mut(place)
                    && let Some([packets, bytes]) = array.get_mut(index)
                {
                    add(packets, bytes);
                }
            }
            ExternFn::DirectCounterCount => {
                // v1model counts at the hit itself.
                let table = table_arg(call);
                let slot = frame.hit_slots[table].checked_sub(1);
                if let (Some(slot), Arch::Pna) = (slot, self.pipeline.arch) {
                    let counter = &mut self.memory.tables[table].slots[slot as usize].counter;
                    add(&mut counter.packets, &mut counter.bytes);
                }
            }
            ExternFn::MeterExecute => {
                let before = self.colour_arg(frame, call);
                let bytes = u64::from(frame.ingress_len_bytes);
                let colour = self.memory.meter_indexed(self.pipeline, object, index, before, bytes);
                store_result(frame, call, self.colour_result(colour));
            }
            ExternFn::DirectMeterExecute => {
                let table = table_arg(call);
                let colour = match self.pipeline.arch {
                    // The hit has executed the meter already.
                    Arch::V1Model => [MeterColor::Green, MeterColor::Yellow, MeterColor::Red]
                        [usize::from(frame.meter_colors[table].min(2))],
                    Arch::Pna => {
                        let before = self.colour_arg(frame, call);
                        let bytes = match call.args.get(2) {
                            Some(CallArg::Value(reg)) => frame.words(*reg)[0],
                            _ => u64::from(frame.ingress_len_bytes),
                        };
                        let slot = frame.hit_slots[table].checked_sub(1);
                        self.memory.meter_direct(self.pipeline, table, slot, before, bytes)
                    }
                };
                store_result(frame, call, self.colour_result(colour));
            }
            ExternFn::RegisterRead => {
                let Some(ExternState::Register(array, _)) = self.memory.objects.get(place) else { return };
                let mut words = array.get(index).unwrap_or_default();
                for reg in &call.results {
                    let (own, rest) = words.split_at_checked(reg.words as usize).unwrap_or_default();
                    words = rest;
                    let out = frame.words_mut(*reg);
                    out.fill(0);
                    out[..own.len()].copy_from_slice(own);
                }
            }
            _ => {
                let Some(ExternState::Register(array, _)) = self.memory.objects.get_mut(place) else { return };
                let Some(mut element) = array.get_mut(index) else { return };
                for reg in data_operands(call, 1) {
                    let value = frame.words(*reg);
                    let Some((own, rest)) = element.split_at_mut_checked(value.len()) else { return };
                    own.copy_from_slice(value);
                    element = rest;
                }
            }
        }
    }

    fn colour_arg(&self, frame: &Frame, call: &DecodedCall) -> MeterColor {
        let Some(CallArg::Value(reg)) = call.args.get(1) else { return MeterColor::Green };
        let value = frame.words(*reg)[0];
        let [green, yellow, _] = self.program.color_encodings;
        match value {
            v if v == green => MeterColor::Green,
            v if v == yellow => MeterColor::Yellow,
            _ => MeterColor::Red,
        }
    }

    fn colour_result(&self, colour: MeterColor) -> u128 {
        u128::from(self.program.color_encodings[colour as usize])
    }

    fn call_hash(&mut self, frame: &mut Frame, call: &DecodedCall) {
        use ExternFn::*;
        let algorithm = call.algorithm.unwrap_or(HashAlgorithm::Csum16);
        let object = call.object.map_or(0, |id| id.0 as usize);
        let hash = |machine: &mut Self, frame: &Frame, index: usize, payload: bool| {
            let bits = &mut *machine.bits;
            bits.clear();
            frame.push_data(data_operands(call, index), bits);
            if payload {
                bits.push_bytes(frame.payload());
            }
            algorithm::hash(algorithm, bits.bytes())
        };
        match call.func {
            HashGet | Checksum16Get if call.args.len() == 1 => {
                let algorithm_hash = hash(self, frame, 0, false);
                store_result(frame, call, u128::from(algorithm_hash));
            }
            HashGet | Hash => {
                let first = usize::from(call.func == Hash);
                let (base, most) = (scalar(frame, call, first), scalar(frame, call, first + 2));
                let value = hash(self, frame, first + 1, false);
                store_result(frame, call, base.wrapping_add(u128::from(value).checked_rem(most).unwrap_or(0)));
            }
            ChecksumClear => frame.checksums[object].clear(),
            ChecksumUpdate => {
                let mut bits = std::mem::take(&mut frame.checksums[object]);
                // Bounds the memory that a loop can fill.
                if bits.byte_len() < 1 << 20 {
                    frame.push_data(data_operands(call, 0), &mut bits);
                }
                frame.checksums[object] = bits;
            }
            ChecksumGet => {
                let value = algorithm::hash(algorithm, frame.checksums[object].bytes());
                store_result(frame, call, u128::from(value));
            }
            UpdateChecksum | UpdateChecksumWithPayload => {
                let value = match scalar(frame, call, 0) {
                    0 => scalar(frame, call, 2),
                    _ => u128::from(hash(self, frame, 1, call.func == UpdateChecksumWithPayload)),
                };
                store_result(frame, call, value);
            }
            _ => {
                if scalar(frame, call, 0) == 0 {
                    return;
                }
                let width = data_operands(call, 2).first().map_or(16, |reg| reg.width);
                let value = hash(self, frame, 1, call.func == VerifyChecksumWithPayload) & mask64(width);
                frame.checksum_error |= u128::from(value) != scalar(frame, call, 2);
            }
        }
    }

    fn call_internet_checksum(&mut self, frame: &mut Frame, call: &DecodedCall) {
        use ExternFn::*;
        let object = call.object.map_or(0, |id| id.0 as usize);
        let sum = frame.sums[object];
        let mut sum_from = |start: u16, frame: &Frame| {
            self.bits.clear();
            frame.push_data(data_operands(call, 0), self.bits);
            algorithm::ones_sum(start, self.bits.bytes())
        };
        match call.func {
            InternetChecksumClear => frame.sums[object] = 0,
            InternetChecksumAdd => frame.sums[object] = sum_from(sum, frame),
            InternetChecksumSubtract => {
                frame.sums[object] = algorithm::ones_subtract(sum, sum_from(0, frame));
            }
            InternetChecksumGet => store_result(frame, call, u128::from(!sum)),
            InternetChecksumGetState => store_result(frame, call, u128::from(sum)),
            _ => frame.sums[object] = scalar(frame, call, 0) as u16,
        }
    }

    /// PNA: adds entries and sets idle timeouts. Functions on the hit entry have no effect after a
    /// miss.
    fn call_flow(&mut self, frame: &mut Frame, call: &DecodedCall) {
        let table = table_arg(call);
        let now = self.memory.now;
        let slot = frame.hit_slots.get(table).and_then(|hit| hit.checked_sub(1));
        match call.func {
            ExternFn::AllocateFlowId => {
                self.memory.flow_id = self.memory.flow_id.wrapping_add(1);
                let id = self.memory.flow_id;
                store_result(frame, call, u128::from(id));
            }
            ExternFn::AddEntry => {
                let added = slot.is_none()
                    && self.overseer.can_add_entry(table)
                    && self.add_entry(frame, call, table).is_some();
                store_result(frame, call, u128::from(added));
            }
            _ => {
                let Some(slot) = slot else { return };
                if call.func == ExternFn::SetEntryExpireTime {
                    return self.memory.set_expire_profile(table, slot, scalar(frame, call, 1) as u8, now);
                }
                let clock = self.memory.tables[table].idle_clock;
                self.memory.tables[table].slots[slot as usize].restart_timer((clock, now));
                self.memory.schedule_expiry(table as u32, slot);
            }
        }
    }

    fn add_entry(&mut self, frame: &Frame, call: &DecodedCall, table: usize) -> Option<u32> {
        let (action, profile) = self.new_entry(frame, call, table)?;
        let twin = match call.args.len() > ExternFn::TWIN_KEY {
            true => {
                Some((self.twin_key(frame, call, table)?, self.new_action(frame, call, table, ExternFn::TWIN_KEY + 1)?))
            }
            false => None,
        };
        let key = self.memory.tables[table].missed_key();
        self.add_entries(table, (key, action), twin, profile)
    }

    /// Returns the key of the twin that `add_entry` adds.
    fn twin_key(&self, frame: &Frame, call: &DecodedCall, table: usize) -> Option<PackedKey> {
        let layout = self.memory.state.layout(ir::TableId(table as u32));
        let values = data_operands(call, ExternFn::TWIN_KEY);
        let fits = |(reg, field): (&Reg, &PackedKeyField)| field.words == reg.words as usize;
        if layout.fields.len() != values.len() || !values.iter().zip(&layout.fields).all(fits) {
            return None;
        }
        let words: Vec<u64> = values.iter().flat_map(|reg| frame.words(*reg)).copied().collect();
        Some(PackedKey::from_slice(&words))
    }

    /// Returns action and expire time profile of the entry that `add_entry` adds; `None` if the
    /// table cannot hold it.
    pub(crate) fn new_entry(&self, frame: &Frame, call: &DecodedCall, table: usize) -> Option<(StoredAction, u8)> {
        if !self.memory.tables[table].is_exact() {
            return None;
        }
        Some((self.new_action(frame, call, table, 1)?, scalar(frame, call, 3) as u8))
    }

    /// Returns the action at an index of the call's arguments, with the parameters that follow it;
    /// `None` if the table does not list it.
    fn new_action(&self, frame: &Frame, call: &DecodedCall, table: usize, index: usize) -> Option<StoredAction> {
        let Some(CallArg::Action(action)) = call.args.get(index) else { return None };
        self.memory.tables[table].position(*action)?;
        let layout = entries::action_layout(self.pipeline, *action);
        let params = data_operands(call, index + 1);
        if layout.len() != params.len() {
            return None;
        }
        let mut args = Vec::new();
        for (reg, field) in params.iter().zip(&layout) {
            let mut value = frame.words(*reg).to_vec();
            value.resize(field.words, 0);
            args.extend(value);
        }
        Some(StoredAction::Call(*action, args.into_boxed_slice()))
    }

    fn call_random(&mut self, frame: &mut Frame, call: &DecodedCall) {
        let (low, high) = match call.func {
            ExternFn::Random => (scalar(frame, call, 0), scalar(frame, call, 1)),
            _ => {
                let object = call.object.and_then(|id| self.pipeline.externs.get(id)).map(|o| &o.kind);
                let Some(ExternKind::Random { min, max }) = object else { return };
                let number = |c: &ir::Const| u128::try_from(&c.bits).unwrap_or(u128::MAX);
                (number(min), number(max))
            }
        };
        let value = self.uniform(low, high);
        store_result(frame, call, value);
    }

    /// Returns a uniform random number in `low..=high`; `low` if the range is empty.
    fn uniform(&mut self, low: u128, high: u128) -> u128 {
        let Some(span) = high.checked_sub(low) else { return low };
        let mask = if span == 0 { 0 } else { u128::MAX >> span.leading_zeros() };
        // Each attempt succeeds with a probability of at least one half. Their number is bounded,
        // because the time of a packet must be bounded.
        for _ in 0..128 {
            let random = u128::from(self.memory.next_random_word()) << 64 | u128::from(self.memory.next_random_word());
            if random & mask <= span {
                return low + (random & mask);
            }
        }
        low
    }

    fn digest(&mut self, frame: &Frame, call: &DecodedCall) {
        let Some(digest) = call.object else { return };
        if self.memory.digests.len() >= MAX_WAITING {
            self.memory.lost_messages += 1;
            return;
        }
        let values = data_operands(call, 0).iter().map(|reg| load_big(frame, *reg)).collect();
        self.memory.digests.push_back(DigestMessage { digest, values });
    }
}
