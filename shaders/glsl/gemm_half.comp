// y = W x + b for many activation rows by products of halves, two at a time, that are summed up in floats every 32 inputs: rows come
// packed as halves over a power of two each (pack_rows.comp).
#version 460
#include "lib/types.glsl"
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
const uint BITS = 16;
#include "lib/gemm_words.glsl"

void stage_w(Decoded d) {
    [[unroll]] for (uint i = 0; i < GROUPS; i++) {
        const vec4 v = clamp(group_values(d, i), -65504.0, 65504.0);
        put_w(2 * i, gl_LocalInvocationID.x, packHalf2x16(v.xy));
        put_w(2 * i + 1, gl_LocalInvocationID.x, packHalf2x16(v.zw));
    }
}

void multiply() {
    const uint wide = 2 * (gl_LocalInvocationID.x % 8), tall = gl_LocalInvocationID.x / 8 * WIDE;
    for (uint run = 0; run < WORDS / 16; run++) {
        f16vec2 sums[HELD][8];
        [[unroll]] for (uint i = 0; i < HELD; i++) {
            [[unroll]] for (uint j = 0; j < 8; j++) sums[i][j] = f16vec2(0.0);
        }
        for (uint word = 16 * run; word < 16 * run + 16; word++) {
            const uvec4 a[2] = uvec4[2](tile_w[word * W_STRIDE + wide], tile_w[word * W_STRIDE + wide + 1]);
            [[unroll]] for (uint i = 0; i < HELD; i++) {
                const f16vec2 b = unpackFloat2x16(tile_x[word * X_STRIDE + tall + i / 4][i % 4]);
                [[unroll]] for (uint j = 0; j < 8; j++) sums[i][j] = fma(unpackFloat2x16(a[j / 4][j % 4]), b, sums[i][j]);
            }
        }
        [[unroll]] for (uint i = 0; i < HELD; i++) {
            [[unroll]] for (uint j = 0; j < 8; j++) acc[i][j / 4][j % 4] += float(sums[i][j].x) + float(sums[i][j].y);
        }
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
    for (uint c = 0; c < chunks; c++) {
        stage_w(weight_decode(line, c));
        stage_x(row, c);
        barrier();
        multiply();
        barrier();
    }
    store_all();
}
