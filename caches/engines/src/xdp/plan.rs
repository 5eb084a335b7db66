//! [`XdpPlan`]: a node's flow cache in the kernel and its ports, with ordinary ports where the
//! kernel cannot support it.

use crate::CachePlan;
use interp::Config;
use io::xdp::{XdpMode, XdpPort, XdpProgram, has_unfinished_packets};
use io::{OpenedPort, PortError, PortKind, dpdk::DpdkOptions, open_port};
use ir::Pipeline;
use node::engine::{EngineControl, EngineFactory};
use p4runtime::P4RuntimeError;
use std::sync::{Arc, OnceLock};

/// Hook at which the program is attached to interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookChoice {
    /// tc at veth, TAP and virtio interfaces, and where XDP would be generic; XDP elsewhere. The
    /// other one, with a note, where the kernel does not support it.
    #[default]
    Auto,
    /// XDP.
    Xdp,
    /// tc.
    Tc,
}

/// Configuration of the kernel's flow cache. Clones share the cache.
#[derive(Clone, Debug)]
pub struct XdpPlan {
    /// Capacity in flows.
    pub flows: u32,
    /// Slow-path budget and timeouts. Its other settings are unused.
    pub cache: CachePlan,
    /// Hook of the program.
    pub hook: HookChoice,
    /// Attachment at XDP: native (in the driver) or generic.
    pub mode: XdpMode,
    kernel: Arc<OnceLock<Result<XdpProgram, String>>>,
}

impl Default for XdpPlan {
    fn default() -> XdpPlan {
        XdpPlan::new(XdpPlan::FLOWS)
    }
}

impl XdpPlan {
    /// Default capacity in flows.
    pub const FLOWS: u32 = 16_384;

    /// Creates a plan with a capacity of `flows`.
    pub fn new(flows: u32) -> XdpPlan {
        let hook = HookChoice::Auto;
        XdpPlan { flows, cache: CachePlan::default(), hook, mode: XdpMode::Native, kernel: Arc::default() }
    }

    /// Sets slow-path budget and timeouts.
    pub fn with_cache(self, cache: CachePlan) -> XdpPlan {
        XdpPlan { cache, ..self }
    }

    /// Returns a plan without a kernel cache, for the given reason. Ports are ordinary ones.
    pub fn without(why: &str) -> XdpPlan {
        let plan = XdpPlan::default();
        // The cell of the new plan is empty, so this cannot fail.
        let _ = plan.kernel.set(Err(why.to_owned()));
        plan
    }

    /// Returns the kernel's flow cache, which is loaded at the first call.
    ///
    /// # Errors
    /// The reason why it cannot be loaded.
    pub fn kernel(&self) -> Result<&XdpProgram, &str> {
        let load = || XdpProgram::load(self.flows).map_err(|error| error.to_string());
        self.kernel.get_or_init(load).as_ref().map_err(String::as_str)
    }

    /// Sets the attachment mode at XDP.
    pub fn with_mode(self, mode: XdpMode) -> XdpPlan {
        XdpPlan { mode, ..self }
    }

    /// Sets the hook.
    pub fn with_hook(self, hook: HookChoice) -> XdpPlan {
        XdpPlan { hook, ..self }
    }
}

impl XdpPlan {
    /// Opens an interface of the calling thread's network namespace as port `number`, attached to
    /// the kernel's flow cache. If that fails, opens an ordinary port, with the reason in its note.
    ///
    /// # Errors
    /// The device cannot be opened as a port.
    pub fn open(&self, interface: &str, number: u32) -> Result<OpenedPort, PortError> {
        if !is_interface(interface) {
            return open_port(interface, PortKind::Auto, &DpdkOptions::default());
        }
        let why = match self.kernel() {
            Ok(kernel) => match self.open_at_hook(kernel, interface, number) {
                Ok(opened) => return Ok(opened),
                Err(PortError::Xdp(error)) => error.to_string(),
                Err(error) => return Err(error),
            },
            Err(why) => why.to_owned(),
        };
        let opened = open_port(interface, PortKind::Auto, &DpdkOptions::default())?;
        let note = format!("`{interface}` is without the kernel's flow cache: {why}");
        Ok(OpenedPort { note: Some(note), ..opened })
    }

    /// Returns whether tc is tried first at an interface.
    fn prefers_tc(&self, interface: &str) -> bool {
        match self.hook {
            HookChoice::Xdp => false,
            HookChoice::Tc => true,
            HookChoice::Auto => self.mode == XdpMode::Generic || has_unfinished_packets(interface),
        }
    }

    /// Opens an interface at the configured hook. [`HookChoice::Auto`] tries the preferred hook
    /// first, and the other one if the kernel does not support that.
    fn open_at_hook(&self, kernel: &XdpProgram, interface: &str, number: u32) -> Result<OpenedPort, PortError> {
        let open = |mode, earlier_note: Option<String>| {
            let port = XdpPort::open_as(kernel, interface, number, mode)?;
            let notes: Vec<String> = earlier_note.into_iter().chain(port.notes().iter().cloned()).collect();
            let note = (!notes.is_empty()).then(|| notes.join("; "));
            Ok(OpenedPort { port: Box::new(port), note, method: None })
        };
        let tc_first = self.prefers_tc(interface);
        match self.hook {
            HookChoice::Xdp => open(self.mode, None),
            HookChoice::Tc => open(XdpMode::Tc, None),
            HookChoice::Auto if tc_first => open(XdpMode::Tc, None).or_else(|error| match error {
                PortError::Xdp(why) => open(
                    self.mode,
                    Some(format!(
                        "XDP instead of tc, so that TCP needs senders without offloads (`ethtool -K END tx off`): {why}"
                    )),
                ),
                error => Err(error),
            }),
            // Generic XDP sees the same packets as tc, without what the sender left open.
            HookChoice::Auto => match open(XdpMode::Native, None)? {
                opened if opened.port.path() == Some(XdpMode::Generic.name()) => {
                    drop(opened);
                    open(XdpMode::Tc, None).or_else(|_| open(XdpMode::Native, None))
                }
                opened => Ok(opened),
            },
        }
    }
}

impl EngineFactory for XdpPlan {
    fn name(&self) -> &'static str {
        "jit"
    }

    fn cache(&self) -> &'static str {
        "xdp"
    }

    fn load(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn EngineControl>, P4RuntimeError> {
        super::load(self, pipeline, settings).map_err(P4RuntimeError::unimplemented)
    }

    fn can_share_port(&self, device: &str) -> bool {
        // At tc, several programs can be attached. The newest runs first.
        let has_tc = || self.kernel().is_ok_and(|kernel| kernel.tc_refusal().is_none());
        is_interface(device) && self.prefers_tc(device) && has_tc()
    }

    fn open_port(&self, device: &str, number: u32) -> Option<Result<OpenedPort, PortError>> {
        Some(self.open(device, number))
    }
}

/// Returns whether the device is a network interface, not a memif or DPDK device.
fn is_interface(device: &str) -> bool {
    !device.starts_with(io::memif::PREFIX) && !io::dpdk::DpdkDevice::recognise(device)
}
