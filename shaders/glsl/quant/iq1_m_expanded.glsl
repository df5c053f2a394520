// IQ1_M, its values written out: see quant/src/expanded.rs. A chunk is four sub-blocks.
#define CHUNK 64
#define PIECES 4
#define HAS_OFFSET
#define UNSIGNED_CODES 1
struct Raw {
    uvec4 n;
    uint down;
    uvec2 scales;
};
Raw weight_load(Line l, uint c) {
    return Raw(get_x4(l, part_at(l, QS, c, 4, 16)), get_u8(l, part_at(l, QH, c, 4, 1)), get_x2(l, field_at(l, SC, c / 4)));
}
// Eight times a value, which is 0, 1 or 2, and two more where the shift by an eighth is upwards; all that times APART_BY[k], by where the
// values of sixteen weights lie.
const uint APART_BY[4] = { 1, 4, 2, 8 };
void weight_codes(Raw r, uint c, out uint q[CHUNK / 4], out vec2 s[PIECES]) {
    const uvec2 t = r.scales;
    const float d = half1(((t.x >> 12) & 15) | ((t.x >> 24) & 0xf0) | ((t.y >> 4) & 0xf00) | ((t.y >> 16) & 0xf000)) * 0.125;
    const uint scales = (c % 4 < 2 ? t.x : t.y) >> (16 * (c % 2)), up = ~r.down;
    [[unroll]] for (uint k = 0; k < 4; k++) {
        const float step = d * float(2 * ((scales >> (3 * k)) & 7) + 1);
        s[k] = vec2(step / float(APART_BY[k]), -9.0 * step);
        [[unroll]] for (uint i = 0; i < 4; i++) {
            const uint more = ((up >> (2 * k + i / 2)) & 1) * (0x02020202u * APART_BY[k]);
            q[4 * k + i] = ((k < 2 ? r.n[i] << 3 : r.n[i]) & (0x18181818u * APART_BY[k])) | more;
        }
    }
}
uint chunk_col(uint c, uint i) { return c * CHUNK + i * 4; }
