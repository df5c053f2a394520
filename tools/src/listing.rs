//! Listings of AMD's machine code, as Mesa prints them: instructions by class, and the loop that counts.

/// Instructions by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Vector arithmetic that is none of those below; pairs that are issued together are one.
    pub valu: u32,
    /// Dot products of packed bytes or halves.
    pub dots: u32,
    /// Products of matrices.
    pub matrices: u32,
    /// Of `valu`: multiplications with addition.
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

/// A program: counts of its blocks, and loops as ranges of blocks.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    blocks: Vec<Counts>,
    loops: Vec<(usize, usize)>,
}

/// The number of a block in `BB12`.
fn block(word: &str) -> Option<usize> {
    word.strip_prefix("BB")?.trim_end_matches(':').parse().ok()
}

impl Listing {
    /// Reads it.
    pub fn of(text: &str) -> Listing {
        let (mut listing, mut names) = (Listing { blocks: vec![Counts::default()], loops: Vec::new() }, vec![0]);
        for line in text.lines() {
            let mut words = line.split([';', '/']).next().unwrap_or("").split_whitespace();
            let Some(op) = words.next() else { continue };
            if let Some(label) = block(op).filter(|_| op.ends_with(':')) {
                listing.blocks.push(Counts::default());
                names.push(label);
                continue;
            }
            let last = listing.blocks.len() - 1;
            listing.blocks[last].add(op);
            let target = words.next().and_then(block).filter(|_| op.starts_with("s_cbranch") || op == "s_branch");
            // Of two blocks of a name (the start has none) the later one is meant.
            let back = target.and_then(|to| names.iter().rposition(|name| *name == to));
            listing.loops.extend(back.map(|to| (to, last)));
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
        let listing = Listing::of(text);
        let read = Counts { valu: 1, dots: 1, fmas: 1, loads: 2, loaded: 18, waits: 1, ..Counts::default() };
        assert_eq!(listing.hot(), read);
        assert_eq!(listing.all(), Counts { valu: 2, scratch: 1, shared: 1, ..read });
        assert_eq!(Listing::of("").all(), Counts::default());
        assert_eq!(Listing::default().hot(), Counts::default());
    }
}
