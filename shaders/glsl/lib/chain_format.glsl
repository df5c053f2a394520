// What a format means to chain.comp: products of a chunk's weights with the activations.
#ifdef UNSIGNED_CODES
int DOT4(uint q, int a) { return dotPacked4x8EXT(a, q); }
#else
int DOT4(uint q, int a) { return dotPacked4x8EXT(int(q), a); }
#endif

float PRODUCT(uint c, uint q[CHUNK / 4], vec2 s[PIECES]) {
    const uint HALVES = CHUNK / 4 / PIECES / 2; // units per piece
    float sum = 0.0;
    [[unroll]] for (uint p = 0; p < PIECES; p++) {
        uint at = chunk_col(c, p * 2 * HALVES), run = at / 32;
        uint unit = unit_at(at / 8);
        ivec2 dots = ivec2(0);
        [[unroll]] for (uint h = 0; h < HALVES; h++) {
            ivec4 a = ivec4(x_codes[unit + h]);
            uint i = (p * HALVES + h) * 2;
            dots.x = DOT4(q[i], a.x) + dots.x;
            dots.x = DOT4(q[i + 1], a.z) + dots.x;
            dots.y = DOT4(q[i], a.y) + dots.y;
            dots.y = DOT4(q[i + 1], a.w) + dots.y;
        }
        sum += x_scale[run] * s[p].x * float(dots.x * 256 + dots.y);
#ifdef HAS_OFFSET
        vec2 sums = x_sum[run];
        sum += s[p].y * (HALVES == 4 ? sums.x + sums.y : at % 32 < 16 ? sums.x : sums.y);
#endif
    }
    return sum;
}
