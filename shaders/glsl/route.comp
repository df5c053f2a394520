// logits [n, experts] -> each row's experts: ids, weights (times down's scales), gate's scales, up's scales [n, 4 * used].
// One row per workgroup.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint EXPERTS = 1;
layout(constant_id = 2) const uint USED = 1;
#include "push/route.glsl"
#include "lib/route.glsl"

void main() {
    uint row = gl_WorkGroupID.x, t = gl_LocalInvocationID.x;
    if (row >= params.w[STEP_ROWS]) { // rows that the recording has room for, but not the step: any expert will do
        for (uint k = t; k < USED; k += gl_WorkGroupSize.x) route.v[row * 4 * USED + k] = uintBitsToFloat(0);
        return;
    }
    for (uint i = t; i < EXPERTS; i += gl_WorkGroupSize.x) put_logit(i, logits.v[row * EXPERTS + i]);
    choose(row);
}
