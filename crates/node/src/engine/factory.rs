//! [`EngineFactory`]: makes an engine of each program that a node is given.

use super::{Controlled, Room};
use interp::Config;
use io::{OpenedPort, PortError};
use ir::Pipeline;
use p4runtime::Refusal;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// A factory that a configuration and a node share.
pub type Factory = Arc<dyn EngineFactory>;

/// What `engine`, `[cache]` and `[tiers]` of a configuration come to.
pub trait EngineFactory: Any + Debug + Send + Sync {
    /// What runs programs, or their lower halves: as in configurations, metrics and command lines.
    fn name(&self) -> &'static str;

    /// The kind of the flow cache in front of it, likewise.
    fn cache(&self) -> &'static str {
        "none"
    }

    /// The tiers of this process, if programs are divided among tiers.
    fn tiers(&self) -> Option<String> {
        None
    }

    /// An engine for a pipeline that the verifier has accepted; it has the program's own entries.
    ///
    /// # Errors
    /// `UNIMPLEMENTED`: the engine cannot run it; `RESOURCE_EXHAUSTED`: it does not fit on the chip. With what would help.
    fn load(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn Controlled>, Refusal>;

    /// Whether native code was asked for, and a program runs on the reference engine.
    fn falls_back(&self, engine: &dyn Controlled) -> bool {
        self.name() == "jit" && self.tiers().is_none() && engine.without_code().is_some()
    }

    /// Whether the ports that programs know are another process's: this one has the tiers below the switch.
    fn has_ports_elsewhere(&self) -> bool {
        false
    }

    /// The same with other room on its chip; `None`: it has no chip, and takes any number of entries.
    fn with_room(&self, room: &Room) -> Option<Factory> {
        let _ = room;
        None
    }

    /// Opens a device of the calling thread's network namespace as the port of that number, if ports
    /// of this engine are of a kind of their own; `None`: they are not.
    fn open_port(&self, device: &str, number: u32) -> Option<Result<OpenedPort, PortError>> {
        let _ = (device, number);
        None
    }

    /// As configurations and nodes share it.
    fn shared(self) -> Factory
    where
        Self: Sized,
    {
        Arc::new(self)
    }
}
