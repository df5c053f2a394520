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
#endif
