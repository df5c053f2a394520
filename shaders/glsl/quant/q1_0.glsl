// Q1_0: see quant/src/q1_0.rs. A block is four chunks; 18 bytes, so reads are 16 bits wide.
#define Weights U16
#define PIECES 1
#define HAS_OFFSET
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    uint block = (g / 4) * 9;
    float d = half1(uint(w.v[block]));
    uint bits = pair_at(w, block + 1 + 2 * (g % 4));
    s[0] = vec2(2.0 * d, -d);
    [[unroll]] for (uint i = 0; i < 8; i++) q[i] = spread_bits(bits >> (4 * i));
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
