// Q6_K: see quant/src/q6_k.rs. A chunk is 8 weights of each quarter of a half; 210 bytes a block, so reads are 16 bits.
#define Weights U16
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint block = (g / 8) * 105, part = g % 4, half_at = (g % 8) / 4;
    float d = half1(uint(w.v[block + 104]));
    [[unroll]] for (uint s = 0; s < 2; s++) {
        uint at = part * 4 + 2 * s;
        uint low0 = pair_at(w, block + 32 * half_at + at);
        uint low1 = pair_at(w, block + 32 * half_at + 16 + at);
        uint high = pair_at(w, block + 64 + 16 * half_at + at);
        v[s] = nibbles(low0) + 16.0 * nibbles(high & 0x03030303u);
        v[2 + s] = nibbles(low1) + 16.0 * nibbles((high >> 2) & 0x03030303u);
        v[4 + s] = nibbles(low0 >> 4) + 16.0 * nibbles((high >> 4) & 0x03030303u);
        v[6 + s] = nibbles(low1 >> 4) + 16.0 * nibbles((high >> 6) & 0x03030303u);
    }
    [[unroll]] for (uint k = 0; k < 4; k++) {
        uint at = 8 * half_at + 2 * k + part / 2;
        int scale = bitfieldExtract(int(uint(w.v[block + 96 + at / 2])), int(8 * (at % 2)), 8);
        float step = d * float(scale);
        v[2 * k] = step * (v[2 * k] - 32.0);
        v[2 * k + 1] = step * (v[2 * k + 1] - 32.0);
    }
}
uint chunk_col(uint c, uint i) { return (c / 8) * 256 + ((c % 8) / 4) * 128 + (i / 2) * 32 + (c % 4) * 8 + (i % 2) * 4; }
