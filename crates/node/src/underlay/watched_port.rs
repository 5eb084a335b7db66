//! [`WatchedPort`]: the link and the life cycle of one port.

use super::port_states::PortLinkStatus;
use crate::config::PortSetting;
use crate::status::PortState;
use io::{InterfaceProbe, InterfaceState};
use std::sync::Arc;
use std::time::Duration;
use underlay::{DampingTimes, LinkDamping, LinkUse};

/// A step of a port's life cycle, which takes longer than a watch on links may wait.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum PortCommand {
    /// Detach the port, because its interface has gone.
    Detach(PortSetting),
    /// Open the port, because an interface of its name is there again.
    Open(PortSetting),
}

/// A port that is watched.
pub(super) struct WatchedPort {
    pub setting: PortSetting,
    /// Asks for the interface; `None` for a device that is no interface, which reports its link
    /// itself.
    probe: Option<Arc<InterfaceProbe>>,
    damping: LinkDamping,
    /// Index of the interface with which the port was opened, or is being opened.
    opened: Option<i32>,
    seen: Option<InterfaceState>,
}

impl WatchedPort {
    /// Watches a port whose owner has opened it, or is about to, if its interface exists.
    pub fn new(setting: PortSetting, probe: Option<Arc<InterfaceProbe>>, times: DampingTimes) -> WatchedPort {
        let seen = probe.as_ref().and_then(|probe| probe.find(&setting.device));
        let opened = seen.map(|seen| seen.index);
        WatchedPort { setting, probe, damping: LinkDamping::new(times), opened, seen }
    }

    /// Asks for the link at the time `now`. `attached`: whether a worker has the port, and if so,
    /// whether the port itself reports a link. Returns what has to be done with the port.
    pub fn observe(&mut self, attached: Option<bool>, now: Duration) -> Vec<PortCommand> {
        let Some(probe) = &self.probe else {
            self.damping.report(attached == Some(true), now);
            return Vec::new();
        };
        self.seen = probe.find(&self.setting.device);
        let found = self.seen.map(|seen| seen.index);
        let mut commands = Vec::new();
        if self.opened.is_some() && self.opened != found {
            commands.push(PortCommand::Detach(self.setting.clone()));
            self.opened = None;
        }
        if self.opened.is_none() && found.is_some() {
            commands.push(PortCommand::Open(self.setting.clone()));
            self.opened = found;
        }
        // The port that is attached until it was detached is another interface's.
        let is_usable = commands.is_empty() && attached.is_some() && self.seen.is_some_and(|seen| seen.is_up);
        self.damping.report(is_usable, now);
        commands
    }

    /// Lets the next observation open the port again, because that has failed.
    pub fn retry(&mut self) {
        self.opened = None;
    }

    /// Returns whether packets may use the port.
    pub fn link_use(&self) -> LinkUse {
        self.damping.link_use()
    }

    /// Returns the longest packet that the interface sends now, in bytes.
    pub fn mtu_bytes(&self) -> Option<u16> {
        self.seen.and_then(|seen| u16::try_from(seen.mtu_bytes).ok())
    }

    pub fn status(&self, now: Duration) -> PortLinkStatus {
        let state = match self.damping.link_use() {
            // Not observed yet: only a fault is worth a line in the log.
            _ if !self.damping.is_known() => PortState::Up,
            LinkUse::Up => PortState::Up,
            LinkUse::Held => PortState::Held,
            LinkUse::Down if self.probe.is_some() && self.seen.is_none() => PortState::Missing,
            LinkUse::Down => PortState::Down,
        };
        let (changes, down_time) = (self.damping.changes(), self.damping.down_time(now));
        PortLinkStatus { device: self.setting.device.clone(), state, changes, down_time }
    }
}
