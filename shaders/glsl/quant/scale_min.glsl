// Scales and minima of sub-blocks 2i and 2i + 1 from the 12 packed bytes of Q4_K and Q5_K; see quant/src/bits.rs. The two
// are neighbouring bytes throughout, so both are unpacked at once, without a branch.
#ifndef SCALE_MIN
#define SCALE_MIN
struct ScaleMins {
    uint scales; // two bytes
    uint mins;
};
ScaleMins scale_mins(uvec3 p, uint i) {
    uvec3 b = p >> (16 * (i % 2));
    // Masks, which stay the same for a thread, instead of a choice.
    uint low = i < 2 ? 0x3f3fu : 0, top = i < 2 ? 0 : 0x3030u, rest = i < 2 ? 0 : 0x0f0fu;
    return ScaleMins((b.x & low) | ((b.x >> 2) & top) | (b.z & rest), (b.y & low) | ((b.y >> 2) & top) | ((b.z >> 4) & rest));
}
// (scale, offset) of the two sub-blocks; d is (d, dmin).
void piece_scales(vec2 d, uvec3 p, uint i, out vec2 s[2]) {
    ScaleMins m = scale_mins(p, i);
    s[0] = vec2(d.x * float(m.scales & 255), -(d.y * float(m.mins & 255)));
    s[1] = vec2(d.x * float(m.scales >> 8), -(d.y * float(m.mins >> 8)));
}
#ifdef SMALL_HALVES
// Of weights at bits 0 and 4 of halves: theirs are multiples of the larger of d and dmin, nearly, for the other would make
// halves overflow. A scale times a code is a whole number of up to 11 bits, and so exact.
const float PART = 1.0 / 16384.0;
float16_t small_scales(vec2 d, uvec3 p, uint i, out f16vec2 scale, out f16vec2 offset) {
    ScaleMins m = scale_mins(p, i);
    bool tiny = abs(d.x) * 16384.0 < abs(d.y);
    float unit = tiny ? d.y : d.x, inverse = unit == 0.0 ? 0.0 : 1.0 / unit;
    float by = tiny ? d.x * inverse : 1.0, less = tiny ? -PART : -PART * (d.y * inverse);
    f16vec2 scales = unpackFloat2x16(((m.scales | (m.scales << 8)) & 0x00ff00ffu) ^ 0x64006400u) - float16_t(1024.0);
    f16vec2 mins = unpackFloat2x16(((m.mins | (m.mins << 8)) & 0x00ff00ffu) ^ 0x64006400u) - float16_t(1024.0);
    scale = scales * f16vec2(vec2(1024.0, 64.0) * by);
    offset = f16vec2(vec2(mins) * less);
    return float16_t(unit);
}
#endif
#endif
