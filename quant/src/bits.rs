//! Unpacking shared by the formats: halves and the 6-bit scale pairs of the K formats.

/// The f16 at byte `at`, as f32 (exact).
pub fn half_at(block: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Whether the f16 at byte `at` is finite; without converting it, for this is asked of whole files.
pub fn finite_half(block: &[u8], at: usize) -> bool {
    const EXPONENT: u16 = 0x7c00;
    u16_at(block, at) & EXPONENT != EXPONENT
}

/// Index of the first block of `n` bytes that is not `good`. Many are asked before one branches.
#[inline]
pub fn first_bad(bytes: &[u8], n: usize, good: impl Fn(&[u8]) -> bool) -> Option<usize> {
    const TOGETHER: usize = 64;
    bytes.chunks(TOGETHER * n).enumerate().find_map(|(i, blocks)| {
        let bad = blocks.chunks_exact(n).fold(false, |bad, b| bad | !good(b));
        let at = if bad { blocks.chunks_exact(n).position(|b| !good(b)) } else { None };
        at.map(|at| TOGETHER * i + at)
    })
}

/// Scale and minimum (6 bits each) of sub-block `j` in 0..8 from the 12 packed bytes of Q4_K and Q5_K.
///
/// Sub-blocks 0..4 keep theirs in the low 6 bits of bytes 0..4 and 4..8; 4..8 have the low 4 bits in bytes 8..12
/// and the high 2 bits on top of the former.
pub fn scale_min(packed: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        let low = packed[j + 4];
        ((low & 15) | ((packed[j - 4] >> 6) << 4), (low >> 4) | ((packed[j] >> 6) << 4))
    }
}

/// The u16 at byte `at`.
pub fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

/// The u32 at byte `at`.
pub fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

/// Nibble `i` of bytes whose low nibbles are the first half and whose high nibbles the second.
pub fn half_nibble(bytes: &[u8], i: usize) -> u8 {
    let n = bytes.len();
    bytes[i % n] >> (4 * (i / n)) & 15
}

/// Writes `x` as f16 at byte `at`; what is too large becomes the largest.
pub fn put_half(block: &mut [u8], at: usize, x: f32) {
    block[at..at + 2].copy_from_slice(&half::f16::from_f32(x.clamp(-65504.0, 65504.0)).to_le_bytes());
}

/// Writes codes so that [`half_nibble`] reads them; only their low 4 bits.
pub fn put_nibbles(bytes: &mut [u8], codes: &[u8]) {
    let n = bytes.len();
    bytes.iter_mut().enumerate().for_each(|(i, b)| *b = codes[i] & 15 | codes[i + n] << 4);
}

/// Writes the fifth bits of 32 codes.
pub fn put_fifths(bytes: &mut [u8], codes: &[u8]) {
    let word = codes.iter().enumerate().fold(0u32, |word, (i, q)| word | u32::from(q >> 4 & 1) << i);
    bytes.copy_from_slice(&word.to_le_bytes());
}

/// Writes 256 bit pairs: pair `k` of byte `l` of each half of 32 bytes is code `32 * k + l` of that half.
pub fn put_quarters(bytes: &mut [u8], codes: &[u8]) {
    for (bytes, codes) in bytes.chunks_exact_mut(32).zip(codes.chunks_exact(128)) {
        let byte = |l: usize| codes[l] | codes[l + 32] << 2 | codes[l + 64] << 4 | codes[l + 96] << 6;
        bytes.iter_mut().enumerate().for_each(|(l, b)| *b = byte(l));
    }
}

/// Writes 8 scales and minima so that [`scale_min`] reads them.
pub fn put_scale_mins(packed: &mut [u8], scales: &[u8], mins: &[u8]) {
    for j in 0..4 {
        packed[j] = scales[j] | scales[j + 4] >> 4 << 6;
        packed[j + 4] = mins[j] | mins[j + 4] >> 4 << 6;
        packed[j + 8] = scales[j + 4] & 15 | mins[j + 4] << 4;
    }
}
