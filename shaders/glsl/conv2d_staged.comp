// Convolution of images, as conv2d.comp, by cooperative matrices that come from shared memory: of any shape, subgroups of any size.
#version 460
#include "lib/types.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "push/conv2d_staged.glsl"
#include "lib/conv2d_tile.glsl"
layout(constant_id = 3) const uint MAT_M = 16; // shape of products
layout(constant_id = 4) const uint MAT_N = 16;
layout(constant_id = 5) const uint MAT_K = 16;
layout(constant_id = 6) const uint WAVES = 4;  // subgroups
const uint TALL = TILE / MAT_M / WAVES, BROAD = TILE / MAT_N; // matrices of sums of a subgroup
#define Weights coopmat<float16_t, gl_ScopeSubgroup, MAT_M, MAT_K, gl_MatrixUseA>
#define Windows coopmat<float16_t, gl_ScopeSubgroup, MAT_K, MAT_N, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseAccumulator>
shared float out_tile[WAVES * MAT_M * MAT_N];

void main() {
    const uint wave = subgroupBroadcastFirst(gl_SubgroupID), count = tap_count();
    find_corners();
    Sums sums[TALL * BROAD];
    [[unroll]] for (uint i = 0; i < TALL * BROAD; i++) sums[i] = Sums(0.0);
    for (uint first = 0; first < count; first += STEP) {
        stage(first);
        for (uint k = 0; k < STEP / MAT_K; k++) {
            Windows b[BROAD];
            [[unroll]] for (uint j = 0; j < BROAD; j++) {
                coopMatLoad(b[j], tile_x, j * MAT_N * STRIDE + k * (MAT_K / 8), STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
            }
            [[unroll]] for (uint i = 0; i < TALL; i++) {
                Weights a;
                const uint at = (wave * TALL + i) * MAT_M * STRIDE + k * (MAT_K / 8);
                coopMatLoad(a, tile_w, at, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint j = 0; j < BROAD; j++) sums[i * BROAD + j] = coopMatMulAdd(a, b[j], sums[i * BROAD + j]);
            }
        }
    }
    const uint own = wave * MAT_M * MAT_N;
    [[unroll]] for (uint i = 0; i < TALL * BROAD; i++) {
        barrier();
        coopMatStore(sums[i], out_tile, own, MAT_N, gl_CooperativeMatrixLayoutRowMajor);
        barrier();
        for (uint e = gl_SubgroupInvocationID; e < MAT_M * MAT_N; e += gl_SubgroupSize) {
            put((wave * TALL + i / BROAD) * MAT_M + e / MAT_N, i % BROAD * MAT_N + e % MAT_N, out_tile[own + e]);
        }
    }
}
