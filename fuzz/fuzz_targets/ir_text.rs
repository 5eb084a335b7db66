//! Fuzzes IR text: any text that parses prints and parses back to the same, and the verifier checks
//! it without a panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let Ok(pipeline) = ir::text::parse(&text) else { return };
    let printed = ir::text::print(&pipeline);
    let again = ir::text::parse(&printed).expect("what was printed parses");
    assert!(again == pipeline, "printing lost something");
    let _ = ir::verify::verify(&pipeline);
});
