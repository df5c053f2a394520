// Q1_0: see quant/src/q1_0.rs. A block is four chunks; 18 bytes, so reads are 16 bits wide.
#define Weights U16
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint block = (g / 4) * 9;
    float d = half1(uint(w.v[block]));
    uint q = pair_at(w, block + 1 + 2 * (g % 4));
    [[unroll]] for (uint i = 0; i < 8; i++) v[i] = (2.0 * bits4(q >> (4 * i)) - 1.0) * d;
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
