//! Generator of inputs from a seed: directives, macros and text with tokens that cpp and P4 read
//! differently.

mod conditions;
mod definitions;
mod words;

use words::*;

/// SplitMix64 generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    /// Returns true once in `count` calls on average.
    fn once_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// Generates an input.
pub fn input(seed: u64) -> String {
    let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut generator = Generator { random: &mut random, out: String::new(), depth: 0, broken: false };
    generator.broken = generator.random.once_in(3);
    for _ in 0..2 + generator.random.below(4) {
        generator.define();
    }
    let lines = 3 + generator.random.below(14);
    for _ in 0..lines {
        generator.line();
    }
    let text = generator.out;
    splice(&mut random, text)
}

/// Splices lines at any column.
fn splice(random: &mut Random, text: String) -> String {
    if !random.once_in(3) {
        return text;
    }
    let mut out = String::new();
    for character in text.chars() {
        if random.once_in(25) {
            out.push_str(match random.below(8) {
                0 => "\\ \n",
                1 => "\\\t \n",
                2 => "\\\r\n",
                3 => "\\\n\\\n",
                _ => "\\\n",
            });
        }
        out.push(character);
    }
    match random.below(12) {
        0 => out.push('\\'),
        1 => out.push_str("\\\n"),
        2 => out.truncate(out.trim_end().len()),
        3 => out = out.replace('\n', "\r\n"),
        _ => {}
    }
    out
}

struct Generator<'r> {
    random: &'r mut Random,
    out: String,
    /// Nesting depth of conditionals.
    depth: usize,
    /// Whether the input may contain errors.
    broken: bool,
}

