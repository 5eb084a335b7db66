//! [`Store`]: what a node needs to go on after it was stopped or killed: the pipeline config, and each write batch since, in order.
//!
//! A log, in an embedded database (redb) that makes each append whole or nothing, also when the power fails. When the log has become much longer
//! than what it amounts to, it is written anew ([`Store::begin_rewrite`]): while that goes on, appends go to both logs, so that it can be
//! broken off at any moment.

use crate::record::{self, RecordError};
use entries::WriteBatch;
use p4runtime::{Code, Refusal};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, TableHandle};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use thiserror::Error;

/// Memory that the database may use for pages it has read, in bytes.
const CACHE: usize = 8 << 20;
/// The first number of an append to a log that is being rewritten; the batches of the rewrite come before.
const APPENDS: u64 = 1 << 40;
/// Batches that are decoded ahead of those that are applied, at most.
const DECODED_AHEAD: usize = 64;
/// What the bytes mean. Another number: written by another version.
const FORMAT: &[u8] = &[1];

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

fn log(name: &str) -> TableDefinition<'_, u64, &'static [u8]> {
    TableDefinition::new(name)
}

fn log_name(generation: u64) -> String {
    format!("log-{generation}")
}

/// What is kept cannot be read, or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process has it.
    #[error("the store {} is used by another process; stop that node, or give this one a `store` of its own", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The database says no.
    #[error("the store {}: {source}; is the disk full or damaged? (move the file away to start with nothing)", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Its error.
        #[source]
        source: Box<redb::Error>,
    },
    /// Another version wrote it.
    #[error("the store {} was written by another version of this program; move it away, and have the controller write again", path.display())]
    Format {
        /// The file.
        path: PathBuf,
    },
    /// Damaged.
    #[error("the store {} is damaged: {source}; move it away, and have the controller write again", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What was found.
        source: RecordError,
    },
}

impl From<&StoreError> for Refusal {
    fn from(error: &StoreError) -> Refusal {
        Refusal::new(Code::Unavailable, error.to_string())
    }
}

/// A pipeline config as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptConfig {
    /// Encoded.
    pub p4info: Vec<u8>,
    /// As received.
    pub device_config: Vec<u8>,
    /// The controller's number for it.
    pub cookie: Option<u64>,
}

/// A digest that is enabled: see [`Store::digests`].
pub type KeptDigest = (u32, u64, u32, u64);

/// The log of a node.
pub struct Store {
    path: PathBuf,
    database: Database,
    generation: u64,
    /// The number of the next append.
    next: u64,
    /// Updates in the log.
    updates: u64,
    rewrite: Option<Rewrite>,
}

/// A log that will take the place of the one in use.
struct Rewrite {
    generation: u64,
    next: u64,
    updates: u64,
}

type Outcome<T> = Result<T, Box<redb::Error>>;

fn boxed(error: impl Into<redb::Error>) -> Box<redb::Error> {
    Box::new(error.into())
}

