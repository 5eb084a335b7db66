//! A BFD session between FRR on the host side of an uplink and FRR of a neighbour.

use super::lab::{Lab, sh};
use std::path::{Path, PathBuf};

const ZEBRA: &str = "/usr/lib/frr/zebra";
const BFDD: &str = "/usr/lib/frr/bfdd";

/// FRR's bfdd in one namespace, with zebra, which it needs. The processes end with the namespace.
pub struct Bfd {
    folder: PathBuf,
}

impl Bfd {
    /// Returns whether FRR's daemons are installed.
    pub fn is_installed() -> bool {
        [ZEBRA, BFDD].iter().all(|daemon| Path::new(daemon).exists())
    }

    /// Starts a session between two addresses, with a packet each 300 ms; it is down after three are
    /// lost.
    pub fn start(lab: &Lab, namespace: &str, name: &str, [own, peer]: [&str; 2]) -> Bfd {
        let folder = lab.path(name);
        std::fs::create_dir(&folder).expect("a folder");
        let config = format!(
            "bfd\n peer {peer} local-address {own}\n  receive-interval 300\n  transmit-interval 300\n  \
             detect-multiplier 3\n  no shutdown\n"
        );
        std::fs::write(folder.join("frr.conf"), config).expect("a file");
        // The daemons run as the user `frr`.
        let parent = lab.path("");
        let permitted = sh(&format!("chown -R frr: {} && chmod 711 {}", folder.display(), parent.display()));
        assert!(permitted.status.success(), "{permitted:?}");
        let common = format!("--vty_socket {0} -z {0}/zserv", folder.display());
        for (daemon, options) in
            [(ZEBRA, String::new()), (BFDD, format!("-f {0}/frr.conf --bfdctl {0}/bfdd.sock -P 0", folder.display()))]
        {
            let log = folder.join(Path::new(daemon).file_name().expect("a name"));
            let command = format!("{daemon} -d {common} {options} -i {0}.pid --log file:{0}.log", log.display());
            let (started, output) = lab.run(namespace, &command);
            assert!(started, "{daemon}: {output}");
        }
        Bfd { folder }
    }

    /// Returns how often the session came up and went down.
    pub fn changes(&self) -> [u64; 2] {
        let show =
            format!("vtysh --vty_socket {} -c 'show bfd peers counters json' 2>/dev/null", self.folder.display());
        let text = String::from_utf8_lossy(&sh(&show).stdout).into_owned();
        ["\"session-up\":", "\"session-down\":"].map(|field| {
            let after = text.split_once(field).map_or("0", |(_, after)| after);
            after.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
        })
    }
}
