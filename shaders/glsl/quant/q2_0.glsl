// Q2_0: see quant/src/q2_0.rs. A block is two chunks; 18 bytes, so reads are 16 bits wide.
#define Weights U16
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint block = (g / 2) * 9;
    float d = half1(uint(w.v[block]));
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uint q = uint(w.v[block + 1 + 4 * (g % 2) + i / 2]) >> (8 * (i % 2));
        v[i] = (vec4((uvec4(q) >> uvec4(0, 2, 4, 6)) & 3) - 1.0) * d;
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
