// Q5_1: see quant/src/q5_1.rs. A block is a chunk of six words.
#define Weights U32
#define PIECES 1
#define HAS_OFFSET
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint fifth = w.v[g * 6 + 1];
    s[0] = unpackHalf2x16(w.v[g * 6]);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint n = w.v[g * 6 + 2 + i];
        q[i] = bytes_of_nibbles(n) | (spread_bits(fifth >> (4 * i)) << 4);
        q[i + 4] = bytes_of_nibbles(n >> 4) | (spread_bits(fifth >> (16 + 4 * i)) << 4);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
