// Convolution of images, as conv2d.comp, by cooperative matrices that a whole workgroup holds (VK_NV_cooperative_matrix2).
#version 460
#include "lib/types.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "push/conv2d_matrix2.glsl"
#include "lib/conv2d_tile.glsl"
#define Weights coopmat<float16_t, gl_ScopeWorkgroup, TILE, STEP, gl_MatrixUseA>
#define Windows coopmat<float16_t, gl_ScopeWorkgroup, STEP, TILE, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeWorkgroup, TILE, TILE, gl_MatrixUseAccumulator>

float finish(const in uint row, const in uint col, const in float sum) {
    put(row, col, sum);
    return sum;
}

void main() {
    const uint count = tap_count();
    find_corners();
    Sums sums = Sums(0.0);
    [[dont_unroll]] for (uint first = 0; first < count; first += STEP) {
        stage(first);
        Weights a;
        Windows b;
        coopMatLoad(a, tile_w, 0, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(b, tile_x, 0, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
        sums = coopMatMulAdd(a, b, sums);
    }
    coopMatPerElementNV(sums, sums, finish);
}
