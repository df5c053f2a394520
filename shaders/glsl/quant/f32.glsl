// F32: see quant/src/f32.rs. Eight chunks share 256 columns, so that what threads read side by side lies side by side.
#define CHUNK 32
uint chunk_col(uint c, uint i) { return c < row_len / 256 * 8 ? c / 8 * 256 + i * 32 + c % 8 * 4 : c * 32 + i * 4; }
void weight_floats(Line l, uint c, out vec4 v[8]) {
    [[unroll]] for (uint i = 0; i < 8; i++) v[i] = F32x4(l.at).v[chunk_col(c, i) / 4];
}
