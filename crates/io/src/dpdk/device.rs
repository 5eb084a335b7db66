//! Device strings of DPDK: a PCI address, or a virtual device with its arguments.

use super::DpdkError;
use std::fmt;

/// Virtual devices that can be a port, each with an example of a device string.
const DRIVERS: [(&str, &str); 10] = [
    ("net_af_packet", "net_af_packet0,iface=eth0"),
    ("net_af_xdp", "net_af_xdp0,iface=eth0"),
    ("net_memif", "net_memif0,role=client,socket=/run/memif.sock,socket-abstract=no"),
    ("net_vhost", "net_vhost0,iface=/run/vhost.sock"),
    ("net_virtio_user", "net_virtio_user0,path=/run/vhost.sock"),
    ("net_pcap", "net_pcap0,rx_pcap=in.pcap,tx_pcap=out.pcap"),
    ("net_null", "net_null0,size=64"),
    ("net_ring", "net_ring0"),
    ("net_tap", "net_tap0,iface=tap0"),
    ("net_bonding", "net_bonding0,mode=1,slave=0000:01:00.0"),
];

/// Maximum length of a device string, in bytes.
const MAX_LEN: usize = 1024;
/// Maximum length of a device name, in bytes (DPDK's RTE_DEV_NAME_MAX_LEN is 64, with a zero).
const MAX_NAME: usize = 63;

/// A parsed device string: `NAME` or `NAME,KEY=VALUE,...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DpdkDevice {
    name: String,
    driver: Option<&'static str>,
    arguments: Vec<(String, String)>,
}

impl DpdkDevice {
    /// Parses a device string: a PCI address such as `0000:01:00.0`, or a virtual device such as
    /// `net_memif0,role=client,socket=/run/x.sock`. Does not check that the device exists.
    ///
    /// # Errors
    /// The string is malformed; the error describes the expected form.
    pub fn parse(text: &str) -> Result<DpdkDevice, DpdkError> {
        let bad = |why: String| DpdkError::BadDevice { device: truncated(text), why };
        if text.len() > MAX_LEN {
            return Err(bad(format!("it has more than {MAX_LEN} bytes")));
        }
        if let Some(character) = text.chars().find(|c| c.is_control() || c.is_whitespace()) {
            return Err(bad(format!("it contains {character:?}")));
        }
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default();
        // A PCI address has no driver here, because DPDK finds the driver of a card itself.
        let driver = match (pci_address(name), driver_of(name)) {
            (true, _) => None,
            (false, Some(driver)) => Some(driver),
            (false, None) => {
                let examples: Vec<&str> = DRIVERS.iter().map(|(_, example)| *example).collect();
                return Err(bad(format!(
                    "`{}` is neither a PCI address (0000:01:00.0) nor a virtual device, such as {}",
                    truncated(name),
                    examples.join(", ")
                )));
            }
        };
        if name.len() > MAX_NAME {
            return Err(bad(format!("its name has more than {MAX_NAME} bytes")));
        }
        let mut arguments: Vec<(String, String)> = Vec::new();
        for part in parts {
            let (key, value) = part
                .split_once('=')
                .filter(|(key, _)| !key.is_empty())
                .ok_or_else(|| bad(format!("`{part}` is not of the form KEY=VALUE")))?;
            arguments.push((key.to_owned(), value.to_owned()));
        }
        let device = DpdkDevice { name: name.to_owned(), driver, arguments };
        if let Some(missing) = device.missing_argument() {
            let example = DRIVERS.iter().find(|(name, _)| Some(*name) == driver).map_or("", |(_, example)| *example);
            return Err(bad(format!("it needs `{missing}=`, as in {example}")));
        }
        Ok(device)
    }

    /// Returns whether `text` refers to a DPDK device, by a PCI address or the name of a virtual
    /// device, and not to a network interface.
    pub fn recognise(text: &str) -> bool {
        let name = text.split(',').next().unwrap_or_default();
        pci_address(name) || driver_of(name).is_some()
    }

