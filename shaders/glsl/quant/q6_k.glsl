// Q6_K: see quant/src/q6_k.rs. A chunk is 8 weights of each quarter of a half; 210 bytes a block, so reads are 16 bits.
#define Weights U16
#define PIECES 4
#define HAS_OFFSET
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 105, part = g % 4, half_at = (g % 8) / 4;
    float d = half1(uint(w.v[block + 104]));
    [[unroll]] for (uint h = 0; h < 2; h++) {
        uint at = part * 4 + 2 * h;
        uint low0 = pair_at(w, block + 32 * half_at + at);
        uint low1 = pair_at(w, block + 32 * half_at + 16 + at);
        uint high = pair_at(w, block + 64 + 16 * half_at + at);
        q[h] = bytes_of_nibbles(low0) | ((high & 0x03030303u) << 4);
        q[2 + h] = bytes_of_nibbles(low1) | ((high & 0x0c0c0c0cu) << 2);
        q[4 + h] = bytes_of_nibbles(low0 >> 4) | (high & 0x30303030u);
        q[6 + h] = bytes_of_nibbles(low1 >> 4) | ((high & 0xc0c0c0c0u) >> 2);
    }
    [[unroll]] for (uint k = 0; k < 4; k++) {
        uint at = 8 * half_at + 2 * k + part / 2;
        int scale = bitfieldExtract(int(uint(w.v[block + 96 + at / 2])), int(8 * (at % 2)), 8);
        float step = d * float(scale);
        s[k] = vec2(step, -32.0 * step);
    }
}
uint chunk_col(uint c, uint i) { return (c / 8) * 256 + ((c % 8) / 4) * 128 + (i / 2) * 32 + (c % 4) * 8 + (i % 2) * 4; }
