//! Device strings of memif ports: `memif:socket=PATH,role=server|client[,id=N][,ring=LOG2]`.

use crate::PortError;
use crate::dpdk::DpdkDevice;
use std::fmt;
use std::path::PathBuf;

/// Prefix of memif device strings.
pub const PREFIX: &str = "memif:";
/// Arguments of DPDK's driver that this port supports. It ignores `mac`, because it has no MAC
/// address.
const SHARED_WITH_DPDK: [&str; 8] = ["role", "id", "socket", "socket-abstract", "rsize", "bsize", "zero-copy", "mac"];
/// Supported ring sizes, as logarithms to base 2.
const RING_LOG2_SIZES: std::ops::RangeInclusive<u8> = 4..=14;
/// Maximum length of a Unix socket's path, in bytes (`sun_path` of unix(7), without its zero).
const MAX_PATH: usize = 107;

/// End of a memif. They can start in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MemifRole {
    /// Listens on the socket ("master").
    Server,
    /// Connects to the socket and provides the memory ("slave").
    Client,
}

/// Address of the control socket.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum SocketAddress {
    /// A socket file.
    File(PathBuf),
    /// An abstract socket (`@NAME`; unix(7)).
    Abstract(String),
}

/// Options of a memif port.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MemifOptions {
    /// Address of the control socket.
    pub address: SocketAddress,
    /// The end that this port is.
    pub role: MemifRole,
    /// Number of the interface at this socket, the same at both ends.
    pub id: u32,
    /// Number of descriptors of each ring, as logarithm to base 2: the client's wish, the server's
    /// maximum. The smaller one of both ends applies.
    pub ring: u8,
}

impl fmt::Display for MemifOptions {
    /// Formats the device string without default values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.role == MemifRole::Server { "server" } else { "client" };
        match &self.address {
            SocketAddress::File(path) => write!(f, "{PREFIX}socket={},role={role}", path.display())?,
            SocketAddress::Abstract(name) => write!(f, "{PREFIX}socket=@{name},role={role}")?,
        }
        if self.id != 0 {
            write!(f, ",id={}", self.id)?;
        }
        if self.ring != MemifOptions::RING {
            write!(f, ",ring={}", self.ring)?;
        }
        Ok(())
    }
}

impl MemifOptions {
    /// 1024 descriptors, a common default.
    pub const RING: u8 = 10;

    /// Converts the device string of DPDK's `net_memif`. `None` for another driver's device, and
    /// for arguments that only DPDK's driver supports (`zero-copy=yes`, `secret=`, another buffer
    /// size) or that are invalid, so that DPDK reports them.
    ///
    /// The defaults are those of DPDK 22.11: client, abstract socket `/run/memif.sock`.
    pub fn of_device(device: &DpdkDevice) -> Option<MemifOptions> {
        if device.driver() != Some("net_memif") || !device.keys().all(|key| SHARED_WITH_DPDK.contains(&key)) {
            return None;
        }
        let argument = |key, default| device.argument(key).unwrap_or(default);
        let socket = argument("socket", "/run/memif.sock");
        let address = match argument("socket-abstract", "yes") {
            "yes" => SocketAddress::Abstract(socket.to_owned()),
            "no" => SocketAddress::File(socket.into()),
            _ => return None,
        };
        let role = match argument("role", "client") {
            "server" | "master" => MemifRole::Server,
            "client" | "slave" => MemifRole::Client,
            _ => return None,
        };
        let id = argument("id", "0").parse().ok()?;
        let ring = argument("rsize", "10").parse().ok().filter(|size| RING_LOG2_SIZES.contains(size))?;
        let has_default_buffers = argument("bsize", "2048") == "2048" && argument("zero-copy", "no") == "no";
        (has_default_buffers && !socket.is_empty() && socket.len() <= MAX_PATH).then_some(MemifOptions {
            address,
            role,
            id,
            ring,
        })
    }

