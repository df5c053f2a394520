//! Unpacking shared by the formats: halves and the 6-bit scale pairs of the K formats.

/// The f16 at byte `at`, as f32 (exact).
pub fn half_at(block: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
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
