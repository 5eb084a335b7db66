//! [`Digests`]: groups digest messages into lists without duplicates (P4Runtime specification,
//! section "DigestEntry"). It is a state machine without I/O or clock.

use super::state_snapshot::DigestSnapshot;
use crate::P4RuntimeError;
use crate::proto::v1::{DigestList, DigestListAck, P4Data};
use crate::translate::DigestConfig;
use prost::Message;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// Maximum number of messages in a list, also if the config sets no limit.
const LIST: usize = 1024;

/// Maximum number of unacknowledged messages of one digest. Beyond it, the oldest list is dropped.
const UNACKNOWLEDGED: usize = 65536;

/// Sent list that awaits its acknowledgement.
struct SentList {
    list: u64,
    at: Instant,
    keys: Vec<Vec<u8>>,
}

/// State of an enabled digest.
struct DigestState {
    config: DigestConfig,
    buffer: Vec<P4Data>,
    /// Arrival of the first buffered message.
    since: Option<Instant>,
    /// Encoded messages in the buffer, and in `unacknowledged` those of sent lists.
    buffered: HashSet<Vec<u8>>,
    unacknowledged: HashMap<Vec<u8>, u64>,
    sent: VecDeque<SentList>,
}

/// Enabled digests of a pipeline.
#[derive(Default)]
pub struct Digests {
    enabled: BTreeMap<u32, DigestState>,
    lists: u64,
    /// Whether messages are buffered and no lists are sent.
    is_frozen: bool,
}

impl Digests {
    /// Sets the configs after a write. Digests that remain keep their buffers and unacknowledged
    /// lists.
    pub fn configure(&mut self, configs: &BTreeMap<u32, DigestConfig>) {
        self.enabled.retain(|id, _| configs.contains_key(id));
        for (id, config) in configs {
            match self.enabled.get_mut(id) {
                Some(digest) => digest.config = *config,
                None => drop(self.enabled.insert(*id, DigestState::new(*config))),
            }
        }
    }

    /// Returns the configs of the enabled digests.
    pub fn configs(&self) -> BTreeMap<u32, DigestConfig> {
        self.enabled.iter().map(|(id, digest)| (*id, digest.config)).collect()
    }

    /// Stops (`true`) or resumes the sending of lists.
    pub fn set_frozen(&mut self, frozen: bool) {
        self.is_frozen = frozen;
    }

    /// Returns whether the sending of lists is stopped.
    pub fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// Returns the number of sent lists and a snapshot of the digests with their buffered messages.
    /// Unacknowledged lists are omitted, because their client will not receive the next lists.
    pub fn snapshot(&self, now: Instant) -> (u64, Vec<DigestSnapshot>) {
        let one = |(number, digest): (&u32, &DigestState)| DigestSnapshot {
            number: *number,
            config: digest.config,
            messages: digest.buffer.iter().map(Message::encode_to_vec).collect(),
            age: digest.since.map(|since| now.saturating_duration_since(since)).unwrap_or_default(),
        };
        (self.lists, self.enabled.iter().map(one).collect())
    }

    /// Restores the state from [`Digests::snapshot`].
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if a message cannot be decoded.
    pub fn restore(&mut self, lists: u64, snapshots: Vec<DigestSnapshot>, now: Instant) -> Result<(), P4RuntimeError> {
        let mut enabled = BTreeMap::new();
        for snapshot in snapshots {
            let mut digest = DigestState::new(snapshot.config);
            for bytes in snapshot.messages {
                let data = P4Data::decode(&*bytes).map_err(|error| {
                    P4RuntimeError::invalid(format!(
                        "a buffered message of digest {:#x} cannot be decoded: {error}",
                        snapshot.number
                    ))
                })?;
                digest.since = digest.since.or(Some(now.checked_sub(snapshot.age).unwrap_or(now)));
                if digest.buffered.insert(data.encode_to_vec()) {
                    digest.buffer.push(data);
                }
            }
            enabled.insert(snapshot.number, digest);
        }
        (self.enabled, self.lists) = (enabled, lists);
        Ok(())
    }

    /// Adds a message of the data plane. Returns a list if it is full.
    pub fn add_message(&mut self, id: u32, data: P4Data, now: Instant) -> Option<DigestList> {
        let digest = self.enabled.get_mut(&id)?;
        digest.drop_expired(now);
        let key = data.encode_to_vec();
        if digest.unacknowledged.contains_key(&key) || !digest.buffered.insert(key) {
            return None;
        }
        digest.since.get_or_insert(now);
        digest.buffer.push(data);
        let full = digest.buffer.len() >= digest.list_size() && !self.is_frozen;
        full.then(|| digest.send(id, &mut self.lists, now))
    }

