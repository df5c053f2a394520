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
    if (i < 2) return ScaleMins(b.x & 0x3f3fu, b.y & 0x3f3fu);
    return ScaleMins((b.z & 0x0f0fu) | ((b.x >> 2) & 0x3030u), ((b.z >> 4) & 0x0f0fu) | ((b.y >> 2) & 0x3030u));
}
// (scale, offset) of the two sub-blocks; d is (d, dmin).
void piece_scales(vec2 d, uvec3 p, uint i, out vec2 s[2]) {
    ScaleMins m = scale_mins(p, i);
    s[0] = vec2(d.x * float(m.scales & 255), -(d.y * float(m.mins & 255)));
    s[1] = vec2(d.x * float(m.scales >> 8), -(d.y * float(m.mins >> 8)));
}
#endif
