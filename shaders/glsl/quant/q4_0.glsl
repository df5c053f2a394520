// Q4_0: see quant/src/q4_0.rs. A block is a chunk; 18 bytes, so reads are 16 bits wide.
#define Weights U16
#define PIECES 1
#define HAS_OFFSET
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    float d = half1(uint(w.v[g * 9]));
    s[0] = vec2(d, -8.0 * d);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint n = pair_at(w, g * 9 + 1 + 2 * i);
        q[i] = bytes_of_nibbles(n);
        q[i + 4] = bytes_of_nibbles(n >> 4);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
