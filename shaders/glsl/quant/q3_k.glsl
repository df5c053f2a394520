// Q3_K: see quant/src/q3_k.rs. A chunk is 8 weights of each quarter of a half, as in Q6_K; 110 bytes a block.
#define Weights U16
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint block = (g / 8) * 55, part = g % 4, half_at = (g % 8) / 4;
    float d = half1(uint(w.v[block + 54]));
    uint at = 4 * part;
    uint q0 = pair_at(w, block + 16 + 16 * half_at + at), q1 = pair_at(w, block + 18 + 16 * half_at + at);
    uint third0 = pair_at(w, block + at), third1 = pair_at(w, block + at + 2);
    [[unroll]] for (uint k = 0; k < 4; k++) {
        uint j = 8 * half_at + 2 * k + part / 2;
        uint low = byte_at(w, 2 * block + 96 + j % 8) >> (4 * (j / 8));
        uint high = byte_at(w, 2 * block + 104 + j % 4) >> (2 * (j / 4));
        float step = d * (float((low & 15) | ((high & 3) << 4)) - 32.0);
        uint bit = 4 * half_at + k;
        v[2 * k] = step * (pairs(q0 >> (2 * k)) + 4.0 * nibbles((third0 >> bit) & 0x01010101u) - 4.0);
        v[2 * k + 1] = step * (pairs(q1 >> (2 * k)) + 4.0 * nibbles((third1 >> bit) & 0x01010101u) - 4.0);
    }
}
uint chunk_col(uint c, uint i) { return (c / 8) * 256 + ((c % 8) / 4) * 128 + (i / 2) * 32 + (c % 4) * 8 + (i % 2) * 4; }
