// TQ1_0: see quant/src/tq1_0.rs. Four neighbours are always the same digit of four neighbouring bytes.
#define Weights U16
const uint POW3[5] = uint[](1, 3, 9, 27, 81);
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    uint block = (g / 8) * 27, c = g % 8;
    float d = half1(uint(w.v[block + 26]));
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uint at = 4 * i, digit = c;
        if (c >= 5) {
            bool last = c == 7 && i >= 4;
            at = last ? 48 : 32 + 4 * (i % 4);
            digit = last ? i - 4 : 2 * (c - 5) + i / 4;
        }
        uint q = pair_at(w, block + at / 2);
        uvec4 digits = ((((uvec4(q) >> uvec4(0, 8, 16, 24)) & 255) * POW3[digit]) & 255) * 3 >> 8;
        v[i] = (vec4(digits) - 1.0) * d;
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
