// TQ2_0: see quant/src/tq2_0.rs. A chunk is 8 weights of each quarter of a half, as in Q6_K; 66 bytes a block.
#define Weights U16
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint block = (g / 8) * 33, at = block + 16 * ((g % 8) / 4) + 4 * (g % 4);
    float d = half1(uint(w.v[block + 32]));
    uint q0 = pair_at(w, at), q1 = pair_at(w, at + 2);
    [[unroll]] for (uint k = 0; k < 4; k++) {
        v[2 * k] = (pairs(q0 >> (2 * k)) - 1.0) * d;
        v[2 * k + 1] = (pairs(q1 >> (2 * k)) - 1.0) * d;
    }
}
uint chunk_col(uint c, uint i) { return (c / 8) * 256 + ((c % 8) / 4) * 128 + (i / 2) * 32 + (c % 4) * 8 + (i % 2) * 4; }