    /// Parses a device string.
    ///
    /// # Errors
    /// The string is malformed; the error describes the expected form.
    pub fn parse(text: &str) -> Result<MemifOptions, PortError> {
        let bad = |why: String| PortError::BadMemif { device: text.chars().take(120).collect(), why };
        let arguments = text.strip_prefix(PREFIX).ok_or_else(|| bad(format!("it does not begin with `{PREFIX}`")))?;
        let (mut address, mut role, mut id, mut ring) = (None, None, 0, MemifOptions::RING);
        for part in arguments.split(',') {
            let (key, value) =
                part.split_once('=').ok_or_else(|| bad(format!("`{part}` is not of the form KEY=VALUE")))?;
            match key {
                "socket" if value.is_empty() || value == "@" => return Err(bad("the socket has no name".into())),
                "socket" if value.len() > MAX_PATH => {
                    return Err(bad(format!("the socket's name has more than {MAX_PATH} bytes")));
                }
                "socket" if value.contains('\0') => return Err(bad("the socket's name has a zero".into())),
                "socket" => {
                    address = Some(match value.strip_prefix('@') {
                        Some(name) => SocketAddress::Abstract(name.to_owned()),
                        None => SocketAddress::File(value.into()),
                    });
                }
                "role" if value == "server" => role = Some(MemifRole::Server),
                "role" if value == "client" => role = Some(MemifRole::Client),
                "role" => return Err(bad(format!("the role is server or client, not `{value}`"))),
                "id" => id = value.parse().map_err(|_| bad(format!("`{value}` is not a number from 0 to 2^32-1")))?,
                "ring" => {
                    let log2_size = value.parse().ok().filter(|size| RING_LOG2_SIZES.contains(size));
                    let range = format!("{} to {}", RING_LOG2_SIZES.start(), RING_LOG2_SIZES.end());
                    ring = log2_size
                        .ok_or_else(|| bad(format!("`ring` is the size's logarithm, {range}, not `{value}`")))?;
                }
                other => return Err(bad(format!("`{other}` is not known; there are socket, role, id and ring"))),
            }
        }
        match (address, role) {
            (Some(address), Some(role)) => Ok(MemifOptions { address, role, id, ring }),
            (None, _) => Err(bad("it has no `socket=`".into())),
            (_, None) => Err(bad("it has no `role=`".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for text in [
            "memif:socket=/run/a.sock,role=server",
            "memif:socket=@a,role=client,id=7",
            "memif:socket=/run/a.sock,role=client,ring=14",
        ] {
            assert_eq!(MemifOptions::parse(text).expect("good").to_string(), text);
        }
    }

    #[test]
    fn dpdks_devices_are_ports_of_our_own_where_they_mean_the_same() {
        let of =
            |text: &str| MemifOptions::of_device(&DpdkDevice::parse(text).expect("a device")).map(|it| it.to_string());
        for (text, same) in [
            ("net_memif0,role=server,socket=/a,socket-abstract=no,rsize=11", "memif:socket=/a,role=server,ring=11"),
            ("net_memif5", "memif:socket=@/run/memif.sock,role=client"),
            ("net_memif1,role=slave,socket=b,id=7,bsize=2048", "memif:socket=@b,role=client,id=7"),
            ("net_memif1,role=master,mac=01:23:45:ab:cd:ef,zero-copy=no", "memif:socket=@/run/memif.sock,role=server"),
        ] {
            assert_eq!(of(text).as_deref(), Some(same), "{text}");
        }
        for text in [
            "net_null0",
            "net_memif0,zero-copy=yes",
            "net_memif0,secret=abc",
            "net_memif0,bsize=4096",
            "net_memif0,rsize=3",
            "net_memif0,role=nobody",
            "net_memif0,socket-abstract=maybe",
            "net_memif0,socket=",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn mistakes_say_how_it_should_look() {
        let long = format!("memif:role=server,socket=/{}", "x".repeat(107));
        for (text, why) in [
            ("memif:", "KEY=VALUE"),
            ("memif:role=server", "no `socket=`"),
            ("memif:socket=/a", "no `role=`"),
            ("memif:socket=/a,role=master", "server or client"),
            ("memif:socket=/a,role=server,ring=15", "4 to 14"),
            ("memif:socket=/a,role=server,id=-1", "not a number"),
            ("memif:socket=/a,role=server,colour=red", "not known"),
            ("memif:socket=@,role=server", "no name"),
            (&long, "more than 107"),
        ] {
            let error = MemifOptions::parse(text).expect_err("a mistake").to_string();
            assert!(error.contains(why) && error.contains("memif:socket=PATH"), "{text}: {error}");
        }
    }
}
