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
const uint AT_ONCE = 4; // pairs whose experts a thread asks for together
shared uint counts[EXPERTS], taken[EXPERTS], runs_to[2 * EXPERTS]; // runs of experts up to and with each, twice

uint runs_of(uint expert) { return (counts[expert] + COLUMNS - 1) / COLUMNS; }
uint expert_of(uint pair) { return floatBitsToUint(route.v[pair / USED * 4 * USED + pair % USED]); }

void main() {
    const uint t = gl_LocalInvocationID.x, pairs = params.w[STEP_ROWS] * USED;
    for (uint e = t; e < EXPERTS; e += gl_WorkGroupSize.x) counts[e] = taken[e] = 0;
    barrier();
    for (uint i = t; i < pairs; i += AT_ONCE * gl_WorkGroupSize.x) {
        uint of[AT_ONCE];
        [[unroll]] for (uint j = 0; j < AT_ONCE; j++) of[j] = expert_of(min(i + j * gl_WorkGroupSize.x, pairs - 1));
        [[unroll]] for (uint j = 0; j < AT_ONCE; j++) {
            if (i + j * gl_WorkGroupSize.x < pairs) atomicAdd(counts[of[j]], 1);
        }
    }
    barrier();
    for (uint e = t; e < EXPERTS; e += gl_WorkGroupSize.x) runs_to[e] = runs_of(e);
    barrier();
    uint held = 0;
    for (uint apart = 1; apart < EXPERTS; apart *= 2) {
        const uint from = held * EXPERTS, to = EXPERTS - from;
        for (uint e = t; e < EXPERTS; e += gl_WorkGroupSize.x) {
            runs_to[to + e] = runs_to[from + e] + (e >= apart ? runs_to[from + e - apart] : 0);
        }
        held ^= 1;
        barrier();
    }
    const uint at = held * EXPERTS;
    for (uint e = t; e < EXPERTS; e += gl_WorkGroupSize.x) {
        for (uint r = runs_to[at + e] - runs_of(e); r < runs_to[at + e]; r++) groups.v[r] = e;
    }
    // What each expert's last run has beyond its pairs.
    for (uint i = t; i < EXPERTS * COLUMNS; i += gl_WorkGroupSize.x) {
        const uint e = i / COLUMNS, runs = runs_of(e), place = counts[e] + i % COLUMNS;
        if (place < runs * COLUMNS) groups.v[most + (runs_to[at + e] - runs) * COLUMNS + place] = NONE;
    }
    for (uint r = runs_to[at + EXPERTS - 1] + t; r < most; r += gl_WorkGroupSize.x) groups.v[r] = NONE;
    for (uint i = t; i < pairs; i += AT_ONCE * gl_WorkGroupSize.x) {
        uint of[AT_ONCE];
        [[unroll]] for (uint j = 0; j < AT_ONCE; j++) of[j] = expert_of(min(i + j * gl_WorkGroupSize.x, pairs - 1));
        [[unroll]] for (uint j = 0; j < AT_ONCE; j++) {
            const uint pair = i + j * gl_WorkGroupSize.x;
            if (pair < pairs) {
                const uint first = (runs_to[at + of[j]] - runs_of(of[j])) * COLUMNS;
                groups.v[most + first + atomicAdd(taken[of[j]], 1)] = pair;
            }
        }
    }
}
