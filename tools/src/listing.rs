//! Listings of machine code of AMD's and Intel's GPUs, as Mesa prints them: instructions by class, and the loop that counts.
//!
//! Intel's name how many lanes an instruction has: those of fewer than a subgroup count as parts of one.

/// Instructions by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Vector arithmetic that is none of those below; pairs that are issued together are one.
    pub valu: u32,
    /// Dot products of packed bytes or halves.
    pub dots: u32,
    /// Products of matrices.
    pub matrices: u32,
    /// Multiplications with addition, which `valu` counts too.
    pub fmas: u32,
    /// Loads from memory by threads.
    pub loads: u32,
    /// Bytes that a thread loads with them.
    pub loaded: u32,
    /// Accesses of shared memory.
    pub shared: u32,
    /// Waits for memory.
    pub waits: u32,
    /// Accesses of scratch memory, where spilled registers are.
    pub scratch: u32,
}

/// Lanes that Intel's units have an instruction for, whatever fewer ones it names.
const LEAST_LANES: u32 = 8;

impl Counts {
    fn add(&mut self, op: &str) {
        let starts = |all: &[&str]| all.iter().any(|start| op.starts_with(start));
        if starts(&["v_dot"]) {
            self.dots += 1;
        } else if starts(&["v_wmma", "v_swmmac", "v_mfma"]) {
            self.matrices += 1;
        } else if op.starts_with("v_") && op != "v_nop" {
            self.valu += 1;
            self.fmas += u32::from(["fma", "mad_", "fmac", "pk_mul_f16"].iter().any(|part| op.contains(part)));
        } else if starts(&["scratch_"]) {
            self.scratch += 1;
        } else if starts(&["global_load", "buffer_load", "flat_load"]) {
            self.loads += 1;
            self.loaded += width(op);
        } else if starts(&["ds_"]) {
            self.shared += 1;
        } else if starts(&["s_wait"]) {
            self.waits += 1;
        }
    }

    /// One of Intel's, with the lanes that it names and what follows its operands. Of arithmetic and of bytes lanes are counted.
    fn add_intel(&mut self, op: &str, lanes: u32, rest: &str) {
        let wide = lanes.max(LEAST_LANES);
        let message = rest.split_once("; ").map_or("", |(_, message)| message);
        let is = |all: &[&str]| all.iter().any(|part| message.contains(part));
        let name = op.split('.').next().unwrap_or(op);
        self.waits += u32::from(rest.contains(".dst") || op == "sync.allwr");
        match name {
            "sync" | "nop" | "if" | "else" | "endif" | "do" | "while" | "break" | "cont" | "jmpi" | "halt" => {}
            "send" | "sendc" | "sends" if is(&["fence", "barrier", "open"]) => {}
            "send" | "sendc" | "sends" => {
                if is(&[".ss[", "bti(253)"]) {
                    self.scratch += 1;
                } else if is(&[".slm.", "bti(254)"]) {
                    self.shared += 1;
                } else if is(&["load.", "read"]) && lanes > 1 {
                    self.loads += 1;
                    self.loaded += lanes * message_width(message);
                }
            }
            "dp4a" => self.dots += wide,
            "dpas" => self.matrices += 1,
            _ => {
                self.valu += wide;
                self.fmas += if name == "mad" { wide } else { 0 };
            }
        }
    }

    /// Subgroups' instructions, where lanes were counted.
    fn of_subgroups(mut self, threads: u32) -> Counts {
        for lanes in [&mut self.valu, &mut self.dots, &mut self.fmas, &mut self.loaded] {
            *lanes = lanes.div_ceil(threads);
        }
        self
    }

    fn sum(mut self, other: &Counts) -> Counts {
        self.valu += other.valu;
        self.dots += other.dots;
        self.matrices += other.matrices;
        self.fmas += other.fmas;
        self.loads += other.loads;
        self.loaded += other.loaded;
        self.shared += other.shared;
        self.waits += other.waits;
        self.scratch += other.scratch;
        self
    }
}

