// TQ2_0: see quant/src/tq2_0.rs. A chunk is 8 weights of each quarter of a half, as in Q6_K; 66 bytes a block.
#define Weights U16
#define PIECES 4
#define HAS_OFFSET
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 33, at = block + 16 * ((g % 8) / 4) + 4 * (g % 4);
    float d = half1(uint(w.v[block + 32]));
    uint q0 = pair_at(w, at), q1 = pair_at(w, at + 2);
    [[unroll]] for (uint k = 0; k < 4; k++) {
        s[k] = vec2(d, -d);
        q[2 * k] = (q0 >> (2 * k)) & 0x03030303u;
        q[2 * k + 1] = (q1 >> (2 * k)) & 0x03030303u;
    }
}
uint chunk_col(uint c, uint i) { return (c / 8) * 256 + ((c % 8) / 4) * 128 + (i / 2) * 32 + (c % 4) * 8 + (i % 2) * 4; }
