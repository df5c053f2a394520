// Experts of many rows -> the rows of each expert together: tiles of COLUMNS (row, slot) pairs that use one expert. One workgroup.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#include "lib/moe_tiles.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint EXPERTS = 1;
layout(constant_id = 2) const uint USED = 1;
layout(constant_id = 3) const uint COLUMNS = 32;
#include "push/moe_permute.glsl"
shared uint counts[EXPERTS], runs_before[EXPERTS + 1], taken[EXPERTS];

uint runs_of(uint expert) { return (counts[expert] + COLUMNS - 1) / COLUMNS; }
uint expert_of(uint pair) { return floatBitsToUint(route.v[pair / USED * 4 * USED + pair % USED]); }

void main() {
    const uint t = gl_LocalInvocationID.x, pairs = params.w[STEP_ROWS] * USED;
    for (uint e = t; e < EXPERTS; e += gl_WorkGroupSize.x) counts[e] = taken[e] = 0;
    barrier();
    for (uint i = t; i < pairs; i += gl_WorkGroupSize.x) atomicAdd(counts[expert_of(i)], 1);
    barrier();
    for (uint e = t; e <= EXPERTS; e += gl_WorkGroupSize.x) {
        uint before = 0;
        for (uint j = 0; j < e; j++) before += runs_of(j);
        runs_before[e] = before;
    }
    barrier();
    for (uint e = t; e < EXPERTS; e += gl_WorkGroupSize.x) {
        const uint first = runs_before[e], runs = runs_of(e);
        for (uint r = 0; r < runs; r++) groups.v[first + r] = e;
        for (uint i = counts[e]; i < runs * COLUMNS; i++) groups.v[most + first * COLUMNS + i] = NONE;
    }
    for (uint r = runs_before[EXPERTS] + t; r < most; r += gl_WorkGroupSize.x) groups.v[r] = NONE;
    for (uint i = t; i < pairs; i += gl_WorkGroupSize.x) {
        const uint e = expert_of(i);
        groups.v[most + runs_before[e] * COLUMNS + atomicAdd(taken[e], 1)] = i;
    }
}
