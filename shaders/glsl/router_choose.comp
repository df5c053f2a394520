// x [n, k], router W [experts, k] -> each row's experts by any rule, in the layout of route.comp, for a few rows: the last of a
// row's workgroups to arrive chooses.
#version 460
#include "lib/types.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
layout(local_size_x_id = 0) in;
#include "quant/contract.glsl"
layout(constant_id = 1) const uint EXPERTS = 1;
layout(constant_id = 2) const uint USED = 1;
layout(constant_id = 3) const uint ROWS = 1; // experts of a workgroup
layout(constant_id = 4) const uint NORM = 0; // 1: x is normed first
layout(constant_id = 5) const uint GATING = 0; // GATING_*
layout(constant_id = 6) const uint BIASED = 0;
layout(constant_id = 7) const uint EXPERT_GROUPS = 1;
layout(constant_id = 8) const uint GROUPS_USED = 1;
layout(constant_id = 9) const uint DIVIDED = 0; // 1: weights are divided by their sum
layout(constant_id = 10) const uint SHARING = 1; // as in choose.comp
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Logits { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Arrivals { uint v[]; };
#include "push/router_choose.glsl"
#include "lib/choose.glsl"
#include "lib/router.glsl"

void main() {
    WEIGHT_INIT
    const uint row = gl_WorkGroupID.y;
    if (!last_with_logits(row)) return;
    rank_scores(row);
    write_route(row);
}
