//! The side of the process that runs.

use super::line::Line;
use super::message::{Belongings, CountsForm, FromGiver, FromTaker, Hello, Last, Welcome};
use super::{PROTOCOLS, TakeoverError, WITH_LEVELS, WITH_NUMBERS, changes};
use crate::device::{Hold, Node, kept};
use crate::plane::Parked;
use crate::reconcile::Matching;
use crate::store::Store;
use crate::{levels, reconcile, record};
use entries::State;
use interp::DigestMessage;
use io::Port;
use packet::{Batch, PortId};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::{Duration, Instant};

/// How long a taker may take to say who it is.
const GREETING: Duration = Duration::from_secs(5);
/// How long it may take to make code and to load tables.
const LOADING: Duration = Duration::from_secs(300);
/// How long it may take for each further step; in the last ones, packets wait.
const STEP: Duration = Duration::from_secs(10);
/// How long after a take-over that failed the giver tries to open its store again, before it leaves that to the next write.
const REOPENING: Duration = Duration::from_secs(5);

/// How long digest messages may take to the server.
const SETTLING: Duration = Duration::from_secs(1);

/// A listening socket that a taker is to have: the address by which the configuration calls it, and the socket.
pub type Listening = (String, TcpListener);

/// Waits for takers.
pub struct Giver {
    listener: UnixListener,
    path: PathBuf,
}

impl Giver {
    /// Listens on a socket that this user alone may connect to. Who listened there before is not reached any more.
    ///
    /// # Errors
    /// The system's.
    pub fn listen(path: &Path) -> std::io::Result<Giver> {
        // Made ready under another name, then put in place: at each moment somebody listens.
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(format!(".{}", std::process::id()));
        let fresh = PathBuf::from(fresh);
        let _ = std::fs::remove_file(&fresh);
        let listener = UnixListener::bind(&fresh)?;
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&fresh, path)?;
        Ok(Giver { listener, path: path.to_owned() })
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Waits for takers, one after the other, until one has taken over; comes back then. `say` tells people what happens.
///
/// # Errors
/// The socket cannot be used any more.
pub fn serve(
    giver: &Giver,
    node: &Weak<Node>,
    listening: &[Listening],
    say: &mut dyn FnMut(String),
) -> std::io::Result<()> {
    loop {
        let (stream, _) = giver.listener.accept()?;
        // Nothing holds a node that is about to end.
        let Some(node) = node.upgrade() else { return Ok(()) };
        match give(stream, &node, listening) {
            Ok(program) => {
                say(format!("{program} has taken over; this process ends"));
                return Ok(());
            }
            Err(error) => say(format!("no take-over, this process goes on: {error}")),
        }
    }
}

/// Gives everything to the process at the other end. Returns what it is called. After an error this process goes on as before.
fn give(stream: UnixStream, node: &Node, listening: &[Listening]) -> Result<String, TakeoverError> {
    let taker = pidfd(&stream);
    let mut line = Line::new(stream)?;
    let (program, protocol) = greet(&mut line, node)?;
    node.hold();
    if !node.service().held.settle(SETTLING) {
        tracing::warn!("some digest messages are late; they stay with this process");
    }
    let mut giving = Giving {
        node,
        line,
        protocol,
        taker,
        listening,
        parked: Vec::new(),
        waiting: Vec::new(),
        untold: Vec::new(),
        store: None,
        gone: false,
    };
    match giving.all() {
        Ok(()) => {
            node.release(Hold::Gone);
            giving.parked.clear();
            Ok(program)
        }
        Err(error) => {
            giving.go_on(&error);
            node.service().held.thaw();
            node.release(Hold::Free);
            Err(error)
        }
    }
}

fn pidfd(stream: &UnixStream) -> Option<OwnedFd> {
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    if peer.pid == rustix::process::getpid() {
        return None;
    }
    rustix::process::pidfd_open(peer.pid, rustix::process::PidfdFlags::empty()).ok()
}

/// Who is it, and which version of the protocol do both speak?
fn greet(line: &mut Line, node: &Node) -> Result<(String, u32), TakeoverError> {
    let (bytes, _) = line.receive(GREETING)?;
    let hello: Hello = serde_json::from_slice(&bytes)
        .map_err(|error| TakeoverError::Unexpected(format!("its first message: {error}")))?;
    let protocol = hello.protocols.iter().copied().find(|version| PROTOCOLS.contains(version));
    let why = match protocol {
        None => Some(format!(
            "{} speaks versions {:?} of the protocol, this one {PROTOCOLS:?}",
            hello.program, hello.protocols
        )),
        Some(_) if hello.device_id != node.device_id => {
            Some(format!("device {} is here, not {}", node.device_id, hello.device_id))
        }
        Some(_) => None,
    };
    let protocol = protocol.filter(|_| why.is_none());
    let welcome = Welcome { protocol, program: super::take::program(), why: why.clone() };
    line.send(&serde_json::to_vec(&welcome).map_err(TakeoverError::here)?, &[])?;
    match (why, protocol) {
        (None, Some(protocol)) => Ok((hello.program, protocol)),
        (why, _) => Err(TakeoverError::Here(why.unwrap_or_default())),
    }
}

/// A take-over under way.
struct Giving<'a> {
    node: &'a Node,
    line: Line,
    /// Which version of the protocol both speak.
    protocol: u32,
    /// The other process.
    taker: Option<OwnedFd>,
    listening: &'a [Listening],
    parked: Vec<Parked>,
    /// Packets of controllers' that waited to go in.
    waiting: Vec<Vec<u8>>,
    /// Digest messages that the server was not told of.
    untold: Vec<DigestMessage>,
    /// The store that was closed, and the length of its log.
    store: Option<(PathBuf, u64)>,
    /// The taker may be at work.
    gone: bool,
}

