// TQ1_0: see quant/src/tq1_0.rs. Four neighbours are always the same digit of four neighbouring bytes.
#define Weights U16
#define PIECES 1
#define HAS_OFFSET
const uint POW3[5] = uint[](1, 3, 9, 27, 81);
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 8) * 27, c = g % 8;
    float d = half1(uint(w.v[block + 26]));
    s[0] = vec2(d, -d);
    [[unroll]] for (uint i = 0; i < 8; i++) {
        uint at = 4 * i, digit = c;
        if (c >= 5) {
            bool last = c == 7 && i >= 4;
            at = last ? 48 : 32 + 4 * (i % 4);
            digit = last ? i - 4 : 2 * (c - 5) + i / 4;
        }
        uint n = pair_at(w, block + at / 2);
        // Two bytes at a time: each times 3^digit modulo 256, then times 3; the digit is what reaches the next byte.
        uint even = ((n & 0x00ff00ffu) * POW3[digit] & 0x00ff00ffu) * 3;
        uint odd = (((n >> 8) & 0x00ff00ffu) * POW3[digit] & 0x00ff00ffu) * 3;
        q[i] = ((even >> 8) & 0x00030003u) | (odd & 0x03000300u);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
