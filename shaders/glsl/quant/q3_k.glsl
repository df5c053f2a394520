// Q3_K: see quant/src/q3_k.rs. A chunk is 8 weights of each quarter of a half, as in Q6_K; 110 bytes a block.
#define Weights U16
#define PIECES 4
#define HAS_OFFSET
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 55, part = g % 4, half_at = (g % 8) / 4, at = 4 * part;
    float d = half1(uint(w.v[block + 54]));
    uint q0 = pair_at(w, block + 16 + 16 * half_at + at), q1 = pair_at(w, block + 18 + 16 * half_at + at);
    uint third0 = pair_at(w, block + at) >> (4 * half_at), third1 = pair_at(w, block + at + 2) >> (4 * half_at);
    uint packed0 = pair_at(w, block + 48), packed1 = pair_at(w, block + 50), high = pair_at(w, block + 52);
    [[unroll]] for (uint k = 0; k < 4; k++) {
        uint j = 2 * k + part / 2; // of the half's eight scales
        uint low = (j < 4 ? packed0 : packed1) >> (8 * (j % 4) + 4 * half_at);
        uint top = high >> (8 * (j % 4) + 4 * half_at + 2 * (j / 4));
        float step = d * (float((low & 15) | ((top & 3) << 4)) - 32.0);
        s[k] = vec2(step, -4.0 * step);
        q[2 * k] = ((q0 >> (2 * k)) & 0x03030303u) | (((third0 >> k) & 0x01010101u) << 2);
        q[2 * k + 1] = ((q1 >> (2 * k)) & 0x03030303u) | (((third1 >> k) & 0x01010101u) << 2);
    }
}
uint chunk_col(uint c, uint i) { return (c / 8) * 256 + ((c % 8) / 4) * 128 + (i / 2) * 32 + (c % 4) * 8 + (i % 2) * 4; }