/// Bytes that a thread gets by a load.
fn width(op: &str) -> u32 {
    let widths = [
        ("dwordx4", 16),
        ("b128", 16),
        ("dwordx3", 12),
        ("b96", 12),
        ("dwordx2", 8),
        ("b64", 8),
        ("dword", 4),
        ("b32", 4),
        ("short", 2),
        ("16", 2),
        ("byte", 1),
        ("8", 1),
    ];
    widths.iter().find(|(part, _)| op.contains(part)).map_or(4, |(_, bytes)| *bytes)
}

/// Bytes that a lane gets by a load of Intel's: `d32x4` or `xyzw` have four words, `d16u32` or `byte` less than one.
fn message_width(message: &str) -> u32 {
    let kind = message.split_whitespace().next().unwrap_or("");
    if let Some((_, channels)) = kind.split_once("untyped_read:") {
        return 4 * channels.len() as u32;
    }
    let part =
        kind.split('.').find_map(|part| part.strip_prefix('d').filter(|size| size.starts_with(char::is_numeric)));
    let Some(size) = part else { return if kind.contains("byte") { 1 } else { 4 } };
    let (bits, many) = size.split_once('x').unwrap_or((size, "1"));
    let bits = bits.split('u').next().unwrap_or(bits);
    let number = |text: &str| text.trim_end_matches('t').parse::<u32>().ok();
    number(bits).unwrap_or(32) / 8 * number(many).unwrap_or(1)
}

/// An instruction of Intel's: its name, the lanes it names, and the rest.
fn intel(line: &str) -> Option<(&str, u32, &str)> {
    let mut line = line.trim();
    while let Some(predicate) = line.strip_prefix('(') {
        line = predicate.split_once(')')?.1.trim_start();
    }
    let (op, rest) = line.split_once(char::is_whitespace)?;
    let (lanes, rest) = rest.trim_start().strip_prefix('(')?.split_once(')')?;
    Some((op, lanes.split('|').next()?.parse().ok()?, rest))
}

/// A program: counts of its blocks, and loops as ranges of blocks.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    blocks: Vec<Counts>,
    loops: Vec<(usize, usize)>,
}

/// The number of a block in `BB12`, or in Intel's `L12`.
fn block(word: &str) -> Option<usize> {
    word.strip_prefix("BB").or_else(|| word.strip_prefix('L'))?.trim_end_matches(':').parse().ok()
}

impl Listing {
    /// Reads it: of subgroups of so many threads.
    pub fn of(text: &str, threads: u32) -> Listing {
        let (mut listing, mut names) = (Listing { blocks: vec![Counts::default()], loops: Vec::new() }, vec![0]);
        let mut lanes = 1;
        for line in text.lines() {
            let mut words = line.split([';', '/']).next().unwrap_or("").split_whitespace();
            let Some(op) = words.next() else { continue };
            if let Some(label) = block(op).filter(|_| op.ends_with(':')) {
                listing.blocks.push(Counts::default());
                names.push(label);
                continue;
            }
            let last = listing.blocks.len() - 1;
            let target = if let Some((op, wide, rest)) = intel(line) {
                lanes = threads.max(1);
                listing.blocks[last].add_intel(op, wide, rest);
                rest.split_whitespace().next().filter(|_| op == "while")
            } else {
                listing.blocks[last].add(op);
                words.next().filter(|_| op.starts_with("s_cbranch") || op == "s_branch")
            };
            // Of two blocks of a name (the start has none) the later one is meant.
            let back = target.and_then(block).and_then(|to| names.iter().rposition(|name| *name == to));
            listing.loops.extend(back.map(|to| (to, last)));
        }
        for block in &mut listing.blocks {
            *block = block.of_subgroups(lanes);
        }
        listing
    }

    fn counts(&self, (from, to): (usize, usize)) -> Counts {
        self.blocks[from..=to].iter().fold(Counts::default(), Counts::sum)
    }