impl Giving<'_> {
    fn all(&mut self) -> Result<(), TakeoverError> {
        let state = self.give_tables()?;
        self.expect(FromTaker::Ready, LOADING)?;
        self.close_store()?;
        self.expect(FromTaker::StoreOpen, LOADING)?;
        self.parked = self.node.plane.pause().map_err(TakeoverError::here)?;
        self.give_changes(state.as_ref())?;
        if self.protocol >= WITH_LEVELS {
            self.give_levels()?;
            self.give_held()?;
        }
        if self.protocol >= WITH_NUMBERS {
            let numbers = self.node.inner().numbers.clone();
            self.line.say(&FromGiver::Numbers(numbers))?;
        }
        self.give_ports()?;
        self.expect(FromTaker::Prepared, STEP)?;
        self.gone = true;
        self.line.say(&FromGiver::Go)?;
        self.expect(FromTaker::Confirmed, STEP)
    }

    fn expect(&mut self, wanted: FromTaker, within: Duration) -> Result<(), TakeoverError> {
        match self.line.hear(within)?.0 {
            FromTaker::Refuses(why) => Err(TakeoverError::Refused(why)),
            said if said == wanted => Ok(()),
            said => Err(TakeoverError::Unexpected(format!("{said:?} instead of {wanted:?}"))),
        }
    }

    fn give_batch(&mut self, batch: &entries::WriteBatch) -> Result<(), TakeoverError> {
        let bytes = record::encode(batch).map_err(TakeoverError::here)?;
        self.line.say(&FromGiver::Batch(bytes))
    }

    /// Sends pipeline and tables, as they are now.
    fn give_tables(&mut self) -> Result<Option<State>, TakeoverError> {
        let (running, saved, state) = {
            let inner = self.node.inner();
            let running = inner.current.as_ref().map(|current| kept(&current.config));
            let state = inner.current.as_ref().map(|current| current.engine.with_state(State::clone));
            (running, inner.saved.as_ref().map(kept), state)
        };
        self.line.say(&FromGiver::Configs { running, saved })?;
        if let Some(state) = &state {
            for batch in reconcile::writes(state).map_err(TakeoverError::here)? {
                self.give_batch(&batch)?;
            }
        }
        self.line.say(&FromGiver::Tables)?;
        Ok(state)
    }

    /// Nothing is acknowledged from now on, so nobody misses the store.
    fn close_store(&mut self) -> Result<(), TakeoverError> {
        let store = self.node.inner().store.take();
        self.store = store.as_ref().map(|store| (store.path().to_owned(), store.updates()));
        drop(store);
        self.line.say(&FromGiver::StoreClosed(self.store.as_ref().map(|(path, _)| path.clone())))
    }

    /// Sends what packets have changed since `earlier`, and what waits for them. Nothing is in flight.
    fn give_changes(&mut self, earlier: Option<&State>) -> Result<(), TakeoverError> {
        let mut batches = Vec::new();
        if let Some(current) = &mut self.node.inner().current {
            self.untold = current.engine.take_digests();
            batches = earlier.map(|earlier| changes::since(earlier, &*current.engine)).unwrap_or_default();
        }
        if self.protocol < WITH_LEVELS {
            for message in self.untold.drain(..) {
                self.node.tell(p4runtime::Event::Digest { digest: message.digest, values: message.values });
            }
        }
        batches.iter().try_for_each(|batch| self.give_batch(batch))
    }

    /// Sends what packets and time have left that is not written.
    fn give_levels(&mut self) -> Result<(), TakeoverError> {
        let inner = self.node.inner();
        let Some(current) = &inner.current else { return Ok(()) };
        let pipeline = &current.config.pipeline;
        let line = &mut self.line;
        levels::collect(&*current.engine, &Matching::new(pipeline, pipeline), |some| line.say(&FromGiver::Levels(some)))
    }

    /// Sends what the server holds; it changes nothing of it any more.
    fn give_held(&mut self) -> Result<(), TakeoverError> {
        let form = self.node.service().held.freeze();
        let batches = form.waiting.as_ref().map(|waiting| waiting.batches.clone()).unwrap_or_default();
        for batch in batches.iter() {
            let bytes = record::encode(batch).map_err(TakeoverError::here)?;
            self.line.say(&FromGiver::Waiting(bytes))?;
        }
        self.line.say(&FromGiver::Held(Belongings::of(form, &self.untold)))
    }

    fn give_ports(&mut self) -> Result<(), TakeoverError> {
        let cpu = self.node.plane.cpu_port();
        let mut last = Last::default();
        let mut handed = Vec::new();
        for parked in &mut self.parked {
            let attached = &mut parked.port.attached;
            if Some(attached.id) == cpu {
                self.waiting.extend(waiting(attached.id, &mut *attached.port));
                continue;
            }
            let (number, worker, name) = (attached.id.0, parked.worker as u32, attached.port.name().to_owned());
            match attached.port.hand_over() {
                Some(given) => {
                    handed.push(number);
                    let description = Some(given.description);
                    let descriptors: Vec<BorrowedFd<'_>> = given.descriptors.iter().map(AsFd::as_fd).collect();
                    self.line.say_with(&FromGiver::Port { number, worker, name, description }, &descriptors)?;
                }
                None => self.line.say(&FromGiver::Port { number, worker, name, description: None })?,
            }
        }
        for (address, listener) in self.listening {
            self.line.say_with(&FromGiver::Listener(address.clone()), &[listener.as_fd()])?;
        }
        last.packets.clone_from(&self.waiting);
        last.tallied = self.node.tallied();
        let mut counts = self.node.counts();
        counts.push(self.node.counts_beside());
        last.counts = CountsForm::of(&counts, &handed);
        self.line.say(&FromGiver::Last(last))
    }

    /// Everything as before, as the taker has not taken it.
    fn go_on(&mut self, error: &TakeoverError) {
        let said = self.line.say(&FromGiver::Refuses(error.to_string()));
        if self.gone && !matches!(error, TakeoverError::Refused(_)) {
            self.end_taker();
        }
        drop(said);
        let _ = rustix::net::shutdown(self.line.as_fd(), rustix::net::Shutdown::Both);
        let parked = std::mem::take(&mut self.parked);
        let cpu = self.node.plane.cpu_port();
        let mut back = Vec::new();
        for mut parked in parked {
            if Some(parked.port.attached.id) != cpu {
                parked.port.attached.port.take_back();
            }
            back.push(parked);
        }
        self.node.plane.resume(back);
        self.node.inner().late.append(&mut self.untold);
        for packet in self.waiting.drain(..) {
            let _ = self.node.plane.packet_out(&packet);
        }
        let Some((path, updates)) = self.store.take() else { return };
        // Whoever had it opened ends now, or has ended.
        let deadline = Instant::now() + REOPENING;
        let store = loop {
            match Store::open(&path) {
                Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
                outcome => break outcome.ok(),
            }
        };
        let mut inner = self.node.inner();
        match store {
            Some(store) => inner.store = Some(store.with_updates(updates)),
            None => inner.closed_store = Some((path, updates)),
        }
    }

    /// Two processes must not work with the same ports: the taker is ended, if it has not ended itself.
    fn end_taker(&self) {
        let Some(taker) = &self.taker else { return };
        let _ = rustix::process::pidfd_send_signal(taker, rustix::process::Signal::KILL);
        let mut polled = [rustix::event::PollFd::new(taker, rustix::event::PollFlags::IN)];
        let patience = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
        let _ = rustix::event::poll(&mut polled, Some(&patience));
    }
}

/// The packets that wait in a port.
fn waiting(id: PortId, port: &mut dyn Port) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    loop {
        let mut batch = Batch::new();
        match port.receive(id, &mut batch) {
            Ok(count) if count > 0 => packets.extend(batch.packets().iter().map(|packet| packet.bytes().to_vec())),
            _ => return packets,
        }
    }
}
