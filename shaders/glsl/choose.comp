// logits [n, EXPERTS] -> each row's experts by any rule, in the layout of route.comp. One row per workgroup.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint EXPERTS = 1;
layout(constant_id = 2) const uint USED = 1;
layout(constant_id = 3) const uint GATING = 0; // GATING_*
layout(constant_id = 4) const uint BIASED = 0;
layout(constant_id = 5) const uint EXPERT_GROUPS = 1;
layout(constant_id = 6) const uint GROUPS_USED = 1;
layout(constant_id = 7) const uint DIVIDED = 0; // 1: weights are divided by their sum
layout(constant_id = 8) const uint SHARING = 1; // neighbours among EXPERTS that stand for one that is taken
layout(constant_id = 9) const uint TABLE = 0;   // 1: a row's id says which it takes
#include "push/choose.glsl"
#include "lib/choose.glsl"

void main() {
    const uint row = gl_WorkGroupID.x, t = gl_LocalInvocationID.x, size = gl_WorkGroupSize.x;
    if (row >= params.w[STEP_ROWS]) { // as in route.comp
        for (uint k = t; k < USED; k += size) route.v[row * 4 * USED + k] = uintBitsToFloat(0);
        return;
    }
    rank_scores(row);
    if (TABLE == 1) {
        uint id = step_token(params, row);
        if (id == TOKEN_SAMPLED) id = sampled.v[step_seq(params, row)];
        for (uint k = t; k < USED; k += size) chosen[k] = table.v[id * USED + k] * SHARING;
        barrier();
    }
    write_route(row);
}