    /// All of it.
    pub fn all(&self) -> Counts {
        self.blocks.iter().fold(Counts::default(), Counts::sum)
    }

    /// The loop that counts: where most is multiplied, or, of others, most is read; the smallest such one.
    pub fn hot(&self) -> Counts {
        let weight = |c: &Counts| 8 * (c.dots + 16 * c.matrices) + c.fmas + c.loaded;
        let size = |c: &Counts| c.valu + c.loads + c.shared;
        let all = self.loops.iter().map(|range| self.counts(*range));
        all.max_by_key(|c| (weight(c), std::cmp::Reverse(size(c)))).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_counted_and_the_loop_that_reads_most_is_found() {
        let text = "BB0:\n\ts_load_b64 s[2:3], s[0:1], null ; f4040080\n\tv_mov_b32_e32 v0, 0 ; 7e000280\n\
            BB1:\n\tglobal_load_b128 v[1:4], v[5:6], off ; dc5e0000\n\tglobal_load_u16 v7, v[5:6], off\n\
            \ts_waitcnt vmcnt(0) ; bf8903f7\n\tv_dot4_i32_iu8 v0, v1, v2, v0 neg_lo:[1,1,0]\n\tv_fmac_f32 v8, v1, v2\n\
            \ts_cbranch_scc1 BB1 ; bfa20000\nBB2:\n\tscratch_store_b32 off, v0, off\n\tds_store_b32 v0, v1\n\
            \ts_cbranch_scc0 BB2\n\ts_endpgm\n";
        let listing = Listing::of(text, 32);
        let read = Counts { valu: 1, dots: 1, fmas: 1, loads: 2, loaded: 18, waits: 1, ..Counts::default() };
        assert_eq!(listing.hot(), read);
        assert_eq!(listing.all(), Counts { valu: 2, scratch: 1, shared: 1, ..read });
        assert_eq!(Listing::of("", 32).all(), Counts::default());
        assert_eq!(Listing::default().hot(), Counts::default());
    }

    #[test]
    fn intel_s_lanes_are_counted_as_parts_of_subgroups() {
        let text = "(W)     mov (8)      r97:d     0:d\n\
            (W)     send.ugm (1)   r6   r58   null:0  0x0  0x0   {$1}  // wr:1+0, rd:2; load.ugm.d32x16t.a64\n\
            \nL3:\n        send.ugm (16)  r31  r104  null:0  0x0  0x0   {$2}  // wr:2+0, rd:8; load.ugm.d32x4.a64\n\
            (W)     sync.nop (1)             null                  {$2.dst}\n\
            \x20       dp4a (16)    r1:d      r1:d    r31:d   r5:d  {$3.dst}\n        mad (8|M8)   r2:f  r2:f  r3:f  r4:f\n\
            (f0.0)  break (16)    jip:L4 uip:L4\n        send.slm (16)  r9  r8  null:0 {$4} // wr:1+0, rd:2; load.slm.d32.a32\n\
            \x20       send.hdc1 (8)  r9  r8  null {$5}  // wr:2+0, rd:4; a64_untyped_read:xyz simd8 (8) flat+0x0\n\
            \x20       send.ugm (16)  r9  r8  null {$5}  // wr:2+0, rd:1; load.ugm.d16u32.a64\n\
            \x20       while (16)    L3\n\nL4:\n        dpas.8x8 (16)  r1:f  r2:f  r3:hf  r4:hf\n\
            \x20       send.ugm (16)  null  r1  r2:2 {$6} // wr:1+2, rd:0; store.ugm.d32.a32.ss[a0.4]\n";
        let listing = Listing::of(text, 16);
        let read = Counts { valu: 1, dots: 1, fmas: 1, loads: 3, loaded: 24, shared: 1, waits: 2, ..Counts::default() };
        assert_eq!(listing.hot(), read);
        assert_eq!(listing.all(), Counts { valu: 2, matrices: 1, scratch: 1, ..read });
    }
}
