//! Fuzzes region files: any text is accepted, or refused with a position and a fix; never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match region::parse("fuzz.yaml", &text) {
        Ok(region) => assert_eq!(region.vm_locations.len(), region.file.vms.len()),
        Err(problems) => {
            assert!(!problems.problems.is_empty() && problems.problems.len() <= region::MAX_PROBLEMS);
            for problem in problems.problems {
                assert!(problem.line > 0 && problem.column > 0 && !problem.help.is_empty(), "{problem}");
                assert!(!problem.message.contains(char::is_control), "{problem:?}");
            }
        }
    }
});
