// x [n, k], router W [experts, k] -> each row's experts as in route.comp, for a few rows: the last of a row's workgroups to arrive
// chooses.
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
#include "lib/router.glsl"

void main() {
    WEIGHT_INIT
    const uint row = gl_WorkGroupID.y;
    if (!last_with_logits(row)) return;
    for (uint i = gl_LocalInvocationID.x; i < EXPERTS; i += gl_WorkGroupSize.x) put_logit(i, logits.v[row * EXPERTS + i]);
    choose(row);
}
