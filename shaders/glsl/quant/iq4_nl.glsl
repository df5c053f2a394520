// IQ4_NL: see quant/src/iq4_nl.rs. A block is a chunk; 18 bytes, so reads are 16 bits wide.
#define Weights U16
#define PIECES 1
#include "quant/levels_iq4.glsl"
void weight_codes(Weights w, uint g, out uint q[8], out vec2 s[PIECES]) {
    s[0] = vec2(half1(uint(w.v[g * 9])), 0.0);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint n = pair_at(w, g * 9 + 1 + 2 * i);
        q[i] = leveled(n);
        q[i + 4] = leveled(n >> 4);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
