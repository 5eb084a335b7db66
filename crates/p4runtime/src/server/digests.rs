//! [`Digests`]: digest messages into lists, without duplicates (P4Runtime specification, section "DigestEntry"). A state machine without
//! I/O or clock.

use super::forms::DigestForm;
use crate::Refusal;
use crate::proto::v1::{DigestList, DigestListAck, P4Data};
use crate::translate::DigestConfig;
use prost::Message;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// The most messages of a list, also if the config sets no limit.
const LIST: usize = 1024;

/// The most messages of one digest that wait for an acknowledgement. The oldest list is forgotten if there are more.
const UNACKNOWLEDGED: usize = 65536;

/// A sent list whose data is not sent again yet.
struct Sent {
    list: u64,
    at: Instant,
    keys: Vec<Vec<u8>>,
}

/// One digest that is enabled.
struct Digest {
    config: DigestConfig,
    buffer: Vec<P4Data>,
    /// When the first message of the buffer came.
    since: Option<Instant>,
    /// Encoded messages in the buffer, and in lists that were sent.
    buffered: HashSet<Vec<u8>>,
    unacknowledged: HashMap<Vec<u8>, u64>,
    sent: VecDeque<Sent>,
}

/// The digests of a pipeline that are enabled.
#[derive(Default)]
pub struct Digests {
    enabled: BTreeMap<u32, Digest>,
    lists: u64,
    /// Messages are kept, and no list is sent.
    frozen: bool,
}

impl Digests {
    /// Takes configs as a write left them. Buffers and unacknowledged lists of those that stay are kept.
    pub fn configure(&mut self, configs: &BTreeMap<u32, DigestConfig>) {
        self.enabled.retain(|id, _| configs.contains_key(id));
        for (id, config) in configs {
            match self.enabled.get_mut(id) {
                Some(digest) => digest.config = *config,
                None => drop(self.enabled.insert(*id, Digest::new(*config))),
            }
        }
    }

    /// The digests that are enabled.
    pub fn configs(&self) -> BTreeMap<u32, DigestConfig> {
        self.enabled.iter().map(|(id, digest)| (*id, digest.config)).collect()
    }

    /// Whether lists are sent.
    pub fn freeze(&mut self, frozen: bool) {
        self.frozen = frozen;
    }

    /// Whether lists are not sent.
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// How many lists were sent, and the digests with their messages. Not what was sent and waits for an acknowledgement: whoever is sent more is
    /// another client.
    pub fn form(&self, now: Instant) -> (u64, Vec<DigestForm>) {
        let one = |(number, digest): (&u32, &Digest)| DigestForm {
            number: *number,
            config: digest.config,
            messages: digest.buffer.iter().map(Message::encode_to_vec).collect(),
            waited: digest.since.map(|since| now.saturating_duration_since(since)).unwrap_or_default(),
        };
        (self.lists, self.enabled.iter().map(one).collect())
    }

    /// Goes on with what [`Digests::form`] gave.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if a message is none.
    pub fn take_up(&mut self, lists: u64, forms: Vec<DigestForm>, now: Instant) -> Result<(), Refusal> {
        let mut enabled = BTreeMap::new();
        for form in forms {
            let mut digest = Digest::new(form.config);
            for bytes in form.messages {
                let data = P4Data::decode(&*bytes).map_err(|error| {
                    Refusal::invalid(format!("what waits of digest {:#x} is no message: {error}", form.number))
                })?;
                digest.since = digest.since.or(Some(now.checked_sub(form.waited).unwrap_or(now)));
                if digest.buffered.insert(data.encode_to_vec()) {
                    digest.buffer.push(data);
                }
            }
            enabled.insert(form.number, digest);
        }
        (self.enabled, self.lists) = (enabled, lists);
        Ok(())
    }

    /// A message of the data plane. Returns a list if it is full now.
    pub fn message(&mut self, id: u32, data: P4Data, now: Instant) -> Option<DigestList> {
        let digest = self.enabled.get_mut(&id)?;
        digest.forget(now);
        let key = data.encode_to_vec();
        if digest.unacknowledged.contains_key(&key) || !digest.buffered.insert(key) {
            return None;
        }
        digest.since.get_or_insert(now);
        digest.buffer.push(data);
        let full = digest.buffer.len() >= digest.list_size() && !self.frozen;
        full.then(|| digest.send(id, &mut self.lists, now))
    }

    /// Lists whose time has come.
    pub fn due(&mut self, now: Instant) -> Vec<DigestList> {
        if self.frozen {
            return Vec::new();
        }
        let lists = &mut self.lists;
        let due = |(id, digest): (&u32, &mut Digest)| {
            let is_due = digest.deadline().is_some_and(|at| at <= now);
            is_due.then(|| digest.send(*id, lists, now))
        };
        self.enabled.iter_mut().filter_map(due).collect()
    }

    /// When to look at [`Digests::due`] again.
    pub fn next(&self) -> Option<Instant> {
        self.enabled.values().filter(|_| !self.frozen).filter_map(Digest::deadline).min()
    }

    /// The client has seen a list: its data may be sent again. One that is not known (any more) is no fault.
    pub fn acknowledge(&mut self, ack: &DigestListAck) {
        let Some(digest) = self.enabled.get_mut(&ack.digest_id) else { return };
        if let Some(at) = digest.sent.iter().position(|sent| sent.list == ack.list_id)
            && let Some(sent) = digest.sent.remove(at)
        {
            digest.drop_keys(sent);
        }
    }

    /// Another client is primary: it is sent everything anew.
    pub fn forget_sent(&mut self) {
        for digest in self.enabled.values_mut() {
            digest.sent.clear();
            digest.unacknowledged.clear();
        }
    }
}

