// F16: see quant/src/f16.rs.
#define CHUNK 32
void weight_floats(Line l, uint c, out vec4 v[8]) {
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uvec4 q = U32x4(l.at).v[c * 4 + i];
        v[2 * i] = halves4(q.xy);
        v[2 * i + 1] = halves4(q.zw);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
