//! A region file is any text: it is refused with a place and a mend, or right; never a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match region::parse("fuzz.yaml", &text) {
        Ok(region) => assert_eq!(region.vm_places.len(), region.file.vms.len()),
        Err(problems) => {
            assert!(!problems.problems.is_empty() && problems.problems.len() <= region::MAX_PROBLEMS);
            for problem in problems.problems {
                assert!(problem.line > 0 && problem.column > 0 && !problem.mend.is_empty(), "{problem}");
                assert!(!problem.message.contains(char::is_control), "{problem:?}");
            }
        }
    }
});
