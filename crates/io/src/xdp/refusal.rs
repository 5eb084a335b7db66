//! Texts about refusals of the kernel: an error's causes, and the capabilities that this process
//! lacks.

/// Capabilities (capabilities(7)) with their bits.
const NEEDED: [(&str, u32); 3] = [("CAP_NET_ADMIN", 12), ("CAP_NET_RAW", 13), ("CAP_BPF", 39)];
/// Includes CAP_BPF.
const SYS_ADMIN: u32 = 21;

/// Formats an error with its causes, truncated from the front.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    // The kernel's reasons are the last causes.
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    // The end of a long verifier log contains the reason.
    let from = text.char_indices().rev().nth(1_500).map_or(0, |(at, _)| at);
    text[from..].to_owned()
}

/// Returns a sentence about the missing capabilities; empty if none is missing or it is unknown.
pub(super) fn missing_capabilities() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(bits) = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()) else {
        return String::new();
    };
    describe(bits)
}

/// Returns a sentence's end that names the capabilities which are needed and missing in `bits`, a
/// set of Linux capabilities (capabilities(7)). Empty if there are none. CAP_SYS_ADMIN includes
/// CAP_BPF.
fn describe(bits: u64) -> String {
    let has_bit = |bit: u32| bits >> bit & 1 == 1;
    let is_granted = |name: &str, bit: u32| has_bit(bit) || name == "CAP_BPF" && has_bit(SYS_ADMIN);
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(name, bit)| !is_granted(name, *bit)).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return String::new();
    }
    format!(
        "; this process lacks {}: run it as root, or grant them (AmbientCapabilities= of systemd)",
        missing.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::describe;

    #[test]
    fn only_missing_capabilities_are_named() {
        assert_eq!(describe(u64::MAX), "");
        assert_eq!(describe(1 << 12 | 1 << 13 | 1 << 21), "");
        assert!(describe(0).contains("CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF"));
        assert!(describe(1 << 12 | 1 << 13).contains("lacks CAP_BPF:"));
    }
}
