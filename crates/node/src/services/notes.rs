//! Sentences about services that cannot take connections, with the fix.

use super::status::ServiceUse;
use region::BackendState;

/// Returns the sentences about all services; none if each has a backend that is up.
pub(super) fn notes(services: &[ServiceUse]) -> Vec<String> {
    services.iter().filter_map(note).collect()
}

fn note(service: &ServiceUse) -> Option<String> {
    let ServiceUse { vpc, name, source, backends, .. } = service;
    if backends.iter().any(|backend| backend.state == BackendState::Up) {
        return None;
    }
    let start = format!("{source}: service {name} of VPC {vpc} takes no new connections, because");
    Some(match backends.len() {
        0 => format!("{start} it has no backend: write `backends`"),
        1 => format!("{start} its backend is not `up`: set its `state`"),
        count => format!("{start} none of its {count} backends is `up`: set the `state` of one"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::status::BackendUse;
    use super::*;
    use region::{Affinity, ForwardProtocol};
    use std::net::Ipv4Addr;

    fn service(states: &[BackendState]) -> ServiceUse {
        let backend = |state: &BackendState| BackendUse {
            address: Ipv4Addr::new(10, 0, 0, 11),
            machine: None,
            port: 80,
            state: *state,
            weight: 1,
            share: 0.0,
            connections: 0,
        };
        ServiceUse {
            vpc: "red".into(),
            name: "web".into(),
            source: "region.yaml:9".into(),
            address: None,
            public: None,
            protocol: ForwardProtocol::Tcp,
            port: 80,
            affinity: Affinity::Connection,
            backends: states.iter().map(backend).collect(),
            connections: 0,
            stale_connections: 0,
        }
    }

    #[test]
    fn a_service_without_a_backend_that_is_up_is_named_with_the_fix() {
        assert_eq!(notes(&[service(&[BackendState::Down, BackendState::Up])]), [""; 0]);
        let said = |states: &[BackendState]| notes(&[service(states)]).concat();
        assert_eq!(
            said(&[]),
            "region.yaml:9: service web of VPC red takes no new connections, because it has no backend: write `backends`"
        );
        assert!(said(&[BackendState::Draining]).ends_with("its backend is not `up`: set its `state`"));
        assert!(said(&[BackendState::Draining, BackendState::Down]).contains("none of its 2 backends is `up`"));
    }
}
