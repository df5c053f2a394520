// Activations as halves for gemm_panels.comp: [n, k] -> panels (lib/panels.glsl), and a factor per row. A row is scaled by a power of
// two that leaves halves room at both ends, after an RMS norm if NORM says so. Rows past n become zeros, so that matrices are whole.
// With GATHER rows are those that the pairs of a list (moe_permute.comp) are of; what is no pair stays as it is, for nobody looks at
// what comes of it.
#version 460
#include "lib/types.glsl"
#include "lib/pack_layout.glsl"
#include "lib/moe_tiles.glsl"
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint K = 4096;
layout(constant_id = 2) const uint NORM = 0;
layout(constant_id = 3) const uint GATHER = 0;  // pairs of a row of x
layout(constant_id = 4) const uint COLUMNS = 1; // of the tiles of the list
layout(constant_id = 5) const uint WIDTH = 0;   // columns of x, where zeros follow up to K; 0 for K
#include "lib/panels.glsl"
#include "push/pack_panels.glsl"
const uint EIGHTS = (PANEL_INPUTS / 8 + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x; // of a row, that a thread has
const uint FOURS = (WIDTH > 0 ? WIDTH : K) / 4; // of a row of x
shared vec2 found[gl_WorkGroupSize.x / 4]; // largest, sum of squares: one for each subgroup

void main() {
    const uint row = gl_WorkGroupID.x, t = gl_LocalInvocationID.x;
    vec4 held[EIGHTS * 2];
    float square = 0.0, largest = 0.0;
    uint from = row;
    if (GATHER > 0) {
        if (groups.v[row / COLUMNS] == NONE) return;
        const uint pair = groups.v[most + row];
        if (pair == NONE) return;
        from = pair / GATHER;
    }
    [[unroll]] for (uint j = 0; j < EIGHTS * 2; j++) {
        const uint eight = t + j / 2 * gl_WorkGroupSize.x, i = eight / 2 * 4 + eight % 2 + j % 2 * 2;
        const bool there = i < FOURS && (GATHER > 0 || row < n);
        held[j] = there ? x.v[from * FOURS + i] : vec4(0.0);
        if (NORM == 1) {
            square += dot(held[j], held[j]);
            held[j] *= there ? norm.v[i] : vec4(0.0);
        }
        const vec4 a = abs(held[j]);
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
    const float power = uintBitsToFloat(floatBitsToUint(largest) & 0x7f800000u) / 256.0, inverse = 1.0 / power;
    const uint place = row % 8 * 8 + row / 8 % 2; // of the row in a fragment, in units of 8 bytes
    [[unroll]] for (uint j = 0; j < EIGHTS; j++) {
        const uint eight = t + j * gl_WorkGroupSize.x;
        if (eight < PANEL_INPUTS / 8) {
            const uvec2 a = packed_halves(held[2 * j] * inverse), b = packed_halves(held[2 * j + 1] * inverse);
            const uint fragment = (row / 64 * (PANEL_INPUTS / 16) + eight / 2) * 4 + row % 64 / 16;
            const uint at = fragment * 64 + place + eight % 2 * 4;
            codes.v[at] = uvec2(a.x, b.x);
            codes.v[at + 2] = uvec2(a.y, b.y);
        }
    }
    if (t == 0) factors.v[row] = NORM == 1 ? power / sqrt(square / float(K) + eps) : power;
}
