// y = W x + b for many activation rows by cooperative matrices of halves that all come from shared memory, so that it need not be
// known which thread holds which element: matrices of any shape, subgroups of any size. Rows come packed as halves over a power of two
// each (pack_rows.comp). With two BUFFERS the next chunk is decoded beside the products with the last.
#version 460
#include "lib/types.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
const uint BITS = 16;
#include "lib/gemm_rows.glsl"
layout(constant_id = 5) const uint MAT_M = 16; // shape of products
layout(constant_id = 6) const uint MAT_N = 16;
layout(constant_id = 7) const uint MAT_K = 16;
layout(constant_id = 8) const uint WAVES = 2;  // subgroups
layout(constant_id = 9) const uint BUFFERS = 2;
const uint STRIDE = CHUNK / 8 + 1; // uvec4 of an output or a row; odd, to spread banks
const uint TALL = TILE / MAT_M / WAVES, BROAD = ROWS / MAT_N; // matrices of sums of a subgroup
#define Weights coopmat<float16_t, gl_ScopeSubgroup, MAT_M, MAT_K, gl_MatrixUseA>
#define Inputs coopmat<float16_t, gl_ScopeSubgroup, MAT_K, MAT_N, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseAccumulator>
shared uvec4 tile_w[BUFFERS * TILE * STRIDE], tile_x[BUFFERS * ROWS * STRIDE];

#include "lib/halves.glsl"

void stage(uint slot, Line line, uint row, uint c) {
    const uint t = gl_LocalInvocationID.x;
    const Decoded d = weight_decode(line, c);
    [[unroll]] for (uint i = 0; i < GROUPS; i += 2) {
        tile_w[(slot * TILE + t) * STRIDE + i / 2] = uvec4(halves_of(group_values(d, i)), halves_of(group_values(d, i + 1)));
    }
    [[unroll]] for (uint i = 0; i < ROWS * CHUNK / 8 / TILE; i++) {
        const uint unit = (i * TILE + t) / ROWS;
        tile_x[(slot * ROWS + t % ROWS) * STRIDE + unit] = U32x4(x).v[(row * k + chunk_col(c, unit * 2)) / 8];
    }
}

void main() {
    const uint above = expert();
    if (above == NONE) return;
    WEIGHT_INIT
    const uint t = gl_LocalInvocationID.x, chunks = k / CHUNK, wave = subgroupBroadcastFirst(gl_SubgroupID);
    const Line line = line_of(w, above * m + min(gl_WorkGroupID.x * TILE + t, m - 1), k);
    const uint row = packed_row(gl_WorkGroupID.y * ROWS + t % ROWS);
    Sums sums[TALL * BROAD];
    [[unroll]] for (uint i = 0; i < TALL * BROAD; i++) sums[i] = Sums(0.0);
    if (BUFFERS > 1) stage(0, line, row, 0);
    for (uint c = 0; c < chunks; c++) {
        const uint now = c % BUFFERS;
        if (BUFFERS == 1) {
            barrier();
            stage(0, line, row, c);
        }
        barrier();
        if (BUFFERS > 1) stage((c + 1) % BUFFERS, line, row, min(c + 1, chunks - 1));
        for (uint step = 0; step < CHUNK / MAT_K; step++) {
            Inputs b[BROAD];
            [[unroll]] for (uint j = 0; j < BROAD; j++) {
                const uint at = (now * ROWS + j * MAT_N) * STRIDE + step * (MAT_K / 8);
                coopMatLoad(b[j], tile_x, at, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
            }
            [[unroll]] for (uint i = 0; i < TALL; i++) {
                Weights a;
                const uint at = (now * TILE + (wave * TALL + i) * MAT_M) * STRIDE + step * (MAT_K / 8);
                coopMatLoad(a, tile_w, at, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint j = 0; j < BROAD; j++) sums[i * BROAD + j] = coopMatMulAdd(a, b[j], sums[i * BROAD + j]);
            }
        }
    }
    const uint base = wave * (MAT_M * MAT_N / 4);
    [[unroll]] for (uint j = 0; j < BROAD; j++) {
        [[unroll]] for (uint i = 0; i < TALL; i++) {
            barrier();
            coopMatStore(sums[i * BROAD + j], tile_w, base, MAT_M / 4, gl_CooperativeMatrixLayoutColumnMajor);
            barrier();
            for (uint e = gl_SubgroupInvocationID; e < MAT_M * MAT_N; e += gl_SubgroupSize) {
                const uint col = gl_WorkGroupID.y * ROWS + j * MAT_N + e / MAT_M;
                const float factor = F32(uvec2(scales)).v[packed_row(col)];
                const float sum = uintBitsToFloat(tile_w[base + e / 4][e % 4]);
                store(gl_WorkGroupID.x * TILE + (wave * TALL + i) * MAT_M + e % MAT_M, output_of(col), sum * factor);
            }
        }
    }
}