    /// Returns the lists with an expired timeout.
    pub fn take_due_lists(&mut self, now: Instant) -> Vec<DigestList> {
        if self.is_frozen {
            return Vec::new();
        }
        let lists = &mut self.lists;
        let due = |(id, digest): (&u32, &mut DigestState)| {
            let is_due = digest.deadline().is_some_and(|at| at <= now);
            is_due.then(|| digest.send(*id, lists, now))
        };
        self.enabled.iter_mut().filter_map(due).collect()
    }

    /// Returns the time of the next call of [`Digests::take_due_lists`].
    pub fn next_deadline(&self) -> Option<Instant> {
        self.enabled.values().filter(|_| !self.is_frozen).filter_map(DigestState::deadline).min()
    }

    /// Removes an acknowledged list, so that its data can be sent again. Unknown lists are ignored.
    pub fn acknowledge(&mut self, ack: &DigestListAck) {
        let Some(digest) = self.enabled.get_mut(&ack.digest_id) else { return };
        if let Some(at) = digest.sent.iter().position(|sent| sent.list == ack.list_id)
            && let Some(sent) = digest.sent.remove(at)
        {
            digest.drop_keys(sent);
        }
    }

    /// Clears the unacknowledged lists, because a new primary must receive all data.
    pub fn clear_unacknowledged(&mut self) {
        for digest in self.enabled.values_mut() {
            digest.sent.clear();
            digest.unacknowledged.clear();
        }
    }
}

impl DigestState {
    fn new(config: DigestConfig) -> DigestState {
        DigestState {
            config,
            buffer: Vec::new(),
            since: None,
            buffered: HashSet::new(),
            unacknowledged: HashMap::new(),
            sent: VecDeque::new(),
        }
    }

