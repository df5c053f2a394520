// Scale and minimum of sub-block j from the 12 packed bytes of Q4_K and Q5_K; see quant/src/bits.rs.
uint packed_byte(uvec3 p, uint k) { return (p[k / 4] >> (8 * (k % 4))) & 255; }
uvec2 scale_min(uvec3 p, uint j) {
    if (j < 4) return uvec2(packed_byte(p, j) & 63, packed_byte(p, j + 4) & 63);
    uint low = packed_byte(p, j + 4);
    return uvec2((low & 15) | ((packed_byte(p, j - 4) >> 6) << 4), (low >> 4) | ((packed_byte(p, j) >> 6) << 4));
}
