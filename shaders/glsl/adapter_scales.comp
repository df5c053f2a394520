// y [n, width], or the output rows' [w, width], *= the scales that a row has for the adapters which columns are of; columns of an
// adapter that does not count are 0, whatever they were. A thread per column.
#version 460
#include "lib/types.glsl"
#include "lib/step.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint OUTPUTS = 0;
#include "push/adapter_scales.glsl"

void main() {
    const uint row = gl_WorkGroupID.y, c = gl_GlobalInvocationID.x;
    if (row >= params.w[OUTPUTS == 1 ? STEP_OUTPUTS : STEP_ROWS] || c >= width) return;
    const uint at = OUTPUTS == 1 ? step_output(params, row) : row;
    const float scale = scales.v[at * adapters + uint(list.v[c % len])];
    y.v[row * width + c] = scale == 0 ? 0 : y.v[row * width + c] * scale;
}
