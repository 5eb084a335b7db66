//! [`PortStatesKeeper`]: the states of ports, for status, metrics and reloads.

use crate::config::PortSetting;
use crate::status::PortState;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is known about the link of a port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortLinkStatus {
    /// Interface or device.
    pub device: String,
    /// State now.
    pub state: PortState,
    /// Number of changes of the link since the process started.
    pub changes: u64,
    /// Time without a link since the process started.
    pub down_time: Duration,
}

/// The states of ports, which the agent publishes.
#[derive(Default)]
pub(crate) struct PortStatesKeeper {
    states: Mutex<BTreeMap<u32, PortLinkStatus>>,
    /// The ports to watch, with the number of changes of this list.
    settings: Mutex<(u64, Vec<PortSetting>)>,
}

impl PortStatesKeeper {
    /// Returns the states by port number; empty if nothing watches the ports.
    pub fn states(&self) -> BTreeMap<u32, PortLinkStatus> {
        self.states.lock().clone()
    }

    pub(super) fn publish(&self, states: BTreeMap<u32, PortLinkStatus>) {
        *self.states.lock() = states;
    }

    /// Changes the list of ports to watch.
    pub fn set_settings(&self, ports: Vec<PortSetting>) {
        let mut settings = self.settings.lock();
        *settings = (settings.0 + 1, ports);
    }

    /// Returns the namespace of a port. `None`: that of the process.
    pub(super) fn netns_of(&self, port: Option<u32>) -> Option<String> {
        let settings = self.settings.lock();
        settings.1.iter().find(|setting| Some(setting.number) == port)?.netns.clone()
    }

    /// Returns the list of ports if it has changed since the version `known`, which is updated.
    pub(super) fn settings_since(&self, known: &mut u64) -> Option<Vec<PortSetting>> {
        let settings = self.settings.lock();
        (settings.0 != std::mem::replace(known, settings.0)).then(|| settings.1.clone())
    }
}
