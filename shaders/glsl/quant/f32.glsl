// F32: see quant/src/f32.rs.
#define Weights F32x4
void weight_chunk(Weights w, uint g, out vec4 v[8]) {
    [[unroll]] for (uint i = 0; i < 8; i++) v[i] = w.v[g * 8 + i];
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
