// Q4_0: see quant/src/q4_0.rs. A block is a chunk; 18 bytes, so reads are 16 bits wide.
#define Weights U16
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    float d = half1(uint(w.v[g * 9]));
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint q = uint(w.v[g * 9 + 1 + 2 * i]) | (uint(w.v[g * 9 + 2 + 2 * i]) << 16);
        v[i] = (nibbles(q) - 8.0) * d;
        v[i + 4] = (nibbles(q >> 4) - 8.0) * d;
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
