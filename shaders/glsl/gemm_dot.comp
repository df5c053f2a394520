// y = W x + b for many activation rows by integer dot products: rows come packed as bytes with a scale for every 32 (pack_rows.comp).
#version 460
#include "lib/types.glsl"
#extension GL_EXT_integer_dot_product : require
const uint BITS = 8;
layout(constant_id = 22) const uint SIGNED_DOTS = 0; // 1: products are of signed bytes only
#include "lib/gemm_words.glsl"
#define DOT4 dot4
#define OFFSET offset_of
#define DOTS dots_of
#include "lib/dot.glsl"
const uint EACH = GROUPS / PIECES; // words of a piece
// By piece: factors of outputs and of rows; with offsets, these and the sums of the rows' inputs.
shared vec4 scale_w[PIECES * W_STRIDE], scale_x[PIECES * X_STRIDE];
#ifdef HAS_OFFSET
shared vec4 offset_w[PIECES * W_STRIDE], sum_x[PIECES * X_STRIDE];
#endif

void stage_w(Raw raw, uint c) {
    const uint t = gl_LocalInvocationID.x;
    uint q[GROUPS];
    vec2 s[PIECES];
    weight_codes(raw, c, q, s);
    [[unroll]] for (uint i = 0; i < GROUPS; i++) put_w(i, t, q[i]);
    [[unroll]] for (uint p = 0; p < PIECES; p++) {
        scale_w[p * W_STRIDE + t / 4][t % 4] = s[p].x;
#ifdef HAS_OFFSET
        offset_w[p * W_STRIDE + t / 4][t % 4] = OFFSET(s[p].x, s[p].y);
#endif
    }
}

void stage_scales(uint row, uint c) {
    const uint at = gl_LocalInvocationID.x % ROWS;
    for (uint p = gl_LocalInvocationID.x / ROWS; p < PIECES; p += TILE / ROWS) {
        const uint column = chunk_col(c, p * EACH);
        const vec4 run = scales.v[row * (k / 32) + column / 32];
        scale_x[p * X_STRIDE + at / 4][at % 4] = run.x;
#ifdef HAS_OFFSET
        sum_x[p * X_STRIDE + at / 4][at % 4] = EACH == 8 ? run.w : column % 32 < 16 ? run.y : run.z;
#endif
    }
}

void multiply() {
    const uint wide = 2 * (gl_LocalInvocationID.x % 8), tall = gl_LocalInvocationID.x / 8 * WIDE;
    // Of all pieces at once a compiler would hold more than there are registers.
    [[dont_unroll]] for (uint p = 0; p < PIECES; p++) {
        ivec4 dots[HELD][2];
        [[unroll]] for (uint i = 0; i < HELD; i++) dots[i][0] = dots[i][1] = ivec4(0);
        for (uint at = 0; at < EACH; at++) {
            const uint word = p * EACH + at;
            const uvec4 a[2] = uvec4[2](tile_w[word * W_STRIDE + wide], tile_w[word * W_STRIDE + wide + 1]);
            [[unroll]] for (uint i = 0; i < HELD; i++) {
                const int b = int(tile_x[word * X_STRIDE + tall + i / 4][i % 4]);
                [[unroll]] for (uint j = 0; j < 8; j++) dots[i][j / 4][j % 4] += DOT4(a[j / 4][j % 4], b);
            }
        }
        [[unroll]] for (uint i = 0; i < HELD; i++) {
            const float by = scale_x[p * X_STRIDE + tall + i / 4][i % 4];
            [[unroll]] for (uint j = 0; j < 2; j++) acc[i][j] += vec4(dots[i][j]) * (by * scale_w[p * W_STRIDE + wide + j]);
        }
#ifdef HAS_OFFSET
        [[unroll]] for (uint i = 0; i < HELD; i++) {
            const float sum = sum_x[p * X_STRIDE + tall + i / 4][i % 4];
            [[unroll]] for (uint j = 0; j < 2; j++) acc[i][j] += sum * offset_w[p * W_STRIDE + wide + j];
        }
#endif
    }
}

void main() {
    const uint above = expert();
    if (above == NONE) return;
    WEIGHT_INIT
    const uint t = gl_LocalInvocationID.x, chunks = k / CHUNK;
    const Line line = line_of(w, above * m + min(gl_WorkGroupID.x * TILE + t, m - 1), k);
    const uint row = packed_row(gl_WorkGroupID.y * ROWS + t % ROWS);
    [[unroll]] for (uint i = 0; i < HELD; i++) acc[i][0] = acc[i][1] = vec4(0.0);
    Raw raw = weight_load(line, 0);
    for (uint c = 0; c < chunks; c++) {
        stage_w(raw, c);
        stage_x(row, c);
        stage_scales(row, c);
        barrier();
        raw = weight_load(line, min(c + 1, chunks - 1));
        multiply();
        barrier();
    }
    store_all();
}
