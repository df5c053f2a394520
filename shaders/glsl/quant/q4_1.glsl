// Q4_1: see quant/src/q4_1.rs. A block is a chunk of five words.
#define Weights U32
#define PIECES 1
#define HAS_OFFSET
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    s[0] = unpackHalf2x16(w.v[g * 5]);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint n = w.v[g * 5 + 1 + i];
        q[i] = bytes_of_nibbles(n);
        q[i + 4] = bytes_of_nibbles(n >> 4);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
