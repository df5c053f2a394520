// A pair rotated by its angle at a position; `freq` is in radians per position. sin and cos are only exact near 0 on many
// devices, so whole turns are taken off first, in two parts.
vec2 rotated(vec2 pair, uint pos, float freq) {
    float angle = float(pos) * freq;
    float turns = round(angle * 0.15915494309189535);
    float r = fma(-turns, 6.28125, angle);
    r = fma(-turns, 1.9353071795864769e-3, r);
    float s = sin(r), c = cos(r);
    return vec2(pair.x * c - pair.y * s, pair.x * s + pair.y * c);
}
