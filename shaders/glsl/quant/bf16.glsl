// BF16: see quant/src/bf16.rs.
#define BF16
#define CHUNK 32
vec4 bf16x4(uvec2 q) {
    return uintBitsToFloat(uvec4(q.x << 16, q.x & 0xffff0000u, q.y << 16, q.y & 0xffff0000u));
}
void weight_floats(Line l, uint c, out vec4 v[8]) {
    [[unroll]] for (uint i = 0; i < 4; i++) {
        uvec4 q = U32x4(l.at).v[c * 4 + i];
        v[2 * i] = bf16x4(q.xy);
        v[2 * i + 1] = bf16x4(q.zw);
    }
}
uint chunk_col(uint c, uint i) { return c * 32 + i * 4; }
