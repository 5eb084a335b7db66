//! Sentences about a NAT that is short of something, with the fix.

use super::status::{NatStatus, NatUse, SessionUse};

/// Share of what there is from which on a sentence says that it is nearly all in use.
const NEARLY_ALL: f64 = 0.9;

fn is_nearly_all(used: u64, capacity: u64) -> bool {
    capacity > 0 && used as f64 >= NEARLY_ALL * capacity as f64
}

/// Returns the sentences about all NATs; none if nothing is short.
pub(super) fn notes(status: &NatStatus) -> Vec<String> {
    let mut notes: Vec<String> = status.nats.iter().flat_map(notes_of).collect();
    if let SessionUse { count, size: Some(size) } = status.sessions
        && is_nearly_all(count, size)
    {
        notes.push(format!(
            "{count} of {size} sessions are in use: shorten idle times (`internet.timeouts`), or serve fewer VPCs with this \
             gateway"
        ));
    }
    if status.unnamed_blocks > 0 {
        notes.push(format!(
            "{} blocks belong to machines or addresses that the region file no longer has; they end with their sessions",
            status.unnamed_blocks
        ));
    }
    notes
}

fn notes_of(nat: &NatUse) -> Vec<String> {
    let NatUse { name, source, ports_per_vm, blocks, block_capacity, full_addresses, address_count, .. } = nat;
    let start = format!("{source}: NAT {name}");
    let refused = |reason: &str| nat.refused.get(reason).copied().unwrap_or(0);
    let mut notes = Vec::new();
    let more = format!("add addresses, or lower `ports_per_vm` ({ports_per_vm})");
    if is_nearly_all(*blocks, *block_capacity) {
        notes.push(format!("{start}: {blocks} of {block_capacity} blocks of ports are in use: {more}"));
    } else if *full_addresses > 0 {
        notes.push(format!(
            "{start}: {full_addresses} of {address_count} addresses have no free block, so machines that have ports of them \
             get no more: {more}"
        ));
    }
    if refused("nat_no_ports") > 0 {
        let count = refused("nat_no_ports");
        notes.push(format!(
            "{start}: {count} packets of new sessions were dropped, because no block of ports was free (nat_no_ports): {more}"
        ));
    }
    let at_limit = nat.machines_at_limit;
    if at_limit > 0 || refused("nat_quota") > 0 {
        let count = refused("nat_quota");
        let now = match at_limit {
            0 => String::new(),
            1 => format!(", and a machine has all its {ports_per_vm} ports now"),
            _ => format!(", and {at_limit} machines have all their {ports_per_vm} ports now"),
        };
        notes.push(format!(
            "{start}: {count} packets of new sessions were dropped, because the machine had all its ports (nat_quota){now}: look \
             for a scan or a leak of connections with `--top`, or raise `ports_per_vm`"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_is_said_with_its_line_and_the_fix() {
        let plenty = NatUse {
            name: "public".into(),
            source: "region.yaml:9".into(),
            address_count: 2,
            ports_per_vm: 64,
            blocks: 1814,
            block_capacity: 2016,
            ..NatUse::default()
        };
        let notes = |nat: &NatUse| notes(&NatStatus { nats: vec![nat.clone()], ..NatStatus::default() });
        assert_eq!(notes(&plenty), [""; 0]);
        let nearly = NatUse { blocks: 1815, full_addresses: 1, ..plenty.clone() };
        let [said] = &notes(&nearly)[..] else { panic!("one sentence") };
        assert!(
            said.starts_with("region.yaml:9: NAT public: 1815 of 2016 blocks") && said.contains("add addresses"),
            "{said}"
        );
        let uneven = NatUse { full_addresses: 1, ..plenty.clone() };
        assert!(notes(&uneven)[0].contains("1 of 2 addresses have no free block"), "{:?}", notes(&uneven));
        let refused = |reason: &str| [(reason.to_owned(), 7)].into();
        let empty = NatUse { refused: refused("nat_no_ports"), ..plenty.clone() };
        assert!(notes(&empty)[0].contains("7 packets of new sessions"), "{:?}", notes(&empty));
        let quota = NatUse { refused: refused("nat_quota"), machines_at_limit: 2, ..plenty };
        let [said] = &notes(&quota)[..] else { panic!("one sentence") };
        assert!(
            said.contains("2 machines have all their 64 ports now") && said.contains("raise `ports_per_vm`"),
            "{said}"
        );
    }

    #[test]
    fn a_full_table_of_sessions_is_said() {
        let status = |count| NatStatus { sessions: SessionUse { count, size: Some(100) }, ..NatStatus::default() };
        assert_eq!(notes(&status(89)), [""; 0]);
        assert!(notes(&status(90))[0].starts_with("90 of 100 sessions are in use: shorten idle times"));
    }
}