impl Store {
    /// Opens the file, or makes it. Each append is on the disk when it returns, so that it outlives a power failure.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let open = || -> Outcome<Database> {
            let database = Database::builder().set_cache_size(CACHE).create(path).map_err(boxed)?;
            let write = database.begin_write().map_err(boxed)?;
            write.open_table(META).map_err(boxed)?;
            write.commit().map_err(boxed)?;
            Ok(database)
        };
        let failed = |source: Box<redb::Error>| match *source {
            redb::Error::DatabaseAlreadyOpen => StoreError::InUse { path: path.to_owned() },
            _ => StoreError::Database { path: path.to_owned(), source },
        };
        let database = open().map_err(failed)?;
        let (path, rewrite) = (path.to_owned(), None);
        let mut store = Store { path, database, generation: 0, next: 0, updates: 0, rewrite };
        store.prepare()?;
        Ok(store)
    }

    fn database_error(&self, source: Box<redb::Error>) -> StoreError {
        StoreError::Database { path: self.path.clone(), source }
    }

    /// Reads what is known of the log, and removes what a rewrite left that was broken off.
    fn prepare(&mut self) -> Result<(), StoreError> {
        match self.meta("format")? {
            None => self.put_meta(&[("format", FORMAT)])?,
            Some(format) if format == FORMAT => {}
            Some(_) => return Err(StoreError::Format { path: self.path.clone() }),
        }
        let generation = self.meta("generation")?.and_then(|bytes| bytes.try_into().ok());
        self.generation = generation.map_or(0, u64::from_le_bytes);
        let name = log_name(self.generation);
        let tidy = || -> Outcome<u64> {
            let write = self.database.begin_write().map_err(boxed)?;
            let others: Vec<String> =
                write.list_tables().map_err(boxed)?.map(|table| table.name().to_owned()).collect();
            for other in others.iter().filter(|other| other.starts_with("log-") && **other != name) {
                write.delete_table(log(other)).map_err(boxed)?;
            }
            let last = {
                let table = write.open_table(log(&name)).map_err(boxed)?;
                let last = table.last().map_err(boxed)?;
                last.map_or(0, |(number, _)| number.value() + 1)
            };
            write.commit().map_err(boxed)?;
            Ok(last)
        };
        self.next = tidy().map_err(|source| self.database_error(source))?;
        Ok(())
    }

    fn meta(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let get = || -> Outcome<Option<Vec<u8>>> {
            let read = self.database.begin_read().map_err(boxed)?;
            let table = read.open_table(META).map_err(boxed)?;
            let value = table.get(key).map_err(boxed)?;
            Ok(value.map(|bytes| bytes.value().to_vec()))
        };
        get().map_err(|source| self.database_error(source))
    }

    fn put_meta(&self, pairs: &[(&str, &[u8])]) -> Result<(), StoreError> {
        let put = || -> Outcome<()> {
            let write = self.database.begin_write().map_err(boxed)?;
            {
                let mut table = write.open_table(META).map_err(boxed)?;
                for (key, value) in pairs {
                    match value.is_empty() {
                        true => drop(table.remove(key).map_err(boxed)?),
                        false => drop(table.insert(key, value).map_err(boxed)?),
                    }
                }
            }
            write.commit().map_err(boxed)
        };
        put().map_err(|source| self.database_error(source))
    }

    fn config(&self, key: &str) -> Result<Option<KeptConfig>, StoreError> {
        let Some(bytes) = self.meta(key)? else { return Ok(None) };
        let damaged = |error: postcard::Error| StoreError::Record {
            path: self.path.clone(),
            source: RecordError::new(format!("the {key} config: {error}")),
        };
        postcard::from_bytes(&bytes).map(Some).map_err(damaged)
    }

    /// The config that runs.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn running(&self) -> Result<Option<KeptConfig>, StoreError> {
        self.config("running")
    }

    /// The config that was saved for a later commit.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn saved(&self) -> Result<Option<KeptConfig>, StoreError> {
        self.config("saved")
    }

    /// Keeps a config for a later commit.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&mut self, config: &KeptConfig) -> Result<(), StoreError> {
        self.put_meta(&[("saved", &bytes_of(config))])
    }

    /// Which digests are enabled: P4Info's number, the longest that a message waits (ns), most messages of a list, how long an acknowledgement is waited for
    /// (ns).
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn digests(&self) -> Result<Vec<KeptDigest>, StoreError> {
        let Some(bytes) = self.meta("digests")? else { return Ok(Vec::new()) };
        let damaged = |error: postcard::Error| StoreError::Record {
            path: self.path.clone(),
            source: RecordError::new(format!("the digests: {error}")),
        };
        postcard::from_bytes(&bytes).map_err(damaged)
    }

    /// Keeps them, until another config runs.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep_digests(&mut self, digests: &[KeptDigest]) -> Result<(), StoreError> {
        // Numbers always have a form.
        let bytes = postcard::to_stdvec(digests).unwrap_or_default();
        self.put_meta(&[("digests", if digests.is_empty() { &[] } else { &bytes })])
    }

    /// The numbers of a region's VPCs and the like, encoded; empty if there are none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn numbers(&self) -> Result<Vec<u8>, StoreError> {
        Ok(self.meta("numbers")?.unwrap_or_default())
    }

    /// Keeps them.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn keep_numbers(&mut self, numbers: &[u8]) -> Result<(), StoreError> {
        self.put_meta(&[("numbers", numbers)])
    }

    /// Another config runs, with what `batches` write; all of it is kept, or nothing has changed. A config that was saved is gone, and
    /// digests are.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn replace(
        &mut self,
        config: &KeptConfig,
        batches: impl Iterator<Item = WriteBatch>,
    ) -> Result<(), StoreError> {
        self.rewrite = None;
        let generation = self.generation + 1;
        let mut counts = (0, 0);
        let mut encoded = batches.map(|batch| (record::encode(&batch), batch.updates.len() as u64));
        let mut damaged = None;
        let mut write_all = || -> Outcome<()> {
            let write = self.database.begin_write().map_err(boxed)?;
            for stale in [log_name(generation), log_name(self.generation)] {
                write.delete_table(log(&stale)).map_err(boxed)?;
            }
            {
                let name = log_name(generation);
                let mut table = write.open_table(log(&name)).map_err(boxed)?;
                for (bytes, updates) in &mut encoded {
                    match bytes {
                        Ok(bytes) => drop(table.insert(counts.0, &*bytes).map_err(boxed)?),
                        Err(error) => damaged = Some(error),
                    }
                    counts = (counts.0 + 1, counts.1 + updates);
                }
                let mut meta = write.open_table(META).map_err(boxed)?;
                meta.insert("running", &*bytes_of(config)).map_err(boxed)?;
                meta.insert("generation", &generation.to_le_bytes()[..]).map_err(boxed)?;
                meta.remove("saved").map_err(boxed)?;
                meta.remove("digests").map_err(boxed)?;
            }
            if damaged.is_none() { write.commit().map_err(boxed) } else { write.abort().map_err(boxed) }
        };
        write_all().map_err(|source| self.database_error(source))?;
        if let Some(source) = damaged {
            return Err(StoreError::Record { path: self.path.clone(), source });
        }
        (self.generation, self.next, self.updates) = (generation, counts.0, counts.1);
        Ok(())
    }

    /// Adds batches, all of them or none.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn append<'a>(&mut self, batches: impl Iterator<Item = &'a WriteBatch>) -> Result<(), StoreError> {
        let mut updates = 0;
        let mut encoded = Vec::new();
        for batch in batches {
            updates += batch.updates.len() as u64;
            let bytes = record::encode(batch);
            encoded.push(bytes.map_err(|source| StoreError::Record { path: self.path.clone(), source })?);
        }
        if encoded.is_empty() {
            return Ok(());
        }
        let mut logs = vec![(log_name(self.generation), self.next)];
        logs.extend(self.rewrite.iter().map(|rewrite| (log_name(rewrite.generation), APPENDS + rewrite.next)));
        let add = || -> Outcome<()> {
            let write = self.database.begin_write().map_err(boxed)?;
            for (name, first) in &logs {
                let mut table = write.open_table(log(name)).map_err(boxed)?;
                for (number, bytes) in (*first..).zip(&encoded) {
                    table.insert(number, &**bytes).map_err(boxed)?;
                }
            }
            write.commit().map_err(boxed)
        };
        add().map_err(|source| self.database_error(source))?;
        let count = encoded.len() as u64;
        self.next += count;
        self.updates += updates;
        if let Some(rewrite) = &mut self.rewrite {
            rewrite.next += count;
            rewrite.updates += updates;
        }
        Ok(())
    }

    /// Gives all batches in order to `take`.
    ///
    /// # Errors
    /// If the log cannot be read; or the error of `take`.
    pub fn replay<T>(
        &mut self,
        take: impl FnOnce(&mut dyn Iterator<Item = Result<WriteBatch, StoreError>>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let name = log_name(self.generation);
        let begin = || -> Outcome<_> {
            let read = self.database.begin_read().map_err(boxed)?;
            let table = read.open_table(log(&name)).map_err(boxed)?;
            table.range::<u64>(..).map_err(boxed)
        };
        let rows = begin().map_err(|source| self.database_error(source))?;
        let decode = |row: Result<_, redb::StorageError>| {
            let (_, bytes): (_, redb::AccessGuard<'_, &[u8]>) =
                row.map_err(|error| self.database_error(boxed(error)))?;
            let damaged = |source| StoreError::Record { path: self.path.clone(), source };
            record::decode(bytes.value()).map_err(damaged)
        };
        // One thread decodes while the other applies.
        let (outcome, updates) = std::thread::scope(|scope| {
            let (ahead, batches) = sync_channel(DECODED_AHEAD);
            let decoding = scope.spawn(move || {
                let mut updates = 0;
                for batch in rows.map(decode) {
                    updates += batch.as_ref().map_or(0, |batch| batch.updates.len() as u64);
                    if ahead.send(batch).is_err() {
                        break;
                    }
                }
                updates
            });
            let outcome = take(&mut batches.iter());
            drop(batches);
            (outcome, decoding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        self.updates = updates;
        outcome
    }

    /// How many updates the log has.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says how many updates its log has, which only who replays it knows else.
    pub fn with_updates(self, updates: u64) -> Store {
        Store { updates, ..self }
    }

    /// Begins a new log, which [`Store::rewrite`] fills with what the present one amounts to at this moment.
    pub fn begin_rewrite(&mut self) {
        self.rewrite = Some(Rewrite { generation: self.generation + 1, next: 0, updates: 0 });
    }

    /// Adds a batch to the new log, as number `number` from 0. Does nothing if the rewrite was broken off by [`Store::replace`]; `false` then.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn rewrite(&mut self, number: u64, batch: &WriteBatch) -> Result<bool, StoreError> {
        let Some(rewrite) = &mut self.rewrite else { return Ok(false) };
        rewrite.updates += batch.updates.len() as u64;
        let name = log_name(rewrite.generation);
        let bytes = record::encode(batch).map_err(|source| StoreError::Record { path: self.path.clone(), source })?;
        let add = || -> Outcome<()> {
            let mut write = self.database.begin_write().map_err(boxed)?;
            // The end of the rewrite makes all of it last.
            write.set_durability(Durability::None).map_err(boxed)?;
            write.open_table(log(&name)).map_err(boxed)?.insert(number, &*bytes).map_err(boxed)?;
            write.commit().map_err(boxed)
        };
        add().map_err(|source| self.database_error(source))?;
        Ok(true)
    }

    /// The new log takes the place of the present one.
    ///
    /// # Errors
    /// If it cannot be written; the present one is used on.
    pub fn end_rewrite(&mut self) -> Result<(), StoreError> {
        let Some(rewrite) = self.rewrite.take() else { return Ok(()) };
        let old = log_name(self.generation);
        let end = || -> Outcome<()> {
            let write = self.database.begin_write().map_err(boxed)?;
            write.delete_table(log(&old)).map_err(boxed)?;
            write
                .open_table(META)
                .map_err(boxed)?
                .insert("generation", &rewrite.generation.to_le_bytes()[..])
                .map_err(boxed)?;
            write.commit().map_err(boxed)
        };
        end().map_err(|source| self.database_error(source))?;
        self.generation = rewrite.generation;
        self.next = APPENDS + rewrite.next;
        self.updates = rewrite.updates;
        Ok(())
    }
}

fn bytes_of(config: &KeptConfig) -> Vec<u8> {
    // Byte strings and a number always have a form.
    postcard::to_stdvec(config).unwrap_or_default()
}
