//! Looks into frames of the host.

/// UDP port of VXLAN (RFC 7348, section 5).
const VXLAN: u16 = 4789;
const UDP: u8 = 17;

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Returns whether a frame is VXLAN: UDP to port 4789, with or without a VLAN tag.
pub(super) fn is_vxlan(frame: &[u8]) -> bool {
    udp_destination(frame) == Some(VXLAN)
}

/// Returns the destination port of a frame with UDP. Later fragments have none.
fn udp_destination(frame: &[u8]) -> Option<u16> {
    let mut at = 12;
    while matches!(be16(frame, at)?, 0x8100 | 0x88a8) {
        at += 4;
    }
    let ip = at + 2;
    let udp = match be16(frame, at)? {
        0x0800 if *frame.get(ip + 9)? == UDP && be16(frame, ip + 6)? & 0x1fff == 0 => {
            ip + 4 * usize::from(*frame.get(ip)? & 15)
        }
        0x86dd if *frame.get(ip + 6)? == UDP => ip + 40,
        _ => return None,
    };
    be16(frame, udp + 2)
}

#[cfg(test)]
mod tests {
    use super::is_vxlan;

    fn frame(ether_type: &[u8], ip: &[u8], port: u16) -> Vec<u8> {
        let udp = [&[0x30, 0][..], &port.to_be_bytes(), &[0, 8, 0, 0]].concat();
        [&[2; 12][..], ether_type, ip, &udp].concat()
    }

    #[test]
    fn vxlan_is_found_behind_options_and_tags() {
        let mut plain = [0; 20];
        (plain[0], plain[9]) = (0x45, 17);
        let mut with_options = [0; 24];
        (with_options[0], with_options[9]) = (0x46, 17);
        let mut v6 = [0; 40];
        (v6[0], v6[6]) = (0x60, 17);
        assert!(is_vxlan(&frame(&[8, 0], &plain, 4789)));
        assert!(is_vxlan(&frame(&[8, 0], &with_options, 4789)));
        assert!(is_vxlan(&frame(&[0x81, 0, 0, 100, 8, 0], &plain, 4789)));
        assert!(is_vxlan(&frame(&[0x86, 0xdd], &v6, 4789)));
        assert!(!is_vxlan(&frame(&[8, 0], &plain, 3784)));
        assert!(!is_vxlan(&frame(&[8, 6], &plain, 4789)));
        // A later fragment, TCP, and frames that end early.
        let mut fragment = plain;
        fragment[7] = 1;
        assert!(!is_vxlan(&frame(&[8, 0], &fragment, 4789)));
        let mut tcp = plain;
        tcp[9] = 6;
        assert!(!is_vxlan(&frame(&[8, 0], &tcp, 4789)));
        let whole = frame(&[8, 0], &plain, 4789);
        assert!((0..38).all(|len| !is_vxlan(&whole[..len])));
    }
}
