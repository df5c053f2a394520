// Four products of weights of a format with activations. Devices that have no instruction for products of unsigned with signed
// bytes take signed ones (SIGNED_DOTS): unsigned bytes below 128 are signed bytes, too; of greater ones 128 is taken off, and its
// product with the sum of the activations comes with the offset. Selections, not branches: they go with the constant.
#if !defined UNSIGNED_CODES || UNSIGNED_CODES == 0
int DOT4(uint q, int a) { return dotPacked4x8EXT(int(q), a); }
float OFFSET(float scale, float offset) { return offset; }
#else
int DOT4(uint q, int a) {
    return mix(dotPacked4x8EXT(a, q), dotPacked4x8EXT(int(q ^ 0x80808080u), a), SIGNED_DOTS == 1);
}
float OFFSET(float scale, float offset) { return mix(offset, offset + 128.0 * scale, SIGNED_DOTS == 1); }
#endif
// Adds the products of a unit of 16 bytes of quantized activations (lib/quantize.glsl): with the words q0 to q3 of weights, or, of
// 16 bits, with q0 and q1, once by the high bytes and once by the low ones.
ivec2 DOTS(ivec2 dots, uint q0, uint q1, uint q2, uint q3, ivec4 a) {
    if (BITS == 16) {
        dots.x += DOT4(q0, a.x) + DOT4(q1, a.z);
        dots.y += DOT4(q0, a.y) + DOT4(q1, a.w);
    } else {
        dots.x += DOT4(q0, a.x) + DOT4(q1, a.y);
        dots.x += DOT4(q2, a.z) + DOT4(q3, a.w);
    }
    return dots;
}
// The words of weights that go with a unit, from `i` on.
#define UNIT_WORDS(q, i) q[i], q[(i) + 1], q[BITS == 16 ? i : (i) + 2], q[BITS == 16 ? i : (i) + 3]
