//! Names of the extern objects and hash algorithms of the architectures.

use ir::HashAlgorithm;

/// Diagnostic code: the program uses an extern that the architecture does not define. Such a
/// program can be valid P4.
pub const EXTERN_WITHOUT_IMPLEMENTATION: &str = "extern-without-implementation";

/// The extern types of v1model.
pub(super) const V1MODEL_OBJECTS: [&str; 8] = [
    "counter",
    "direct_counter",
    "meter",
    "direct_meter",
    "register",
    "action_profile",
    "action_selector",
    "Checksum16",
];

/// The extern types of PNA.
pub(super) const PNA_OBJECTS: [&str; 14] = [
    "Hash",
    "Checksum",
    "InternetChecksum",
    "Counter",
    "DirectCounter",
    "Meter",
    "DirectMeter",
    "Register",
    "Random",
    "ActionProfile",
    "ActionSelector",
    "Digest",
    "PortPool",
    "EntryQuota",
];

/// Returns the hash algorithm with that name in v1model or PNA.
pub(super) fn hash_algorithm(name: &str) -> Option<HashAlgorithm> {
    Some(match name {
        "crc32" | "CRC32" => HashAlgorithm::Crc32,
        "crc32_custom" | "CRC32_CUSTOM" => HashAlgorithm::Crc32Custom,
        "crc16" | "CRC16" => HashAlgorithm::Crc16,
        "crc16_custom" | "CRC16_CUSTOM" => HashAlgorithm::Crc16Custom,
        "random" => HashAlgorithm::Random,
        "identity" | "IDENTITY" => HashAlgorithm::Identity,
        "csum16" | "ONES_COMPLEMENT16" => HashAlgorithm::Csum16,
        "xor16" => HashAlgorithm::Xor16,
        "TARGET_DEFAULT" => HashAlgorithm::TargetDefault,
        _ => return None,
    })
}
