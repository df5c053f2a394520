// Q5_0: see quant/src/q5_0.rs. A block is a chunk; 22 bytes, so reads are 16 bits wide.
#define Weights U16
#define PIECES 1
#define HAS_OFFSET
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    float d = half1(uint(w.v[g * 11]));
    uint fifth = pair_at(w, g * 11 + 1);
    s[0] = vec2(d, -16.0 * d);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint n = pair_at(w, g * 11 + 3 + 2 * i);
        q[i] = bytes_of_nibbles(n) | (spread_bits(fifth >> (4 * i)) << 4);
        q[i + 4] = bytes_of_nibbles(n >> 4) | (spread_bits(fifth >> (16 + 4 * i)) << 4);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
