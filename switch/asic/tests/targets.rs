//! Tests target files: the shipped ones, and rejected ones, with file, line and fix.

use asic::target::{ChipTarget, StageResources};

const TOFINO1: &str = include_str!("../targets/tofino1.toml");

/// Returns the message for `tofino1.toml` with one text replaced.
fn refused(from: &str, to: &str) -> String {
    assert!(TOFINO1.contains(from), "{from:?} is not in tofino1.toml");
    let error = ChipTarget::from_toml(&TOFINO1.replacen(from, to, 1), "mine.toml").expect_err("refused");
    assert!(!error.help.is_empty());
    error.to_string()
}

/// Returns the line of the first line of tofino1.toml that starts with `start` after the line
/// `section`.
fn line_of(section: &str, start: &str) -> usize {
    let mut lines = TOFINO1.lines().enumerate().skip_while(|(_, l)| *l != section);
    lines.find(|(_, l)| l.starts_with(start)).map(|(n, _)| n + 1).expect("in the file")
}

#[test]
fn shipped_targets_load() {
    for name in ChipTarget::SHIPPED {
        let target = ChipTarget::shipped(name).unwrap_or_else(|| panic!("{name} does not load"));
        assert_eq!(target.name, name);
    }
    assert!(ChipTarget::shipped("tofino9").is_none());
    let stages = |name| ChipTarget::shipped(name).map(|t| (t.stages, t.pipes));
    assert_eq!((stages("tofino1"), stages("tofino2"), stages("dpu8")), (Some((12, 4)), Some((20, 4)), Some((8, 1))));
}

#[test]
fn a_pipe_has_what_sailfish_counts() {
    let t = ChipTarget::shipped("tofino1").expect("shipped");
    assert_eq!((t.stages * t.sram.per_stage, t.stages * t.tcam.per_stage), (960, 288));
    let containers = |bits| t.phv.iter().filter(|c| c.bits == bits && !c.carry_only).map(|c| c.count).sum::<u32>();
    assert_eq!((containers(8), containers(16), containers(32)), (64, 96, 64));
}

#[test]
fn power_and_price_are_the_users() {
    let text = format!("power_w = 250.5\nprice = 9000\n{TOFINO1}");
    let target = ChipTarget::from_toml(&text, "mine.toml").expect("loads");
    assert_eq!((target.power_w, target.price), (Some(250.5), Some(9000.0)));
}

#[test]
fn contradictions_name_line_reason_and_mend() {
    let message = refused("[tcam]\nper_stage = 24\nrows = 12", "[tcam]\nper_stage = 24\nrows = 13");
    let line = line_of("[per_stage]", "tcam = 24");
    assert!(
        message
            .starts_with(&format!("mine.toml:{line}: a stage has 24 tcam blocks, but [tcam] says 24, in 13 rows of 2")),
        "{message}"
    );
    assert!(
        message.contains("help: make per_stage.tcam, tcam.per_stage and tcam.rows x tcam.columns one number"),
        "{message}"
    );

    let message = refused("select_bits = 12", "select_bits = 13");
    let line = line_of("[formats]", "hash_bits");
    assert!(message.starts_with(&format!("mine.toml:{line}: a hash has 52 bits, but 4 ways")), "{message}");

    for (from, to, part) in [
        ("stages = 12", "stages = 0", "stages is 0, but can be 1 to 256"),
        ("clock_hz = 1_220_000_000", "clock_hz = 0", "clock_hz is 0"),
        ("width = 128", "width = 100", "a word of SRAM has 100 bits"),
        ("overhead_bits = 64", "overhead_bits = 200", "200 bits of overhead do not fit into a word of 128"),
        ("immediate_bits = 32", "immediate_bits = 65", "65 bits of action data are part of an overhead of 64"),
        ("version_bits = 4", "version_bits = 5", "5 version bits do not fit into a nibble"),
        ("max_ranked_blocks = 5", "max_ranked_blocks = 6", "lie in half a row of SRAM, which has 5"),
        ("depth = 1024", "depth = 1000", "do not match SRAM blocks"),
        ("count = 96\ngroup = 8", "count = 97\ngroup = 8", "97 containers of 16 bits in groups of 8"),
        ("stages = 12", "stages = 12\nprice = -1.0", "price is negative"),
    ] {
        let message = refused(from, to);
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn what_is_no_target_names_the_line() {
    let message = refused("[per_stage]\nsram = 80", "[per_stage]\nsram = \"many\"");
    assert!(message.starts_with(&format!("mine.toml:{}: ", line_of("[per_stage]", "sram"))), "{message}");
    let message = refused("pipes = 4\n", "pipes = 4\nwings = 2\n");
    assert!(message.contains("unknown field `wings`"), "{message}");
    let message = refused("clock_hz = 1_220_000_000\n", "");
    assert!(message.contains("missing field `clock_hz`"), "{message}");
    for text in ["", "name = ", "\u{0}\u{1}", "[[[[[[["] {
        assert!(ChipTarget::from_toml(text, "mine.toml").is_err(), "{text:?}");
    }
}

#[test]
fn usage_adds_and_says_what_exceeds() {
    let a = StageResources { sram: 3, tables: 1, ..StageResources::default() };
    let b = StageResources { sram: 2, tcam: 1, ..StageResources::default() };
    assert_eq!(a.plus(b), StageResources { sram: 5, tcam: 1, tables: 1, ..StageResources::default() });
    assert_eq!(a.minus(b), StageResources { sram: 1, tables: 1, ..StageResources::default() });
    assert_eq!(b.first_exceeded(&a), Some("tcam"));
    assert!(b.fits(&a.plus(b)));
}
