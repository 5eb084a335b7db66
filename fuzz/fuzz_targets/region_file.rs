//! A region file is any text: it is refused with a place, or right; never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match region::parse("fuzz.yaml", &text) {
        Ok(region) => assert_eq!(region.vm_places.len(), region.file.vms.len()),
        Err(problems) => assert!(!problems.problems.is_empty()),
    }
});
