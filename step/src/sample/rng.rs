//! A small seeded generator: SplitMix64.
//!
//! A counter goes up by an odd constant (the golden ratio's fraction) and each value is mixed by two rounds of
//! xor-shift and multiply. 64 bits of state, period 2^64, any seed is fine. It draws tokens; it is no secret.

use std::time::{SystemTime, UNIX_EPOCH};

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The generator's state.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that always gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The `n`-th of many series of numbers of one seed; number 0 is [`Rng::new`]'s.
    pub fn of_series(seed: u64, n: u64) -> Self {
        match n {
            0 => Rng(seed),
            n => Rng(Rng(Rng(seed).bits().wrapping_add(n)).bits()),
        }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Takes one number back: the last one comes again.
    pub fn back(&mut self) {
        self.0 = self.0.wrapping_sub(STEP);
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number in `0..n`; `n` is at least 1 and far below 2^53.
    pub fn next_below(&mut self, n: u32) -> u32 {
        (self.unit() * f64::from(n)) as u32
    }
}

/// A seed of 32 bits from the clock, so that it is easy to type again.
pub fn seed_from_clock() -> u64 {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    Rng::new(nanos).bits() >> 32
}
