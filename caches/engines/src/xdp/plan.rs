//! [`XdpPlan`]: the kernel's flow cache of a node, its ports, and what there is if the kernel has none.

use crate::CachePlan;
use interp::Config;
use io::xdp::{Kernel, Mode, XdpPort};
use io::{OpenedPort, PortError, PortKind, dpdk::DpdkOptions, open_port};
use ir::Pipeline;
use node::engine::{Controlled, EngineFactory};
use p4runtime::Refusal;
use std::sync::{Arc, OnceLock};

/// How the kernel's flow cache is made. Clones are of the same one.
#[derive(Clone, Debug)]
pub struct XdpPlan {
    /// Room for so many flows.
    pub flows: u32,
    /// What the slow path takes, and how long flows without packets stay; of the rest of it nothing counts.
    pub cache: CachePlan,
    /// Where it is attached to interfaces: in the driver, or behind it.
    pub mode: Mode,
    kernel: Arc<OnceLock<Result<Kernel, String>>>,
}

impl Default for XdpPlan {
    fn default() -> XdpPlan {
        XdpPlan::new(XdpPlan::FLOWS)
    }
}

impl XdpPlan {
    /// Flows, unless somebody says otherwise.
    pub const FLOWS: u32 = 16_384;

    /// With room for so many flows.
    pub fn new(flows: u32) -> XdpPlan {
        XdpPlan { flows, cache: CachePlan::default(), mode: Mode::Native, kernel: Arc::default() }
    }

    /// With what the slow path takes.
    pub fn with(self, cache: CachePlan) -> XdpPlan {
        XdpPlan { cache, ..self }
    }

    /// None, for that reason: ports are ordinary ones.
    pub fn without(why: &str) -> XdpPlan {
        let plan = XdpPlan::default();
        // Nobody has asked yet.
        let _ = plan.kernel.set(Err(why.to_owned()));
        plan
    }

    /// The kernel's flow cache, loaded when it is asked for first.
    ///
    /// # Errors
    /// Why there is none.
    pub fn kernel(&self) -> Result<&Kernel, &str> {
        let load = || Kernel::load(self.flows).map_err(|error| error.to_string());
        self.kernel.get_or_init(load).as_ref().map_err(String::as_str)
    }

    /// Attached in the driver if it can be, or behind it.
    pub fn attached(self, mode: Mode) -> XdpPlan {
        XdpPlan { mode, ..self }
    }
}

impl XdpPlan {
    /// Opens an interface of the calling thread's network namespace as the port of that number, with the kernel's flow cache attached. If that cannot be, the port is
    /// an ordinary one, and a note says why.
    ///
    /// # Errors
    /// It is no port at all.
    pub fn open(&self, interface: &str, number: u32) -> Result<OpenedPort, PortError> {
        if !is_interface(interface) {
            return open_port(interface, PortKind::Auto, &DpdkOptions::default());
        }
        let why = match self.kernel() {
            Ok(kernel) => match XdpPort::open_as(kernel, interface, number, self.mode) {
                Ok(port) => {
                    let note = (!port.notes().is_empty()).then(|| port.notes().join("; "));
                    return Ok(OpenedPort { port: Box::new(port), note });
                }
                Err(PortError::Xdp(error)) => error.to_string(),
                Err(error) => return Err(error),
            },
            Err(why) => why.to_owned(),
        };
        let opened = open_port(interface, PortKind::Auto, &DpdkOptions::default())?;
        let note = format!("`{interface}` is without the kernel's flow cache: {why}");
        Ok(OpenedPort { port: opened.port, note: Some(note) })
    }
}

impl EngineFactory for XdpPlan {
    fn name(&self) -> &'static str {
        "jit"
    }

    fn cache(&self) -> &'static str {
        "xdp"
    }

    fn load(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn Controlled>, Refusal> {
        super::load(self, pipeline, settings).map_err(Refusal::unimplemented)
    }

    fn open_port(&self, device: &str, number: u32) -> Option<Result<OpenedPort, PortError>> {
        Some(self.open(device, number))
    }
}

/// A memif or a device of DPDK's is none.
fn is_interface(device: &str) -> bool {
    !device.starts_with(io::memif::PREFIX) && !io::dpdk::DpdkDevice::recognise(device)
}
