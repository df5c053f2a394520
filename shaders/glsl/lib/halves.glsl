// Floats as halves, four to eight bytes; what halves do not reach is the largest they do.
uvec2 halves_of(vec4 v) {
    v = clamp(v, -65504.0, 65504.0);
    return uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
}
