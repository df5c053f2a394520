// Activations for gemm_dot.comp, gemm_half.comp and gemm_staged.comp: rows of k halves, each over a power of two, or of k bytes with a
// scale for every 32, after an RMS norm if NORM says so.
#version 460
#include "lib/types.glsl"
#include "lib/reduce.glsl"
#extension GL_KHR_shader_subgroup_shuffle : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint BITS = 8; // 8: bytes, 16: halves
layout(constant_id = 2) const uint NORM = 0;
layout(constant_id = 3) const uint GATHER = 0;  // pairs of a row of x, for rows in the order of experts' tiles
layout(constant_id = 4) const uint COLUMNS = 1; // of those
#include "lib/moe_tiles.glsl"
#include "push/pack_rows.glsl"

float largest_of(vec4 v) {
    v = abs(v);
    return max(max(v.x, v.y), max(v.z, v.w));
}

// Eight threads that follow each other have the 32 inputs of a scale.
void put_bytes(uint row, uint i, vec4 v, float by) {
    float largest = largest_of(v);
    [[unroll]] for (uint apart = 1; apart < 8; apart *= 2) largest = max(largest, subgroupShuffleXor(largest, apart));
    const float inverse = largest > 1e-30 ? 127.0 / largest : 0.0;
    const ivec4 q = ivec4(round(v * inverse));
    int sum = q.x + q.y + q.z + q.w;
    sum += subgroupShuffleXor(sum, 1);
    sum += subgroupShuffleXor(sum, 2);
    const int other = subgroupShuffleXor(sum, 4);
    if (i >= k / 4) return;
    codes.v[row * (k / 4) + i] = uint(q.x & 255) | (uint(q.y & 255) << 8) | (uint(q.z & 255) << 16) | (uint(q.w) << 24);
    const float scale = largest / 127.0 * by;
    if (i % 8 == 0) scales.v[row * (k / 32) + i / 8] = scale * vec4(1.0, sum, other, sum + other);
}

void main() {
    const uint row = gl_WorkGroupID.x, t = gl_LocalInvocationID.x;
    uint from_row = row;
    if (GATHER > 0) {
        if (list.v[row / COLUMNS] == NONE) return;
        const uint pair = list.v[most + row];
        if (pair == NONE) return;
        from_row = pair / GATHER;
    }
    float square = 0.0, largest = 0.0;
    if (NORM == 1 || BITS == 16) {
        for (uint i = t; i < k / 4; i += gl_WorkGroupSize.x) {
            vec4 v = x.v[from_row * (k / 4) + i];
            square += dot(v, v);
            if (NORM == 1) v *= norm.v[i];
            largest = max(largest, largest_of(v));
        }
        square = workgroup_sum(square);
        if (BITS == 16) largest = workgroup_max(largest);
    }
    const float by = NORM == 1 ? 1.0 / sqrt(square / float(k) + eps) : 1.0;
    // Room above: 16 products with weights up to a thousand stay halves; and below, to a 32,768th of the largest.
    largest = clamp(largest, 1e-25, 1e25);
    const float power = uintBitsToFloat(floatBitsToUint(largest) & 0x7f800000u) / 2.0;
    // All threads of a subgroup stay, for what they tell each other.
    for (uint from = 0; from < k / 4; from += gl_WorkGroupSize.x) {
        const uint i = from + t, at = min(i, k / 4 - 1);
        vec4 v = i < k / 4 ? x.v[from_row * (k / 4) + at] : vec4(0.0);
        if (NORM == 1) v *= norm.v[at];
        if (BITS == 8) {
            put_bytes(row, i, v, by);
        } else if (i < k / 4) {
            v /= power;
            codes.v[(row * (k / 4) + i) * 2] = packHalf2x16(v.xy);
            codes.v[(row * (k / 4) + i) * 2 + 1] = packHalf2x16(v.zw);
        }
    }
    if (BITS == 16 && t == 0) F32(uvec2(scales)).v[row] = power * by;
}
