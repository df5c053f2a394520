//! The Mersenne Twister of 32 bits (MT19937), and numbers from 0 to 1 as libstdc++ makes them of it.

const N: usize = 624;
const M: usize = 397;

/// The generator.
pub struct Twister {
    state: [u32; N],
    at: usize,
}

impl Twister {
    /// From a seed.
    pub fn new(seed: u32) -> Twister {
        let mut state = [seed; N];
        for i in 1..N {
            let before = state[i - 1];
            state[i] = 1_812_433_253u32.wrapping_mul(before ^ before >> 30).wrapping_add(i as u32);
        }
        Twister { state, at: N }
    }

    /// The next 32 bits.
    pub fn bits(&mut self) -> u32 {
        if self.at == N {
            for i in 0..N {
                let joined = self.state[i] & 0x8000_0000 | self.state[(i + 1) % N] & 0x7fff_ffff;
                let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + M) % N] ^ joined >> 1 ^ odd;
            }
            self.at = 0;
        }
        let mut x = self.state[self.at];
        self.at += 1;
        x ^= x >> 11;
        x ^= x << 7 & 0x9d2c_5680;
        x ^= x << 15 & 0xefc6_0000;
        x ^ x >> 18
    }

    /// A number from 0 to below 1, of one draw.
    pub fn float(&mut self) -> f32 {
        let x = self.bits() as f32 / 4_294_967_296.0;
        if x < 1.0 {
            x
        } else {
            1.0f32.next_down()
        }
    }

    /// A number from 0 to below 1, of two draws, the lower bits first.
    pub fn double(&mut self) -> f64 {
        let (low, high) = (f64::from(self.bits()), f64::from(self.bits()));
        let x = (low + high * 4_294_967_296.0) / 18_446_744_073_709_551_616.0;
        if x < 1.0 {
            x
        } else {
            1.0f64.next_down()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Twister;

    #[test]
    fn the_ten_thousandth_number_of_the_usual_seed_is_that_of_the_standard() {
        let mut twister = Twister::new(5489);
        let last = (0..10_000).map(|_| twister.bits()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn numbers_stay_below_one() {
        let mut twister = Twister::new(1);
        for _ in 0..100_000 {
            assert!((0.0..1.0).contains(&twister.float()));
            assert!((0.0..1.0).contains(&twister.double()));
        }
    }
}
