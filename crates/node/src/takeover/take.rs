//! The side of the new process.

use super::line::Line;
use super::message::{Belongings, FromGiver, FromTaker, Hello, Last, Welcome};
use super::{PROTOCOLS, TakeoverError};
use crate::device::{Current, Node, Parts, forwarding, load_all};
use crate::store::{KeptConfig, KeptDigest, Store};
use crate::{levels, reconcile, record};
use entries::{State, WriteBatch};
use io::memif::{Options, PREFIX};
use io::{Attached, HandOver, Port, take_over};
use p4runtime::server::DigestForm;
use p4runtime::{DigestConfig, Forwarding};
use packet::PortId;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the giver may take for each of its messages.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is said of this program to the other one.
pub(super) fn program() -> String {
    format!("terraced {} (process {})", env!("CARGO_PKG_VERSION"), std::process::id())
}

/// What a process has that has taken over.
pub struct Taken {
    /// It forwards with the ports that were handed over.
    pub node: Node,
    /// The listening sockets, by the address that the other process's configuration gave.
    pub listening: Vec<(String, TcpListener)>,
    /// The numbers of those of the expected ports that were not handed over: to be opened when [`Taken::line`] has ended.
    pub missing: Vec<u32>,
    /// To the other process: it ends when that one has let go of everything.
    pub line: Predecessor,
}

/// The process that gives, while it ends.
pub struct Predecessor(Line);

impl Predecessor {
    /// Waits until it has let go of everything.
    pub fn wait(mut self) {
        let _ = self.0.receive(PATIENCE);
    }
}

/// Takes over the node that waits at a socket. `parts` says what this one is to be; its seats have no ports. `store` is opened when the other process has
/// closed its own. `expected`: the ports of the configuration, number and device.
///
/// # Errors
/// See [`TakeoverError`]; the other process goes on as before.
pub fn take(
    path: &Path,
    parts: Parts,
    store: Option<&Path>,
    expected: &[(u32, String)],
) -> Result<Taken, TakeoverError> {
    let stream = UnixStream::connect(path);
    let stream = stream.map_err(|source| TakeoverError::Nobody { path: path.to_owned(), source })?;
    let mut line = Line::new(stream)?;
    greet(&mut line, parts.device_id)?;
    let (ports, listening, missing, waiting) = Default::default();
    let mut taking = Taking { line, ports, listening, missing, waiting, held: None };
    match taking.all(parts, store, expected) {
        Ok(node) => {
            let Taking { line, listening, missing, .. } = taking;
            Ok(Taken { node, listening, missing, line: Predecessor(line) })
        }
        Err(error) => {
            if !matches!(error, TakeoverError::Refused(_)) {
                let _ = taking.line.say(&FromTaker::Refuses(error.to_string()));
            }
            // What was handed over is the giver's again: nothing of it may be disturbed.
            taking.ports.iter_mut().for_each(|(_, attached)| drop(attached.port.hand_over()));
            Err(error)
        }
    }
}

fn greet(line: &mut Line, device_id: u64) -> Result<(), TakeoverError> {
    let hello = Hello { protocols: PROTOCOLS.to_vec(), program: program(), device_id };
    line.send(&serde_json::to_vec(&hello).map_err(TakeoverError::here)?, &[])?;
    let (bytes, _) = line.receive(PATIENCE)?;
    let welcome: Welcome = serde_json::from_slice(&bytes)
        .map_err(|error| TakeoverError::Unexpected(format!("its first message: {error}")))?;
    match welcome.protocol {
        Some(version) if PROTOCOLS.contains(&version) => Ok(()),
        Some(version) => Err(TakeoverError::Unexpected(format!("version {version} of the protocol"))),
        None => Err(TakeoverError::Refused(welcome.why.unwrap_or_else(|| "it does not say why".into()))),
    }
}

/// Whether a port of this name is what a configuration calls so.
fn is_device(name: &str, device: &str) -> bool {
    let memif =
        || device.starts_with(PREFIX) && Options::parse(device).is_ok_and(|options| options.to_string() == name);
    name == device || memif()
}

/// Workers that do not follow: the ports are the giver's again, and nothing of them may be disturbed.
fn give_up(node: &Node, error: crate::PlaneError) -> TakeoverError {
    let parked = node.plane.pause().unwrap_or_default();
    parked.into_iter().for_each(|mut parked| drop(parked.port.attached.port.hand_over()));
    TakeoverError::here(error)
}

