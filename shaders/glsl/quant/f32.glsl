// F32: see quant/src/f32.rs.
#define CHUNK 32
void weight_floats(Line l, uint c, out vec4 v[8]) {
    [[unroll]] for (uint i = 0; i < 8; i++) v[i] = F32x4(l.at).v[c * 8 + i];
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
