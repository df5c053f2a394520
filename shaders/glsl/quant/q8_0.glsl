// Q8_0: see quant/src/q8_0.rs. A block is a chunk; 34 bytes, so reads are 16 bits wide.
#define Weights U16
#define PIECES 1
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    s[0] = vec2(half1(uint(w.v[g * 17])), 0.0);
    [[unroll]] for (uint i = 0; i < 8; i++) q[i] = pair_at(w, g * 17 + 1 + 2 * i);
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
