//! [`Store`]: durable state of a node: the pipeline config and all later write batches in order,
//! from which the node restarts after it was stopped or killed.
//!
//! The store is a log in an embedded database (redb). The database makes each append atomic, also
//! on a power failure. A log that has become much longer than the tables it produces is compacted
//! ([`Store::begin_compaction`]). During the compaction, appends go to both logs, so that it can be
//! aborted at any time.

use crate::store_format::{self, StoreFormatError};
use entries::WriteBatch;
use p4runtime::{Code, P4RuntimeError};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, TableHandle};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use thiserror::Error;

/// Page cache of the database, in bytes.
const PAGE_CACHE_BYTES: usize = 8 << 20;
/// First append number in a log under compaction. The compacted batches have smaller numbers.
const FIRST_APPEND: u64 = 1 << 40;
/// Maximum number of batches that are decoded before they are applied.
const DECODED_AHEAD: usize = 64;
/// Version of the encoding. A different version in the file means that another version of the
/// program wrote it.
const FORMAT: &[u8] = &[1];

const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

fn log_table(name: &str) -> TableDefinition<'_, u64, &'static [u8]> {
    TableDefinition::new(name)
}

fn log_name(generation: u64) -> String {
    format!("log-{generation}")
}

/// The store cannot be read or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process uses the store.
    #[error("the store {} is used by another process; stop that node, or give this one a `store` of its own", path.display())]
    InUse {
        /// Path of the file.
        path: PathBuf,
    },
    /// The database reports an error.
    #[error("the store {}: {source}; is the disk full or damaged? (move the file away to start with nothing)", path.display())]
    Database {
        /// Path of the file.
        path: PathBuf,
        /// Error of the database.
        #[source]
        source: Box<redb::Error>,
    },
    /// Another version of the program wrote the store.
    #[error("the store {} was written by another version of this program; move it away, and have the controller write again", path.display())]
    Format {
        /// Path of the file.
        path: PathBuf,
    },
    /// The store is damaged.
    #[error("the store {} is damaged: {source}; move it away, and have the controller write again", path.display())]
    Record {
        /// Path of the file.
        path: PathBuf,
        /// The decoding error.
        source: StoreFormatError,
    },
}

impl From<&StoreError> for P4RuntimeError {
    fn from(error: &StoreError) -> P4RuntimeError {
        P4RuntimeError::new(Code::Unavailable, error.to_string())
    }
}

/// A stored pipeline config.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredConfig {
    /// Encoded P4Info message.
    pub p4info: Vec<u8>,
    /// Device config as received.
    pub device_config: Vec<u8>,
    /// Cookie of the controller.
    pub cookie: Option<u64>,
}

/// An enabled digest, see [`Store::enabled_digests`].
pub type StoredDigest = (u32, u64, u32, u64);

/// The durable log of a node.
pub struct Store {
    path: PathBuf,
    database: Database,
    generation: u64,
    /// Number of the next append.
    next: u64,
    /// Number of updates in the log.
    updates: u64,
    rewrite: Option<LogCompaction>,
}

/// A log under construction that will replace the current one.
struct LogCompaction {
    generation: u64,
    next: u64,
    updates: u64,
}

type RedbResult<T> = Result<T, Box<redb::Error>>;

fn boxed_error(error: impl Into<redb::Error>) -> Box<redb::Error> {
    Box::new(error.into())
}

