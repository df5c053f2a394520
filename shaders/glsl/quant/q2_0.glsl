// Q2_0: see quant/src/q2_0.rs. A block is two chunks; 18 bytes, so reads are 16 bits wide.
#define Weights U16
#define PIECES 1
#define HAS_OFFSET
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 2) * 9;
    float d = half1(uint(w.v[block]));
    s[0] = vec2(d, -d);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint n = uint(w.v[block + 1 + 4 * (g % 2) + i]);
        q[2 * i] = spread_pairs(n & 255);
        q[2 * i + 1] = spread_pairs(n >> 8);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
