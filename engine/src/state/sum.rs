//! Checksums of saved sequences.

use std::io::Read;

/// A sum that any changed word changes.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    sum: u64,
    /// Bytes that fill no word yet, and how many.
    rest: [u8; 8],
    len: usize,
}

impl Sum {
    /// The sum of no bytes.
    pub fn new() -> Sum {
        Sum { sum: 0xcbf2_9ce4_8422_2325, rest: [0; 8], len: 0 }
    }

    fn word(&mut self, word: [u8; 8]) {
        let mixed = (self.sum ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.sum = mixed ^ (mixed >> 29);
    }

    /// With further bytes.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while let Some((first, others)) = bytes.split_first().filter(|_| self.len > 0) {
            self.rest[self.len] = *first;
            self.len = (self.len + 1) % 8;
            bytes = others;
            if self.len == 0 {
                self.word(self.rest);
            }
        }
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(*word));
        if self.len == 0 {
            self.rest[..rest.len()].copy_from_slice(rest);
            self.len = rest.len();
        }
    }

    /// The sum.
    pub fn end(mut self) -> u64 {
        let len = self.len;
        self.rest[len..].fill(0);
        self.word(self.rest);
        self.word((len as u64).to_le_bytes());
        self.sum
    }
}

/// The sum of all bytes.
pub fn sum_of(bytes: &[u8]) -> u64 {
    let mut sum = Sum::new();
    sum.add(bytes);
    sum.end()
}

/// Sum of the first `len` bytes.
pub fn sum_of_file(file: &mut dyn Read, len: u64) -> std::io::Result<u64> {
    let (mut sum, mut left, mut piece) = (Sum::new(), len, vec![0; 1 << 20]);
    while left > 0 {
        let part = &mut piece[..left.min(1 << 20) as usize];
        file.read_exact(part)?;
        sum.add(part);
        left -= part.len() as u64;
    }
    Ok(sum.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_does_not_depend_on_how_bytes_come_and_changes_with_each() {
        let bytes: Vec<u8> = (0..100).collect();
        for cut in 0..100 {
            let mut parts = Sum::new();
            parts.add(&bytes[..cut]);
            parts.add(&bytes[cut..cut + (100 - cut) / 2]);
            parts.add(&bytes[cut + (100 - cut) / 2..]);
            assert_eq!(parts.end(), sum_of(&bytes), "{cut}");
            let mut flipped = bytes.clone();
            flipped[cut] ^= 1 << (cut % 8);
            assert!(sum_of(&flipped) != sum_of(&bytes) && sum_of(&bytes[..cut]) != sum_of(&bytes), "{cut}");
        }
    }
}
