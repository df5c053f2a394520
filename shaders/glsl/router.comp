// x [n, k], router W [experts, k] -> each row's experts as in route.comp, for a few rows: a workgroup does the products of ROWS
// experts with one of the rows, after an RMS norm if NORM says so; the last of a row's to arrive chooses.
#version 460
#include "lib/types.glsl"
layout(local_size_x_id = 0) in;
#include "quant/contract.glsl"
layout(constant_id = 1) const uint EXPERTS = 1;
layout(constant_id = 2) const uint USED = 1;
layout(constant_id = 3) const uint ROWS = 1; // experts of a workgroup
layout(constant_id = 4) const uint NORM = 0; // 1: x is normed first
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Logits { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Arrivals { uint v[]; };
#include "push/router.glsl"
#include "lib/route.glsl"
const uint SUMS = ROWS + NORM; // of each subgroup; the last is of x's squares
shared float sums[64 * SUMS];
shared uint arrived;

float sum_of(uint i) {
    float sum = 0.0;
    for (uint s = 0; s < gl_NumSubgroups; s++) sum += sums[s * SUMS + i];
    return sum;
}

void main() {
    WEIGHT_INIT
    uint t = gl_LocalInvocationID.x, row = gl_WorkGroupID.y, first = gl_WorkGroupID.x * ROWS;
    Line line[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) line[r] = line_of(w, min(first + r, EXPERTS - 1), k);
    float acc[ROWS], square = 0.0;
    [[unroll]] for (uint r = 0; r < ROWS; r++) acc[r] = 0.0;
    for (uint c = t; c < k / CHUNK; c += gl_WorkGroupSize.x) {
        Decoded d[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; r++) d[r] = weight_decode(line[r], c);
        [[unroll]] for (uint i = 0; i < GROUPS; i++) {
            vec4 a = x.v[(row * k + chunk_col(c, i)) / 4];
            if (NORM == 1) {
                square += dot(a, a);
                a *= norm.v[chunk_col(c, i) / 4];
            }
            [[unroll]] for (uint r = 0; r < ROWS; r++) acc[r] += dot(group_values(d[r], i), a);
        }
    }
    [[unroll]] for (uint i = 0; i < SUMS; i++) {
        float sum = subgroupAdd(i < ROWS ? acc[min(i, ROWS - 1)] : square);
        if (subgroupElect()) sums[gl_SubgroupID * SUMS + i] = sum;
    }
    barrier();
    if (t < ROWS && first + t < EXPERTS) {
        float logit = sum_of(t) * product_scale;
        if (NORM == 1) logit /= sqrt(sum_of(ROWS) / float(k) + eps);
        if ((flags & 8) != 0) logit += bias.v[first + t];
        logits.v[row * EXPERTS + first + t] = logit;
        memoryBarrierBuffer();
    }
    barrier();
    if (t == 0) {
        arrived = atomicAdd(arrivals.v[row], 1);
        if (arrived == gl_NumWorkGroups.x - 1) arrivals.v[row] = 0;
    }
    barrier();
    if (arrived != gl_NumWorkGroups.x - 1) return;
    memoryBarrierBuffer();
    for (uint i = t; i < EXPERTS; i += gl_WorkGroupSize.x) put_logit(i, logits.v[row * EXPERTS + i]);
    choose(row);
}