    /// Returns the device without its arguments: the PCI address, or for example `net_memif0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the driver of a virtual device, for example `net_memif`; `None` for a PCI device.
    pub fn driver(&self) -> Option<&'static str> {
        self.driver
    }

    /// Returns the value of an argument.
    pub fn argument(&self, key: &str) -> Option<&str> {
        self.arguments.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Iterates over the keys of all arguments.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.arguments.iter().map(|(key, _)| key.as_str())
    }

    /// Adds an argument, unless its key is present.
    pub(crate) fn set_default(&mut self, key: &str, value: impl fmt::Display) {
        if self.argument(key).is_none() {
            self.arguments.push((key.to_owned(), value.to_string()));
        }
    }

    /// Returns the network interface of a virtual device, if it has one.
    pub(crate) fn interface(&self) -> Option<&str> {
        matches!(self.driver, Some("net_af_packet" | "net_af_xdp")).then(|| self.argument("iface")).flatten()
    }

    /// Returns a missing argument that the driver requires.
    fn missing_argument(&self) -> Option<&'static str> {
        let needed = match self.driver? {
            "net_af_packet" | "net_af_xdp" | "net_vhost" => "iface",
            "net_virtio_user" => "path",
            _ => return None,
        };
        self.argument(needed).is_none_or(str::is_empty).then_some(needed)
    }
}

impl fmt::Display for DpdkDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.arguments.iter().try_for_each(|(key, value)| write!(f, ",{key}={value}"))
    }
}

/// Returns `text`, truncated to 80 characters for a message.
fn truncated(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns whether `text` is `DDDD:BB:DD.F` or `BB:DD.F`, hexadecimal.
fn pci_address(text: &str) -> bool {
    let hexadecimal = |part: &str, len: usize| part.len() == len && part.bytes().all(|b| b.is_ascii_hexdigit());
    let parts: Vec<&str> = text.split(':').collect();
    let (bus, slot) = match parts[..] {
        [domain, bus, slot] if hexadecimal(domain, 4) => (bus, slot),
        [bus, slot] => (bus, slot),
        _ => return false,
    };
    let Some((slot, function)) = slot.split_once('.') else { return false };
    hexadecimal(bus, 2) && hexadecimal(slot, 2) && hexadecimal(function, 1)
}

/// Returns the driver of a device name: the driver's name with a suffix. The driver's name without
/// a suffix is the name of an interface, not of a device.
fn driver_of(name: &str) -> Option<&'static str> {
    let is_suffix = |suffix: &str| {
        !suffix.is_empty() && suffix.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    DRIVERS.iter().map(|(driver, _)| *driver).find(|driver| name.strip_prefix(driver).is_some_and(is_suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_from_interfaces() {
        for device in ["0000:01:00.0", "01:00.1", "net_null0", "net_memif7,role=client", "net_af_packet_port1,iface=x"]
        {
            assert!(DpdkDevice::recognise(device), "{device}");
        }
        for interface in
            ["eth0", "port1", "lo", "net_null", "01:00", "net0", "enp1s0f0", "", "0000:01:00.", "net_nullx/y"]
        {
            assert!(!DpdkDevice::recognise(interface), "{interface}");
        }
    }

    #[test]
    fn a_device_is_read_and_written_back() {
        let text = "net_memif3,role=server,socket=/run/a=b.sock,socket-abstract=no";
        let device = DpdkDevice::parse(text).unwrap();
        assert_eq!((device.name(), device.driver()), ("net_memif3", Some("net_memif")));
        assert_eq!(device.argument("socket"), Some("/run/a=b.sock"));
        assert_eq!(device.to_string(), text);
        assert_eq!(DpdkDevice::parse("0000:3b:00.1").unwrap().driver(), None);
    }

    #[test]
    fn wrong_devices_are_refused_with_the_mend() {
        let why = |text: &str| DpdkDevice::parse(text).unwrap_err().to_string();
        assert!(
            why("eth0").contains("neither a PCI address (0000:01:00.0) nor a virtual device, such as net_af_packet0")
        );
        assert!(why("net_af_packet0").contains("it needs `iface=`, as in net_af_packet0,iface=eth0"));
        assert!(why("net_vhost0,iface=").contains("it needs `iface=`"));
        assert!(why("net_null0,size").contains("`size` is not of the form KEY=VALUE"));
        assert!(why("net_null0,=1").contains("not of the form"));
        assert!(why("net_null0,size=6 4").contains("it contains ' '"));
        assert!(why(&format!("net_null0,x={}", "y".repeat(2000))).contains("more than 1024 bytes"));
        assert!(why(&format!("net_null{}", "0".repeat(80))).contains("more than 63 bytes"));
        assert!(why(&"é".repeat(500)).len() < 1000);
    }
}
