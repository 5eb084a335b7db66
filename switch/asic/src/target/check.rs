//! Consistency checks of a target: contradictions between numbers, and numbers that the model does
//! not support.

use super::{BlockGeometry, ChipTarget};

/// A number that is impossible, or that contradicts another one.
pub(super) struct Contradiction {
    /// Dotted key at which the error is reported.
    pub key: &'static str,
    /// Description of the error, with the numbers.
    pub reason: String,
    /// Suggested fix.
    pub help: String,
}

fn contradiction_at(key: &'static str, reason: String, help: impl Into<String>) -> Option<Contradiction> {
    Some(Contradiction { key, reason, help: help.into() })
}

/// Returns the first contradiction in a target.
pub(super) fn find_contradiction(target: &ChipTarget) -> Option<Contradiction> {
    let checks = [
        check_count_ranges,
        check_block_totals,
        check_map_ram,
        check_ranked_blocks,
        check_word_formats,
        check_hash_bits,
        check_phv_containers,
        check_dram_parser_and_name,
    ];
    checks.into_iter().find_map(|check| check(target))
}

/// Checks that counts are at least 1 and within limits, which bound the work of the model, because
/// the file is untrusted. Each row of the list: key, number, upper limit.
fn check_count_ranges(target: &ChipTarget) -> Option<Contradiction> {
    let formats = &target.formats;
    let numbers: [(&'static str, u64, u64); 16] = [
        ("stages", target.stages.into(), 256),
        ("pipes", target.pipes.into(), 64),
        ("ports", target.ports.into(), 4096),
        ("port_gbps", target.port_gbps.into(), 100_000),
        ("clock_hz", target.clock_hz, 1_000_000_000_000),
        ("per_stage.sram", target.per_stage.sram.into(), 4096),
        ("per_stage.tables", target.per_stage.tables.into(), 4096),
        ("tcam.rows", target.tcam.rows.into(), 4096),
        ("tcam.columns", target.tcam.columns.into(), 4096),
        ("tcam.depth", target.tcam.depth.into(), 1 << 20),
        ("tcam.width", target.tcam.width.into(), 4096),
        ("formats.max_pack", formats.max_pack.into(), 64),
        ("formats.max_per_word", formats.max_per_word.into(), 64),
        ("formats.max_ranked_blocks", formats.max_ranked_blocks.into(), 4096),
        ("formats.state_rows", formats.state_rows.into(), 4096),
        ("formats.max_words", formats.max_words.into(), target.sram.rows.into()),
    ];
    numbers.into_iter().find(|(_, n, max)| *n == 0 || n > max).and_then(|(key, n, max)| {
        contradiction_at(
            key,
            format!("{key} is {n}, but can be 1 to {max}"),
            format!("write the chip's number, at most {max}"),
        )
    })
}

/// Checks that the block totals of a stage equal rows times columns.
fn check_block_totals(target: &ChipTarget) -> Option<Contradiction> {
    let totals: [(&'static str, &str, u32, &BlockGeometry); 3] = [
        ("per_stage.sram", "sram", target.per_stage.sram, &target.sram),
        ("per_stage.tcam", "tcam", target.per_stage.tcam, &target.tcam),
        ("per_stage.map_ram", "map_ram", target.per_stage.map_ram, &target.map_ram),
    ];
    totals.into_iter().find_map(|(key, name, total, blocks)| {
        let product = u64::from(blocks.rows) * u64::from(blocks.columns);
        if product == u64::from(blocks.per_stage) && total == blocks.per_stage {
            return None;
        }
        let reason = format!(
            "a stage has {total} {name} blocks, but [{name}] says {}, in {} rows of {}, which are {product}",
            blocks.per_stage, blocks.rows, blocks.columns
        );
        contradiction_at(
            key,
            reason,
            format!("make per_stage.{name}, {name}.per_stage and {name}.rows x {name}.columns one number"),
        )
    })
}

/// Map RAM blocks pair with SRAM blocks, word by word.
fn check_map_ram(target: &ChipTarget) -> Option<Contradiction> {
    let (s, m) = (&target.sram, &target.map_ram);
    if m.rows != s.rows || m.columns > s.columns || m.depth != s.depth {
        let reason = format!(
            "map RAMs ({} rows of {}, {} deep) do not match SRAM blocks ({} rows of {}, {} deep)",
            m.rows, m.columns, m.depth, s.rows, s.columns, s.depth
        );
        return contradiction_at(
            "map_ram.rows",
            reason,
            "give map_ram the rows and depth of sram, and no more columns",
        );
    }
    None
}

/// Ranked blocks of a partition fit into half a row of SRAM.
fn check_ranked_blocks(target: &ChipTarget) -> Option<Contradiction> {
    let most = target.formats.max_ranked_blocks;
    let half = target.sram.columns / 2;
    if most > half {
        let reason = format!("a partition's {most} blocks lie in half a row of SRAM, which has {half}");
        return contradiction_at("formats.max_ranked_blocks", reason, format!("write {half} or less"));
    }
    None
}

/// Checks that word formats fit into an SRAM word.
fn check_word_formats(target: &ChipTarget) -> Option<Contradiction> {
    let (formats, width) = (&target.formats, target.sram.width);
    if !width.is_multiple_of(8) || !(32..=128).contains(&width) {
        let reason = format!("a word of SRAM has {width} bits; packing supports 32 to 128, whole bytes");
        return contradiction_at("sram.width", reason, "count two neighbouring blocks as one, or half a block as one");
    }
    if formats.overhead_bits > width || formats.overhead_bits == 0 {
        let reason = format!("{} bits of overhead do not fit into a word of {width}", formats.overhead_bits);
        return contradiction_at("formats.overhead_bits", reason, format!("write 1 to {width}"));
    }
    if formats.immediate_bits > formats.overhead_bits {
        let reason = format!(
            "{} bits of action data are part of an overhead of {} bits",
            formats.immediate_bits, formats.overhead_bits
        );
        return contradiction_at("formats.immediate_bits", reason, format!("write {} or less", formats.overhead_bits));
    }
    if formats.version_bits > 4 {
        let reason =
            format!("{} version bits do not fit into a nibble, as which they are packed", formats.version_bits);
        return contradiction_at("formats.version_bits", reason, "write 4 or less");
    }
    None
}

/// Checks that a hash has bits for a word in each of the independent ways and for block selection.
fn check_hash_bits(target: &ChipTarget) -> Option<Contradiction> {
    let (formats, depth) = (&target.formats, target.sram.depth);
    if !depth.is_power_of_two() || depth > 1 << 20 {
        return contradiction_at(
            "sram.depth",
            format!("{depth} words cannot be chosen by bits of a hash"),
            "write a power of two up to 1048576",
        );
    }
    if !formats.min_ways.is_power_of_two() || formats.min_ways > 16 {
        let reason = format!("{} independent ways", formats.min_ways);
        return contradiction_at("formats.min_ways", reason, "write 1, 2, 4, 8 or 16");
    }
    let sum = u64::from(formats.min_ways) * u64::from(depth.ilog2()) + u64::from(formats.select_bits);
    if sum != u64::from(formats.hash_bits) {
        let reason = format!(
            "a hash has {} bits, but {} ways choose among {depth} words ({} bits each) and {} bits select blocks: {sum}",
            formats.hash_bits,
            formats.min_ways,
            depth.ilog2(),
            formats.select_bits
        );
        return contradiction_at(
            "formats.hash_bits",
            reason,
            format!("write {sum}, or change min_ways, select_bits or sram.depth"),
        );
    }
    if !target.per_stage.hash_bits.is_multiple_of(formats.hash_bits) {
        let reason = format!(
            "{} bits of hash in a stage are no whole number of hashes of {}",
            target.per_stage.hash_bits, formats.hash_bits
        );
        return contradiction_at("per_stage.hash_bits", reason, format!("write a multiple of {}", formats.hash_bits));
    }
    None
}

fn check_phv_containers(target: &ChipTarget) -> Option<Contradiction> {
    if !target.phv.iter().any(|c| !c.carry_only && c.count > 0) {
        let reason = "no container that actions can write".to_owned();
        return contradiction_at("phv", reason, "add [[phv]] with bits and count, without carry_only");
    }
    let bad =
        target.phv.iter().find(|c| ![8, 16, 32].contains(&c.bits) || c.group == 0 || !c.count.is_multiple_of(c.group));
    bad.and_then(|c| {
        let reason = format!("{} containers of {} bits in groups of {}", c.count, c.bits, c.group);
        contradiction_at("phv", reason, "write bits 8, 16 or 32, and a count that is a multiple of group")
    })
}

/// Checks the numbers of the DRAM, power, price and parser, and that the target has a name.
fn check_dram_parser_and_name(target: &ChipTarget) -> Option<Contradiction> {
    if let Some(dram) = &target.dram
        && (dram.bytes == 0 || !(1..=100).contains(&dram.cache_percent) || dram.lookups_per_second == 0)
    {
        let reason = "memory behind the chip without bytes, lookups, or a cache of 1 to 100 % of a stage".to_owned();
        return contradiction_at("dram", reason, "write its numbers, or leave [dram] out");
    }
    let optional_numbers = [("power_w", target.power_w), ("price", target.price)];
    if let Some((key, _)) = optional_numbers.into_iter().find(|(_, v)| v.is_some_and(|v| !v.is_finite() || v < 0.0)) {
        return contradiction_at(key, format!("{key} is negative or no number"), "write its value, or leave it out");
    }
    let parser = &target.parser;
    if parser.rows == 0
        || parser.match_bits == 0
        || parser.extract_bytes == 0
        || parser.ingress_depth_bytes == 0
        || parser.egress_depth_bytes == 0
    {
        return contradiction_at("parser", "a parser with a 0 parses nothing".to_owned(), "write the parser's numbers");
    }
    target.name.is_empty().then(|| contradiction_at("name", "no name".to_owned(), "name the target")).flatten()
}
