//! [`PuntKind`]: the kinds of packets that the gateway passes to the host.

/// Declares the kinds with the gateway's punt reasons (programs/gateway/reasons.p4).
macro_rules! punt_kinds {
    ($($kind:ident = $name:literal,)*) => {
        /// A kind of packets for the host, in the order in which the host gets them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum PuntKind {
            $(#[doc = $name] $kind,)*
        }

        impl PuntKind {
            /// All kinds.
            pub const ALL: &[PuntKind] = &[$(PuntKind::$kind,)*];

            /// Returns the name of the gateway's punt reason.
            pub fn name(self) -> &'static str {
                match self {
                    $(PuntKind::$kind => $name,)*
                }
            }

            /// Returns the kind of a punt reason. `None`: such packets are not for the host.
            pub fn from_reason(name: &str) -> Option<PuntKind> {
                match name {
                    $($name => Some(PuntKind::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

// BFD first, because it detects a failure by silence.
punt_kinds! {
    Bfd = "bfd",
    Bgp = "bgp",
    LinkProtocol = "link_protocol",
    Arp = "arp",
    Nd = "nd",
    LinkLocal = "link_local",
    IcmpError = "icmp_error",
    Dhcp = "dhcp",
    Icmp = "icmp",
    GatewayAddress = "gateway_address",
}
