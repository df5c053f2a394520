// Where a device keeps each element of a cooperative matrix: entry i is 8 * thread + place for element i, row by row, of
// activations [16, MAT_N], weights [16, 16] or sums [16, MAT_N], and one more entry counts the elements that were found.
#version 460
#include "lib/types.glsl"
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x = 32) in;
layout(constant_id = 1) const uint USE = 0; // 0 activations, 1 weights, 2 sums
layout(constant_id = 8) const uint MAT_N = 8;
#include "push/fragment_layout.glsl"
const uint ELEMENTS = 16 * (USE == 1 ? 16 : MAT_N);
shared float16_t numbers[ELEMENTS];
shared float floats[ELEMENTS];

void main() {
    uint lane = gl_SubgroupInvocationID, len = 0;
    for (uint i = lane; i < ELEMENTS; i += 32) {
        numbers[i] = float16_t(i);
        floats[i] = float(i);
    }
    barrier();
    if (USE == 1) {
        coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
        coopMatLoad(a, numbers, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
        len = a.length();
        for (uint i = 0; i < a.length(); i++) map.v[uint(a[i])] = 8 * lane + i;
    } else if (USE == 2) {
        coopmat<float, gl_ScopeSubgroup, 16, MAT_N, gl_MatrixUseAccumulator> c;
        coopMatLoad(c, floats, 0, MAT_N, gl_CooperativeMatrixLayoutRowMajor);
        len = c.length();
        for (uint i = 0; i < c.length(); i++) map.v[uint(c[i])] = 8 * lane + i;
    } else {
        coopmat<float16_t, gl_ScopeSubgroup, 16, MAT_N, gl_MatrixUseB> b;
        coopMatLoad(b, numbers, 0, MAT_N, gl_CooperativeMatrixLayoutRowMajor);
        len = b.length();
        for (uint i = 0; i < b.length(); i++) map.v[uint(b[i])] = 8 * lane + i;
    }
    if (lane == 0) map.v[ELEMENTS] = len * 32;
}
