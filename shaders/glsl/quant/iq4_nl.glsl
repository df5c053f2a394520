// IQ4_NL: see quant/src/iq4_nl.rs. A block is a chunk; 18 bytes, so reads are 16 bits wide.
#define Weights U16
#include "quant/levels_iq4.glsl"
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    float d = half1(uint(w.v[g * 9]));
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint q = pair_at(w, g * 9 + 1 + 2 * i);
        v[i] = d * leveled(q);
        v[i + 4] = d * leveled(q >> 4);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
