//! Checks whether a lab can run on this machine.

use super::command::{exec, program, run};
use super::error::LabError;
use std::sync::atomic::{AtomicU32, Ordering};

/// Tries the operations that a lab needs, in a namespace that is removed at once: namespaces, veth
/// pairs, bridges, VXLAN, raw sockets.
///
/// # Errors
/// Names the refused or missing operation, and the fix. The same scenario can then still run from
/// pcap to pcap.
pub fn permitted() -> Result<(), LabError> {
    // Distinct from the names of all labs, and of other probes at the same time.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("terraceprobe-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let refused = |what: &str, error: LabError| LabError::NotPermitted { reason: format!("{what}: {error}") };
    run(program("ip", &["netns", "add", &name])).map_err(|error| match error {
        missing @ LabError::Missing { .. } => missing,
        error => refused("network namespaces are not allowed", error),
    })?;
    let outcome = try_devices(&name).map_err(|(what, error)| refused(what, error));
    // An error here is reported, because removing a lab would fail too.
    let removed = run(program("ip", &["netns", "del", &name]));
    outcome?;
    removed.map_err(|error| refused("network namespaces cannot be removed", error))?;
    Ok(())
}

fn try_devices(namespace: &str) -> Result<(), (&'static str, LabError)> {
    let devices = [
        ("pairs of virtual interfaces are not available", "link add port0 type veth peer name vm0"),
        ("bridges are not available", "link add br1 type bridge"),
        ("VXLAN is not available", "link add vx1 type vxlan id 1 local 192.0.2.1 remote 192.0.2.2 dstport 4789"),
    ];
    for (what, arguments) in devices {
        let mut all = vec!["-n", namespace];
        all.extend(arguments.split_whitespace());
        run(program("ip", &all)).map_err(|error| (what, error))?;
    }
    for tool in [["ethtool", "--version"], ["ping", "-V"]] {
        run(program(tool[0], &tool[1..])).map_err(|error| ("a program is missing", error))?;
    }
    run(exec(namespace, "true", &[])).map_err(|error| ("programs cannot run in network namespaces", error))?;
    let open = || io::RawPort::open("port0").map(drop);
    let opened = io::Namespace::open(namespace).and_then(|namespace| namespace.run(open));
    match opened {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(("raw sockets are not available", error.into())),
        Err(error) => Err(("network namespaces cannot be entered", error.into())),
    }
}
