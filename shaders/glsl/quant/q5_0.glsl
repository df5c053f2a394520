// Q5_0: see quant/src/q5_0.rs. A block is a chunk; 22 bytes, so reads are 16 bits wide.
#define Weights U16
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    float d = half1(uint(w.v[g * 11]));
    uint fifth = pair_at(w, g * 11 + 1);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint q = pair_at(w, g * 11 + 3 + 2 * i);
        v[i] = (nibbles(q) + 16.0 * bits4(fifth >> (4 * i)) - 16.0) * d;
        v[i + 4] = (nibbles(q >> 4) + 16.0 * bits4(fifth >> (16 + 4 * i)) - 16.0) * d;
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