    fn list_size(&self) -> usize {
        match self.config.max_list_size as usize {
            _ if self.config.max_timeout_ns == 0 => 1,
            0 => LIST,
            most => most.min(LIST),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.since?.checked_add(Duration::from_nanos(self.config.max_timeout_ns))
    }

    fn send(&mut self, id: u32, lists: &mut u64, now: Instant) -> DigestList {
        *lists += 1;
        self.since = None;
        let data = std::mem::take(&mut self.buffer);
        let keys: Vec<Vec<u8>> = self.buffered.drain().collect();
        if self.config.ack_timeout_ns > 0 {
            self.unacknowledged.extend(keys.iter().cloned().map(|key| (key, *lists)));
            self.sent.push_back(SentList { list: *lists, at: now, keys });
            while self.unacknowledged.len() > UNACKNOWLEDGED
                && let Some(oldest) = self.sent.pop_front()
            {
                self.drop_keys(oldest);
            }
        }
        DigestList { digest_id: id, list_id: *lists, data, timestamp: 0 }
    }

    /// Drops lists with an expired acknowledgement timeout.
    fn drop_expired(&mut self, now: Instant) {
        let wait = Duration::from_nanos(self.config.ack_timeout_ns);
        while self.sent.front().is_some_and(|sent| now.saturating_duration_since(sent.at) >= wait)
            && let Some(sent) = self.sent.pop_front()
        {
            self.drop_keys(sent);
        }
    }

    fn drop_keys(&mut self, sent: SentList) {
        for key in sent.keys {
            self.unacknowledged.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::p4_data::Data;

    const ID: u32 = 0x1234;

    fn data(value: u8) -> P4Data {
        P4Data { data: Some(Data::Bitstring(vec![value].into())) }
    }

    fn digests(max_timeout_ns: u64, max_list_size: u32, ack_timeout_ns: u64) -> (Digests, Instant) {
        let mut digests = Digests::default();
        digests.configure(&BTreeMap::from([(ID, DigestConfig { max_timeout_ns, max_list_size, ack_timeout_ns })]));
        (digests, Instant::now())
    }

    fn acknowledge(digests: &mut Digests, list_id: u64) {
        digests.acknowledge(&DigestListAck { digest_id: ID, list_id });
    }

    #[test]
    fn a_list_is_sent_when_it_is_full_of_distinct_messages() {
        let (mut digests, now) = digests(1_000_000, 2, 0);
        assert_eq!(digests.add_message(ID, data(1), now), None);
        assert_eq!(digests.add_message(ID, data(1), now), None, "a duplicate");
        let list = digests.add_message(ID, data(2), now).unwrap();
        assert_eq!((list.digest_id, list.list_id, list.data), (ID, 1, vec![data(1), data(2)]));
        assert_eq!(digests.next_deadline(), None);
    }

    #[test]
    fn a_list_is_sent_when_its_time_has_come() {
        let (mut digests, now) = digests(1_000, 0, 0);
        digests.add_message(ID, data(1), now);
        let at = digests.next_deadline().unwrap();
        assert_eq!(at, now + Duration::from_nanos(1_000));
        assert_eq!(digests.take_due_lists(now), []);
        assert_eq!(digests.take_due_lists(at)[0].data, [data(1)]);
        assert_eq!(digests.take_due_lists(at), []);
    }

    #[test]
    fn without_a_timeout_or_with_size_1_each_message_is_a_list() {
        for (timeout, size) in [(0, 0), (0, 5), (1_000_000, 1)] {
            let (mut digests, now) = digests(timeout, size, 0);
            assert_eq!(digests.add_message(ID, data(1), now).unwrap().list_id, 1);
            assert_eq!(digests.add_message(ID, data(1), now).unwrap().list_id, 2, "no cache without an ack timeout");
        }
    }

    #[test]
    fn the_same_data_is_not_sent_again_until_it_is_acknowledged() {
        let (mut digests, now) = digests(0, 1, 1_000);
        assert_eq!(digests.add_message(ID, data(1), now).unwrap().list_id, 1);
        assert_eq!(digests.add_message(ID, data(1), now), None);
        assert_eq!(digests.add_message(ID, data(2), now).unwrap().list_id, 2);
        acknowledge(&mut digests, 7);
        acknowledge(&mut digests, 2);
        assert_eq!(digests.add_message(ID, data(1), now), None, "another list was acknowledged");
        acknowledge(&mut digests, 1);
        acknowledge(&mut digests, 1);
        assert_eq!(digests.add_message(ID, data(1), now).unwrap().list_id, 3);
    }

    #[test]
    fn the_same_data_is_sent_again_after_the_ack_timeout_or_to_another_client() {
        let (mut digests, now) = digests(0, 1, 1_000);
        digests.add_message(ID, data(1), now);
        assert_eq!(digests.add_message(ID, data(1), now + Duration::from_nanos(999)), None);
        assert!(digests.add_message(ID, data(1), now + Duration::from_nanos(1_000)).is_some());
        digests.clear_unacknowledged();
        assert!(digests.add_message(ID, data(1), now + Duration::from_nanos(1_001)).is_some());
    }

    #[test]
    fn another_process_goes_on_with_a_list_that_is_not_full() {
        let (mut first, now) = digests(1_000_000, 3, 0);
        first.add_message(ID, data(9), now);
        assert_eq!(first.take_due_lists(now + Duration::from_millis(1))[0].list_id, 1);
        first.add_message(ID, data(1), now);
        first.set_frozen(true);
        let later = now + Duration::from_micros(400);
        let (lists, forms) = first.snapshot(later);
        first.add_message(ID, data(5), later);
        first.add_message(ID, data(6), later);
        assert_eq!((first.add_message(ID, data(7), later), first.next_deadline()), (None, None), "it sends none");
        assert_eq!(first.take_due_lists(now + Duration::from_secs(1)), []);
        let mut second = Digests::default();
        second.restore(lists, forms, later).unwrap();
        assert_eq!(second.configs(), first.configs());
        assert_eq!(second.next_deadline(), Some(now + Duration::from_millis(1)), "what has waited goes on waiting");
        assert_eq!(second.add_message(ID, data(1), later), None, "a duplicate");
        second.add_message(ID, data(2), later);
        let list = second.add_message(ID, data(3), later).unwrap();
        assert_eq!((list.list_id, list.data), (2, vec![data(1), data(2), data(3)]));
        first.set_frozen(false);
        let list = first.add_message(ID, data(8), later).unwrap();
        assert_eq!((list.list_id, list.data.len()), (2, 5), "the first one goes on if it has to");
    }

    #[test]
    fn digests_that_are_not_enabled_are_silent() {
        let (mut digests, now) = digests(0, 1, 0);
        assert_eq!(digests.add_message(ID + 1, data(1), now), None);
        digests.configure(&BTreeMap::new());
        assert_eq!(digests.add_message(ID, data(1), now), None);
        digests.acknowledge(&DigestListAck { digest_id: 9, list_id: 1 });
    }

    #[test]
    fn what_waits_is_bounded() {
        let (mut digests, now) = digests(u64::MAX, u32::MAX, u64::MAX);
        let wide = |n: u32| P4Data { data: Some(Data::Bitstring(n.to_be_bytes().to_vec().into())) };
        let lists = (0..200_000).filter_map(|n| digests.add_message(ID, wide(n), now)).count();
        assert_eq!(lists, 200_000 / LIST);
        assert!(digests.enabled[&ID].unacknowledged.len() <= UNACKNOWLEDGED);
    }
}
