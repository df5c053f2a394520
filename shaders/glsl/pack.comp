// Activations as halves for gemm_mat.comp and gemm_few.comp: [n, k] -> units of lib/matrix_b.glsl, k padded to 512, and a factor
// per row. With GATHER rows are those that the pairs of a list (moe_permute.comp) are of. A row is scaled by a power of two that leaves
// halves room at both ends, after an RMS norm if NORM says so; groups of four inputs are in the order 0, 2, 1, 3. Rows past n become
// zeros, so that matrices are whole.
#version 460
#include "lib/types.glsl"
#include "lib/pack_layout.glsl"
#include "lib/pack_norm.glsl"
#include "lib/moe_tiles.glsl"
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint K = 4096;
layout(constant_id = 2) const uint NORM = 0;
layout(constant_id = 8) const uint MAT_N = 8;
// For gemm_few: see lib/pack_layout.glsl. 0: for gemm_mat.
layout(constant_id = 3) const uint CHUNKS = 0;
layout(constant_id = 4) const uint GATHER = 0; // pairs of a row of x
layout(constant_id = 5) const uint COLUMNS = 1; // of the tiles of the list
#include "push/pack.glsl"
const uint MAT_M = 16, EACH = MAT_M * MAT_N / 32, SHARE = 8 / EACH;
const uint PADDED = (K + 511) / 512 * 512;
const uint VECS = (PADDED / 4 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
shared vec2 found[gl_WorkGroupSize.x / 4]; // largest, sum of squares: one for each subgroup

void main() {
    uint row = gl_WorkGroupID.x, t = gl_LocalInvocationID.x;
    bool real = row < n;
    uint from = row;
    if (GATHER > 0) {
        if (groups.v[row / COLUMNS] == NONE) return;
        const uint pair = groups.v[most + row];
        real = pair != NONE;
        from = pair / GATHER;
    }
    vec4 held[VECS];
    float square = 0.0, largest = 0.0;
    // A thread's vectors are all the same place of a matrix.
    uint place[4];
    [[unroll]] for (uint i = 0; i < 4 && CHUNKS == 0; i++) place[i] = map.v[(t % 4 * 4 + i) * MAT_N + row % MAT_N];
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x;
        bool there = i < K / 4 && real;
        held[j] = there ? x.v[from * (K / 4) + i] : vec4(0.0);
        if (NORM == 1) {
            vec4 weight = there ? norm.v[i] : vec4(0.0);
            square += dot(held[j], held[j]);
            held[j] *= weight;
        }
        vec4 a = abs(held[j]);
        largest = max(largest, max(max(a.x, a.y), max(a.z, a.w)));
    }
    square = subgroupAdd(square);
    largest = subgroupMax(largest);
    if (subgroupElect()) found[gl_SubgroupID] = vec2(largest, square);
    barrier();
    square = largest = 0.0;
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) {
        largest = max(largest, found[i].x);
        square += found[i].y;
    }
    square = subgroupAdd(square);
    largest = clamp(subgroupMax(largest), 1e-25, 1e25);
    float power = uintBitsToFloat(floatBitsToUint(largest) & 0x7f800000u) / 256.0, inverse = 1.0 / power;
    [[unroll]] for (uint j = 0; j < VECS; j++) {
        uint i = t + j * gl_WorkGroupSize.x, tall = i / 4; // matrix of the row's inputs
        vec4 v = held[j] * inverse;
        uvec2 h = packed_halves(v);
        uint unit = (tall / SHARE * (gl_NumWorkGroups.x / MAT_N) + row / MAT_N) * 256 + tall % SHARE * EACH;
        if (CHUNKS != 0) {
            if (i < PADDED / 4) Groups(codes).v[packed_at(CHUNKS, gl_NumWorkGroups.x / 8, row, i)] = h;
        } else if (i < PADDED / 4) {
            [[unroll]] for (uint e = 0; e < 4; e++) codes.v[unit + place[e]] = uint16_t(h[e / 2] >> (16 * (e % 2)));
        }
    }
    if (t == 0 && NORM == 1) powers.v[row] = power_of(square / float(K));
    if (t == 0) factors.v[row] = NORM == 1 ? power / sqrt(square / float(K) + eps) : power;
}
