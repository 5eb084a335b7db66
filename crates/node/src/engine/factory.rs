//! [`EngineFactory`]: creates an engine for each program of a node.

use super::{ChipSizing, EngineControl};
use interp::Config;
use io::{OpenedPort, PortError};
use ir::Pipeline;
use p4runtime::P4RuntimeError;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// A factory shared by a configuration and a node.
pub type SharedEngineFactory = Arc<dyn EngineFactory>;

/// Creates engines as `engine`, `[cache]` and `[tiers]` of a configuration specify.
pub trait EngineFactory: Any + Debug + Send + Sync {
    /// Returns the name of the engine of programs, or of their lower halves, as in configurations,
    /// metrics and command lines.
    fn name(&self) -> &'static str;

    /// Returns the kind of the flow cache before the engine, as in configurations.
    fn cache(&self) -> &'static str {
        "none"
    }

    /// Returns the tiers of this process, if programs are partitioned over tiers.
    fn tiers(&self) -> Option<String> {
        None
    }

    /// Creates an engine for a verified pipeline. The engine contains the entries declared in the
    /// program.
    ///
    /// # Errors
    /// `UNIMPLEMENTED`: the engine cannot run the program. `RESOURCE_EXHAUSTED`: the program does
    /// not fit on the chip. The message contains the fix.
    fn load(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn EngineControl>, P4RuntimeError>;

    /// Returns whether a program falls back to the reference engine although native code was
    /// configured.
    fn falls_back(&self, engine: &dyn EngineControl) -> bool {
        self.name() == "jit" && self.tiers().is_none() && engine.fallback_reason().is_some()
    }

    /// Returns whether another process owns the ports that programs know, because this one has only
    /// the tiers below the switch.
    fn has_remote_ports(&self) -> bool {
        false
    }

    /// Returns a factory with another chip sizing; `None` for engines without a chip, which take
    /// any number of entries.
    fn with_chip_sizing(&self, room: &ChipSizing) -> Option<SharedEngineFactory> {
        let _ = room;
        None
    }

    /// Returns whether this engine can open a device of the calling thread's network namespace while
    /// another process still has it as a port. A take-over then opens it before that process ends,
    /// so that no packet meets a device without a port.
    fn can_share_port(&self, _device: &str) -> bool {
        false
    }

    /// Opens a device of the calling thread's network namespace as a port with this number, if the
    /// engine has its own kind of port; `None` otherwise.
    fn open_port(&self, device: &str, number: u32) -> Option<Result<OpenedPort, PortError>> {
        let _ = (device, number);
        None
    }

    /// Converts the factory to its shared form.
    fn shared(self) -> SharedEngineFactory
    where
        Self: Sized,
    {
        Arc::new(self)
    }
}
