// Q4_1: see quant/src/q4_1.rs. A block is a chunk of five words.
#define Weights U32
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    vec2 d = unpackHalf2x16(w.v[g * 5]);
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint q = w.v[g * 5 + 1 + i];
        v[i] = nibbles(q) * d.x + d.y;
        v[i + 4] = nibbles(q >> 4) * d.x + d.y;
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