impl Store {
    /// Opens or creates the file. Appends are synced to the disk before they return, so that they
    /// survive a power failure.
    ///
    /// # Errors
    /// Returns [`StoreError`].
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let open = || -> RedbResult<Database> {
            let database = Database::builder().set_cache_size(PAGE_CACHE_BYTES).create(path).map_err(boxed_error)?;
            let write = database.begin_write().map_err(boxed_error)?;
            write.open_table(META).map_err(boxed_error)?;
            write.commit().map_err(boxed_error)?;
            Ok(database)
        };
        let failed = |source: Box<redb::Error>| match *source {
            redb::Error::DatabaseAlreadyOpen => StoreError::InUse { path: path.to_owned() },
            _ => StoreError::Database { path: path.to_owned(), source },
        };
        let database = open().map_err(failed)?;
        let (path, rewrite) = (path.to_owned(), None);
        let mut store = Store { path, database, generation: 0, next: 0, updates: 0, rewrite };
        store.load_log_state()?;
        Ok(store)
    }

    fn database_error(&self, source: Box<redb::Error>) -> StoreError {
        StoreError::Database { path: self.path.clone(), source }
    }

    /// Reads the log's metadata, and removes the remains of an aborted compaction.
    fn load_log_state(&mut self) -> Result<(), StoreError> {
        match self.read_meta("format")? {
            None => self.write_meta(&[("format", FORMAT)])?,
            Some(format) if format == FORMAT => {}
            Some(_) => return Err(StoreError::Format { path: self.path.clone() }),
        }
        let generation = self.read_meta("generation")?.and_then(|bytes| bytes.try_into().ok());
        self.generation = generation.map_or(0, u64::from_le_bytes);
        let name = log_name(self.generation);
        let tidy = || -> RedbResult<u64> {
            let write = self.database.begin_write().map_err(boxed_error)?;
            let others: Vec<String> =
                write.list_tables().map_err(boxed_error)?.map(|table| table.name().to_owned()).collect();
            for other in others.iter().filter(|other| other.starts_with("log-") && **other != name) {
                write.delete_table(log_table(other)).map_err(boxed_error)?;
            }
            let last = {
                let table = write.open_table(log_table(&name)).map_err(boxed_error)?;
                let last = table.last().map_err(boxed_error)?;
                last.map_or(0, |(number, _)| number.value() + 1)
            };
            write.commit().map_err(boxed_error)?;
            Ok(last)
        };
        self.next = tidy().map_err(|source| self.database_error(source))?;
        Ok(())
    }

    fn read_meta(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let get = || -> RedbResult<Option<Vec<u8>>> {
            let read = self.database.begin_read().map_err(boxed_error)?;
            let table = read.open_table(META).map_err(boxed_error)?;
            let value = table.get(key).map_err(boxed_error)?;
            Ok(value.map(|bytes| bytes.value().to_vec()))
        };
        get().map_err(|source| self.database_error(source))
    }

    fn write_meta(&self, pairs: &[(&str, &[u8])]) -> Result<(), StoreError> {
        let put = || -> RedbResult<()> {
            let write = self.database.begin_write().map_err(boxed_error)?;
            {
                let mut table = write.open_table(META).map_err(boxed_error)?;
                for (key, value) in pairs {
                    match value.is_empty() {
                        true => drop(table.remove(key).map_err(boxed_error)?),
                        false => drop(table.insert(key, value).map_err(boxed_error)?),
                    }
                }
            }
            write.commit().map_err(boxed_error)
        };
        put().map_err(|source| self.database_error(source))
    }

    fn read_config(&self, key: &str) -> Result<Option<StoredConfig>, StoreError> {
        let Some(bytes) = self.read_meta(key)? else { return Ok(None) };
        let damaged = |error: postcard::Error| StoreError::Record {
            path: self.path.clone(),
            source: StoreFormatError::new(format!("the {key} config: {error}")),
        };
        postcard::from_bytes(&bytes).map(Some).map_err(damaged)
    }

    /// Returns the running config.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn running_config(&self) -> Result<Option<StoredConfig>, StoreError> {
        self.read_config("running")
    }

    /// Returns the config that was saved for a later commit.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn saved_config(&self) -> Result<Option<StoredConfig>, StoreError> {
        self.read_config("saved")
    }

    /// Saves a config for a later commit.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn save_config(&mut self, config: &StoredConfig) -> Result<(), StoreError> {
        self.write_meta(&[("saved", &encode_config(config))])
    }

    /// Returns the enabled digests: P4Info id, maximum delay of a message (ns), maximum number of
    /// messages in a list, acknowledgement timeout (ns).
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn enabled_digests(&self) -> Result<Vec<StoredDigest>, StoreError> {
        let Some(bytes) = self.read_meta("digests")? else { return Ok(Vec::new()) };
        let damaged = |error: postcard::Error| StoreError::Record {
            path: self.path.clone(),
            source: StoreFormatError::new(format!("the digests: {error}")),
        };
        postcard::from_bytes(&bytes).map_err(damaged)
    }

    /// Stores the enabled digests until another config runs.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn save_digests(&mut self, digests: &[StoredDigest]) -> Result<(), StoreError> {
        // Encoding plain numbers cannot fail.
        let bytes = postcard::to_stdvec(digests).unwrap_or_default();
        self.write_meta(&[("digests", if digests.is_empty() { &[] } else { &bytes })])
    }

    /// Returns the encoded numbers of a region's objects such as VPCs; empty without a region.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn region_numbers(&self) -> Result<Vec<u8>, StoreError> {
        Ok(self.read_meta("numbers")?.unwrap_or_default())
    }

    /// Stores the encoded numbers of a region's objects.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn save_region_numbers(&mut self, numbers: &[u8]) -> Result<(), StoreError> {
        self.write_meta(&[("numbers", numbers)])
    }

    /// Replaces config and log atomically; `batches` is the new log. Removes the saved config and
    /// the digests.
    ///
    /// # Errors
    /// The store cannot be written; it is then unchanged.
    pub fn replace_config(
        &mut self,
        config: &StoredConfig,
        batches: impl Iterator<Item = WriteBatch>,
    ) -> Result<(), StoreError> {
        self.rewrite = None;
        let generation = self.generation + 1;
        let mut counts = (0, 0);
        let mut encoded = batches.map(|batch| (store_format::encode_batch(&batch), batch.updates.len() as u64));
        let mut damaged = None;
        let mut write_all = || -> RedbResult<()> {
            let write = self.database.begin_write().map_err(boxed_error)?;
            for stale in [log_name(generation), log_name(self.generation)] {
                write.delete_table(log_table(&stale)).map_err(boxed_error)?;
            }
            {
                let name = log_name(generation);
                let mut table = write.open_table(log_table(&name)).map_err(boxed_error)?;
                for (bytes, updates) in &mut encoded {
                    match bytes {
                        Ok(bytes) => drop(table.insert(counts.0, &*bytes).map_err(boxed_error)?),
                        Err(error) => damaged = Some(error),
                    }
                    counts = (counts.0 + 1, counts.1 + updates);
                }
                let mut meta = write.open_table(META).map_err(boxed_error)?;
                meta.insert("running", &*encode_config(config)).map_err(boxed_error)?;
                meta.insert("generation", &generation.to_le_bytes()[..]).map_err(boxed_error)?;
                meta.remove("saved").map_err(boxed_error)?;
                meta.remove("digests").map_err(boxed_error)?;
            }
            if damaged.is_none() { write.commit().map_err(boxed_error) } else { write.abort().map_err(boxed_error) }
        };
        write_all().map_err(|source| self.database_error(source))?;
        if let Some(source) = damaged {
            return Err(StoreError::Record { path: self.path.clone(), source });
        }
        (self.generation, self.next, self.updates) = (generation, counts.0, counts.1);
        Ok(())
    }

    /// Appends batches atomically.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn append_batches<'a>(&mut self, batches: impl Iterator<Item = &'a WriteBatch>) -> Result<(), StoreError> {
        let mut updates = 0;
        let mut encoded = Vec::new();
        for batch in batches {
            updates += batch.updates.len() as u64;
            let bytes = store_format::encode_batch(batch);
            encoded.push(bytes.map_err(|source| StoreError::Record { path: self.path.clone(), source })?);
        }
        if encoded.is_empty() {
            return Ok(());
        }
        let mut logs = vec![(log_name(self.generation), self.next)];
        logs.extend(self.rewrite.iter().map(|rewrite| (log_name(rewrite.generation), FIRST_APPEND + rewrite.next)));
        let add = || -> RedbResult<()> {
            let write = self.database.begin_write().map_err(boxed_error)?;
            for (name, first) in &logs {
                let mut table = write.open_table(log_table(name)).map_err(boxed_error)?;
                for (number, bytes) in (*first..).zip(&encoded) {
                    table.insert(number, &**bytes).map_err(boxed_error)?;
                }
            }
            write.commit().map_err(boxed_error)
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

    /// Passes all batches to `take` in order.
    ///
    /// # Errors
    /// The log cannot be read, or `take` fails.
    pub fn replay_batches<T>(
        &mut self,
        take: impl FnOnce(&mut dyn Iterator<Item = Result<WriteBatch, StoreError>>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let name = log_name(self.generation);
        let begin = || -> RedbResult<_> {
            let read = self.database.begin_read().map_err(boxed_error)?;
            let table = read.open_table(log_table(&name)).map_err(boxed_error)?;
            table.range::<u64>(..).map_err(boxed_error)
        };
        let rows = begin().map_err(|source| self.database_error(source))?;
        let decode = |row: Result<_, redb::StorageError>| {
            let (_, bytes): (_, redb::AccessGuard<'_, &[u8]>) =
                row.map_err(|error| self.database_error(boxed_error(error)))?;
            let damaged = |source| StoreError::Record { path: self.path.clone(), source };
            store_format::decode_batch(bytes.value()).map_err(damaged)
        };
        // A second thread decodes ahead while this one applies.
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

    /// Returns the number of updates in the log.
    pub fn update_count(&self) -> u64 {
        self.updates
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the number of updates in the log, which is otherwise only known after a replay.
    pub fn with_update_count(self, updates: u64) -> Store {
        Store { updates, ..self }
    }

    /// Starts a compaction: a new log, which [`Store::write_compacted`] fills with the current
    /// state.
    pub fn begin_compaction(&mut self) {
        self.rewrite = Some(LogCompaction { generation: self.generation + 1, next: 0, updates: 0 });
    }

    /// Adds a batch to the log under compaction, as number `number` from 0. Returns `false` without
    /// effect if [`Store::replace_config`] aborted the compaction.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn write_compacted(&mut self, number: u64, batch: &WriteBatch) -> Result<bool, StoreError> {
        let Some(rewrite) = &mut self.rewrite else { return Ok(false) };
        rewrite.updates += batch.updates.len() as u64;
        let name = log_name(rewrite.generation);
        let bytes = store_format::encode_batch(batch)
            .map_err(|source| StoreError::Record { path: self.path.clone(), source })?;
        let add = || -> RedbResult<()> {
            let mut write = self.database.begin_write().map_err(boxed_error)?;
            // The commit at the end of the compaction makes all batches durable.
            write.set_durability(Durability::None).map_err(boxed_error)?;
            write.open_table(log_table(&name)).map_err(boxed_error)?.insert(number, &*bytes).map_err(boxed_error)?;
            write.commit().map_err(boxed_error)
        };
        add().map_err(|source| self.database_error(source))?;
        Ok(true)
    }

    /// Replaces the log by the compacted one.
    ///
    /// # Errors
    /// The store cannot be written; the old log stays in use.
    pub fn end_compaction(&mut self) -> Result<(), StoreError> {
        let Some(rewrite) = self.rewrite.take() else { return Ok(()) };
        let old = log_name(self.generation);
        let end = || -> RedbResult<()> {
            let write = self.database.begin_write().map_err(boxed_error)?;
            write.delete_table(log_table(&old)).map_err(boxed_error)?;
            write
                .open_table(META)
                .map_err(boxed_error)?
                .insert("generation", &rewrite.generation.to_le_bytes()[..])
                .map_err(boxed_error)?;
            write.commit().map_err(boxed_error)
        };
        end().map_err(|source| self.database_error(source))?;
        self.generation = rewrite.generation;
        self.next = FIRST_APPEND + rewrite.next;
        self.updates = rewrite.updates;
        Ok(())
    }
}

fn encode_config(config: &StoredConfig) -> Vec<u8> {
    // Encoding byte strings and a number cannot fail.
    postcard::to_stdvec(config).unwrap_or_default()
}
