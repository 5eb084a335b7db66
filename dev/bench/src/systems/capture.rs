//! Capture files for systems that read and write packets there.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes packets as a capture file (pcap, Ethernet).
///
/// # Errors
/// If the file cannot be written.
pub fn write(path: &Path, packets: impl Iterator<Item = Vec<u8>>) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for word in [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 65535, 1] {
        file.write_all(&word.to_le_bytes())?;
    }
    for packet in packets {
        let len = packet.len() as u32;
        for word in [0, 0, len, len] {
            file.write_all(&word.to_le_bytes())?;
        }
        file.write_all(&packet)?;
    }
    file.flush()
}

/// Returns the packets of a capture file. A truncated last packet is left out.
///
/// # Errors
/// If the file cannot be read.
pub fn read(path: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let bytes = std::fs::read(path)?;
    let mut rest = bytes.get(24..).unwrap_or_default();
    let mut packets = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<16>() {
        let len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let Some(packet) = behind.get(..len) else { break };
        packets.push(packet.to_vec());
        rest = &behind[len..];
    }
    Ok(packets)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_written_is_read() {
        let path = std::env::temp_dir().join(format!("terrace-bench-{}.pcap", std::process::id()));
        let packets = vec![vec![1, 2, 3], vec![], vec![4; 1600]];
        super::write(&path, packets.clone().into_iter()).expect("it can be written");
        let mut bytes = std::fs::read(&path).expect("it is there");
        assert_eq!(super::read(&path).expect("it can be read"), packets);
        bytes.pop();
        std::fs::write(&path, bytes).expect("it can be written");
        assert_eq!(super::read(&path).expect("it can be read").len(), 2, "the last one is cut off");
        std::fs::remove_file(&path).expect("it was made here");
    }
}
