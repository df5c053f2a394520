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