impl Generator<'_> {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// Returns true once in `count` calls on average, if the input may contain errors.
    fn wrong(&mut self, count: usize) -> bool {
        self.broken && self.random.once_in(count)
    }

    fn line(&mut self) {
        match self.random.below(20) {
            0..=4 => self.define(),
            5..=11 => self.text(),
            12..=14 => self.conditional(),
            15 => {
                let name = self.name();
                self.directive(&format!("undef {name}"));
            }
            16 => self.string_over_lines(),
            17 => self.other_directive(),
            18 => self.include(),
            _ => {
                let blank = self.random.pick(&[
                    "",
                    " ",
                    "\t",
                    "// c\n",
                    "#",
                    " # ",
                    "/* c */",
                    "\u{b}",
                    "\n\n\n\n\n\n\n\n\n\n",
                ]);
                self.push(blank);
                self.push("\n");
            }
        }
    }

    /// Writes white space within a line, or none.
    fn gap(&mut self) {
        let gap = match self.random.below(16) {
            0..=6 => " ",
            7 => "  ",
            8 => "\t",
            9 if self.random.once_in(3) => "\u{c}",
            10 => self.random.pick(COMMENTS),
            _ => "",
        };
        self.push(gap);
    }

    fn directive(&mut self, text: &str) {
        let indent = self.random.pick(&["", "", "", " ", "  ", "\t"]);
        self.push(indent);
        self.push("#");
        let inner = self.random.pick(&["", "", "", " ", "/* c */ "]);
        self.push(inner);
        self.push(text);
        if self.wrong(12) {
            self.push(" extra");
        }
        let tail = self.random.pick(&["", "", "", " ", " // tail", " /* tail */", " /* tail\n tail */"]);
        self.push(tail);
        self.push("\n");
    }

    fn name(&mut self) -> String {
        let from = [OBJECTS, OBJECTS, FUNCTIONS, PLAIN][self.random.below(4)];
        let name = self.random.pick(from);
        if !self.broken && (name == "defined" || name.starts_with("__")) { "x".to_owned() } else { name.to_owned() }
    }

    fn text(&mut self) {
        let indent = self.random.pick(&["", "", " ", "    ", "\t"]);
        self.push(indent);
        for _ in 0..1 + self.random.below(8) {
            if self.random.once_in(3) {
                self.call(0);
            } else {
                self.token();
            }
            self.gap();
        }
        let tail = self.random.pick(&["", "", "", "// tail", "/* tail */", "// it's \"", " "]);
        self.push(tail);
        self.push("\n");
    }

    /// Writes a use of a function-like macro.
    fn call(&mut self, depth: usize) {
        let name = self.random.pick(FUNCTIONS);
        self.push(name);
        let gap = self.random.pick(&["", "", "", " ", "\n", "/* c */", " // c\n", "\n\n  "]);
        self.push(gap);
        if self.random.once_in(12) {
            return;
        }
        self.push("(");
        let arguments = self.random.below(4);
        for at in 0..=arguments {
            if at > 0 {
                self.push(",");
            }
            for _ in 0..self.random.below(4) {
                self.gap();
                match self.random.below(14) {
                    0 if depth < 4 => self.call(depth + 1),
                    1 => {
                        self.push("(");
                        self.token();
                        self.push(")");
                    }
                    2 if self.random.once_in(3) => {
                        self.push("\n");
                        self.nested_directive();
                    }
                    3 => self.push("\n"),
                    _ => self.token(),
                }
            }
            self.gap();
        }
        if !self.wrong(20) {
            self.push(")");
        }
    }

    /// Writes a directive among the arguments of a call.
    fn nested_directive(&mut self) {
        match self.random.below(6) {
            0 => self.define(),
            1 => {
                let name = self.name();
                self.directive(&format!("undef {name}"));
            }
            2 => self.directive("unknown in arguments"),
            3 => self.push("#if A\n"),
            _ => {
                let name = self.name();
                self.directive(&format!("ifdef {name}"));
                self.token();
                self.push("\n#else\n");
                self.token();
                self.push("\n#endif\n");
                return;
            }
        }
        if self.out.ends_with("#if A\n") {
            self.token();
            self.push("\n#endif\n");
        }
    }

    fn token(&mut self) {
        let from = match self.random.below(24) {
            0..=4 => OBJECTS,
            5..=6 => FUNCTIONS,
            7..=10 => PLAIN,
            11 if self.random.once_in(2) => RARE,
            12..=14 => NUMBERS,
            15..=19 => OPERATORS,
            20 => STRINGS,
            21 if self.random.once_in(2) => ODD,
            22 if self.random.once_in(2) => {
                self.push("#");
                return;
            }
            23 if self.random.once_in(3) => {
                self.push("(");
                return;
            }
            _ => &["a", "b", "c", ")", ","],
        };
        let token = self.random.pick(from);
        if !self.broken && matches!(token, "__VA_ARGS__" | "__VA_OPT__" | "__has_include(\"h0\")") {
            return;
        }
        self.push(token);
    }

    fn string_over_lines(&mut self) {
        self.push("@e(\"\n");
        for _ in 0..1 + self.random.below(3) {
            if self.depth < 3 && self.random.once_in(3) {
                self.conditional();
            } else {
                self.text();
            }
        }
        self.push("  \")");
        self.token();
        self.push("\n");
    }

    fn include(&mut self) {
        let file = self.random.pick(&[
            "\"h0\"",
            "\"h1\"",
            "\"h2\"",
            "\"h3\"",
            "<h4>",
            "\"h5\"",
            "<h5>",
            "<n>",
            "\"inc/h5\"",
            "< h4>",
            "\"h4\"",
        ]);
        match self.random.below(5) {
            _ if file == "< h4>" => {
                self.directive("define N <h4>");
                self.directive("include N");
                self.directive("undef N");
            }
            0 => {
                self.directive(&format!("define M {file}"));
                self.directive("include M");
                self.directive("undef M");
            }
            1 => self.directive(&format!("include{file}")),
            _ => self.directive(&format!("include {file}")),
        }
    }

    fn other_directive(&mut self) {
        let text = match self.random.below(14) {
            0 => "line 100",
            1 => "line 7 \"f\"",
            2 => "pragma x y",
            3 => "ident \"x\"",
            4 => "unknown A B",
            5 => "33 \"g\" A",
            6 => "!",
            7 if self.broken => "error it's \"bad   x",
            8 if self.broken => "warning mind A",
            9 if self.broken => self.random.pick(&["line", "line x", "line 1 x", "line 5 \"f\" x", "line 99999999999"]),
            10 if self.broken => self.random.pick(&["include", "include 1", "include \"\"", "include + y"]),
            11 if self.broken => {
                self.random.pick(&["define", "define 1", "undef", "undef 1", "define defined", "ident", "sccs x"])
            }
            12 if self.broken => self.random.pick(&["endif", "else", "elif 1", "elifdef A"]),
            13 => "pragma GCC nothing",
            _ => "",
        };
        self.directive(text);
    }
}