impl Digest {
    fn new(config: DigestConfig) -> Digest {
        Digest {
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
            self.sent.push_back(Sent { list: *lists, at: now, keys });
            while self.unacknowledged.len() > UNACKNOWLEDGED
                && let Some(oldest) = self.sent.pop_front()
            {
                self.drop_keys(oldest);
            }
        }
        DigestList { digest_id: id, list_id: *lists, data, timestamp: 0 }
    }

    /// Drops lists that have waited long enough.
    fn forget(&mut self, now: Instant) {
        let wait = Duration::from_nanos(self.config.ack_timeout_ns);
        while self.sent.front().is_some_and(|sent| now.saturating_duration_since(sent.at) >= wait)
            && let Some(sent) = self.sent.pop_front()
        {
            self.drop_keys(sent);
        }
    }

    fn drop_keys(&mut self, sent: Sent) {
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
        assert_eq!(digests.message(ID, data(1), now), None);
        assert_eq!(digests.message(ID, data(1), now), None, "a duplicate");
        let list = digests.message(ID, data(2), now).unwrap();
        assert_eq!((list.digest_id, list.list_id, list.data), (ID, 1, vec![data(1), data(2)]));
        assert_eq!(digests.next(), None);
    }

    #[test]
    fn a_list_is_sent_when_its_time_has_come() {
        let (mut digests, now) = digests(1_000, 0, 0);
        digests.message(ID, data(1), now);
        let at = digests.next().unwrap();
        assert_eq!(at, now + Duration::from_nanos(1_000));
        assert_eq!(digests.due(now), []);
        assert_eq!(digests.due(at)[0].data, [data(1)]);
        assert_eq!(digests.due(at), []);
    }

    #[test]
    fn without_a_timeout_or_with_size_1_each_message_is_a_list() {
        for (timeout, size) in [(0, 0), (0, 5), (1_000_000, 1)] {
            let (mut digests, now) = digests(timeout, size, 0);
            assert_eq!(digests.message(ID, data(1), now).unwrap().list_id, 1);
            assert_eq!(digests.message(ID, data(1), now).unwrap().list_id, 2, "no cache without an ack timeout");
        }
    }

    #[test]
    fn the_same_data_is_not_sent_again_until_it_is_acknowledged() {
        let (mut digests, now) = digests(0, 1, 1_000);
        assert_eq!(digests.message(ID, data(1), now).unwrap().list_id, 1);
        assert_eq!(digests.message(ID, data(1), now), None);
        assert_eq!(digests.message(ID, data(2), now).unwrap().list_id, 2);
        acknowledge(&mut digests, 7);
        acknowledge(&mut digests, 2);
        assert_eq!(digests.message(ID, data(1), now), None, "another list was acknowledged");
        acknowledge(&mut digests, 1);
        acknowledge(&mut digests, 1);
        assert_eq!(digests.message(ID, data(1), now).unwrap().list_id, 3);
    }

    #[test]
    fn the_same_data_is_sent_again_after_the_ack_timeout_or_to_another_client() {
        let (mut digests, now) = digests(0, 1, 1_000);
        digests.message(ID, data(1), now);
        assert_eq!(digests.message(ID, data(1), now + Duration::from_nanos(999)), None);
        assert!(digests.message(ID, data(1), now + Duration::from_nanos(1_000)).is_some());
        digests.forget_sent();
        assert!(digests.message(ID, data(1), now + Duration::from_nanos(1_001)).is_some());
    }

    #[test]
    fn another_process_goes_on_with_a_list_that_is_not_full() {
        let (mut first, now) = digests(1_000_000, 3, 0);
        first.message(ID, data(9), now);
        assert_eq!(first.due(now + Duration::from_millis(1))[0].list_id, 1);
        first.message(ID, data(1), now);
        first.freeze(true);
        let later = now + Duration::from_micros(400);
        let (lists, forms) = first.form(later);
        first.message(ID, data(5), later);
        first.message(ID, data(6), later);
        assert_eq!((first.message(ID, data(7), later), first.next()), (None, None), "it sends none");
        assert_eq!(first.due(now + Duration::from_secs(1)), []);
        let mut second = Digests::default();
        second.take_up(lists, forms, later).unwrap();
        assert_eq!(second.configs(), first.configs());
        assert_eq!(second.next(), Some(now + Duration::from_millis(1)), "what has waited goes on waiting");
        assert_eq!(second.message(ID, data(1), later), None, "a duplicate");
        second.message(ID, data(2), later);
        let list = second.message(ID, data(3), later).unwrap();
        assert_eq!((list.list_id, list.data), (2, vec![data(1), data(2), data(3)]));
        first.freeze(false);
        let list = first.message(ID, data(8), later).unwrap();
        assert_eq!((list.list_id, list.data.len()), (2, 5), "the first one goes on if it has to");
    }

    #[test]
    fn digests_that_are_not_enabled_are_silent() {
        let (mut digests, now) = digests(0, 1, 0);
        assert_eq!(digests.message(ID + 1, data(1), now), None);
        digests.configure(&BTreeMap::new());
        assert_eq!(digests.message(ID, data(1), now), None);
        digests.acknowledge(&DigestListAck { digest_id: 9, list_id: 1 });
    }

    #[test]
    fn what_waits_is_bounded() {
        let (mut digests, now) = digests(u64::MAX, u32::MAX, u64::MAX);
        let wide = |n: u32| P4Data { data: Some(Data::Bitstring(n.to_be_bytes().to_vec().into())) };
        let lists = (0..200_000).filter_map(|n| digests.message(ID, wide(n), now)).count();
        assert_eq!(lists, 200_000 / LIST);
        assert!(digests.enabled[&ID].unacknowledged.len() <= UNACKNOWLEDGED);
    }
}