/// The numbers of a region's VPCs and the like; the store of this process has them, too, from now on.
fn take_numbers(node: &Node, numbers: Vec<u8>) -> Result<(), TakeoverError> {
    let mut inner = node.inner();
    if let Some(store) = &mut inner.store {
        store.keep_numbers(&numbers).map_err(TakeoverError::here)?;
    }
    inner.numbers = numbers;
    Ok(())
}

struct Taking {
    line: Line,
    /// Those that were handed over, with their workers.
    ports: Vec<(usize, Attached)>,
    listening: Vec<(String, TcpListener)>,
    missing: Vec<u32>,
    /// Batches that wait for `COMMIT`.
    waiting: Vec<WriteBatch>,
    held: Option<Belongings>,
}

impl Taking {
    fn hear(&mut self) -> Result<(FromGiver, Vec<OwnedFd>), TakeoverError> {
        match self.line.hear(PATIENCE)? {
            (FromGiver::Refuses(why), _) => Err(TakeoverError::Refused(why)),
            heard => Ok(heard),
        }
    }

    fn all(&mut self, parts: Parts, store: Option<&Path>, expected: &[(u32, String)]) -> Result<Node, TakeoverError> {
        let workers = parts.seats.len();
        let node = Node::start(parts).map_err(TakeoverError::here)?;
        self.take_tables(&node)?;
        self.line.say(&FromTaker::Ready)?;
        self.take_store(&node, store)?;
        self.line.say(&FromTaker::StoreOpen)?;
        let last = self.take_ports(&node, workers, expected)?;
        node.set_before(last.counts.counts());
        node.inner().past = last.tallied;
        self.take_up_held(&node)?;
        for packet in last.packets {
            let _ = node.plane.packet_out(&packet);
        }
        self.line.say(&FromTaker::Prepared)?;
        let (FromGiver::Go, _) = self.hear()? else { return Err(TakeoverError::Unexpected("no `go`".into())) };
        if let Some(current) = &node.inner().current {
            current.engine.hold_idle(false);
        }
        let mut seats: Vec<Vec<Attached>> = (0..workers).map(|_| Vec::new()).collect();
        self.ports.drain(..).for_each(|(worker, attached)| seats[worker].push(attached));
        for (worker, ports) in seats.into_iter().enumerate() {
            for port in ports {
                node.plane.attach(worker, port).map_err(|error| give_up(&node, error))?;
            }
        }
        if let Some(current) = &mut node.inner().current {
            node.tell_links(&mut *current.engine);
        }
        self.line.say(&FromTaker::Confirmed)?;
        Ok(node)
    }

    /// Takes pipeline and tables; makes code.
    fn take_tables(&mut self, node: &Node) -> Result<(), TakeoverError> {
        let (FromGiver::Configs { running, saved }, _) = self.hear()? else {
            return Err(TakeoverError::Unexpected("no pipeline".into()));
        };
        let config = |kept: Option<KeptConfig>| -> Result<Option<Forwarding>, TakeoverError> {
            kept.map(forwarding).transpose().map_err(|refusal| TakeoverError::Here(refusal.message))
        };
        let saved = config(saved)?;
        let current = match config(running)? {
            Some(config) => {
                let refused = |refusal: p4runtime::Refusal| TakeoverError::Here(refusal.message);
                let mut engine = node.load(&config.pipeline).map_err(refused)?;
                // How old entries are comes at the end.
                engine.hold_idle(true);
                let loaded = load_all(&mut *engine, &mut std::iter::from_fn(|| self.batch().transpose()))?;
                loaded.map_err(TakeoverError::here)?;
                Some(Current { config, engine })
            }
            None => match self.batch()? {
                None => None,
                Some(_) => return Err(TakeoverError::Unexpected("tables without a pipeline".into())),
            },
        };
        // While the other one forwards still: what comes later, these workers see.
        if let Some(current) = &current {
            node.exchange(&*current.engine).map_err(TakeoverError::here)?;
        }
        let mut inner = node.inner();
        (inner.current, inner.saved) = (current, saved);
        Ok(())
    }

    /// The next batch; `None` after the last.
    fn batch(&mut self) -> Result<Option<WriteBatch>, TakeoverError> {
        match self.hear()?.0 {
            FromGiver::Batch(bytes) => record::decode(&bytes).map(Some).map_err(TakeoverError::here),
            FromGiver::Tables => Ok(None),
            other => Err(TakeoverError::Unexpected(format!("{other:?} among the tables"))),
        }
    }

