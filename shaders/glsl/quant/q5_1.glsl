// Q5_1: see quant/src/q5_1.rs. A block is a chunk of six words.
#define Weights U32
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    vec2 d = unpackHalf2x16(w.v[g * 6]);
    uint fifth = w.v[g * 6 + 1];
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uint q = w.v[g * 6 + 2 + i];
        v[i] = (nibbles(q) + 16.0 * bits4(fifth >> (4 * i))) * d.x + d.y;
        v[i + 4] = (nibbles(q >> 4) + 16.0 * bits4(fifth >> (16 + 4 * i))) * d.x + d.y;
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