    /// Opens the store, which has all that was acknowledged, if it is the same; another one is written.
    fn take_store(&mut self, node: &Node, path: Option<&Path>) -> Result<(), TakeoverError> {
        let (FromGiver::StoreClosed(theirs), _) = self.hear()? else {
            return Err(TakeoverError::Unexpected("nothing about its store".into()));
        };
        let Some(path) = path else { return Ok(()) };
        let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
        let same = theirs.is_some_and(|theirs| whole(&theirs) == whole(path));
        let mut store = Store::open(path).map_err(TakeoverError::here)?;
        let mut inner = node.inner();
        if !same {
            if let Some(current) = &inner.current {
                let state = current.engine.with_state(State::clone);
                let batches = reconcile::writes(&state).map_err(TakeoverError::here)?;
                store.replace(&crate::device::kept(&current.config), batches).map_err(TakeoverError::here)?;
            }
            if let Some(saved) = &inner.saved {
                store.save(&crate::device::kept(saved)).map_err(TakeoverError::here)?;
            }
        }
        inner.store = Some(store);
        Ok(())
    }

    /// Lets the node's server, which does not serve yet, go on with what the other one's held.
    fn take_up_held(&mut self, node: &Node) -> Result<(), TakeoverError> {
        let Some(held) = self.held.take() else { return Ok(()) };
        let (form, untold) = held.form(std::mem::take(&mut self.waiting));
        let mut inner = node.inner();
        inner.late = untold;
        if let Some(store) = &mut inner.store {
            // Another store than the giver's does not have them yet.
            let kept = |digest: &DigestForm| {
                let DigestConfig { max_timeout_ns, max_list_size, ack_timeout_ns } = digest.config;
                (digest.number, max_timeout_ns, max_list_size, ack_timeout_ns)
            };
            let digests: Vec<KeptDigest> = form.digests.iter().map(kept).collect();
            if store.digests().map_err(TakeoverError::here)? != digests {
                store.keep_digests(&digests).map_err(TakeoverError::here)?;
            }
        }
        let taken = node.service().held.take_up(form, inner.saved.clone(), node);
        taken.map_err(|refusal| TakeoverError::Here(refusal.message))
    }

    /// Takes what packets have changed, and the ports, which nobody uses now.
    fn take_ports(&mut self, node: &Node, workers: usize, expected: &[(u32, String)]) -> Result<Last, TakeoverError> {
        self.missing = expected.iter().map(|(number, _)| *number).collect();
        loop {
            match self.hear()? {
                (FromGiver::Batch(bytes), _) => {
                    let batch = record::decode(&bytes).map_err(TakeoverError::here)?;
                    let mut inner = node.inner();
                    let current = inner.current.as_mut();
                    let current = current.ok_or_else(|| TakeoverError::Unexpected("changes of no pipeline".into()))?;
                    current.engine.write(&batch).map_err(TakeoverError::here)?;
                }
                (FromGiver::Levels(some), _) => {
                    if let Some(current) = &node.inner().current {
                        levels::put(&*current.engine, &some);
                    }
                }
                (FromGiver::Waiting(bytes), _) => {
                    self.waiting.push(record::decode(&bytes).map_err(TakeoverError::here)?);
                }
                (FromGiver::Held(held), _) => self.held = Some(held),
                (FromGiver::Numbers(numbers), _) => take_numbers(node, numbers)?,
                (FromGiver::Port { number, worker, name, description }, descriptors) => {
                    let wanted = expected.iter().any(|(other, device)| *other == number && is_device(&name, device));
                    let Some(description) = description.filter(|_| wanted) else { continue };
                    let port: Box<dyn Port> =
                        take_over(HandOver { description, descriptors }).map_err(TakeoverError::here)?;
                    // With fewer workers than before, some have more ports.
                    let worker = worker as usize % workers.max(1);
                    self.ports.push((worker, Attached { id: PortId(number), port }));
                    self.missing.retain(|missing| *missing != number);
                }
                (FromGiver::Listener(address), descriptors) => {
                    let listener = descriptors.into_iter().next();
                    self.listening.extend(listener.map(|socket| (address, TcpListener::from(socket))));
                }
                (FromGiver::Last(last), _) => return Ok(last),
                (other, _) => return Err(TakeoverError::Unexpected(format!("{other:?} among the ports"))),
            }
        }
    }
}
